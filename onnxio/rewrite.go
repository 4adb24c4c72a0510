package onnxio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
)

// remove takes the attribute called name from n and returns it, nil when there
// is none. An attribute that stands for a function's attribute has no value yet
// and cannot be turned into an input.
func remove(n *graph.Node, name string) (*graph.Attr, error) {
	for i, a := range n.Attrs {
		if a.Name != name {
			continue
		}
		if a.Ref != "" {
			return nil, fmt.Errorf("has the attribute %q, which stands for one of the function's and cannot become an input", name)
		}
		n.Attrs = slices.Delete(slices.Clone(n.Attrs), i, i+1)
		return &a, nil
	}
	return nil, nil
}

// input sets the i-th input of n.
func input(n *graph.Node, i int, value string) {
	for len(n.Inputs) <= i {
		n.Inputs = append(n.Inputs, "")
	}
	n.Inputs[i] = value
}

// intsInput turns the integer-list attribute called name into the second input,
// if it has elements: an empty list meant the same as none.
func intsInput(name string) func(*upgrader, *graph.Node) error {
	return func(u *upgrader, n *graph.Node) error {
		if a := n.Attr(name); a != nil && a.Ref == "" && len(a.Ints) == 0 {
			_, err := remove(n, name)
			return err
		}
		return u.ints(n, name, 1)
	}
}

// ints turns the integer-list attribute called name into the i-th input.
func (u *upgrader) ints(n *graph.Node, name string, i int) error {
	a, err := remove(n, name)
	if err != nil || a == nil {
		return err
	}
	input(n, i, u.constant(n, name, graph.FromInts("", a.Ints, int64(len(a.Ints)))))
	return nil
}

// unsqueeze: the axes became an input, which has to be there.
func unsqueeze(u *upgrader, n *graph.Node) error { return u.ints(n, "axes", 1) }

// scalar makes a constant of v in the element type of like.
func (u *upgrader) scalar(n *graph.Node, hint, like string, v float32) (string, error) {
	t := &graph.Tensor{DType: u.typeOf(like).dtype}
	switch t.DType {
	case graph.Float:
		t.Raw = binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
	case graph.Double:
		t.Raw = binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(v)))
	case graph.Undefined:
		return "", fmt.Errorf("has the attribute %q, which becomes an input of the type of %q, but the model does not say which that is", hint, like)
	default:
		return "", fmt.Errorf("has the attribute %q, which cannot be made an input of type %s", hint, t.DType)
	}
	return u.constant(n, hint, t), nil
}

// clip: the attributes min and max became inputs. The old defaults are the
// ends of float32's range and are left out.
func clip(u *upgrader, n *graph.Node) error {
	for i, name := range []string{"min", "max"} {
		a, err := remove(n, name)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		value, err := u.scalar(n, name, n.Input(0), a.F)
		if err != nil {
			return err
		}
		input(n, i+1, value)
	}
	return nil
}

// boolMask: the mask, which had the type of the data, became one of booleans.
func boolMask(u *upgrader, n *graph.Node) error {
	if len(n.Outputs) > 1 {
		if u.used(n.Outputs[1]) {
			return errors.New("has a mask whose type changed and that is used")
		}
		n.Outputs = n.Outputs[:1]
	}
	return nil
}

// dropout: the ratio became an input. The node still does nothing: its third
// input, training_mode, is absent.
func dropout(u *upgrader, n *graph.Node) error {
	a, err := remove(n, "ratio")
	if err != nil || a == nil {
		return err
	}
	input(n, 1, u.constant(n, "ratio", graph.FromFloats("", []float32{a.F})))
	return nil
}

// inferenceForm: training became an attribute, with other outputs. Until then
// outputs beside the first one said that the node normalises by the statistics
// of the batch, which is what ONNX Runtime does even if nothing uses them.
func inferenceForm(_ *upgrader, n *graph.Node) error {
	first := min(1, len(n.Outputs))
	if slices.ContainsFunc(n.Outputs[first:], func(o string) bool { return o != "" }) {
		return errors.New("is in training form, in which outputs depend on the batch: export the model in evaluation mode")
	}
	n.Outputs = n.Outputs[:first]
	return nil
}

