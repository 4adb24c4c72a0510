package draft

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"cfq/internal/message"
	"cfq/task"
)

// Fill puts what the data say into the gaps of a task file: bounds of numbers that can change, shares, mad and
// quantiles. mean and std come from the encoding, if there is one: without them an input is a raw number, so the data
// cannot tell whether they are missing. All other bytes of text stay as they are, comments included. name is the task
// file's in messages, path the data file, of which the rows of ro that can be read count.
func Fill(ctx context.Context, name string, text []byte, path string, ro task.ReadOptions, e *Encoding) (*Draft,
	error,
) {
	f := &filler{text: text, name: name, quote: json.Valid(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))), newline: "\n"}
	if bytes.Contains(text, []byte("\r\n")) {
		f.newline = "\r\n"
	}
	if err := f.parse(); err != nil {
		return nil, err
	}
	if f.t.Encoded {
		return nil, fmt.Errorf(
			"%s: the task says encoded: true, and model inputs do not tell raw units; there is nothing to fill in",
			name,
		)
	}
	if e != nil {
		f.declared = e.Inputs
	}
	for i := range f.t.Features {
		ro.Keep = append(ro.Keep, f.t.Features[i].Column)
	}
	people, err := task.Read(ctx, path, f.t, ro)
	if err != nil {
		return nil, err
	}
	return f.fill(people)
}

// filler fills in a task file.
type filler struct {
	t         *task.Task
	text      []byte
	name      string
	quote     bool // keys stand in quotes, as in JSON
	newline   string
	where     []place
	declared  []Input
	unsettled bool // bounds are percentiles of quantiles that are to be filled in
}

// parse reads the task file, with quantiles in place of missing ones when its bounds are percentiles.
func (f *filler) parse() (err error) {
	var other error
	f.t, err = task.Parse(f.name, f.text)
	if f.where, other = places(f.text); other != nil {
		if err == nil {
			err = fmt.Errorf("%s: %w", f.name, other)
		}
		return err
	}
	if err == nil {
		return nil
	}
	var all []insertion
	for _, p := range f.where {
		if !slices.Contains(p.keys, "quantiles") && task.Kind(p.kind).IsNumber() {
			all = append(all, p.render([]entry{{"quantiles", "[0, 1]"}}, "\n", f.quote))
		}
	}
	if f.t, other = task.Parse(f.name, splice(f.text, all)); other != nil {
		return err // what was wrong with the file itself
	}
	f.unsettled = true
	for i := range f.t.Features {
		if !slices.Contains(f.where[i].keys, "quantiles") {
			f.t.Features[i].Quantiles = nil
		}
	}
	return nil
}

// fill returns the file with all gaps filled.
func (f *filler) fill(people *task.People) (*Draft, error) {
	want := *f.t
	want.Features = slices.Clone(f.t.Features)
	var all []insertion
	out := &Draft{}
	for i := range want.Features {
		col := newColumn(want.Features[i].Column)
		for _, fields := range people.Kept {
			col.add(fields[i])
		}
		entries := f.entries(&want.Features[i], f.where[i].keys, look(&col))
		if len(entries) == 0 {
			continue
		}
		keys := make([]string, len(entries))
		for j, e := range entries {
			keys[j] = e.key
		}
		out.Notes = append(out.Notes, fmt.Sprintf("%s: %s filled in", message.Legible(want.Features[i].Name),
			strings.Join(keys, ", ")))
		all = append(all, f.where[i].render(entries, f.newline, f.quote))
	}
	out.Text, out.inserted = splice(f.text, all), all
	out.Questions = Questions(out.Text)
	if len(all) == 0 {
		out.Notes = append(out.Notes, "nothing is missing")
	}
	var err error
	if out.Task, err = task.Parse(f.name, out.Text); err != nil {
		return nil, fmt.Errorf("filled in, the task file could not be read any more: %w", err)
	}
	for i := range want.Features {
		if f.unsettled && f.t.Features[i].Quantiles == nil {
			want.Features[i].Bounds = out.Task.Features[i].Bounds
		}
	}
	if !bytes.Equal(out.Task.JSON(), want.JSON()) {
		return nil, fmt.Errorf("%s: filled in, the task file would not mean what it should; "+
			"write its features with plain keys, one list entry each", f.name)
	}
	return out, nil
}

