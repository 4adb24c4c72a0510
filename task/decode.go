package task

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder walks a parsed task file and collects mistakes. Decoding goes on after a mistake so that all of them are reported at once.
type decoder struct {
	file string
	errs Errors
}

// set stores the value at a node.
type set func(n ast.Node)

// rule is one key that a mapping may have: how its value is read, and what the reference page says about it.
type rule struct {
	key      string
	set      set
	fallback string // what holds without the key, in Markdown; or required
	doc      string // what the key is, with its unit, in Markdown
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

// mapping decodes n by the rules; what names it in messages ("data", "a feature").
func (d *decoder) mapping(n ast.Node, what string, rules []rule) mapping {
	m := mapping{node: n, at: map[string]ast.Node{}}
	node, ok := n.(*ast.MappingNode)
	if !ok {
		d.errorf(n, "%s must be a mapping of keys to values, not %s", what, describe(n))
		return m
	}
	if len(node.Values) > 0 && !node.IsFlowStyle {
		m.node = node.Values[0].Key // a block mapping's own token is the colon of its first key
	}
	keys := make([]string, len(rules))
	for i, r := range rules {
		keys[i] = r.key
	}
	for _, kv := range node.Values {
		key, ok := d.key(kv.Key)
		if !ok {
			continue
		}
		i := slices.Index(keys, key)
		switch {
		case i < 0:
			d.errorf(kv.Key, "%s has no key %q%s", what, key, didYouMean(key, keys))
		case m.has(key):
			d.errorf(kv.Key, "%s has the key %q twice; keep one", what, key)
		default:
			m.at[key] = kv.Value
			rules[i].set(kv.Value)
		}
	}
	for _, r := range rules {
		if r.fallback == required && !m.has(r.key) {
			d.errorf(m.node, "%s needs the key %q", what, r.key)
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

// text stores a scalar as it is written: a label 0 or a category 1e5 is a text here, whatever YAML takes it for.
func (d *decoder) text(dst *string) set {
	return func(n ast.Node) {
		if s, ok := d.str(n); ok {
			*dst = s
		}
	}
}

func (d *decoder) str(n ast.Node) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.LiteralNode:
		return scalarText(n), true
	}
	d.errorf(n, "this must be a text, not %s", describe(n))
	return "", false
}

// texts stores a list of texts; a single one may stand without brackets.
func (d *decoder) texts(dst *[]string) set {
	return func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			if s, ok := d.str(n); ok {
				*dst = []string{s}
			}
			return
		}
		*dst = make([]string, 0, len(seq.Values))
		for _, v := range seq.Values {
			s, _ := d.str(v) // a mistake keeps its place in the list, so that the others keep theirs
			*dst = append(*dst, s)
		}
	}
}

// list decodes every entry of a list.
func (d *decoder) list(n ast.Node, what string, each func(i int, n ast.Node)) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.errorf(n, "%s must be a list, not %s", what, describe(n))
		return
	}
	for i, v := range seq.Values {
		each(i, v)
	}
}

func (d *decoder) float(n ast.Node) (float64, bool) {
	switch v := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		if f, ok := parseNumber(strings.ReplaceAll(scalarText(n), "_", "")); ok {
			return f, true
		}
	case *ast.InfinityNode:
		return v.Value, true
	case *ast.StringNode: // YAML 1.2 needs a dot in 1e5, JSON does not
		if f, ok := parseNumber(v.Value); ok && v.Token.Type == token.StringType {
			return f, true
		}
	}
	d.errorf(n, "this must be a number, not %s", describe(n))
	return 0, false
}

// number stores a finite number.
func (d *decoder) number(dst *float64) set {
	return func(n ast.Node) {
		f, ok := d.float(n)
		switch {
		case !ok:
		case math.IsInf(f, 0):
			d.errorf(n, "this must be a finite number")
		default:
			*dst = f
		}
	}
}

// numbers stores a list of finite numbers.
func (d *decoder) numbers(dst *[]float64) set {
	return func(n ast.Node) {
		d.list(n, "this", func(_ int, n ast.Node) {
			var f float64
			d.number(&f)(n)
			*dst = append(*dst, f)
		})
	}
}

// span stores [lo, hi]; null and infinities leave a side open.
func (d *decoder) span(dst *[2]float64) set {
	return func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok || len(seq.Values) != 2 {
			d.errorf(n, "this must be a pair [lo, hi]; null leaves a side open")
			return
		}
		for i, v := range seq.Values {
			if _, open := v.(*ast.NullNode); open {
				continue
			}
			if f, ok := d.float(v); ok {
				dst[i] = f
			}
		}
		if dst[0] > dst[1] || math.IsInf(dst[0], 1) || math.IsInf(dst[1], -1) {
			d.errorf(n, "no value lies between %v and %v; write [lo, hi] with lo <= hi", dst[0], dst[1])
		}
	}
}

// count stores a whole number >= 0.
func (d *decoder) count(dst *int) set {
	return func(n ast.Node) {
		f, ok := d.float(n)
		switch {
		case !ok:
		case f != math.Trunc(f) || f < 0 || f > math.MaxInt32:
			d.errorf(n, "this must be a whole number, 0 or more")
		default:
			*dst = int(f)
		}
	}
}

func (d *decoder) flag(dst *bool) set {
	return func(n ast.Node) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.errorf(n, "this must be true or false, not %s", describe(n))
			return
		}
		*dst = b.Value
	}
}

// char stores a single character.
func (d *decoder) char(dst *rune) set {
	return func(n ast.Node) {
		s, ok := d.str(n)
		if !ok {
			return
		}
		r := []rune(s)
		if len(r) != 1 || strings.ContainsAny(s, "\x00\"\r\n\ufffd") {
			d.errorf(n, "this must be a single character, not %q", s)
			return
		}
		*dst = r[0]
	}
}

// word stores one of the given words.
func word[T ~string](d *decoder, dst *T, words ...T) set {
	return func(n ast.Node) {
		s, ok := d.str(n)
		if !ok {
			return
		}
		all := make([]string, len(words))
		for i, w := range words {
			all[i] = string(w)
			if s == all[i] {
				*dst = w
				return
			}
		}
		d.errorf(n, "%q is not known here%s", s, didYouMean(s, all))
	}
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

// parseNumber reads a decimal number such as 40, -1.5 or 1e+05. Infinities, NaN, hexadecimals and digit separators are no numbers here.
func parseNumber(s string) (float64, bool) {
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
