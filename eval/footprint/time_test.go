package footprint

import (
	"context"
	"errors"
	"testing"
	"time"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// wide is x W W ... W, times of n x n numbers: a model whose time is known to be about times that of one.
func wide(n, times int, batch int64) *graph.Model {
	var nodes []*graph.Node
	at := "x"
	for k := range times {
		to := string(rune('a' + k))
		if k == times-1 {
			to = "y"
		}
		nodes = append(nodes, op("MatMul", to, at+" w"))
		at = to
	}
	m := network([]int64{int64(n)}, []*graph.Tensor{zeros("w", int64(n), int64(n))}, nodes...)
	m.Graph.Inputs[0].Shape[0] = graph.Dim{Size: batch}
	return m
}

func TestTime(t *testing.T) {
	o := TimeOptions{Engine: orttest.Need(t), Budget: 150 * time.Millisecond}
	const n = 64
	rows := make([]float32, 3*n) // fewer than a batch
	got := must.Get(Time(t.Context(), opened(t, wide(n, 1, -1)), opened(t, wide(n, 12, -1)), rows, o))(t)
	for _, p := range []struct{ quick, slow, lo, hi float64 }{
		{float64(got.One.Full.Value), float64(got.One.Quant.Value), float64(got.One.Full.Lo), float64(got.One.Full.Hi)},
		{float64(got.Many.Full.Value), float64(got.Many.Quant.Value), float64(got.Many.Full.Lo), float64(got.Many.Full.Hi)},
	} {
		if !(p.quick > 0 && p.slow > p.quick) || !(p.lo <= p.quick && p.quick <= p.hi) {
			t.Errorf("%+v", p)
		}
	}
	if got.Threads != 1 || got.One.Full.N != got.One.Quant.N || got.One.Full.N < minRuns {
		t.Errorf("%+v", got)
	}
}

// A fixed batch size of 4: one row is one run, 256 are 64.
func TestTimeFixedBatch(t *testing.T) {
	o := TimeOptions{Engine: orttest.Need(t), Budget: 150 * time.Millisecond}
	got, err := Time(t.Context(), opened(t, wide(64, 3, 4)), opened(t, wide(64, 3, -1)), make([]float32, 64*10), o)
	must.Do(t, err)
	if one, many := got.One.Full.Value, got.Many.Full.Value; !(many > 8*one) {
		t.Errorf("one row takes %v s, 256 rows %v s", one, many)
	}
}

func TestTimeRefuses(t *testing.T) {
	o := TimeOptions{Engine: orttest.Need(t), Budget: time.Millisecond}
	m := opened(t, wide(8, 1, -1))
	must.Fail(t, must.Err(Time(t.Context(), m, m, nil, o)), "")
	must.Fail(t, must.Err(Time(t.Context(), m, opened(t, wide(9, 1, -1)), make([]float32, 8), o)), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Time(ctx, m, m, make([]float32, 8), o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