// entries returns what the feature lacks, and sets it.
func (f *filler) entries(ft *task.Feature, keys []string, p *profile) (out []entry) {
	lacks := func(key string) bool { return !slices.Contains(keys, key) }
	switch {
	case ft.Kind == task.OneHot && lacks("shares"):
		ft.Shares = nil
		for _, v := range ft.Values {
			ft.Shares = append(ft.Shares, p.share(v))
		}
		return []entry{{"shares", "[" + strings.Join(decimals(ft.Shares), ", ") + "]"}}
	case ft.Kind == task.Binary && lacks("shares"):
		ft.Shares = []float64{p.share(ft.One)}
		return []entry{{"shares", task.Decimal(ft.Shares[0])}}
	case !ft.Kind.IsNumber() || !p.numeric:
		return nil
	}
	at := slices.IndexFunc(f.declared, func(in Input) bool { return in.Column == ft.Column && in.Mean != nil })
	if at >= 0 && lacks("mean") && lacks("std") {
		ft.Mean, ft.Std = *f.declared[at].Mean, *f.declared[at].Std
		out = append(out, entry{"mean", task.Decimal(ft.Mean)}, entry{"std", task.Decimal(ft.Std)})
	}
	open := math.IsInf(ft.Bounds[0], -1) && math.IsInf(ft.Bounds[1], 1)
	if ft.Kind == task.Numeric && open && (ft.Actionable || ft.Mutable) && lacks("bounds") {
		lo, hi, _ := p.bounds()
		ft.Bounds = [2]float64{lo, hi}
		out = append(out, entry{"bounds", "[" + task.Decimal(lo) + ", " + task.Decimal(hi) + "]"})
	}
	if lacks("mad") {
		ft.MAD = short(p.mad())
		out = append(out, entry{"mad", task.Decimal(ft.MAD)})
	}
	if ft.Quantiles == nil && lacks("quantiles") {
		ft.Quantiles = p.quantiles()
		out = append(out, entry{"quantiles", "[" + strings.Join(decimals(ft.Quantiles), ", ") + "]"})
	}
	return out
}

// entry is a key with its value as it is written, to be put into a mapping.
type entry struct{ key, value string }

// place is where entries can be put into the mapping of a feature.
type place struct {
	keys   []string // that the mapping has
	kind   string   // as it is written
	at     int      // byte offset of the text to be put in
	flow   bool     // { } rather than lines of their own
	indent string   // of the mapping's lines, or of lines within { }
}

// places finds the mappings of the task file's features. text must be a task file that package task accepts.
func places(text []byte) ([]place, error) {
	plain, shift := text, 0
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		plain, shift = text[3:], 3
	}
	if json.Valid(plain) {
		plain = bytes.ReplaceAll(plain, []byte("\t"), []byte(" "))
	}
	// The parser counts lines wrongly behind a comment that ends in CR LF; without the CR, lines and columns are the same.
	file, err := parser.ParseBytes(bytes.ReplaceAll(plain, []byte("\r\n"), []byte("\n")), 0)
	if err != nil {
		return nil, fmt.Errorf("task file: %w", err)
	}
	var features *ast.SequenceNode
	for _, doc := range file.Docs {
		if root, ok := doc.Body.(*ast.MappingNode); ok {
			for _, kv := range root.Values {
				if seq, ok := kv.Value.(*ast.SequenceNode); ok && keyText(kv) == "features" {
					features = seq
				}
			}
		}
	}
	if features == nil {
		return nil, fmt.Errorf("the task file has no list of features")
	}
	out := make([]place, len(features.Values))
	for i, n := range features.Values {
		m, ok := n.(*ast.MappingNode)
		if !ok {
			return nil, fmt.Errorf("feature %d of the task file is no mapping", i+1)
		}
		if out[i], err = findPlace(plain, m); err != nil {
			return nil, err
		}
		out[i].at += shift
	}
	return out, nil
}

