package quant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

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

// UnmarshalPlan reads a plan file. It is strict: the error, a *PlanError, is about the
// first key that is unknown or there twice, value that is out of range, or code that the
// width does not have. Whether the plan fits a model is for PlanFile.Plan to say.
func UnmarshalPlan(data []byte) (*PlanFile, error) {
	r := newPlanReader(data)
	f := &PlanFile{Recipe: map[string]string{}, Layers: []PlanLayer{}}
	version, found := 0, false
	r.object("a plan", []string{"cfq_plan", "model", "recipe", "layers"}, map[string]func(){
		"cfq_plan": func() {
			found = true
			if version = r.whole(0, math.MaxInt32); r.err == nil && version != planVersion {
				r.fail("this is version %d of the format, and this program reads version %d", version, planVersion)
			}
		},
		"model":      func() { r.model(&f.Model) },
		"equalized":  func() { f.Equalized = r.truth() },
		"target_ort": func() { f.Runtime = r.text() },
		"recipe":     func() { r.recipe(f.Recipe) },
		"input":      func() { f.Input = r.input() },
		"layers":     func() { r.list("layers", func() { f.Layers = append(f.Layers, r.layer()) }) },
	})
	if r.err == nil {
		r.at = r.start()
		if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
			r.fail("something stands behind the plan")
		}
	}
	if r.err != nil && !found && !bytes.Contains(data, []byte(`"cfq_plan"`)) {
		return nil, &PlanError{Msg: fmt.Sprintf("this is no plan that --save-plan wrote: %v", r.err)}
	}
	if r.err != nil {
		return nil, r.err
	}
	return f, nil
}

// planReader reads JSON and keeps the place of the first mistake, after which every
// method does nothing.
type planReader struct {
	dec  *json.Decoder
	data []byte
	at   int // where the last token begins
	err  error
	// line, from 0, begins at the byte from: places are asked for in ascending order, mostly.
	line, from int
}

func newPlanReader(data []byte) *planReader {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return &planReader{dec: dec, data: data}
}

// start is where the next token begins.
func (r *planReader) start() int {
	at := int(r.dec.InputOffset())
	for at < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[at]) >= 0 {
		at++
	}
	return at
}

// place returns the line and column of the byte at.
func (r *planReader) place(at int) (line, col int) {
	if at = min(at, len(r.data)); at < r.from {
		r.line, r.from = 0, 0
	}
	between := r.data[r.from:at]
	r.line += bytes.Count(between, []byte("\n"))
	r.from += bytes.LastIndexByte(between, '\n') + 1
	return r.line + 1, at - r.from + 1
}

func (r *planReader) fail(format string, a ...any) {
	if r.err == nil {
		line, col := r.place(r.at)
		r.err = &PlanError{Line: line, Col: col, Msg: fmt.Sprintf(format, a...)}
	}
}

func (r *planReader) token() json.Token {
	if r.err != nil {
		return nil
	}
	r.at = r.start()
	t, err := r.dec.Token()
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return t
	case errors.As(err, &syntax):
		r.at = max(int(syntax.Offset)-1, 0)
		r.fail("this is not JSON: %v", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		r.at = len(r.data)
		r.fail("the file ends here, in the middle of the plan")
	default:
		r.fail("this is not JSON: %v", err)
	}
	return nil
}

// more reports whether the list or object goes on.
func (r *planReader) more() bool { return r.err == nil && r.dec.More() }

func (r *planReader) delim(d json.Delim, what string) {
	if t := r.token(); r.err == nil && t != d {
		r.fail("%s stands where %s is expected", show(t), what)
	}
}

func show(t json.Token) string {
	switch v := t.(type) {
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '[': "a list", '}': "an end", ']': "an end"}[v]
	case nil:
		return "null"
	case string:
		if len(v) > 40 {
			v = v[:40] + "..."
		}
		return strconv.Quote(v)
	}
	return fmt.Sprint(t)
}

// object reads an object whose keys are fields, of which the required must be there.
func (r *planReader) object(what string, required []string, fields map[string]func()) {
	r.delim('{', what)
	begin := r.at
	seen := map[string]bool{}
	for r.more() {
		key, _ := r.token().(string)
		switch read := fields[key]; {
		case r.err != nil:
		case read == nil:
			r.fail("unknown key %s in %s; the keys are %s", show(key), what, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case seen[key]:
			r.fail("the key %q is there twice in %s", key, what)
		default:
			seen[key] = true
			read()
		}
	}
	r.delim('}', "the end of "+what)
	for _, key := range required {
		if !seen[key] && r.err == nil {
			r.at = begin
			r.fail("%s has no %q", what, key)
		}
	}
}

func (r *planReader) list(what string, read func()) {
	r.delim('[', "a list of "+what)
	for r.more() {
		read()
	}
	r.delim(']', "the end of the "+what)
}

func (r *planReader) text() string { return value[string](r, "a text") }

func (r *planReader) truth() bool { return value[bool](r, "true or false") }

// value reads a value of one of JSON's types.
func value[T any](r *planReader, what string) T {
	t := r.token()
	v, ok := t.(T)
	if r.err == nil && !ok {
		r.fail("%s stands where %s is expected", show(t), what)
	}
	return v
}

// whole reads a whole number of lo to hi.
func (r *planReader) whole(lo, hi int) int {
	t := r.token()
	if r.err != nil {
		return 0
	}
	n, ok := t.(json.Number)
	v, err := strconv.Atoi(string(n))
	if !ok || err != nil || v < lo || v > hi {
		r.fail("%s stands where a whole number from %d to %d is expected", show(t), lo, hi)
		return 0
	}
	return v
}

func (r *planReader) number() float32 {
	t := r.token()
	if r.err != nil {
		return 0
	}
	n, ok := t.(json.Number)
	v, err := strconv.ParseFloat(string(n), 32)
	if !ok || err != nil {
		r.fail("%s stands where a number within float32 is expected", show(t))
		return 0
	}
	return float32(v)
}

// scale reads a positive number.
func (r *planReader) scale() float32 {
	v := r.number()
	if r.err == nil && !goodScale(v) {
		r.fail("the scale %v is not a positive number", v)
	}
	return v
}

func (r *planReader) bits() int {
	v := r.whole(2, 8)
	if _, err := FormatOf(v, false); r.err == nil && err != nil {
		r.fail("%v", err)
	}
	return v
}
