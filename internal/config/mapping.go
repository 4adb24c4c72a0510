package config

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/message"
)

// Key is one key that a mapping may have: how its value is read, and what the reference page and the schema say about it.
type Key struct {
	Name     string
	Value    Value
	Fallback string // what holds without the key, in Markdown; or Required
	Doc      string // what the key is, with its unit, in Markdown
}

// Value is how what stands at a key is read and stored, and what the JSON Schema says of it.
type Value struct {
	Read func(n ast.Node)
	Form func() Schema
}

// Required is the fallback of a key that a mapping must have.
const Required = "required"

// Mapping is a decoded mapping: the places of its values, by key, and which keys were read with a mistake; "" are keys that there are not.
type Mapping struct {
	Node ast.Node
	At   map[string]ast.Node
	Bad  map[string]bool
}

// Place returns the node of the value of key, or the mapping itself when it has no such key.
func (m Mapping) Place(key string) ast.Node {
	if n, ok := m.At[key]; ok {
		return n
	}
	return m.Node
}

// Has says whether the file has the key.
func (m Mapping) Has(key string) bool {
	_, ok := m.At[key]
	return ok
}

// Mapping decodes n by its keys; what names it in messages ("a check"). A key that is not among them is a mistake. Whether there are all that must be is left to the caller; of what is no mapping at all, every key is bad.
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
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	for _, kv := range node.Values {
		before := len(d.Errs)
		word, ok := d.Key(kv.Key)
		i := slices.Index(names, word)
		switch {
		case !ok:
		case m.Has(word): // the parser says so first, of all that it takes for equal
			d.Errorf(kv.Key, "%s has the key %s twice; keep one", what, message.Quote(word))
		case i >= 0:
			m.At[word] = kv.Value
			keys[i].Value.Read(kv.Value)
		default:
			d.Errorf(kv.Key, "%s has no key %s%s", what, message.Quote(word), message.DidYouMean(word, names))
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
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return ScalarText(n), true
	}
	d.Errorf(n, "a key must be plain text; merge keys (<<) and complex keys (?) are not supported")
	return "", false
}

// Text reads a scalar as it is written: a label 0 or a category 1e5 is a text here, whatever YAML takes it for.
func (d *Decoder) Text(n ast.Node) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.LiteralNode:
		return ScalarText(n), true
	}
	d.Errorf(n, "this must be a text, not %s", d.Describe(n))
	return "", false
}

// List decodes every entry of a list; what names it in messages.
func (d *Decoder) List(n ast.Node, what string, each func(i int, n ast.Node)) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.Errorf(n, "%s must be a list, not %s", what, d.Describe(n))
		return
	}
	for i, v := range seq.Values {
		each(i, v)
	}
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
func (d *Decoder) Describe(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		return "an anchor or alias, which " + d.Kind + "s do not have"
	case *ast.TagNode:
		return "a tag, which " + d.Kind + "s do not have"
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.LiteralNode, *ast.InfinityNode, *ast.NanNode:
		return message.Quote(ScalarText(n))
	}
	return "this"
}
