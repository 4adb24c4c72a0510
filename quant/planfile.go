package quant

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// planVersion is the version of the plan file's format.
const planVersion = 1

// PlanFile is a plan as it stands in a file, with all else that the bytes of the
// written model depend on. A file that NewPlanFile made says everything; one that was
// edited may leave out what Plan is then to compute. See docs/plan.md.
type PlanFile struct {
	Model     PlanModel
	Equalized bool              // the weights that codes, scales and biases are of are those of Equalize
	Runtime   string            // the oldest ONNX Runtime that must read the model; "" = as the writer says
	Recipe    map[string]string // what goes into the model's metadata
	Input     *Input
	Layers    []PlanLayer
}

// PlanModel says which model a plan is for.
type PlanModel struct {
	SHA256  string // of the canonical model's bytes, in hexadecimal
	Weights int    // of all its layers; for readers
}

// Feed says what a layer of a plan reads.
type Feed string

// What a layer can read.
const (
	FeedInput Feed = "input" // the columns of Plan.Input
	FeedFloat Feed = "float" // its input as it is: only the weights are stored in few bits
	FeedAct   Feed = ""      // its input behind the quantizer Act
)

// PlanLayer is a layer in a plan file.
type PlanLayer struct {
	Node    string
	Float   bool    // stays in float; all else is ignored
	Out, In int     // for checks; 0 = not said
	Bits    int     // of all rows; 0 = each says its own
	Scale   float32 // of all rows; 0 = each says its own
	Reduced bool
	Feed    Feed
	Act     *Act
	Result  *Act
	Rows    []PlanRow // one for each output; nil = all is to be computed
	line    int
}

// PlanRow is one output's weights in a plan file.
type PlanRow struct {
	Bits  int      // 0 = the layer's
	Scale float32  // 0 = the layer's, or else the smallest that clips nothing
	Bias  *float32 // nil = the model's
	Codes []int8   // nil = the nearest
	line  int
}

// NewPlanFile puts down the plan of a canonical model whose layers are infos and whose
// only input is called data. Nothing is left out: a plan that rounds to the nearest gets
// its codes, and scales are those that Encode ends with.
func NewPlanFile(p *Plan, infos []LayerInfo, data string) (*PlanFile, error) {
	f := &PlanFile{Input: p.Input, Layers: []PlanLayer{}}
	var errs []error
	for _, info := range infos {
		f.Model.Weights += info.Params()
		if info.Fixed != "" {
			continue
		}
		l := p.Layer(info.Node)
		if l == nil || l.Float {
			f.Layers = append(f.Layers, PlanLayer{Node: info.Node, Float: true, Out: info.Out, In: info.In})
			continue
		}
		out, err := newPlanLayer(l, info, p.Input.before(info, data))
		errs = append(errs, err)
		f.Layers = append(f.Layers, out)
	}
	return f, errors.Join(errs...)
}

// before returns the input if layer info reads it, otherwise nil.
func (in *Input) before(info LayerInfo, data string) *Input {
	if in != nil && (in.Value == info.Input || in.Value == "" && info.Input == data) {
		return in
	}
	return nil
}

