package draft

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"cfq/internal/message"
	"cfq/task"
)

// Fill puts what the data say into the gaps of a task file: bounds of numbers that can change, shares, mad and
// quantiles. mean and std come from the encoding, if there is one: without them an input is a raw number, so the data
// cannot tell whether they are missing. Comments stay; lines may be wrapped otherwise. name is the task file's in
// messages, path the data file, of which the rows of ro that can be read count.
func Fill(ctx context.Context, name string, text []byte, path string, ro task.ReadOptions, e *Encoding) (*Draft,
	error,
) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	f, err := parseGaps(name, text)
	if err != nil {
		return nil, err
	}
	if f.t.Encoded {
		return nil, fmt.Errorf("%s: the task says encoded: true, and model inputs do not tell raw units; "+
			"there is nothing to fill in", name)
	}
	for i := range f.t.Features {
		ro.Keep = append(ro.Keep, f.t.Features[i].Column)
	}
	people, err := task.Read(ctx, path, f.t, ro)
	if err != nil {
		return nil, err
	}
	out := &Draft{}
	for i := range f.t.Features {
		col := newColumn(f.t.Features[i].Column)
		for _, fields := range people.Kept {
			col.add(fields[i])
		}
		entries := f.entries(i, look(&col), e)
		if len(entries) == 0 {
			continue
		}
		if err := f.merge(i, entries); err != nil {
			return nil, err
		}
		keys := strings.Join(mapped(entries, func(e gapEntry) string { return e.key }), ", ")
		out.Notes = append(out.Notes, fmt.Sprintf("%s: %s filled in", message.Legible(f.t.Features[i].Name), keys))
	}
	if out.Text = text; out.Notes == nil {
		out.Notes = []string{"nothing is missing"}
	} else {
		out.Text = []byte(f.file.String())
	}
	out.Questions = Questions(out.Text)
	if out.Task, err = task.Parse(name, out.Text); err != nil {
		return nil, fmt.Errorf("filled in, the task file could not be read any more: %w", err)
	}
	if comments(out.Text) != comments(text) {
		return nil, fmt.Errorf("%s: a comment would be lost; put comments on lines of their own", name)
	}
	return out, nil
}

type gaps struct {
	t     *task.Task
	file  *ast.File
	keys  []map[string]string // of each feature in the file, with the first word of their values
	quote string              // around keys, as JSON needs it
}

type gapEntry struct{ key, value string }

// parseGaps reads a task file. Bounds may be percentiles of quantiles that are to be filled in.
func parseGaps(name string, text []byte) (*gaps, error) {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	f := &gaps{}
	if json.Valid(text) {
		f.quote = `"`
	}
	var refused, err error
	f.t, refused = task.Parse(name, text)
	if err = f.read(text); err != nil || refused == nil {
		return f, cmp.Or(refused, err)
	}
	for i := range f.keys {
		if kind := f.keys[i]["kind"]; kind != "numeric" && kind != "ordinal" {
			continue
		}
		if f.lacks(i, "quantiles") {
			err = errors.Join(err, f.merge(i, []gapEntry{{"quantiles", "[0, 1]"}}))
		}
		if !f.lacks(i, "log") && f.lacks(i, "spread") {
			err = errors.Join(err, f.merge(i, []gapEntry{{"spread", "1"}}))
		}
	}
	if err == nil {
		f.t, err = task.Parse(name, []byte(f.file.String()))
	}
	if err != nil {
		return nil, refused // what is wrong with the file itself
	}
	return f, nil
}

func (f *gaps) read(text []byte) (err error) {
	if f.file, err = parser.ParseBytes(text, parser.ParseComments); err != nil {
		return err
	}
	path, err := yaml.PathString("$.features")
	if err != nil {
		return err
	}
	node, err := path.FilterFile(f.file)
	if err != nil {
		return err
	}
	list, _ := node.(*ast.SequenceNode)
	if list == nil {
		return errors.New("the task file has no list of features")
	}
	for _, n := range list.Values {
		keys := map[string]string{}
		if feature, ok := n.(*ast.MappingNode); ok { // package task reports others
			for _, kv := range feature.Values {
				keys[kv.Key.GetToken().Value] = kv.Value.GetToken().Value
			}
		}
		f.keys = append(f.keys, keys)
	}
	return nil
}

func (f *gaps) lacks(feature int, key string) bool {
	_, ok := f.keys[feature][key]
	return !ok
}

func (f *gaps) merge(feature int, entries []gapEntry) error {
	var text strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&text, "%s%s%s: %s\n", f.quote, e.key, f.quote, e.value)
	}
	path, err := yaml.PathString(fmt.Sprintf("$.features[%d]", feature))
	if err != nil {
		return err
	}
	return path.MergeFromReader(f.file, strings.NewReader(text.String()))
}

func (f *gaps) entries(i int, p *profile, e *Encoding) (out []gapEntry) {
	ft := &f.t.Features[i]
	add := func(key string, value func() string) {
		if f.lacks(i, key) {
			out = append(out, gapEntry{key, value()})
		}
	}
	list := func(v []float64) string { return "[" + strings.Join(decimals(v), ", ") + "]" }
	switch e := ft.Encoding.(type) {
	case *task.OneHot:
		add("shares", func() string { return list(p.shares(e.Values)) })
		if m := markers(e.Values); m != nil && ft.Actionable && f.lacks(i, "transitions") {
			add("missing", func() string { return "[" + strings.Join(mapped(m, strconv.Quote), ", ") + "]" }) // also in JSON
		}
	case *task.Binary:
		add("shares", func() string { return task.Decimal(p.share(e.One)) })
	}
	n := ft.Number()
	if n == nil || !p.numeric {
		return out
	}
	codes := n.Missing
	if f.lacks(i, "bounds") && f.lacks(i, "missing") {
		if codes = p.codes(); codes != nil {
			out = append(out, gapEntry{"missing", list(codes)})
		}
	}
	p = p.without(codes)
	if n.Log != nil {
		add("spread", func() string { _, std := p.moments(); return task.Decimal(short(std)) })
	}
	if in := e.of(ft.Column); in != nil && in.Number() != nil && f.lacks(i, "mean") && f.lacks(i, "std") {
		if d := in.Number(); d.Spread == 0 || d.Mean != 0 || d.Std != 1 {
			out = append(out, gapEntry{"mean", task.Decimal(d.Mean)}, gapEntry{"std", task.Decimal(d.Std)})
		}
	}
	if !n.Ordinal && (ft.Actionable || ft.Mutable) {
		add("bounds", func() string { lo, hi := p.bounds(); return list([]float64{lo, hi}) })
	}
	add("mad", func() string { return task.Decimal(short(p.mad())) })
	add("quantiles", func() string { return list(p.quantiles()) })
	return out
}

func comments(text []byte) string {
	var all strings.Builder
	for _, t := range lexer.Tokenize(string(text)) {
		if t.Type == token.CommentType {
			all.WriteString(strings.TrimSpace(t.Value) + "\n")
		}
	}
	return all.String()
}
