package quant

import (
	"math"
	"strings"
)

func (r *planReader) model(m *PlanModel) {
	r.object("the model", []string{"sha256"}, map[string]func(){
		"sha256": func() {
			m.SHA256 = r.text()
			if r.err == nil && (len(m.SHA256) != 64 || strings.Trim(m.SHA256, hexDigits) != "") {
				r.fail("a SHA-256 is 64 hexadecimal digits, in lower case")
			}
		},
		"weights": func() { m.Weights = r.whole(0, math.MaxInt) },
	})
}

func (r *planReader) recipe(to map[string]string) {
	r.delim('{', "the recipe")
	for r.more() {
		key := r.text()
		if _, ok := to[key]; ok && r.err == nil {
			r.fail("the key %q is there twice in the recipe", key)
		}
		if v := r.text(); r.err == nil {
			to[key] = v
		}
	}
	r.delim('}', "the end of the recipe")
}

func (r *planReader) input() *Input {
	in := &Input{}
	r.object("the input", []string{"scale", "columns"}, map[string]func(){
		"value": func() { in.Value = r.text() },
		"scale": func() { in.Scale = r.scale() },
		"columns": func() {
			r.list("columns", func() {
				var c InputColumn
				r.object("a column", []string{"source", "lo", "hi", "gain"}, map[string]func(){
					"source": func() { c.Source = r.whole(0, math.MaxInt32) },
					"lo":     func() { c.Lo = r.number() },
					"hi":     func() { c.Hi = r.number() },
					"gain":   func() { c.Gain = r.scale() },
				})
				in.Columns = append(in.Columns, c)
			})
		},
	})
	return in
}

// rawCodes are a row's codes before its width is known, and where they stand.
type rawCodes struct {
	text string
	at   int
	set  bool
}

func (r *planReader) layer() PlanLayer {
	var l PlanLayer
	var codes []rawCodes
	at := r.start()
	l.line, _ = r.place(at)
	required := []string{"node"}
	fed := false
	r.object("a layer", required, map[string]func(){
		"node":    func() { l.Node = r.text() },
		"float":   func() { l.Float = r.truth() },
		"bits":    func() { l.Bits = r.bits() },
		"reduced": func() { l.Reduced = r.truth() },
		"scale":   func() { l.Scale = r.scale() },
		"shape": func() {
			shape := []*int{&l.Out, &l.In}
			i := 0
			r.list("outputs and inputs", func() {
				v := r.whole(1, math.MaxInt32)
				if i == len(shape) {
					r.fail("a shape is two numbers, outputs and inputs")
					return
				}
				*shape[i] = v
				i++
			})
			if i < len(shape) {
				r.fail("a shape is two numbers, outputs and inputs")
			}
		},
		"activation": func() { fed, l.Feed, l.Act = true, FeedAct, nil; r.feed(&l) },
		"result":     func() { l.Result = r.act() },
		"rows": func() {
			l.Rows = []PlanRow{}
			r.list("rows", func() {
				row, raw := r.row()
				l.Rows, codes = append(l.Rows, row), append(codes, raw)
			})
		},
	})
	if r.err == nil && !l.Float && !fed {
		r.at = at
		r.fail(`a layer has no "activation": {"bits", "scale", "zero"}, or "input", or "float"`)
	}
	for o := range codes {
		r.decode(&l, o, codes[o])
	}
	return l
}

// feed reads what a layer reads.
func (r *planReader) feed(l *PlanLayer) {
	if at := r.start(); at < len(r.data) && r.data[at] == '{' {
		l.Act = r.act()
		return
	}
	switch t := r.token(); {
	case r.err != nil:
	case t == string(FeedInput):
		l.Feed = FeedInput
	case t == string(FeedFloat):
		l.Feed = FeedFloat
	default:
		r.fail(`%s stands where an activation is expected: {"bits", "scale", "zero"}, or "input", or "float"`, show(t))
	}
}

func (r *planReader) act() *Act {
	a := &Act{}
	at := r.start()
	r.object("an activation", []string{"bits", "scale"}, map[string]func(){
		"bits":  func() { a.Bits = r.whole(2, 8) },
		"scale": func() { a.Scale = r.scale() },
		"zero":  func() { a.Zero = uint8(r.whole(0, 255)) },
	})
	if r.err == nil {
		if err := a.Check(); err != nil {
			r.at = at
			r.fail("%v", err)
		}
	}
	return a
}

func (r *planReader) row() (row PlanRow, codes rawCodes) {
	row.line, _ = r.place(r.start())
	r.object("a row", nil, map[string]func(){
		"bits":  func() { row.Bits = r.bits() },
		"scale": func() { row.Scale = r.scale() },
		"bias":  func() { v := r.number(); row.Bias = &v },
		"codes": func() { codes.text = r.text(); codes.at, codes.set = r.at, true },
	})
	return row, codes
}

// decode reads the codes of row o now that its width is known.
func (r *planReader) decode(l *PlanLayer, o int, raw rawCodes) {
	row := &l.Rows[o]
	bits := row.Bits
	if bits == 0 {
		bits = l.Bits
	}
	if !raw.set || r.err != nil {
		return
	}
	r.at = raw.at
	f, err := FormatOf(bits, l.Reduced)
	if bits == 0 {
		r.fail("layer %q, row %d: neither the row nor the layer says how many bits", l.Node, o)
		return
	}
	if err == nil {
		row.Codes, err = decodeCodes(raw.text, f)
	}
	if err == nil && l.In > 0 && len(row.Codes) != l.In {
		r.fail("layer %q, row %d: %d codes for %d inputs", l.Node, o, len(row.Codes), l.In)
	}
	if err != nil {
		r.fail("layer %q, row %d: %v", l.Node, o, err)
	}
}
