// Package config reads the files of keys and values that people write for cfq, task files and gate files, in YAML or
// JSON. A list of keys says for each how its value is read and what the reference page and the JSON Schema tell of it,
// so that none of the three can differ from the others. What comes out is what the keys stored, and every mistake of
// the file with its place, not the first alone.
package config

import (
	"bytes"
	"cmp"
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
	"github.com/goccy/go-yaml/token"

	"cfq/internal/lists"
	"cfq/internal/message"
)

const (
	maxFile    = 1 << 20 // bytes
	maxDepth   = 1000    // the YAML parser needs quadratic time for deep nesting
	maxMessage = 200     // characters of what the YAML parser says: it may repeat the file
	maxShown   = 50      // mistakes written out: a file with more of them is not meant as what it is read for
)

// Error is one mistake in a file.
type Error struct {
	File      string
	Line, Col int // 1-based; 0 when the mistake has no place
	Msg       string
}

// Error returns "file:line:col: message".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
}

// Errors are all mistakes of one file in the order of their places.
type Errors []*Error

// Error returns one line per mistake.
func (e Errors) Error() string {
	lines := lists.Map(e[:min(len(e), maxShown)], (*Error).Error)
	if more := len(e) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("%s: and %d more mistakes", e[0].File, more))
	}
	return strings.Join(lines, "\n")
}

// Decoder walks a file and collects mistakes. Decoding goes on after a mistake so that all of them are reported at
// once.
type Decoder struct {
	File string // its name in messages
	Kind string // what it is: "task file"
	Errs Errors // as they were found
}

// Load is what parse makes of the file at path, which is read as far as Document looks at it.
func Load[T any](kind, path string, parse func(name string, data []byte) (T, error)) (v T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return v, fmt.Errorf("%s: %w", kind, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return v, fmt.Errorf("%s: %w", kind, err)
	}
	return parse(path, data)
}

// Err returns the mistakes in the order of their places, as Errors, or nil.
func (d *Decoder) Err() error {
	if len(d.Errs) == 0 {
		return nil
	}
	slices.SortStableFunc(d.Errs, func(a, b *Error) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) })
	return d.Errs
}

// Clause is a part of a message that is never shortened.
type Clause string

// DidYouMean is the clause to put behind a message about the unknown word s.
func DidYouMean(s string, candidates []string) Clause {
	return Clause(message.DidYouMean(s, candidates))
}

// Errorf notes a mistake at n. Texts among args are cut to a length that a terminal line can hold: they may be a whole
// file of another kind.
func (d *Decoder) Errorf(n ast.Node, format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = message.Clip(s)
		}
	}
	d.fail(n.GetToken(), format, args...)
}

func (d *Decoder) fail(at *token.Token, format string, args ...any) {
	e := &Error{File: d.File, Msg: fmt.Sprintf(format, args...)}
	if at != nil && at.Position != nil {
		e.Line, e.Col = at.Position.Line, at.Position.Column
	}
	d.Errs = append(d.Errs, e)
}

// Document returns the root of the file's only YAML document, or nil and a mistake; needs names the keys that an empty
// file lacks.
func (d *Decoder) Document(data []byte, needs string) (root ast.Node) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(data) > maxFile {
		d.fail(nil, "larger than 1 MiB; is this a %s?", d.Kind)
		return nil
	}
	if !utf8.Valid(data) {
		d.fail(nil, "not UTF-8 text")
		return nil
	}
	if line := tooDeep(data); line > 0 {
		at := &token.Token{Position: &token.Position{Line: line, Column: 1}}
		d.fail(at, "nested too deep; is this a %s?", d.Kind)
		return nil
	}
	if json.Valid(data) { // YAML forbids tabs as white space, JSON does not; inside JSON texts there are none
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	defer func() {
		if r := recover(); r != nil { // a slip of the YAML parser on a broken file is not worth a crash
			d.fail(nil, "this is not YAML that can be read (%.200v)", r)
			root = nil
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		d.syntax(err)
		return nil
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if root != nil {
			d.Errorf(doc.Body, "a %s holds one document; remove what follows the second ---", d.Kind)
			break
		}
		root = doc.Body
	}
	if root == nil {
		d.fail(nil, "the %s is empty; it needs %s", d.Kind, needs)
	}
	return root
}

func (d *Decoder) syntax(err error) {
	var at *token.Token
	msg := err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		msg, at = syntax.GetMessage(), syntax.GetToken()
	}
	msg = message.ClipTo(msg, maxMessage)
	if strings.Contains(msg, "invalid header option") {
		msg += "; put quotes around a text that starts with > or |"
	}
	d.fail(at, "%s", msg)
}

// tooDeep returns the line at which brackets or list dashes nest beyond maxDepth, or 0. Brackets inside texts are
// counted too; a thousand of them that never close are no file that people wrote either.
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

// Mapping is a decoded mapping: the places of its values, by key, and which keys were read with a mistake; "" are keys
// that there are not.
type Mapping struct {
	Node ast.Node
	At   map[string]ast.Node
	Bad  map[string]bool
}

