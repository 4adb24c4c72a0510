package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile and maxDepth bound a gate file: the YAML parser needs quadratic time for deep nesting.
const (
	maxFile  = 1 << 20
	maxDepth = 200
)

// Load reads a gate file in YAML or JSON. Mistakes in it are returned as Errors.
func Load(path string) (*Gate, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gate file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("gate file: %w", err)
	}
	return parse(path, data)
}

// Parse reads a gate file's content. Mistakes are returned as Errors: all of them, those that Gate.Check finds included.
func Parse(data []byte) (*Gate, error) { return parse("gate file", data) }

func parse(name string, data []byte) (*Gate, error) {
	d := &decoder{file: name}
	root := d.document(data)
	var g *Gate
	if root != nil {
		g = d.gate(root)
	}
	if len(d.errs) > 0 {
		d.errs.sort()
		return nil, d.errs
	}
	return g, nil
}

// document returns the root of the file's only YAML document, or nil and a mistake.
func (d *decoder) document(data []byte) (root ast.Node) {
	fail := func(line, col int, msg string) {
		d.errs = append(d.errs, &Error{File: d.file, Line: line, Col: col, Msg: msg})
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch {
	case len(data) > maxFile:
		fail(0, 0, "larger than 1 MiB; is this a gate file?")
		return nil
	case !utf8.Valid(data):
		fail(0, 0, "not UTF-8 text")
		return nil
	}
	if line := tooDeep(data); line > 0 {
		fail(line, 1, "nested too deep; is this a gate file?")
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
		fail(line, col, clip(msg))
		return nil
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			d.errorf(doc.Body, "a gate file holds one document; remove what follows the second ---")
			break
		}
		root = doc.Body
	}
	if root == nil && len(d.errs) == 0 {
		fail(0, 0, "the gate file is empty; it needs version and checks")
	}
	return root
}

// tooDeep returns the line at which brackets or list dashes nest beyond maxDepth, or 0. Brackets inside texts are counted too; so many
// of them that never close are no gate file either.
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

// gate decodes and checks the whole file.
func (d *decoder) gate(root ast.Node) *Gate {
	g := &Gate{}
	var p parts
	p.top = d.mapping(root, "the gate file", d.gateKeys(g, &p))
	if !p.top.has("version") {
		d.errorf(p.top.node, "the gate file needs the key %q: version: 1", "version")
	} else if !p.top.bad["version"] && p.version != 1 {
		d.errorf(p.top.place("version"), "this gate file has version %d; the version known here is 1", p.version)
	}
	for _, k := range []struct {
		name string
		zero bool
	}{{"confidence", g.Confidence == 0}, {"margin", g.Margin == 0}} { // in a Gate, 0 stands for the default
		if k.zero && p.top.has(k.name) && !p.top.bad[k.name] {
			d.errorf(p.top.place(k.name), "%s must be above 0; leave it out for the default", k.name)
		}
	}
	for _, x := range g.problems() {
		m := p.top
		switch x.list {
		case checkList:
			m = p.checks[x.at]
		case waiverList:
			m = p.waivers[x.at]
		}
		if m.bad[x.key] || x.key == "" && len(m.bad) > 0 { // said already, or a consequence of it
			continue
		}
		d.errorf(m.place(x.key), "%s", x.text)
	}
	return g
}
