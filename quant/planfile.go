package quant

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const planVersion = 1

// PlanFile is the content of a plan file: a plan and everything else that the bytes of
// the written model depend on. A file made by [NewPlanFile] is complete; an edited one may
// leave out what [PlanFile.Plan] then computes. See docs/files.md.
type PlanFile struct {
	Version int       `json:"cfq_plan"`
	Model   PlanModel `json:"model"`
	// Equalized: codes, scales and biases are those of the model after [CrossLayerEqualize].
	Equalized bool `json:"equalized,omitempty"`
	// Runtime is the oldest ONNX Runtime that must read the model; "" = the writer's default.
	Runtime string            `json:"target_ort,omitempty"`
	Recipe  map[string]string `json:"recipe"` // goes into the model's metadata
	Input   *Input            `json:"input,omitempty"`
	Layers  []PlanLayer       `json:"layers"`
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
	Shape   []int     `json:"shape,omitempty"` // outputs and inputs, to be checked; nil = not given
	Bits    int       `json:"bits,omitempty"`  // of all rows; 0 = each row has its own
	Reduced bool      `json:"reduced,omitempty"`
	Scale   *float32  `json:"scale,omitempty"`      // of all rows; nil = each row has its own
	Reads   string    `json:"reads,omitempty"`      // ReadsInput or ReadsFloat; "" = what Act makes of its input
	Act     *Act      `json:"activation,omitempty"` // nil with Reads
	Result  *Act      `json:"result,omitempty"`
	Rows    []PlanRow `json:"rows,omitempty"` // one for each output; nil = everything is computed
	line    int
}

// PlanRow is one output's weights in a plan file.
type PlanRow struct {
	Bits  int      `json:"bits,omitempty"`  // 0 = the layer's
	Scale *float32 `json:"scale,omitempty"` // nil = the layer's, or else the smallest that clips nothing
	Bias  *float32 `json:"bias,omitempty"`  // nil = the model's
	Codes string   `json:"codes,omitempty"` // in hexadecimal, see encodeCodes; "" = the nearest
	line  int
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

// Plan returns the plan for a canonical model whose layers are infos and whose only input is called data. What the file
// leaves out is computed: codes by rounding to the nearest, scales so that nothing is clipped, biases as the model has
// them. An error is a [*PlanError] that names the layer and the row.
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
			return nil, planError(l.line, "duplicate layer %q", l.Node)
		}
		seen[l.Node] = true
		if l.Float {
			continue
		}
		layer, err := l.layer(infos[at], f.Input.before(infos[at], data))
		if err != nil {
			return nil, err
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
		return nil, planError(l.line, "layer %q: %v", l.Node, err)
	}
	if in != nil {
		info = in.Fold(info)
	}
	out := &Layer{
		Node: l.Node, Bits: l.Bits, Reduced: l.Reduced, Act: l.Act, Result: l.Result,
		Codes: make([]int8, 0, info.In*info.Out),
	}
	if l.Scale != nil {
		out.Scales = []float32{*l.Scale}
	}
	for o := range info.Out {
		row := PlanRow{line: l.line}
		if l.Rows != nil {
			row = l.Rows[o]
		}
		if err := row.appendTo(out, l, info, o); err != nil {
			return nil, planError(row.line, "layer %q, row %d: %v", l.Node, o, err)
		}
	}
	if _, err := out.check(info); err != nil {
		return nil, planError(l.line, "layer %q: %v", l.Node, err)
	}
	return out, nil
}

func (l *PlanLayer) check(info LayerInfo, in *Input) error {
	switch {
	case info.Fixed != "":
		return fmt.Errorf("it must stay in float: %s", info.Fixed)
	case l.Shape != nil && !slices.Equal(l.Shape, []int{info.Out, info.In}):
		return fmt.Errorf("shape %v: the model's layer has [%d %d]", l.Shape, info.Out, info.In)
	case l.Rows != nil && len(l.Rows) != info.Out:
		return fmt.Errorf("%d rows for %d outputs", len(l.Rows), info.Out)
	case l.Act == nil && l.Reads == "":
		return errors.New(`want one of "activation": {"bits", "scale", "zero"}, "reads": "input" and "reads": "float"`)
	case l.Act != nil && l.Reads != "" || l.Reads != "" && l.Reads != ReadsInput && l.Reads != ReadsFloat:
		return fmt.Errorf(`"reads": %q: want "input" or "float", or instead an "activation"`, l.Reads)
	case l.Reads == ReadsInput && in == nil:
		return fmt.Errorf(`it reads %q, which the plan's input does not cover: "reads" cannot be "input"`, info.Input)
	case l.Reads != ReadsInput && in != nil:
		return fmt.Errorf(`it reads %q, which the plan's input covers: want "reads": "input"`, info.Input)
	}
	if in != nil {
		return in.Check(info.In)
	}
	return nil
}