// Place returns the node of the value of key, or the mapping itself when it has no such key.
func (m Mapping) Place(key string) ast.Node { return cmp.Or(m.At[key], m.Node) }

// Has says whether the file has the key.
func (m Mapping) Has(key string) bool { return m.At[key] != nil }

// Mapping decodes n by its keys; what names it in messages ("a check"). A key that is not among them is a mistake.
// Whether there are all that must be is left to the caller; of what is no mapping at all, every key is bad.
func (d *Decoder) Mapping(n ast.Node, what string, keys []Key) Mapping {
	m := Mapping{Node: n, At: map[string]ast.Node{}, Bad: map[string]bool{}}
	node, ok := n.(*ast.MappingNode)
	if !ok {
		d.Errorf(n, "%s must be a mapping of keys to values, not %s", what, d.Describe(n))
		m.Bad[""] = true
		for _, k := range keys {
			m.Bad[k.Name] = true
		}
		return m
	}
	if len(node.Values) > 0 && !node.IsFlowStyle {
		m.Node = node.Values[0].Key // a block mapping's own token is the colon of its first key
	}
	names := lists.Map(keys, func(k Key) string { return k.Name })
	for _, kv := range node.Values { // each key once: the parser refuses others
		before := len(d.Errs)
		word, ok := d.Key(kv.Key)
		if i := slices.Index(names, word); ok && i >= 0 {
			m.At[word] = kv.Value
			if read := keys[i].Value.Read; read != nil {
				read(kv.Value)
			}
		} else if ok {
			d.Errorf(kv.Key, "%s has no key %q%s", what, word, DidYouMean(word, names))
			word = ""
		}
		if len(d.Errs) > before {
			m.Bad[word] = true
		}
	}
	return m
}

// Key returns the text of a mapping key.
func (d *Decoder) Key(n ast.Node) (string, bool) {
	if !isScalar(n) {
		d.Errorf(n, "a key must be plain text; merge keys (<<) and complex keys (?) are not supported")
		return "", false
	}
	return ScalarText(n), true
}

// List decodes every entry of a list, if there is one; what names it in messages.
func (d *Decoder) List(n ast.Node, what string, each func(i int, n ast.Node)) {
	if n == nil {
		return
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.Errorf(n, "%s must be a list, not %s", what, d.Describe(n))
		return
	}
	for i, v := range seq.Values {
		each(i, v)
	}
}

// Entries decodes a mapping whose keys the file chooses; must says what it is.
func (d *Decoder) Entries(n ast.Node, must string, each func(key string, at, value ast.Node)) {
	node, ok := n.(*ast.MappingNode)
	if !ok {
		d.Errorf(n, "%s, not %s", Clause(must), d.Describe(n))
		return
	}
	for _, kv := range node.Values {
		if key, ok := d.Key(kv.Key); ok {
			each(key, kv.Key, kv.Value)
		}
	}
}

func isScalar(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode,
		*ast.LiteralNode:
		return true
	}
	return false
}

// ScalarText is a scalar as written, without quotes.
func ScalarText(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	}
	return n.GetToken().Value
}

// Describe names what a node is, for messages.
func (d *Decoder) Describe(n ast.Node) Clause {
	if isScalar(n) {
		return Clause(message.Quote(ScalarText(n)))
	}
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		return "an anchor or alias, which " + Clause(d.Kind) + "s do not have"
	case *ast.TagNode:
		return "a tag, which " + Clause(d.Kind) + "s do not have"
	}
	return "this"
}

// EncodeRecord is the content of a file that cfq keeps next to another one: JSON, of which a key schema names the
// layout.
func EncodeRecord(v any) []byte {
	text, _ := json.MarshalIndent(v, "", "  ") // of texts and finite numbers
	return append(text, '\n')
}

// ReadRecord reads a file of EncodeRecord. The error wraps fs.ErrNotExist when there is none.
func ReadRecord(path, schema string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return DecodeRecord(text, schema, into)
}

// DecodeRecord is ReadRecord of the content.
func DecodeRecord(text []byte, schema string, into any) error {
	var head struct{ Schema string }
	err := json.Unmarshal(text, &head)
	switch {
	case head.Schema != schema && head.Schema != "":
		return fmt.Errorf("it has the schema %.40q, not %q: it was written by another version of cfq, or by something else",
			head.Schema, schema)
	case head.Schema == "" && json.Valid(text):
		return fmt.Errorf("it has no schema %q: this is another file", schema)
	case err == nil:
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("it is not whole: %w", err)
	}
	return nil
}

// Parsed is what parse makes of a file, which errors call what.
func Parsed[T any](what, path string, parse func([]byte) (T, error)) (T, error) {
	var none T
	text, err := os.ReadFile(path)
	if err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	v, err := parse(text)
	if err != nil {
		return none, fmt.Errorf("%s %s: %w", what, path, err)
	}
	return v, nil
}