func newPlanLayer(l *Layer, info LayerInfo, in *Input) (PlanLayer, error) {
	p := PlanLayer{Node: l.Node, Out: info.Out, In: info.In, Reduced: l.Reduced, Act: l.Act, Result: l.Result, Bits: l.Bits}
	var scale float32
	switch {
	case in != nil:
		if err := in.Check(info.In); err != nil {
			return p, fmt.Errorf("layer %q: %w", l.Node, err)
		}
		p.Feed, info, scale = FeedInput, in.Fold(info), in.Scale
	case l.Act != nil:
		scale = l.Act.Scale
	default:
		p.Feed = FeedFloat
	}
	e, err := l.Encode(info, scale)
	if err != nil {
		return p, err
	}
	if len(e.Scales) == 1 {
		p.Scale = e.Scales[0]
	}
	for o := range info.Out {
		row := PlanRow{Bias: new(float32), Codes: e.Codes[o*info.In : (o+1)*info.In]}
		*row.Bias = e.FloatB[o]
		if p.Scale == 0 {
			row.Scale = e.Scales[o]
		}
		if l.RowBits != nil {
			row.Bits = l.RowBits[o]
		}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

// Plan returns the plan for a canonical model whose layers are infos and whose only
// input is called data. What the file leaves out is computed: codes by rounding to
// the nearest, scales so that nothing is clipped, biases as the model has them. Errors
// name the line of the file where it has one.
func (f *PlanFile) Plan(infos []LayerInfo, data string) (*Plan, error) {
	p := &Plan{}
	seen := map[string]bool{}
	for i := range f.Layers {
		l := &f.Layers[i]
		at := slices.IndexFunc(infos, func(x LayerInfo) bool { return x.Node == l.Node && x.Fixed == "" })
		if at < 0 {
			at = slices.IndexFunc(infos, func(x LayerInfo) bool { return x.Node == l.Node })
		}
		switch {
		case at < 0:
			return nil, planError(l.line, "the model has no layer %q", l.Node)
		case seen[l.Node]:
			return nil, planError(l.line, "the layer %q is there twice", l.Node)
		}
		seen[l.Node] = true
		if l.Float {
			continue
		}
		layer, err := l.layer(infos[at], f.Input.before(infos[at], data))
		if err != nil {
			return nil, err
		}
		if l.Feed == FeedInput {
			p.Input = f.Input
		}
		p.Layers = append(p.Layers, *layer)
	}
	return p, nil
}

// layer returns the plan of the layer info, which reads the input in unless that is nil.
func (l *PlanLayer) layer(info LayerInfo, in *Input) (*Layer, error) {
	bad := func(format string, a ...any) (*Layer, error) {
		return nil, planError(l.line, "layer %q: %s", l.Node, fmt.Sprintf(format, a...))
	}
	switch {
	case info.Fixed != "":
		return bad("it must stay in float: %s", info.Fixed)
	case l.Out+l.In > 0 && (l.Out != info.Out || l.In != info.In):
		return bad("its shape is [%d, %d], that of the model's [%d, %d]", l.Out, l.In, info.Out, info.In)
	case l.Rows != nil && len(l.Rows) != info.Out:
		return bad("it has %d rows, and the layer %d outputs", len(l.Rows), info.Out)
	case l.Feed == FeedInput && in == nil:
		return bad("it reads %q, which the plan's input does not cover: its activation cannot be \"input\"", info.Input)
	case l.Feed != FeedInput && in != nil:
		return bad("it reads %q, which the plan's input covers: its activation must be \"input\"", info.Input)
	case in != nil:
		if err := in.Check(info.In); err != nil {
			return bad("%v", err)
		}
		info = in.Fold(info)
	}
	out := &Layer{Node: l.Node, Bits: l.Bits, Reduced: l.Reduced, Act: l.Act, Result: l.Result, Codes: make([]int8, 0, info.In*info.Out)}
	if l.Scale > 0 {
		out.Scales = []float32{l.Scale}
	}
	for o := range info.Out {
		row := PlanRow{line: l.line}
		if l.Rows != nil {
			row = l.Rows[o]
		}
		if err := row.into(out, l, info, o); err != nil {
			return nil, planError(row.line, "layer %q, row %d: %v", l.Node, o, err)
		}
	}
	return out, nil
}

// into appends row o of the layer l to out.
func (r *PlanRow) into(out *Layer, l *PlanLayer, info LayerInfo, o int) error {
	bits := l.Bits
	switch {
	case l.Bits != 0 && r.Bits != 0:
		return errors.New("the layer has bits for all rows already")
	case l.Bits == 0 && r.Bits == 0:
		return errors.New("neither the row nor the layer says how many bits")
	case l.Bits == 0:
		bits = r.Bits
		out.RowBits = append(out.RowBits, bits)
	}
	format, err := FormatOf(bits, l.Reduced)
	if err != nil {
		return err
	}
	scale := l.Scale
	switch {
	case scale > 0 && r.Scale > 0:
		return errors.New("the layer has a scale for all rows already")
	case scale == 0 && r.Scale == 0 && r.Codes != nil:
		return errors.New("codes mean nothing without a scale")
	case scale == 0:
		if scale = r.Scale; scale == 0 {
			scale = format.cover(info.Row(o))
		}
		out.Scales = append(out.Scales, scale)
	}
	switch {
	case r.Codes == nil:
		for _, w := range info.Row(o) {
			out.Codes = append(out.Codes, format.Quantize(w, scale))
		}
	case len(r.Codes) != info.In:
		return fmt.Errorf("%d codes for %d inputs", len(r.Codes), info.In)
	default:
		out.Codes = append(out.Codes, r.Codes...)
	}
	if r.Bias != nil {
		out.Bias = append(out.Bias, *r.Bias)
	} else {
		out.Bias = append(out.Bias, info.B[o])
	}
	return nil
}

// cover returns the smallest scale at which none of w is clipped.
func (f Format) cover(w []float32) float32 {
	var s float32
	for _, x := range w {
		if x > 0 {
			s = max(s, x/float32(f.QMax))
		} else {
			s = max(s, x/float32(f.QMin))
		}
	}
	if !goodScale(s) || math.IsInf(float64(s), 0) {
		return 1
	}
	return s
}