func keyText(kv *ast.MappingValueNode) string {
	if s, ok := kv.Key.(*ast.StringNode); ok {
		return s.Value
	}
	return kv.Key.GetToken().Value
}

// findPlace finds the end of the value of kind: entries stand well behind it, and it is a single word.
func findPlace(text []byte, m *ast.MappingNode) (place, error) {
	var p place
	var kind *ast.MappingValueNode
	for _, kv := range m.Values {
		p.keys = append(p.keys, keyText(kv))
		if keyText(kv) == "kind" {
			kind = kv
		}
	}
	if kind == nil {
		return p, fmt.Errorf("line %d: the feature has no key \"kind\"", m.GetToken().Position.Line)
	}
	pos := kind.Value.GetToken().Position
	start := offset(text, pos.Line, pos.Column)
	word, ok := kind.Value.(*ast.StringNode)
	if !ok || start < 0 {
		return p, fmt.Errorf("line %d: the kind is no plain word", pos.Line)
	}
	rest := text[start:]
	length := len(word.Value)
	if len(rest) > 0 && (rest[0] == '"' || rest[0] == '\'') {
		length += 2
	}
	if len(rest) < length || !bytes.Contains(rest[:length], []byte(word.Value)) {
		return p, fmt.Errorf("line %d: the kind is not where it is expected; write it as a plain word", pos.Line)
	}
	p.kind, p.at, p.flow = word.Value, start+length, m.IsFlowStyle
	if p.flow {
		p.indent = strings.Repeat(" ", m.GetToken().Position.Column)
		return p, nil
	}
	if end := bytes.IndexByte(text[p.at:], '\n'); end >= 0 { // behind a comment on the line
		p.at += end
		if text[p.at-1] == '\r' {
			p.at--
		}
	} else {
		p.at = len(text)
	}
	p.indent = strings.Repeat(" ", kind.Key.GetToken().Position.Column-1)
	return p, nil
}

// offset is the byte offset of the 1-based line and column, which counts characters; -1 when there is no such place.
func offset(text []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		next := bytes.IndexByte(text[at:], '\n')
		if next < 0 {
			return -1
		}
		at += next + 1
	}
	for ; column > 1; column-- {
		_, n := utf8.DecodeRune(text[at:])
		if n == 0 {
			return -1
		}
		at += n
	}
	return at
}

// insertion is text that is put in at a byte offset of the original.
type insertion struct {
	at   int
	text string
}

// longValue is how long a value within { } may be without a line of its own.
const longValue = 60

// render returns what puts entries in at p. newline is the file's line end; quote puts keys in quotes, as JSON needs.
func (p *place) render(entries []entry, newline string, quote bool) insertion {
	var b strings.Builder
	for _, e := range entries {
		key := e.key
		if quote {
			key = `"` + key + `"`
		}
		switch {
		case !p.flow:
			b.WriteString(newline + p.indent)
		case len(e.value) > longValue:
			b.WriteString("," + newline + p.indent)
		default:
			b.WriteString(", ")
		}
		b.WriteString(key + ": " + e.value)
	}
	return insertion{p.at, b.String()}
}

// splice puts the insertions into text and leaves all other bytes as they are.
func splice(text []byte, all []insertion) []byte {
	slices.SortStableFunc(all, func(a, b insertion) int { return a.at - b.at })
	var out []byte
	last := 0
	for _, ins := range all {
		out = append(out, text[last:ins.at]...)
		out = append(out, ins.text...)
		last = ins.at
	}
	return append(out, text[last:]...)
}
