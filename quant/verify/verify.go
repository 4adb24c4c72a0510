// Package verify opens a written model again and checks that it is what the plan says.
//
// In: the bytes of a quantized file, its plan, probe inputs. Out: a report: which kernel runs each layer, how far
// results depend on the optimization level and what the file weighs. The invariant: everything is measured on the bytes
// that will be shipped, in ONNX Runtime, never on the plan. In the paper: section "Quantizer parameterization", which
// assumes that the deployed arithmetic is that of the quantizers.
package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
	"cfq/quant/qdq"
)

// Options are what the file is compared with.
type Options struct {
	Engine     ort.Options     // as in production
	Plan       *quant.Plan     // what the file was written from; required
	FloatBytes int             // size of the full-precision file; 0 skips the comparison
	Probes     []*graph.Tensor // one batch of the model's inputs, best some hundred real rows; required
}

// Report is what was found. Problems is empty when the file may be shipped.
type Report struct {
	Layers     []Layer `json:"layers"`
	Bytes      int     `json:"bytes"`
	FloatBytes int     `json:"float_bytes,omitempty"`
	Levels     Levels  `json:"levels"`
	// Advice says what a good model may do all the same.
	Advice   []string `json:"advice,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

// Layer says how ONNX Runtime runs one layer of the plan.
type Layer struct {
	Node   string  `json:"node"`
	Bits   float64 `json:"bits,omitempty"` // of the weights, on average; 0 for layers that stay in float
	Kernel string  `json:"kernel"`         // operator of the optimized graph, such as "QGemm"
	// Fused reports whether the layer runs as planned: integer layers on an
	// integer kernel, others on weights that are folded at load.
	Fused bool `json:"fused"`
}

// Check verifies the file onnx. Errors are about files that cannot be examined;
// what is wrong with one that can is in the report.
func Check(ctx context.Context, onnx []byte, o Options) (*Report, error) {
	r := &Report{Bytes: len(onnx), FloatBytes: o.FloatBytes}
	if err := r.check(ctx, onnx, o); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	return r, nil
}

func (r *Report) check(ctx context.Context, onnx []byte, o Options) error {
	m, err := codec.Read(onnx, "")
	if err != nil {
		return err
	}
	if err := r.advise(m); err != nil {
		return err
	}
	if o.FloatBytes > 0 && len(onnx) >= o.FloatBytes {
		r.problem("the file has %d bytes, the full-precision one %d: quantizing it saves nothing", len(onnx), o.FloatBytes)
	}
	opt, err := ort.Optimized(onnx, o.Engine)
	if err != nil {
		return err
	}
	r.kernels(opt.Graph, m.Graph, o.Plan)
	if onnx, err = readable(onnx, m); err != nil {
		return err
	}
	return r.levels(ctx, onnx, opt.Graph, o.Engine, o.Probes)
}

// readable returns the file with its outputs of 16-bit numbers as float32: a program cannot be given others.
func readable(onnx []byte, m *graph.Model) ([]byte, error) {
	c := m.Clone()
	b := graph.NewBuilder(c.Graph, "verify.")
	for i, v := range c.Graph.Outputs {
		if v.DType == graph.Float16 || v.DType == graph.BFloat16 {
			wide := b.Op("Cast", []string{v.Name}, graph.IntAttr("to", int64(graph.Float)))
			c.Graph.Outputs[i] = graph.Value{Name: wide, DType: graph.Float, Shape: v.Shape}
		}
	}
	if len(c.Graph.Nodes) == len(m.Graph.Nodes) {
		return onnx, nil
	}
	return codec.Marshal(c)
}

func (r *Report) advise(m *graph.Model) error {
	layers, err := qdq.Describe(m)
	layers = lists.Filter(layers, func(l qdq.LayerNote) bool { return l.Saturates })
	where := lists.Map(layers, func(l qdq.LayerNote) string { return fmt.Sprintf("%s node %q", l.Op, l.Node) })
	if more := len(where) - 3; more > 0 {
		where = append(where[:3], fmt.Sprintf("%d more", more))
	}
	if len(where) > 0 {
		r.Advice = append(r.Advice, "saturation: 8-bit codes beyond +-64 can saturate on x64 CPUs without VNNI: "+
			"results differ between machines ("+strings.Join(where, ", ")+")")
	}
	return err
}

// Err returns the problems as one error, nil when there are none.
func (r *Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	return errors.New("the written model is not as planned:\n  " + strings.Join(r.Problems, "\n  "))
}

func (r *Report) problem(format string, a ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, a...))
}
