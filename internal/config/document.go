// Package config reads the files of keys and values that people write for cfq, task files and gate files, in YAML or JSON. A list of keys says for each
// how its value is read and what the reference page and the JSON Schema tell of it, so that none of the three can differ from the others. What comes out is
// what the keys stored, and every mistake of the file with its place, not the first alone.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"cfq/internal/message"
)

// maxFile and maxDepth bound a file: the YAML parser needs quadratic time for deep nesting.
const (
	maxFile    = 1 << 20
	maxDepth   = 1000
	maxMessage = 200 // characters of what the YAML parser says: it may repeat the file
)

// Decoder walks a file and collects mistakes. Decoding goes on after a mistake so that all of them are reported at once.
type Decoder struct {
	File string // its name in messages
	Kind string // what it is: "task file"
	Errs Errors // as they were found
}

// Content reads the file at path as far as Document looks at it.
func Content(kind, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return data, nil
}

// Err returns the mistakes in the order of their places, as Errors, or nil.
func (d *Decoder) Err() error {
	if len(d.Errs) == 0 {
		return nil
	}
	return d.Errs.sorted()
}

// Errorf notes a mistake at n.
func (d *Decoder) Errorf(n ast.Node, format string, args ...any) {
	line, col := 0, 0
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		p := n.GetToken().Position
		line, col = p.Line, p.Column
	}
	d.fail(line, col, fmt.Sprintf(format, args...))
}

func (d *Decoder) fail(line, col int, msg string) {
	d.Errs = append(d.Errs, &Error{File: d.File, Line: line, Col: col, Msg: msg})
}

// Document returns the root of the file's only YAML document, or nil and a mistake; needs names the keys that an empty file lacks.
func (d *Decoder) Document(data []byte, needs string) (root ast.Node) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(data) > maxFile {
		d.fail(0, 0, "larger than 1 MiB; is this a "+d.Kind+"?")
		return nil
	}
	if !utf8.Valid(data) {
		d.fail(0, 0, "not UTF-8 text")
		return nil
	}
	if line := tooDeep(data); line > 0 {
		d.fail(line, 1, "nested too deep; is this a "+d.Kind+"?")
		return nil
	}
	if json.Valid(data) { // YAML forbids tabs as white space, JSON does not; inside JSON texts there are none
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	defer func() {
		if r := recover(); r != nil { // a slip of the YAML parser on a broken file is not worth a crash
			d.fail(0, 0, fmt.Sprintf("this is not YAML that can be read (%.200v)", r))
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
	if root == nil && len(d.Errs) == 0 {
		d.fail(0, 0, fmt.Sprintf("the %s is empty; it needs %s", d.Kind, needs))
	}
	return root
}

// syntax notes what the YAML parser says.
func (d *Decoder) syntax(err error) {
	line, col, msg := 0, 0, err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		msg = syntax.GetMessage()
		if tok := syntax.GetToken(); tok != nil && tok.Position != nil {
			line, col = tok.Position.Line, tok.Position.Column
		}
	}
	msg = message.ClipTo(msg, maxMessage)
	if strings.Contains(msg, "invalid header option") {
		msg += "; put quotes around a text that starts with > or |"
	}
	d.fail(line, col, msg)
}

// tooDeep returns the line at which brackets or list dashes nest beyond maxDepth, or 0. Brackets inside texts are counted too; a thousand
// of them that never close are no file that people wrote either.
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
