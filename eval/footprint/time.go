package footprint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"cfq/eval"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// TimeOptions are the settings of Time; the zero value is the default.
type TimeOptions struct {
	Engine     ort.Options   // Level is not looked at: time is that of full optimization
	Budget     time.Duration // of the clock, for each batch size; 0 = 1 s
	Confidence float64       // of the intervals; 0 = 0.95
}

// minRuns are made of each model even beyond the budget, maxRuns at most, on turns batches of different rows.
const minRuns, maxRuns, turns = 5, 2000, 16

// Time measures how long ONNX Runtime takes for one row and for 256, from rows (row-major model inputs,
// repeated where there are fewer): after a warm-up the models take turns, so that other load of the machine
// hits both, each turn the other one first. A time is that of one whole call, with handing rows over and
// taking results back. A model with a fixed batch size runs as often as the rows need, filled up.
func Time(ctx context.Context, full, quantized *graph.Model, rows []float32, o TimeOptions) (*eval.Timing, error) {
	o.Engine.Level = ort.All
	o.Engine.Threads = max(o.Engine.Threads, 1)
	var pair [2]*subject
	for i, m := range []*graph.Model{full, quantized} {
		s, err := open(m, rows, o.Engine)
		if err != nil {
			return nil, fmt.Errorf("timing the %s model: %w", []string{"original", "quantized"}[i], err)
		}
		defer s.session.Close() //nolint:errcheck // nothing is lost
		pair[i] = s
	}
	t := &eval.Timing{Threads: o.Engine.Threads}
	for _, c := range []struct {
		batch int
		to    *eval.Pace
	}{{1, &t.One}, {256, &t.Many}} {
		seconds, err := race(ctx, pair, c.batch, cmp.Or(o.Budget, time.Second))
		if err != nil {
			return nil, fmt.Errorf("timing %d rows: %w", c.batch, err)
		}
		*c.to = eval.NewPace(c.batch, seconds[0], seconds[1], cmp.Or(o.Confidence, 0.95))
	}
	return t, nil
}

// subject is a model that is timed.
type subject struct {
	session *ort.Session
	input   graph.Value
	dims    []int64 // of one row
	rows    [][]float32
}

func open(m *graph.Model, rows []float32, o ort.Options) (*subject, error) {
	ins := m.Graph.DataInputs()
	if len(ins) != 1 || len(ins[0].Shape) < 2 {
		return nil, errors.New("it does not have one input of rows x features")
	}
	s := &subject{input: ins[0]}
	dim := 1
	for _, d := range s.input.Shape[1:] {
		s.dims = append(s.dims, d.Size)
		dim *= int(max(d.Size, 0))
	}
	if dim == 0 || len(rows) == 0 || len(rows)%dim != 0 {
		return nil, fmt.Errorf("%d numbers are not rows of its input, which has the shape %v", len(rows), s.input.Shape)
	}
	s.rows = slices.Collect(slices.Chunk(rows, dim))
	var err error
	s.session, err = ort.Open(m, o)
	return s, err
}

// feed makes the k-th batch. A model with a fixed number of rows takes so many at a time.
func (s *subject) feed(k, batch int) []*graph.Tensor {
	if fixed := s.input.Shape[0].Size; fixed > 0 {
		batch = int(fixed)
	}
	var x []float32
	for i := range batch {
		x = append(x, s.rows[(k*batch+i)%len(s.rows)]...)
	}
	dims := append([]int64{int64(batch)}, s.dims...)
	if s.input.DType != graph.Double {
		return []*graph.Tensor{graph.FromFloats(s.input.Name, x, dims...)}
	}
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return []*graph.Tensor{graph.FromDoubles(s.input.Name, wide, dims...)}
}

// race returns the seconds that runs of both took. Runs cannot be cancelled, since watching a context takes time.
func race(
	ctx context.Context, pair [2]*subject, batch int, budget time.Duration,
) (seconds [2][]float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var feeds [2][][]*graph.Tensor
	for i, s := range pair {
		for k := range turns {
			feeds[i] = append(feeds[i], s.feed(k, batch))
		}
	}
	const warmup = 3 // the first runs allocate
	start := time.Now()
	for turn := 0; turn < warmup+maxRuns; turn++ {
		past := time.Since(start)
		if turn < warmup && past > budget/4 {
			turn = warmup
		}
		if turn >= warmup+minRuns && past >= budget {
			break
		}
		for k := range pair {
			if err := ctx.Err(); err != nil {
				return seconds, err
			}
			i := (turn + k) % 2
			began := time.Now()
			feed := feeds[i][turn%turns]
			for done := 0; done < batch; done += int(feed[0].Dims[0]) {
				if _, err := pair[i].session.Run(context.WithoutCancel(ctx), feed); err != nil {
					return seconds, err
				}
			}
			if turn >= warmup {
				seconds[i] = append(seconds[i], time.Since(began).Seconds())
			}
		}
	}
	return seconds, nil
}
