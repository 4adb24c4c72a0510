package footprint

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"cfq/eval"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// TimeOptions are the settings of Time; the zero value is the default.
type TimeOptions struct {
	Engine     ort.Options   // Level is not looked at: time is that of full optimization
	Budget     time.Duration // of the clock, for each batch size; 0 = 1 s
	MaxRuns    int           // runs of each model at each batch size; 0 = 2000
	Confidence float64       // of the intervals; 0 = 0.95
}

const (
	minRuns = 5  // runs that are made of each model even beyond the budget
	turns   = 16 // batches of different rows
)

// patience is how long a run may take and still not be cancelled: watching the context of a run costs time of
// its own.
const patience = 50 * time.Millisecond

// Time measures how long ONNX Runtime takes for one row and for 256, from rows (row-major model inputs,
// repeated where there are fewer): after a warm-up the models take turns, so that other load of the machine
// hits both, each turn the other one first. A time is that of one whole call, with handing rows over and
// taking results back. A model with a fixed batch size runs as often as the rows need, filled up.
func Time(ctx context.Context, full, quantized *graph.Model, rows []float32, o TimeOptions) (*eval.Timing, error) {
	o = o.withDefaults()
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
		seconds, err := race(ctx, pair, c.batch, o)
		if err != nil {
			return nil, fmt.Errorf("timing %d rows: %w", c.batch, err)
		}
		*c.to = eval.NewPace(c.batch, seconds[0], seconds[1], o.Confidence)
	}
	return t, nil
}

func (o TimeOptions) withDefaults() TimeOptions {
	if o.Budget <= 0 {
		o.Budget = time.Second
	}
	if o.MaxRuns <= 0 {
		o.MaxRuns = 2000
	}
	if o.Confidence == 0 {
		o.Confidence = 0.95
	}
	o.Engine.Level = ort.All
	o.Engine.Threads = max(o.Engine.Threads, 1)
	return o
}

// subject is a model that is timed.
type subject struct {
	session *ort.Session
	input   graph.Value
	dim     int
	rows    []float32
}

func open(m *graph.Model, rows []float32, o ort.Options) (*subject, error) {
	ins := m.Graph.DataInputs()
	if len(ins) != 1 || len(ins[0].Shape) < 2 {
		return nil, errors.New("it does not have one input of rows x features")
	}
	s := &subject{input: ins[0], dim: 1, rows: rows}
	for _, d := range s.input.Shape[1:] {
		if d.Size < 1 || d.Size > int64(max(len(rows), 1)) {
			return nil, fmt.Errorf("its input has the shape %v", s.input.Shape)
		}
		s.dim *= int(d.Size)
	}
	if len(rows) == 0 || len(rows)%s.dim != 0 {
		return nil, fmt.Errorf("%d numbers are not rows of %d inputs", len(rows), s.dim)
	}
	if t := s.input.DType; t != graph.Float && t != graph.Double {
		return nil, fmt.Errorf("its input holds %s; float or double is needed", t)
	}
	var err error
	s.session, err = ort.Open(m, o)
	return s, err
}

// feed makes the k-th batch.
func (s *subject) feed(k, batch int) []*graph.Tensor {
	n := len(s.rows) / s.dim
	x := make([]float32, 0, batch*s.dim)
	for i := range batch {
		at := (k*batch + i) % n * s.dim
		x = append(x, s.rows[at:at+s.dim]...)
	}
	dims := []int64{int64(batch)}
	for _, d := range s.input.Shape[1:] {
		dims = append(dims, d.Size)
	}
	if s.input.DType == graph.Float {
		return []*graph.Tensor{graph.FromFloats(s.input.Name, x, dims...)}
	}
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return []*graph.Tensor{graph.FromDoubles(s.input.Name, wide, dims...)}
}

// race returns the seconds that runs of both took.
func race(ctx context.Context, pair [2]*subject, batch int, o TimeOptions) (seconds [2][]float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var feeds [2][][]*graph.Tensor
	for i, s := range pair {
		for k := range turns {
			feeds[i] = append(feeds[i], s.feed(k, batch))
		}
	}
	run := func(ctx context.Context, i, turn int) (time.Duration, error) {
		start := time.Now()
		_, err := pair[i].session.RunRows(ctx, feeds[i][turn%turns])
		return time.Since(start), err
	}
	quiet := context.WithoutCancel(ctx)
	start := time.Now()
	for turn := range 3 { // the first runs allocate
		for i := range pair {
			took, err := run(ctx, i, turn)
			if err != nil {
				return seconds, err
			}
			if took > patience {
				quiet = ctx
			}
		}
		if time.Since(start) > o.Budget/4 {
			break
		}
	}
	for turn := 0; turn < o.MaxRuns && (turn < minRuns || time.Since(start) < o.Budget); turn++ {
		for k := range pair {
			if err := ctx.Err(); err != nil {
				return seconds, err
			}
			i := (turn + k) % 2
			took, err := run(quiet, i, turn)
			if err != nil {
				return seconds, err
			}
			seconds[i] = append(seconds[i], took.Seconds())
		}
	}
	return seconds, nil
}
