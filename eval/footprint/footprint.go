// Package footprint measures what a quantized model takes, and what the full-precision one takes: bytes, bits,
// bit operations, time.
//
// In: two models, their files' sizes, rows for the clock. Out: eval.Footprint and eval.Timing. The invariant:
// bits and operations are read from the graphs that are shipped, and time is that of ONNX Runtime at the
// optimization level of production; nothing is taken from the plan that a model was made from.
package footprint

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"cfq/eval"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant/qdq"
)

// Measure counts bits and bit operations of one row in both models; the bytes of their files are the caller's
// to say. The weights are those of Gemm, MatMul, Einsum and Conv. A quantized one takes what the file stores for it,
// see qdq.LayerNote. A bit operation is a multiplication times the bits of its weight (of a layer's rows in
// several widths, their mean) times the bits of its activation; a layer that computes in float has 32 x 32, in float16
// 16 x 16, and one of quantized weights and float activations has 32 for the latter. What is looked up has none.
//
// How often a row uses the weights of a layer, at positions of a convolution or for tokens, follows from the shapes
// that running the models has shown. Where it does not, the number is 0.
func Measure(full, quantized *onnxio.Model, fullBytes, quantBytes int64) (*eval.Footprint, error) {
	f, _, err := weigh(full, fullBytes)
	if err != nil {
		return nil, fmt.Errorf("footprint of the original: %w", err)
	}
	q, saturating, err := weigh(quantized, quantBytes)
	if err != nil {
		return nil, fmt.Errorf("footprint of the quantized model: %w", err)
	}
	return &eval.Footprint{Full: f, Quant: q, Saturating: saturating}, nil
}

func weigh(m *onnxio.Model, bytes int64) (w eval.Weight, saturating int, err error) {
	const floatBits = 32
	notes, err := qdq.LayersOf(m)
	if err != nil {
		return w, 0, err
	}
	if !qdq.Quantized(m.Graph()) {
		if c, err := m.Canonical(); err == nil {
			m = c
		}
	}
	known := true
	for i := range notes {
		l := &notes[i]
		if l.Saturates {
			saturating++
		}
		if l.Table {
			continue
		}
		width, activation := l.Held, float64(l.Activation)
		if l.IsFloat() {
			width, activation = floatBits, floatBits
		}
		if l.IsFloat() && m.Converted() { // of the file
			width, activation = l.Bits, l.Bits
		}
		outputs, ok := m.PerRow(l.Output)
		known = known && ok && outputs > 0 && outputs%l.Out == 0
		w.BOPs += float64(outputs) * float64(l.Columns) * width * activation
	}
	if w.Bytes, w.StoredBits = bytes, qdq.StoredBits(notes); !known {
		w.BOPs = 0
	}
	return w, saturating, nil
}

// TimeOptions are the settings of Time; the zero value is the default.
type TimeOptions struct {
	Engine     ort.Options   // Level is not looked at: time is that of full optimization
	Budget     time.Duration // of the clock, for each batch size; 0 = 1 s
	Confidence float64       // of the intervals; 0 = 0.95
}

// minRuns are made of each model even beyond the budget, maxRuns at most, on turns batches of different rows.
const minRuns, maxRuns, turns = 5, 2000, 16

// Time measures how long ONNX Runtime takes for one row and for 256 with the models' files, from rows (row-major, of
// the inputs of their graphs; repeated where there are fewer): after a warm-up the models take turns, so that other
// load of the machine hits both, each turn the other one first. A time is that of one whole call, with handing rows
// over and taking results back. A model with a fixed batch size runs as often as the rows need, filled up.
func Time(ctx context.Context, full, quantized *onnxio.Model, rows []float32, o TimeOptions) (*eval.Timing, error) {
	o.Engine.Level = ort.All
	o.Engine.Threads = max(o.Engine.Threads, 1)
	var pair [2]*timedModel
	for i, m := range []*onnxio.Model{full, quantized} {
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
		c.to.Set(c.batch, seconds[0], seconds[1], cmp.Or(o.Confidence, 0.95))
	}
	return t, nil
}

type timedModel struct {
	session *ort.Session
	model   *onnxio.Model
	rows    [][]float32
}

func open(m *onnxio.Model, rows []float32, o ort.Options) (*timedModel, error) {
	if len(rows) == 0 || len(rows)%m.Dim() != 0 {
		return nil, fmt.Errorf("%d numbers are not rows of its %d inputs", len(rows), m.Dim())
	}
	s := &timedModel{model: m, rows: slices.Collect(slices.Chunk(rows, m.Dim()))}
	var err error
	s.session, err = ort.Open(m.File(), o)
	return s, err
}

// size is the number of rows of a run. A model with a fixed number of rows takes so many at a time.
func (s *timedModel) size(batch int) int { return cmp.Or(s.model.Fixed(), batch) }

func (s *timedModel) feed(k, batch int) ([]*graph.Tensor, error) {
	batch = s.size(batch)
	var x []float32
	for i := range batch {
		x = append(x, s.rows[(k*batch+i)%len(s.rows)]...)
	}
	return s.model.FileFeed(x)
}

// race returns the seconds that runs of both took. Runs cannot be cancelled, since watching a context takes time.
func race(ctx context.Context, pair [2]*timedModel, batch int, budget time.Duration) (seconds [2][]float64, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var feeds [2][][]*graph.Tensor
	var room [2][]*graph.Tensor
	for i, s := range pair {
		room[i] = s.model.FileRoom(s.size(batch))
		for k := range turns {
			feed, err := s.feed(k, batch)
			if err != nil {
				return seconds, err
			}
			feeds[i] = append(feeds[i], feed)
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
			for done := 0; done < batch; done += pair[i].size(batch) {
				if _, err := pair[i].session.RunInto(context.WithoutCancel(ctx), feed, room[i]); err != nil {
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
