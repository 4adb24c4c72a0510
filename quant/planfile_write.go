package quant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MarshalPlan writes a plan file: JSON with its keys in a fixed order, one line for
// each column of the input and each row of weights. Numbers are the shortest that
// read back as the same float32. The same plan gives the same text.
func MarshalPlan(f *PlanFile) ([]byte, error) {
	w := &planWriter{}
	w.line("{")
	w.line(`  "cfq_plan": %d,`, planVersion)
	w.line(`  "model": {"sha256": %s, "weights": %d},`, w.text(f.Model.SHA256), f.Model.Weights)
	if f.Equalized {
		w.line(`  "equalized": true,`)
	}
	if f.Runtime != "" {
		w.line(`  "target_ort": %s,`, w.text(f.Runtime))
	}
	w.line(`  "recipe": {`)
	keys := slices.Sorted(maps.Keys(f.Recipe))
	for i, k := range keys {
		w.line("    %s: %s%s", w.text(k), w.text(f.Recipe[k]), comma(i, len(keys)))
	}
	w.line("  },")
	if f.Input != nil {
		w.input(f.Input)
	}
	w.line(`  "layers": [`)
	for i := range f.Layers {
		w.layer(&f.Layers[i], comma(i, len(f.Layers)))
	}
	w.line("  ]")
	w.line("}")
	return w.b.Bytes(), w.err
}

// planWriter builds the text; err is the first thing that cannot be written.
type planWriter struct {
	b   bytes.Buffer
	err error
}

func (w *planWriter) line(format string, a ...any) { fmt.Fprintf(&w.b, format+"\n", a...) }

func (w *planWriter) fail(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("plan: "+format, a...)
	}
}

// text returns s as a JSON string.
func (w *planWriter) text(s string) string {
	if !utf8.ValidString(s) {
		w.fail("%q is not UTF-8", s)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		w.fail("%q: %w", s, err)
	}
	return string(bytes.TrimRight(b.Bytes(), "\n"))
}

// number returns the shortest decimal that reads back as x.
func (w *planWriter) number(x float32) string {
	if x-x != 0 {
		w.fail("%v is not a finite number", x)
	}
	return strconv.FormatFloat(float64(x), 'g', -1, 32)
}

func comma(i, n int) string {
	if i+1 < n {
		return ","
	}
	return ""
}

func (w *planWriter) input(in *Input) {
	w.line(`  "input": {`)
	if in.Value != "" {
		w.line(`    "value": %s,`, w.text(in.Value))
	}
	w.line(`    "scale": %s,`, w.number(in.Scale))
	w.line(`    "columns": [`)
	for j, c := range in.Columns {
		w.line(`      {"source": %d, "lo": %s, "hi": %s, "gain": %s}%s`, c.Source, w.number(c.Lo), w.number(c.Hi), w.number(c.Gain), comma(j, len(in.Columns)))
	}
	w.line("    ]")
	w.line("  },")
}

func (w *planWriter) layer(l *PlanLayer, end string) {
	if l.Float && l.Rows == nil {
		w.line(`    {"node": %s, "float": true, "shape": [%d, %d]}%s`, w.text(l.Node), l.Out, l.In, end)
		return
	}
	w.line("    {")
	w.line(`      "node": %s,`, w.text(l.Node))
	if l.Float {
		w.line(`      "float": true,`)
	}
	if l.Out > 0 {
		w.line(`      "shape": [%d, %d],`, l.Out, l.In)
	}
	if l.Bits > 0 {
		w.line(`      "bits": %d,`, l.Bits)
	}
	if l.Reduced {
		w.line(`      "reduced": true,`)
	}
	if l.Scale > 0 {
		w.line(`      "scale": %s,`, w.number(l.Scale))
	}
	if l.Result != nil {
		w.line(`      "result": %s,`, w.act(l.Result))
	}
	feed := w.text(string(l.Feed))
	if l.Feed == FeedAct && l.Act != nil {
		feed = w.act(l.Act)
	}
	if l.Rows == nil {
		w.line(`      "activation": %s`, feed)
		w.line("    }%s", end)
		return
	}
	w.line(`      "activation": %s,`, feed)
	w.line(`      "rows": [`)
	for o := range l.Rows {
		w.row(l, o)
	}
	w.line("      ]")
	w.line("    }%s", end)
}

func (w *planWriter) act(a *Act) string {
	return fmt.Sprintf(`{"bits": %d, "scale": %s, "zero": %d}`, a.Bits, w.number(a.Scale), a.Zero)
}

func (w *planWriter) row(l *PlanLayer, o int) {
	r := &l.Rows[o]
	var parts []string
	if r.Bits > 0 {
		parts = append(parts, fmt.Sprintf(`"bits": %d`, r.Bits))
	}
	if r.Scale > 0 {
		parts = append(parts, `"scale": `+w.number(r.Scale))
	}
	if r.Bias != nil {
		parts = append(parts, `"bias": `+w.number(*r.Bias))
	}
	if r.Codes != nil {
		bits := r.Bits
		if bits == 0 {
			bits = l.Bits
		}
		parts = append(parts, `"codes": "`+encodeCodes(r.Codes, bits)+`"`)
	}
	w.b.WriteString("        {")
	for i, p := range parts {
		if i > 0 {
			w.b.WriteString(", ")
		}
		w.b.WriteString(p)
	}
	w.line("}%s", comma(o, len(l.Rows)))
}

const hexDigits = "0123456789abcdef"

// encodeCodes writes codes in two's complement: two hexadecimal digits each for
// 8 bits, one for fewer.
func encodeCodes(codes []int8, bits int) string {
	out := make([]byte, 0, 2*len(codes))
	for _, c := range codes {
		if bits > 4 {
			out = append(out, hexDigits[uint8(c)>>4])
		}
		out = append(out, hexDigits[uint8(c)&15])
	}
	return string(out)
}

// decodeCodes reads what encodeCodes wrote; every code must be of the format. An
// error names the position of the code.
func decodeCodes(s string, f Format) ([]int8, error) {
	digits := 1
	if f.Bits > 4 {
		digits = 2
	}
	if len(s)%digits != 0 {
		return nil, fmt.Errorf("%d digits: codes of %d bits have two each", len(s), f.Bits)
	}
	out := make([]int8, len(s)/digits)
	for i := range out {
		word := s[i*digits : (i+1)*digits]
		var v uint8
		for _, c := range []byte(word) {
			d := bytes.IndexByte([]byte(hexDigits), c)
			if d < 0 {
				return nil, fmt.Errorf("code %d: %q is no code; codes are hexadecimal digits, in lower case", i, word)
			}
			v = v<<4 | uint8(d)
		}
		if digits == 1 {
			v = uint8(int8(v<<4) >> 4)
		}
		out[i] = int8(v)
		if int(out[i]) < f.QMin || int(out[i]) > f.QMax {
			return nil, fmt.Errorf("code %d: %q is %d, outside %d..%d", i, word, out[i], f.QMin, f.QMax)
		}
	}
	return out, nil
}
