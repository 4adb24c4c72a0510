// Package qdq writes quantized models: plan + canonical float model -> ONNX
// model with QuantizeLinear and DequantizeLinear nodes that ONNX Runtime fuses
// into integer kernels.
//
// In: a model from quant.Canonical and a plan for it. Out: a new model that has
// the size of its bits (sub-byte weights stand in packed containers in front of
// the DequantizeLinear, where the runtime folds them at load) and runs on int8
// kernels. The invariant: the integers in the file are those of quant.Encode,
// and everything the plan does not name is as it was. In the paper: section
// "Quantizer parameterization".
package qdq

import (
	"errors"
	"fmt"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// Options bound what is written. The zero value suits DefaultRuntime and later.
type Options struct {
	// Size returns the bytes of a model's file. With it the containers of every
	// layer's rows are chosen by the bytes of the file; without, each width has its
	// own, and bit planes are used when they save 750 bytes in all, 6000 weights of 3 bits.
	Size func(*graph.Model) int
	// Runtime is the oldest release of ONNX Runtime that shall read the model, one
	// of Runtimes; "" is DefaultRuntime. What it can read decides about containers.
	Runtime string
	// Plain writes a model to run and throw away, which the runtime loads in about half the time: all
	// codes are int8, and vectors stand as they are. Size is not asked. Results are the same.
	Plain bool
}

// Opsets and IR versions that the containers need.
const (
	baseOpset, baseIR = 21, 10
	int2Opset, int2IR = 25, 13
)

// Write returns the quantized form of m, a model from quant.Canonical. Errors
// name the layers; all are reported at once.
func Write(m *graph.Model, plan *quant.Plan, o Options) (*graph.Model, error) {
	if v := m.Opset(""); v < baseOpset {
		return nil, fmt.Errorf("the model has opset %d: quantized models need %d", v, baseOpset)
	}
	r, err := RuntimeOf(o.Runtime)
	if err != nil {
		return nil, err
	}
	if err := r.Check(m); err != nil {
		return nil, err
	}
	p, err := prepare(m, plan)
	if err != nil {
		return nil, err
	}
	p.runtime, p.plain = r, o.Plain
	return p.choose(o), nil
}

// prepared is a plan that has been checked against its model, with all integers computed.
type prepared struct {
	m       *graph.Model
	runtime Runtime
	plain   bool // see Options
	input   *quant.Input
	value   string // the value that input covers
	layers  map[string]*layer
	shelf   shelf
}

// layer is one planned layer; enc is nil when it stays in float.
type layer struct {
	info    quant.LayerInfo
	plan    *quant.Layer
	enc     *quant.Encoded
	sources []int  // input of each column of the kernel; nil when they are the same
	stores  stores // how its codes stand in the file
}

// prepare checks the plan and encodes every layer.
func prepare(m *graph.Model, plan *quant.Plan) (*prepared, error) {
	infos, err := quant.FindLayers(m)
	if err != nil {
		return nil, err
	}
	p := &prepared{m: m, input: plan.Input, layers: map[string]*layer{}, shelf: shelf{}}
	var errs []error
	if plan.Input != nil {
		if p.value, err = inputValue(m.Graph, plan.Input.Value); err != nil {
			errs = append(errs, err)
		}
	}
	for _, info := range infos {
		// Only Gemms have names of their own: a fixed layer does not take one from them.
		first := p.layers[info.Node]
		if l := plan.Layer(info.Node); l != nil && (first == nil || first.info.Fixed != "") {
			p.layers[info.Node] = &layer{info: info, plan: l}
		}
	}
	used := false
	for i := range plan.Layers {
		l := &plan.Layers[i]
		e := p.layers[l.Node]
		switch {
		case e == nil:
			errs = append(errs, fmt.Errorf("the plan names the layer %q, which the model does not have", l.Node))
			continue
		case e.plan != l:
			errs = append(errs, fmt.Errorf("the plan names the layer %q twice", l.Node))
			continue
		case l.Float:
			continue
		}
		used = used || (p.input != nil && e.info.Input == p.value)
		if err := p.encode(e); err != nil {
			errs = append(errs, err)
		}
	}
	if p.input != nil && p.value != "" && !used {
		errs = append(errs, fmt.Errorf("the plan quantizes %q, which no quantized layer reads", p.value))
	}
	return p, errors.Join(errs...)
}

func (p *prepared) encode(l *layer) error {
	var scale float32
	if l.plan.Act != nil {
		scale = l.plan.Act.Scale
	}
	if p.input != nil && l.info.Input == p.value {
		if l.plan.Act != nil {
			return fmt.Errorf("layer %q: its input is quantized by the plan's input; it cannot have a quantizer of its own", l.plan.Node)
		}
		if err := p.input.Check(l.info.In); err != nil {
			return fmt.Errorf("layer %q: %w", l.plan.Node, err)
		}
		l.info, l.sources = p.input.Fold(l.info), p.input.Sources()
		scale = p.input.Scale
	}
	var err error
	l.enc, err = l.plan.Encode(l.info, scale)
	return err
}

// inputValue returns the value that the plan's input covers.
func inputValue(g *graph.Graph, name string) (string, error) {
	if name == "" {
		if in := g.DataInputs(); len(in) == 1 {
			return in[0].Name, nil
		}
		return "", errors.New("the model has several inputs: the plan's input must name its value")
	}
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			if v == name {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("the plan quantizes the value %q, which the model does not have", name)
}
