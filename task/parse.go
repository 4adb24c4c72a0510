package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile and maxDepth bound a task file: the YAML parser needs quadratic time for deep nesting.
const (
	maxFile    = 1 << 20
	maxDepth   = 1000
	maxMessage = 200 // characters of what the YAML parser says: it may repeat the file
)

// Load reads a task file in YAML or JSON. Mistakes in it are returned as Errors.
func Load(path string) (*Task, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("task file: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("task file: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a task file's content; name is the file name in messages. Mistakes are returned as Errors: all of them, not the first.
func Parse(name string, data []byte) (*Task, error) {
	d := &decoder{file: name}
	root := d.document(data)
	var t *Task
	if root != nil {
		t = d.task(root)
	}
	if len(d.errs) > 0 {
		d.errs.sort()
		return nil, d.errs
	}
	return t, nil
}

// document returns the root of the file's only YAML document, or nil and a mistake.
func (d *decoder) document(data []byte) (root ast.Node) {
	fail := func(line, col int, msg string) {
		d.errs = append(d.errs, &Error{File: d.file, Line: line, Col: col, Msg: msg})
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(data) > maxFile {
		fail(0, 0, "larger than 1 MiB; is this a task file?")
		return nil
	}
	if !utf8.Valid(data) {
		fail(0, 0, "not UTF-8 text")
		return nil
	}
	if line := tooDeep(data); line > 0 {
		fail(line, 1, "nested too deep; is this a task file?")
		return nil
	}
	if json.Valid(data) { // YAML forbids tabs as white space, JSON does not; inside JSON texts there are none
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	defer func() {
		if r := recover(); r != nil { // a slip of the YAML parser on a broken file is not worth a crash
			fail(0, 0, fmt.Sprintf("this is not YAML that can be read (%.200v)", r))
			root = nil
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		line, col, msg := 0, 0, err.Error()
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			msg = syntax.GetMessage()
			if tok := syntax.GetToken(); tok != nil && tok.Position != nil {
				line, col = tok.Position.Line, tok.Position.Column
			}
		}
		msg = clipTo(msg, maxMessage)
		if strings.Contains(msg, "invalid header option") {
			msg += "; put quotes around a text that starts with > or |"
		}
		fail(line, col, msg)
		return nil
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			d.errorf(doc.Body, "a task file holds one document; remove what follows the second ---")
			break
		}
		root = doc.Body
	}
	if root == nil && len(d.errs) == 0 {
		fail(0, 0, "the task file is empty; it needs version, data and features")
	}
	return root
}

// tooDeep returns the line at which brackets or list dashes nest beyond maxDepth, or 0. Brackets inside texts are counted too; a thousand
// of them that never close are no task file either.
func tooDeep(data []byte) int {
	depth, dashes, line := 0, 0, 1
	for _, c := range data {
		switch c {
		case '\n':
			line, dashes = line+1, 0
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '-', '?', ':', '&', '!', '*':
			dashes++
		case ' ':
		default:
			dashes = 0
		}
		if depth > maxDepth || dashes > maxDepth {
			return line
		}
	}
	return 0
}

// task decodes and checks the whole file.
func (d *decoder) task(root ast.Node) *Task {
	t := &Task{
		Data:   Data{Delimiter: ','},
		Target: Target{Class: "favourable", Index: 1},
		Cost:   Cost{Norm: L1, L1Ratio: 0.5, Weights: InverseStd, Eps: 1e-3, Switches: Once},
	}
	var p parts
	top := d.mapping(root, "the task file", d.taskKeys(t, &p), d.taskAliases(t, &p)...)
	if top.has("version") && t.Version != 1 {
		d.errorf(top.place("version"), "this task file has version %d; the version known here is 1", t.Version)
	}
	if top.has("features") && len(t.Features) == 0 {
		d.errorf(top.place("features"), "the list of features is empty; name each input of the model")
	}
	known := len(t.Features) > 0
	for i := range t.Features {
		d.checkMutable(&t.Features[i], p.features[i])
		d.checkFeature(&t.Features[i], p.features[i])
		known = known && t.Features[i].Kind != "" && t.Features[i].Width > 0
	}
	d.checkNames(t, p.data, p.features)
	if known { // what refers to features that are no features would be reported twice
		d.links(p.links, t, p.features)
		d.rules(p.conditions, t)
		t.settleMutable(p.features)
		d.checkCost(t, p.cost, p.features)
	}
	offset := 0
	for i := range t.Features {
		t.Features[i].Offset = offset
		offset += t.Features[i].Width
	}
	return t
}

// checkMutable makes what is not mutable not actionable.
func (d *decoder) checkMutable(f *Feature, m mapping) {
	if !m.has("mutable") || f.Mutable {
		return
	}
	if m.has("actionable") && f.Actionable {
		d.errorf(m.place("mutable"), "feature %q: it is actionable and never changes (mutable: false); keep one of the two", f.Name)
	}
	f.Actionable = false
}

// settleMutable fills in Mutable where the file does not say.
func (t *Task) settleMutable(features []mapping) {
	for i := range t.Features {
		if f := &t.Features[i]; !features[i].has("mutable") {
			f.Mutable = f.Actionable || t.Drags(f.Name)
		}
	}
}

// Drags says whether a link drags the feature along.
func (t *Task) Drags(name string) bool {
	return slices.ContainsFunc(t.Links, func(l Link) bool { return l.To == name })
}

func (d *decoder) data(n ast.Node, t *Data) mapping {
	m := d.mapping(n, "data", d.dataKeys(t))
	if t.Comment == t.Delimiter {
		d.errorf(m.place("comment"), "comment and delimiter must differ")
	}
	return m
}

func (d *decoder) condition(n ast.Node, c *Condition) {
	m := d.mapping(n, "a filter", d.filterKeys(c))
	switch {
	case !m.has("column"):
	case !m.has("min") && !m.has("max") && !m.has("not"):
		d.errorf(m.node, "a filter needs a condition: min, max or not")
	case c.Min > c.Max:
		d.errorf(m.place("min"), "no value lies between min %v and max %v", c.Min, c.Max)
	}
}

func (d *decoder) target(n ast.Node, t *Target) {
	m := d.mapping(n, "target", d.targetKeys(t))
	if t.Margin < 0 {
		d.errorf(m.place("margin"), "the margin must be 0 or more: recourse is a point on the favourable side")
	}
}
