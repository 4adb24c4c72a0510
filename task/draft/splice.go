package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

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
