package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder walks a parsed gate file and collects mistakes. Decoding goes on after a mistake so that all of them are reported at once.
type decoder struct {
	file string
	errs Errors
}

// key is one key that a mapping may have: how its value is read, and what the reference page and the schema say about it.
type key struct {
	name     string
	value    value
	fallback string // what holds without the key, in Markdown; or required
	doc      string // what the key is, in Markdown
}

// value is how what stands at a key is read and stored, and what the JSON Schema says of it.
type value struct {
	read func(n ast.Node)
	form func() schema
}

// required is the fallback of a key that a mapping must have.
const required = "required"

// mapping is a decoded mapping: the places of its values, by key, and which keys were read with a mistake; "" are keys that there are not.
type mapping struct {
	node ast.Node
	at   map[string]ast.Node
	bad  map[string]bool
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

// errorf notes a mistake at n.
func (d *decoder) errorf(n ast.Node, format string, args ...any) {
	e := &Error{File: d.file, Msg: fmt.Sprintf(format, args...)}
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		p := n.GetToken().Position
		e.Line, e.Col = p.Line, p.Column
	}
	d.errs = append(d.errs, e)
}

// mapping decodes n by its keys; what names it in messages ("a check").
func (d *decoder) mapping(n ast.Node, what string, keys []key) mapping {
	m := mapping{node: n, at: map[string]ast.Node{}, bad: map[string]bool{}}
	node, ok := n.(*ast.MappingNode)
	if !ok {
		d.errorf(n, "%s must be a mapping of keys to values, not %s", what, describe(n))
		m.bad[""] = true
		for _, k := range keys {
			m.bad[k.name] = true
		}
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
		before := len(d.errs)
		word, ok := d.text(kv.Key)
		i := slices.Index(names, word)
		switch {
		case !ok:
		case m.has(word):
			d.errorf(kv.Key, "%s has the key %s twice; keep one", what, quote(word))
		case i >= 0:
			m.at[word] = kv.Value
			keys[i].value.read(kv.Value)
		default:
			d.errorf(kv.Key, "%s has no key %s%s", what, quote(word), didYouMean(word, names))
			word = ""
		}
		if len(d.errs) > before {
			m.bad[word] = true
		}
	}
	return m
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
func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		return "an anchor or alias, which gate files do not have"
	case *ast.TagNode:
		return "a tag, which gate files do not have"
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.LiteralNode, *ast.InfinityNode, *ast.NanNode:
		return quote(scalarText(n))
	}
	return "this"
}

// text reads a scalar as it is written.
func (d *decoder) text(n ast.Node) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.LiteralNode:
		return scalarText(n), true
	}
	d.errorf(n, "this must be a text, not %s", describe(n))
	return "", false
}

// list decodes every entry of a list.
func (d *decoder) list(n ast.Node, each func(n ast.Node)) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.errorf(n, "this must be a list, not %s", describe(n))
		return
	}
	for _, v := range seq.Values {
		each(v)
	}
}

// number reads a finite number.
func (d *decoder) number(n ast.Node) (float64, bool) {
	switch v := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		if x, err := decimal(strings.ReplaceAll(scalarText(n), "_", "")); err == nil {
			return x, true
		}
	case *ast.StringNode: // YAML 1.2 needs a dot in 1e5, JSON does not
		if x, err := decimal(v.Value); err == nil && v.Token.Type == token.StringType {
			return x, true
		}
		if _, err := parseNumber("value", v.Value); strings.HasSuffix(strings.TrimSpace(v.Value), "%") && err != nil {
			d.errorf(n, "%v", err)
			return 0, false
		}
	}
	d.errorf(n, "this must be a finite number, not %s", describe(n))
	return 0, false
}

// The values of keys.

func (d *decoder) textOf(dst *string) value {
	return value{func(n ast.Node) {
		s, ok := d.text(n)
		if s = strings.TrimSpace(s); ok && s == "" {
			d.errorf(n, "this must not be empty")
		}
		*dst = s
	}, textForm}
}

func (d *decoder) numberOf(dst *float64) value {
	return value{func(n ast.Node) { *dst, _ = d.number(n) }, numberForm}
}

func (d *decoder) maybe(dst **float64) value {
	return value{func(n ast.Node) {
		if x, ok := d.number(n); ok {
			*dst = &x
		}
	}, numberForm}
}

// count stores a whole number, 1 or more.
func (d *decoder) count(dst *int) value {
	return value{func(n ast.Node) {
		x, ok := d.number(n)
		switch {
		case !ok:
		case x != math.Trunc(x) || x < 1 || x > math.MaxInt32:
			d.errorf(n, "this must be a whole number, 1 or more")
		default:
			*dst = int(x)
		}
	}, countForm}
}

// severity stores one of the severities. Another word is a problem of the check.
func (d *decoder) severity(dst *Severity) value {
	return value{func(n ast.Node) {
		s, _ := d.text(n)
		*dst = Severity(s)
	}, func() schema { return schema{"enum": severities()} }}
}

func (d *decoder) date(dst *time.Time) value {
	return value{func(n ast.Node) {
		s, ok := d.text(n)
		if !ok {
			return
		}
		t, err := time.Parse(dateLayout, strings.TrimSpace(s))
		if err != nil {
			d.errorf(n, "%s is no day; write it as 2026-12-31", quote(s))
			return
		}
		*dst = t
	}, func() schema { return schema{"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"} }}
}