func (r *PlanRow) appendTo(out *Layer, l *PlanLayer, info LayerInfo, o int) error {
	bits := l.Bits
	switch {
	case l.Bits != 0 && r.Bits != 0:
		return errors.New("both the row and the layer have \"bits\"")
	case l.Bits == 0 && r.Bits == 0:
		return errors.New("neither the row nor the layer has \"bits\"")
	case l.Bits == 0:
		bits = r.Bits
		out.RowBits = append(out.RowBits, bits)
	}
	format, err := FormatOf(bits, l.Reduced)
	if err != nil {
		return err
	}
	scale := cmp.Or(l.Scale, r.Scale)
	switch {
	case l.Scale != nil && r.Scale != nil:
		return errors.New("both the row and the layer have a \"scale\"")
	case scale == nil && r.Codes != "":
		return errors.New("\"codes\" without a \"scale\"")
	case scale == nil:
		cover := format.cover(info.Row(o))
		scale = &cover
	}
	if l.Scale == nil {
		if !goodScale(*scale) {
			return fmt.Errorf("the scale %v is not a positive number", *scale)
		}
		out.Scales = append(out.Scales, *scale)
	}
	codes := make([]int8, info.In)
	if r.Codes == "" {
		for i, w := range info.Row(o) {
			codes[i] = format.Quantize(w, *scale)
		}
	} else if codes, err = decodeCodes(r.Codes, format); err != nil {
		return err
	}
	if len(codes) != info.In {
		return fmt.Errorf("%d codes for %d inputs", len(codes), info.In)
	}
	out.Codes = append(out.Codes, codes...)
	out.Bias = append(out.Bias, *cmp.Or(r.Bias, &info.B[o]))
	return nil
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
type PlanError struct {
	Line, Col int // 1-based; 0 when not known
	Msg       string
}

// Error returns "line 3, column 7: message".
func (e *PlanError) Error() string {
	switch {
	case e.Line == 0:
		return e.Msg
	case e.Col == 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Col, e.Msg)
}

func planError(line int, format string, a ...any) error {
	return &PlanError{Line: line, Msg: fmt.Sprintf(format, a...)}
}

// UnmarshalPlan reads a plan file. The error, a [*PlanError], names the first key that is unknown or given twice, or
// the first value that is null or of a wrong type. Whether the values fit a model is checked by [PlanFile.Plan].
func UnmarshalPlan(data []byte) (*PlanFile, error) {
	f := &PlanFile{Layers: []PlanLayer{}}
	err := f.read(&planText{data, map[reflect.Type][]int{}})
	if err != nil && !bytes.Contains(data, []byte(`"cfq_plan"`)) {
		err = &PlanError{Msg: fmt.Sprintf("this is not a plan that --save-plan wrote: %v", err)}
	}
	return f, err
}

func (f *PlanFile) read(t *planText) error {
	var syntax *json.SyntaxError
	if err := json.Unmarshal(t.data, &json.RawMessage{}); errors.As(err, &syntax) {
		return t.fail(max(0, int(syntax.Offset)-1), "this is not JSON: %v", err)
	}
	if err := t.check(json.NewDecoder(bytes.NewReader(t.data)), reflect.TypeFor[PlanFile]()); err != nil {
		return err
	}
	var typed *json.UnmarshalTypeError
	if err := json.Unmarshal(t.data, f); errors.As(err, &typed) {
		key := typed.Field[strings.LastIndexByte(typed.Field, '.')+1:]
		return t.fail(int(typed.Offset)-1, "%s: got %s, want %s", cmp.Or(key, "value"), typed.Value, jsonType(typed.Type))
	} else if err != nil {
		return err
	}
	switch {
	case f.Version != planVersion:
		return planError(0, "this is version %d of the format: want version %d", f.Version, planVersion)
	case len(f.Model.SHA256) != 64 || strings.Trim(f.Model.SHA256, hexDigits) != "":
		return planError(0, "model: sha256 %q: want 64 hexadecimal digits, in lower case", f.Model.SHA256)
	}
	rows := t.lines(reflect.TypeFor[PlanRow]())
	for i, line := range t.lines(reflect.TypeFor[PlanLayer]()) {
		l := &f.Layers[i]
		l.line = line
		for o := range l.Rows {
			l.Rows[o].line, rows = rows[0], rows[1:]
		}
	}
	return nil
}

type planText struct {
	data   []byte
	starts map[reflect.Type][]int // where the objects of a type begin
}

func (t *planText) lines(of reflect.Type) (all []int) {
	line, at := 1, 0
	for _, start := range t.starts[of] {
		line, at = line+bytes.Count(t.data[at:start], []byte("\n")), start
		all = append(all, line)
	}
	return all
}

// check refuses what encoding/json passes over in the next value of d, which is to be of a type: keys that are unknown
// or given twice, of which the last would count, and null, which would count as a key that is left out.
func (t *planText) check(d *json.Decoder, of reflect.Type) error {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	begin, err := d.Token()
	if begin == nil {
		return t.fail(int(d.InputOffset())-len("null"), "null is not a value of a plan")
	}
	if begin != json.Delim('{') && begin != json.Delim('[') {
		return err
	}
	t.starts[of] = append(t.starts[of], int(d.InputOffset())-1)
	fields, keys := jsonFields(of), map[json.Token]bool{}
	for d.More() {
		inner := reflect.TypeFor[any]()
		if of.Kind() == reflect.Slice {
			inner = of.Elem()
		}
		if begin == json.Delim('{') {
			end := int(d.InputOffset()) // of what comes before the key
			at := end + bytes.IndexByte(t.data[end:], '"')
			key, _ := d.Token() // the text is JSON
			field, known := fields[fmt.Sprint(key)]
			switch {
			case keys[key]:
				return t.fail(at, "duplicate key %q", key)
			case known:
				inner = field
			case fields != nil:
				return t.fail(at, "unknown key %q: want one of %s", key,
					strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			}
			keys[key] = true
		}
		if err := t.check(d, inner); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func (t *planText) fail(at int, format string, a ...any) error {
	before := t.data[:at]
	line, column := bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')
	return &PlanError{Line: line, Col: column, Msg: fmt.Sprintf(format, a...)}
}

func jsonFields(of reflect.Type) map[string]reflect.Type {
	if of.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.Type{}
	for f := range of.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields[name] = f.Type
		}
	}
	return fields
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	}
	return fmt.Sprintf("a number (%s)", t.Kind())
}
