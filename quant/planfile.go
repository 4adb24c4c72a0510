package quant

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

const planVersion = 1

// PlanFile is the content of a plan file: a plan and everything else that the bytes of the written model depend on. See
// docs/files.md.
type PlanFile struct {
	Version int       `json:"cfq_plan"`
	Model   PlanModel `json:"model"`
	// Equalized: codes, scales and biases are those of the model after [CrossLayerEqualize].
	Equalized bool              `json:"equalized,omitempty"`
	Recipe    map[string]string `json:"recipe"` // goes into the model's metadata
	Input     *Input            `json:"input,omitempty"`
	Layers    []PlanLayer       `json:"layers"`
}

// PlanModel names the model that a plan is for.
type PlanModel struct {
	SHA256  string `json:"sha256"`            // of the canonical model's bytes, in hexadecimal
	Weights int    `json:"weights,omitempty"` // of all its layers; for readers
}

// PlanLayer is a layer in a plan file.
type PlanLayer struct {
	Node    string    `json:"node"`
	Float   bool      `json:"float,omitempty"` // stays in float; everything else is ignored
	Shape   []int     `json:"shape,omitempty"` // outputs and inputs
	Bits    int       `json:"bits,omitempty"`  // of all rows; 0 = each row has its own
	Reduced bool      `json:"reduced,omitempty"`
	Scale   *float32  `json:"scale,omitempty"`      // of all rows; nil = each row has its own
	Reads   string    `json:"reads,omitempty"`      // ReadsInput or ReadsFloat; "" = what Act makes of its input
	Act     *Act      `json:"activation,omitempty"` // nil with Reads
	Result  *Act      `json:"result,omitempty"`
	Rows    []PlanRow `json:"rows,omitempty"` // one for each output
}

// PlanRow is one output's weights in a plan file.
type PlanRow struct {
	Bits  int      `json:"bits,omitempty"`  // 0 = the layer's
	Scale *float32 `json:"scale,omitempty"` // nil = the layer's
	Bias  *float32 `json:"bias,omitempty"`
	Codes string   `json:"codes,omitempty"` // in hexadecimal, see encodeCodes
}

// The values of PlanLayer.Reads.
const (
	ReadsInput = "input" // the columns of Plan.Input
	ReadsFloat = "float" // its input as it is: only the weights are stored in few bits
)

// NewPlanFile describes the plan of a canonical model whose layers are infos and whose only input is called data.
// Nothing is left out: a plan that rounds to the nearest gets its codes, and scales are those that Encode ends with.
func NewPlanFile(p *Plan, infos []LayerInfo, data string) (*PlanFile, error) {
	f := &PlanFile{Version: planVersion, Recipe: map[string]string{}, Input: p.Input, Layers: []PlanLayer{}}
	var errs []error
	for _, info := range infos {
		f.Model.Weights += info.Params()
		if info.Fixed != "" {
			continue
		}
		l := p.Layer(info.Node)
		if l == nil || l.Float {
			f.Layers = append(f.Layers, PlanLayer{Node: info.Node, Float: true, Shape: []int{info.Out, info.In}})
			continue
		}
		out, err := newPlanLayer(l, info, p.Input.before(info, data))
		errs = append(errs, err)
		f.Layers = append(f.Layers, out)
	}
	return f, errors.Join(errs...)
}

