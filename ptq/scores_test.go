package ptq

import (
	"context"
	"math"
	"slices"
	"testing"

	"cfq/onnxio/codec"
	"cfq/sensitivity"
	"cfq/task"
)

func TestRanks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   []int
	}{
		{[]float64{3, 1, 2}, []int{1, 3, 2}},
		{[]float64{1, 5, 1, 5, 0}, []int{3, 1, 3, 1, 5}},
		{[]float64{-1}, []int{1}},
	} {
		if got := ranks(tt.values); !slices.Equal(got, tt.want) {
			t.Errorf("ranks of %v: %v, want %v", tt.values, got, tt.want)
		}
	}
}

// HAWQ-V2's quantization error is the trace per weight times the squared change of the weights of the
// model as it was given, whatever the integer input does to its columns.
func TestCurvedErrors(t *testing.T) {
	t.Parallel()
	m, err := codec.ReadFile("../testdata/loans/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	tk, err := task.Load("../testdata/loans/task.yaml")
	if err != nil {
		t.Fatal(err)
	}
	people, err := task.Read(context.Background(), "../testdata/loans/train.csv", tk, task.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := calibrate(context.Background(), loaded(t, m), tk, people, Options{Method: "ptq"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.full.Close()
	r := &profiler{calibrated: c}
	for _, l := range c.layers {
		r.weights = append(r.weights, l.Params())
	}
	trace := []sensitivity.Curvature{{Trace: 5}, {Trace: -1}, {Trace: 64}}
	got, err := r.curved(trace)
	if err != nil {
		t.Fatal(err)
	}
	stretched := false
	for i, l := range c.layers {
		for f := range got[i] {
			change, err := c.change(i, f)
			if err != nil {
				t.Fatal(err)
			}
			var sum float64
			for k, w := range l.W {
				back := float64(change.W[k])
				if i == 0 {
					gain := 1.0
					for _, column := range c.grid.input.Columns {
						if column.Source == k%l.In {
							gain = float64(column.Gain)
						}
					}
					stretched = stretched || gain != 1
					back *= gain
				}
				sum += math.Pow(float64(w)-back, 2)
			}
			want := max(0, trace[i].Trace) / float64(len(l.W)) * sum
			if math.Abs(got[i][f]-want) > 1e-5*want {
				t.Errorf("layer %d, format %d: %v, want %v", i, f, got[i][f], want)
			}
		}
	}
	if !stretched {
		t.Error("no column of the input is stretched: the test does not see gains")
	}
}
