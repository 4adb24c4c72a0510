// Package verify opens a written model again and checks that it is what the plan says.
//
// In: the bytes of a quantized file, its plan, probe inputs. Out: a report: which
// kernel runs each layer, how far results depend on the optimization level, what
// the file weighs, and where the graph breaks the rules of package quant/qdq. The
// invariant: everything is measured on the bytes that will be shipped, in ONNX
// Runtime, never on the plan. In the paper: section "Quantizer parameterization",
// which assumes that the deployed arithmetic is that of the quantizers.
package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	// Advice lists broken rules that a good model may break.
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
	if o.Plan == nil || len(o.Probes) == 0 {
		return nil, errors.New("verify: a plan and probe inputs are required")
	}
	m, err := codec.Read(onnx, "")
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	r := &Report{Bytes: len(onnx), FloatBytes: o.FloatBytes}
	r.lint(m)
	if o.FloatBytes > 0 && len(onnx) >= o.FloatBytes {
		r.problem("the file has %d bytes, the full-precision one %d: quantizing it saves nothing", len(onnx), o.FloatBytes)
	}
	opt, err := ort.Optimized(onnx, o.Engine)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	r.kernels(opt.Graph, m.Graph, o.Plan)
	if onnx, err = readable(onnx, m); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if err := r.levels(ctx, onnx, opt.Graph, o.Engine, o.Probes); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	return r, nil
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

// lint checks the model by the rules; a rule that several layers break is one piece of advice.
func (r *Report) lint(m *graph.Model) {
	nodes := map[string][]string{}
	for _, f := range qdq.Lint(m) {
		if f.Advice {
			nodes[f.Rule] = append(nodes[f.Rule], f.Node)
			continue
		}
		r.problem("%s", f)
	}
	for _, rule := range qdq.Rules() {
		where := nodes[rule.Name]
		if len(where) == 0 {
			continue
		}
		if more := len(where) - 3; more > 0 {
			where = append(where[:3:3], fmt.Sprintf("%d more", more))
		}
		r.Advice = append(r.Advice, fmt.Sprintf("%s: %s (%s)",
			rule.Name, strings.TrimSuffix(rule.Doc, "."), strings.Join(where, ", ")))
	}
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// Err returns the problems as one error, nil when there are none.
func (r *Report) Err() error {
	if r.OK() {
		return nil
	}
	return errors.New("the written model is not as planned:\n  " + strings.Join(r.Problems, "\n  "))
}

func (r *Report) problem(format string, a ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, a...))
}