func newPlanLayer(l *Layer, info LayerInfo, in *Input) (PlanLayer, error) {
	p := PlanLayer{
		Node: l.Node, Shape: []int{info.Out, info.In}, Bits: l.Bits, Reduced: l.Reduced,
		Act: l.Act, Result: l.Result,
	}
	var scale float32
	switch {
	case in != nil:
		if err := in.Check(info.In); err != nil {
			return p, fmt.Errorf("layer %q: %w", l.Node, err)
		}
		p.Act, p.Reads, info, scale = nil, ReadsInput, in.Fold(info), in.Scale
	case l.Act != nil:
		scale = l.Act.Scale
	default:
		p.Reads = ReadsFloat
	}
	e, err := l.Encode(info, scale)
	if err != nil {
		return p, err
	}
	if len(e.Scales) == 1 {
		p.Scale = &e.Scales[0]
	}
	for o := range info.Out {
		row := PlanRow{Bias: &e.FloatB[o], Codes: encodeCodes(e.Codes[o*info.In:(o+1)*info.In], l.Width(o))}
		if p.Scale == nil {
			row.Scale = &e.Scales[o]
		}
		if l.RowBits != nil {
			row.Bits = l.RowBits[o]
		}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

// Plan returns the plan for a canonical model whose layers are infos and whose only input is called data. An error is a
// [PlanError] that names the layer and the row.
func (f *PlanFile) Plan(infos []LayerInfo, data string) (*Plan, error) {
	p := &Plan{}
	for i := range f.Layers {
		l := &f.Layers[i]
		at := slices.IndexFunc(infos, func(x LayerInfo) bool { return x.Node == l.Node && x.Fixed == "" })
		if at < 0 {
			at = slices.IndexFunc(infos, func(x LayerInfo) bool { return x.Node == l.Node })
		}
		switch {
		case at < 0:
			return nil, planError("the model has no layer %q", l.Node)
		case slices.ContainsFunc(f.Layers[:i], func(x PlanLayer) bool { return x.Node == l.Node }):
			return nil, planError("duplicate layer %q", l.Node)
		case l.Float:
			continue
		}
		layer, err := l.layer(infos[at], f.Input.before(infos[at], data))
		if err != nil {
			return nil, planError("layer %q: %v", l.Node, err)
		}
		if l.Reads == ReadsInput {
			p.Input = f.Input
		}
		p.Layers = append(p.Layers, *layer)
	}
	return p, nil
}

func (l *PlanLayer) layer(info LayerInfo, in *Input) (*Layer, error) {
	if err := l.check(info, in); err != nil {
		return nil, err
	}
	if in != nil {
		info = in.Fold(info)
	}
	out := &Layer{Node: l.Node, Bits: l.Bits, Reduced: l.Reduced, Act: l.Act, Result: l.Result}
	if l.Scale != nil {
		out.Scales = []float32{*l.Scale}
	}
	for o := range l.Rows {
		if err := l.Rows[o].appendTo(out, l, info.In); err != nil {
			return nil, fmt.Errorf("row %d: %w", o, err)
		}
	}
	_, err := out.check(info, in != nil || out.Act != nil)
	return out, err
}

func (l *PlanLayer) check(info LayerInfo, in *Input) error {
	switch {
	case info.Fixed != "":
		return fmt.Errorf("it must stay in float: %s", info.Fixed)
	case !slices.Equal(l.Shape, []int{info.Out, info.In}):
		return fmt.Errorf("shape %v: the model's layer has [%d %d]", l.Shape, info.Out, info.In)
	case len(l.Rows) != info.Out:
		return fmt.Errorf("%d rows for %d outputs", len(l.Rows), info.Out)
	case (l.Act == nil) != (l.Reads == ReadsInput || l.Reads == ReadsFloat):
		return fmt.Errorf(`"reads": %q: want "input" or "float", or instead an "activation"`, l.Reads)
	case (l.Reads == ReadsInput) != (in != nil):
		return fmt.Errorf(`it reads %q: want "reads": "input" if the plan's input covers that, and only then`, info.Input)
	case in != nil:
		return in.Check(info.In)
	}
	return nil
}

func (r *PlanRow) appendTo(out *Layer, l *PlanLayer, inputs int) error {
	switch {
	case (l.Bits == 0) == (r.Bits == 0):
		return errors.New(`want "bits" either in the layer or in each of its rows`)
	case (l.Scale == nil) == (r.Scale == nil):
		return errors.New(`want a "scale" either in the layer or in each of its rows`)
	case r.Bias == nil:
		return errors.New(`it has no "bias"`)
	}
	if l.Bits == 0 {
		out.RowBits = append(out.RowBits, r.Bits)
	}
	if l.Scale == nil {
		out.Scales = append(out.Scales, *r.Scale)
	}
	format, err := FormatOf(cmp.Or(l.Bits, r.Bits), l.Reduced)
	if err != nil {
		return err
	}
	codes, err := decodeCodes(r.Codes, format)
	if err == nil && len(codes) != inputs {
		err = fmt.Errorf("%d codes for %d inputs", len(codes), inputs)
	}
	out.Codes, out.Bias = append(out.Codes, codes...), append(out.Bias, *r.Bias)
	return err
}

// leaves matches the lists and objects below the second level that hold no others.
var leaves = regexp.MustCompile(`[{[]\n {6,}[^{}[\]]*\n *[]}]`)

var breaks = regexp.MustCompile(`\n *`)

// MarshalPlan writes a plan file: JSON with its keys in a fixed order, one line for each column of the input and each
// row of weights. Numbers are the shortest that read back as the same float32. The same plan gives the same text.
func MarshalPlan(f *PlanFile) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	if bytes.Contains(b.Bytes(), []byte(`\ufffd`)) { // what encoding/json makes of other bytes
		return nil, errors.New("plan: a name of the model or an entry of the recipe is not UTF-8")
	}
	return leaves.ReplaceAllFunc(b.Bytes(), func(leaf []byte) []byte {
		end := len(leaf) - 1
		inner := breaks.ReplaceAll(bytes.TrimSpace(leaf[1:end]), []byte(" "))
		return slices.Concat(leaf[:1], inner, leaf[end:])
	}), nil
}

// PlanError is a mistake in a plan file.
type PlanError string

func (e PlanError) Error() string { return string(e) }

func planError(format string, a ...any) error { return PlanError(fmt.Sprintf(format, a...)) }

// UnmarshalPlan reads a plan file. The error, a [PlanError], names a key that is unknown or a value of a wrong type.
// Whether the values fit a model is checked by [PlanFile.Plan].
func UnmarshalPlan(data []byte) (*PlanFile, error) {
	f := &PlanFile{Layers: []PlanLayer{}}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(f)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("something follows its end")
	}
	var typed *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	if errors.As(err, &typed) {
		err = fmt.Errorf("line %d: %w", lineAt(data, typed.Offset), err)
	} else if errors.As(err, &syntax) {
		err = fmt.Errorf("line %d: %w", lineAt(data, syntax.Offset), err)
	}
	switch {
	case err != nil || f.Version == 0:
		return nil, planError("this is not a plan that --save-plan wrote: %v", cmp.Or(err, errors.New("no cfq_plan")))
	case f.Version != planVersion:
		return nil, planError("this is version %d of the format: want version %d", f.Version, planVersion)
	case len(f.Model.SHA256) != 64 || strings.Trim(f.Model.SHA256, hexDigits) != "":
		return nil, planError("model: sha256 %q: want 64 hexadecimal digits, in lower case", f.Model.SHA256)
	}
	return f, nil
}

func lineAt(data []byte, offset int64) int {
	return bytes.Count(data[:min(int(offset), len(data))], []byte("\n")) + 1
}