// flattened: Softmax, LogSoftmax and Hardmax normalised over all axes from axis
// (default 1) on, as if the input were flattened to a matrix there; from opset
// 13 on they do so over the one axis (default -1).
func flattened(u *upgrader, n *graph.Node) error {
	a := n.Attr("axis")
	if a != nil && a.Ref != "" {
		return errors.New("has the attribute \"axis\", which stands for one of the function's and changed its meaning")
	}
	axis := n.Int("axis", 1)
	rank := u.typeOf(n.Input(0)).rank
	if rank >= 0 && (axis == int64(rank)-1 || axis == -1) || axis == -1 {
		setInt(n, "axis", axis)
		return nil
	}
	if len(n.Inputs) != 1 || len(n.Outputs) != 1 {
		return errors.New("does not have one input and one output")
	}
	in, out := n.Inputs[0], n.Outputs[0]
	shape, flat, soft := u.name(n, "shape"), u.name(n, "flat"), u.name(n, "matrix")
	u.put(&graph.Node{Name: u.name(n, "Shape"), Op: "Shape", Inputs: []string{in}, Outputs: []string{shape}}, true)
	u.put(&graph.Node{Name: u.name(n, "Flatten"), Op: "Flatten", Inputs: []string{in}, Outputs: []string{flat}, Attrs: []graph.Attr{graph.IntAttr("axis", axis)}}, true)
	u.put(&graph.Node{Name: u.name(n, "Reshape"), Op: "Reshape", Inputs: []string{soft, shape}, Outputs: []string{out}}, false)
	n.Inputs, n.Outputs = []string{flat}, []string{soft}
	u.producer[soft] = n
	setInt(n, "axis", -1)
	return nil
}

func setInt(n *graph.Node, name string, v int64) {
	if a := n.Attr(name); a != nil {
		a.I = v
		return
	}
	n.Attrs = append(n.Attrs, graph.IntAttr(name, v))
}

// pad: the attributes pads and value became inputs.
func pad(u *upgrader, n *graph.Node) error {
	data := n.Input(0)
	if err := u.ints(n, "pads", 1); err != nil {
		return err
	}
	a, err := remove(n, "value")
	if err != nil || a == nil || a.F == 0 {
		return err
	}
	value, err := u.scalar(n, "value", data, a.F)
	if err != nil {
		return err
	}
	input(n, 2, value)
	return nil
}

// slice: starts, ends and axes became inputs.
func slice(u *upgrader, n *graph.Node) error {
	for i, name := range []string{"starts", "ends", "axes"} {
		if err := u.ints(n, name, i+1); err != nil {
			return err
		}
	}
	return nil
}

// topK: k became an input.
func topK(u *upgrader, n *graph.Node) error {
	a, err := remove(n, "k")
	if err != nil || a == nil {
		return err
	}
	input(n, 1, u.constant(n, "k", graph.FromInts("", []int64{a.I}, 1)))
	return nil
}

// splitOutputs: an even split has to say into how many parts.
func splitOutputs(_ *upgrader, n *graph.Node) error {
	if n.Input(1) == "" && n.Attr("num_outputs") == nil {
		n.Attrs = append(n.Attrs, graph.IntAttr("num_outputs", int64(len(n.Outputs))))
	}
	return nil
}

// resize: an input for the region of interest came between the data and the
// scales, and how coordinates map became attributes whose defaults are not what
// was done before.
func resize(u *upgrader, n *graph.Node) error {
	if len(n.Inputs) != 2 {
		return fmt.Errorf("has %d inputs, not 2", len(n.Inputs))
	}
	mode := n.Attr("mode")
	if mode != nil && mode.Ref != "" {
		return errors.New("has the attribute \"mode\", which stands for one of the function's and decides on others now")
	}
	if mode == nil || string(mode.S) == "nearest" {
		scales := u.constantOf(n.Inputs[1])
		if scales == nil {
			return errors.New("has scales that are not constant")
		}
		v, err := scales.Floats()
		if err != nil {
			return err
		}
		if slices.ContainsFunc(v, func(s float32) bool { return s < 1 }) {
			return errors.New("makes smaller, which later operator sets round differently")
		}
		n.Attrs = append(n.Attrs, graph.StringAttr("nearest_mode", "floor"))
	}
	n.Attrs = append(n.Attrs, graph.StringAttr("coordinate_transformation_mode", "asymmetric"))
	n.Inputs = []string{n.Inputs[0], u.constant(n, "roi", graph.FromFloats("", nil, 0)), n.Inputs[1]}
	return nil
}

// roiAlign: coordinates are shifted by half a pixel unless told otherwise.
func roiAlign(_ *upgrader, n *graph.Node) error {
	if n.Attr("coordinate_transformation_mode") == nil {
		n.Attrs = append(n.Attrs, graph.StringAttr("coordinate_transformation_mode", "output_half_pixel"))
	}
	return nil
}

// gridMode: two modes have new names.
func gridMode(_ *upgrader, n *graph.Node) error {
	a := n.Attr("mode")
	switch {
	case a == nil:
	case a.Ref != "":
		return errors.New("has the attribute \"mode\", which stands for one of the function's and changed its values")
	case string(a.S) == "bilinear":
		a.S = []byte("linear")
	case string(a.S) == "bicubic":
		a.S = []byte("cubic")
	}
	return nil
}

// dftAxis: the axis became an input; its default changed from 1 to -2.
func dftAxis(u *upgrader, n *graph.Node) error {
	a, err := remove(n, "axis")
	if err != nil {
		return err
	}
	axis := int64(1)
	if a != nil {
		axis = a.I
	}
	input(n, 2, u.constant(n, "axis", graph.FromInts("", []int64{axis})))
	return nil
}
