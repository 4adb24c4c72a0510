package task

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

// decoder walks a parsed task file and collects mistakes. Decoding goes on after a mistake so that all of them are reported at once.
type decoder struct {
	file string
	errs Errors
}

// key is one key that a mapping may have: how its value is read, and what the reference page says about it.
type key struct {
	name     string
	value    value
	fallback string // what holds without the key, in Markdown; or required
	doc      string // what the key is, with its unit, in Markdown
}

// value is how what stands at a key is read and stored, and what the JSON Schema says of it.
type value struct {
	read func(n ast.Node)
	form func() schema
}

// required is the fallback of a key that a mapping must have.
const required = "required"

// mapping is a decoded mapping: the places of its values, by key, for the checks that follow.
type mapping struct {
	node ast.Node
	at   map[string]ast.Node
}

// place returns the node of the value of key, or the mapping itself when it has no such key.
func (m mapping) place(key string) ast.Node {
	if n, ok := m.at[key]; ok {
		return n
	}
	return m.node
}

func (m mapping) has(key string) bool {
	_, ok := m.at[key]
	return ok
}

// errorf notes a mistake at n. Texts among args are cut to a length that a terminal line can hold: they may be a whole file that is no task file.
func (d *decoder) errorf(n ast.Node, format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = clip(s)
		}
	}
	e := &Error{File: d.file, Msg: fmt.Sprintf(format, args...)}
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		p := n.GetToken().Position
		e.Line, e.Col = p.Line, p.Column
	}
	d.errs = append(d.errs, e)
}

// mapping decodes n by its keys and the words of other libraries that it may have; what names it in messages ("data", "a feature").
func (d *decoder) mapping(n ast.Node, what string, keys []key, aliases ...alias) mapping {
	m := mapping{node: n, at: map[string]ast.Node{}}
	node, ok := n.(*ast.MappingNode)
	if !ok {
		d.errorf(n, "%s must be a mapping of keys to values, not %s", what, describe(n))
		return m
	}
	if len(node.Values) > 0 && !node.IsFlowStyle {
		m.node = node.Values[0].Key // a block mapping's own token is the colon of its first key
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	for _, kv := range node.Values {
		word, ok := d.key(kv.Key)
		if !ok {
			continue
		}
		i := slices.Index(names, word)
		switch {
		case m.has(word):
			d.errorf(kv.Key, "%s has the key %q twice; keep one", what, word)
		case i >= 0:
			m.at[word] = kv.Value
			keys[i].value.read(kv.Value)
		case isAlias(aliases, word):
			m.at[word] = kv.Value
		default:
			d.errorf(kv.Key, "%s has no key %q%s", what, word, didYouMean(word, names))
		}
	}
	d.applyAliases(m, aliases)
	for _, k := range keys {
		if k.fallback == required && !m.has(k.name) {
			d.errorf(m.node, "%s needs the key %q", what, k.name)
		}
	}
	return m
}

// key returns the text of a mapping key.
func (d *decoder) key(n ast.Node) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return scalarText(n), true
	}
	d.errorf(n, "a key must be plain text; merge keys (<<) and complex keys (?) are not supported")
	return "", false
}

// scalarText is a scalar as written, without quotes.
func scalarText(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	}
	return n.GetToken().Value
}

// describe names what a node is, for messages.
func describe(n ast.Node) clause {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.AliasNode, *ast.AnchorNode:
		return "an anchor or alias, which task files do not have"
	case *ast.TagNode:
		return "a tag, which task files do not have"
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.LiteralNode, *ast.InfinityNode, *ast.NanNode:
		return clause(quote(scalarText(n)))
	}
	return "this"
}

// Number reads a decimal number such as 40, -1.5 or 1e+05. Infinities, NaN, hexadecimals and digit separators are no numbers here.
func Number(s string) (float64, bool) {
	if s == "" {
		return 0, false
	}
	for i := range len(s) { // ParseFloat also reads "inf", "nan", "0x1p4" and "1_000"
		switch c := s[i]; {
		case c >= '0' && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default:
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}
