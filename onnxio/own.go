package onnxio

import (
	"context"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Converted reports whether the graph computes in float32 where the file has float16, bfloat16 or double.
func (m *Model) Converted() bool { return m.elements.Converted() }

// FileTypes names the element types of the file that are float32 in the graph.
func (m *Model) FileTypes() []string { return m.elements.Types() }

// Coarse is how many times further than of float32 results of the file may lie from the model's.
func (m *Model) Coarse() float64 { return m.elements.Coarse() }

// FileDecisions runs the file, in a session of File, on rows of its inputs: the output that decides or, where that is
// none, its label; nil where there is none of both. Outputs are read as they are: a Cast behind them would make ONNX
// Runtime leave out their rounding.
func (m *Model) FileDecisions(ctx context.Context, s *ort.Session, x []float32) (p []float64, label bool, err error) {
	outputs, producers := m.File().Graph.Outputs, m.File().Graph.Producers()
	at := slices.Index(graph.Names(outputs), m.decision.Output)
	if label = at < 0; label {
		at = slices.IndexFunc(outputs, func(v graph.Value) bool {
			path, err := behind(producers, v.Name)
			return err == nil && path.best != nil && path.output == m.decision.Output
		})
	}
	in, err := m.FileFeed(x)
	if err != nil || at < 0 {
		return nil, label, err
	}
	out, err := s.RunInto(ctx, in, m.FileRoom(len(x)/m.dim))
	if err == nil {
		p, err = out[at].Numbers()
	}
	return p, label, err
}

// FileRoom returns memory for the outputs of the file of so many rows, where the engine hands them over in given memory
// only: those of 16 bits.
func (m *Model) FileRoom(rows int) []*graph.Tensor {
	return lists.Map(m.File().Graph.Outputs, func(v graph.Value) *graph.Tensor {
		if v.DType != graph.Float16 && v.DType != graph.BFloat16 {
			return nil
		}
		t := &graph.Tensor{Name: v.Name, DType: v.DType}
		for _, d := range m.types[v.Name].Shape {
			size := d.Size
			if size < 0 {
				_, size = d.Multiple()
				size *= int64(rows)
			}
			t.Dims = append(t.Dims, size)
		}
		t.Raw = make([]byte, 2*t.Len())
		return t
	})
}
