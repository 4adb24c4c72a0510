package config

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"cfq/internal/lists"
)

// Value is what may stand at a key.
type Value struct {
	Read func(n ast.Node) // stores it; nil: the caller reads it later, from its place
	Form func() Schema    // what the JSON Schema says of it
	Out  func() any       // what canonical JSON has
}

// As stores what read returns at dst, unless there is a mistake.
func As[T any](dst *T, form func() Schema, read func(ast.Node) (T, bool)) Value {
	return Value{
		Read: func(n ast.Node) {
			if v, ok := read(n); ok {
				*dst = v
			}
		},
		Form: form,
		Out:  func() any { return *dst },
	}
}

// With returns the value with one more thing said of its form.
func (v Value) With(word string, what any) Value {
	form := v.Form
	v.Form = func() Schema {
		s := form()
		s[word] = what
		return s
	}
	return v
}

// Type is the form of a value of one of the types of JSON.
func Type(names ...string) func() Schema {
	return func() Schema {
		if len(names) == 1 {
			return Schema{"type": names[0]}
		}
		return Schema{"type": names}
	}
}

// Scalar is the form of a text, which may look like a number or a boolean.
func Scalar() Schema { return Schema{"type": []string{"string", "number", "boolean"}} }

// ListOf is the form of a list.
func ListOf(item func() Schema) func() Schema {
	return func() Schema { return Schema{"type": "array", "items": item()} }
}

// AnyOf is the form of a value that has one of the forms.
func AnyOf(forms ...func() Schema) func() Schema {
	return func() Schema {
		return Schema{"anyOf": lists.Map(forms, func(f func() Schema) Schema { return f() })}
	}
}

// OneOrMore is the form of a list, of which a single entry may stand without brackets.
func OneOrMore(item func() Schema) func() Schema { return AnyOf(item, ListOf(item)) }

// Text is a scalar as it is written: a label 0 or a category 1e5 is a text here, whatever YAML takes it for.
func (d *Decoder) Text(dst *string) Value { return As(dst, Scalar, d.ReadText) }

// ReadText reads what Text stores.
func (d *Decoder) ReadText(n ast.Node) (string, bool) {
	if !isScalar(n) {
		d.Errorf(n, "this must be a text, not %s", d.Describe(n))
		return "", false
	}
	return ScalarText(n), true
}

// Several is a list of values that item reads, or a single one.
func Several[T any](dst *[]T, item func(*T) Value) Value {
	return As(dst, OneOrMore(item(new(T)).Form), func(n ast.Node) ([]T, bool) {
		all := make([]T, len(Nodes(n))) // a mistake keeps its place in the list, so that the others keep theirs
		for i, v := range Nodes(n) {
			item(&all[i]).Read(v)
		}
		return all, true
	})
}

// Listed is a list of values that item reads.
func Listed[T any](d *Decoder, dst *[]T, item func(*T) Value) Value {
	several := Several(dst, item)
	return Value{
		Read: func(n ast.Node) {
			if _, ok := n.(*ast.SequenceNode); ok {
				several.Read(n)
			} else {
				d.Errorf(n, "this must be a list, not %s", d.Describe(n))
			}
		},
		Form: ListOf(item(new(T)).Form),
		Out:  several.Out,
	}
}

// Texts is a list of texts, or a single one.
func (d *Decoder) Texts(dst *[]string) Value { return Several(dst, d.Text) }

// Nodes returns the entries of a list, or the node itself when it is none.
func Nodes(n ast.Node) []ast.Node {
	if seq, ok := n.(*ast.SequenceNode); ok {
		return seq.Values
	}
	return []ast.Node{n}
}

// Word is one of the given words.
func Word[T ~string](d *Decoder, dst *T, words ...T) Value {
	all := lists.Map(words, func(w T) string { return string(w) })
	return As(dst, func() Schema { return Schema{"enum": all} }, func(n ast.Node) (T, bool) {
		s, ok := d.ReadText(n)
		if ok && !slices.Contains(all, s) {
			d.Errorf(n, "%q is not known here%s", s, DidYouMean(s, all))
			return "", false
		}
		return T(s), ok
	})
}

// Flag is true or false.
func (d *Decoder) Flag(dst *bool) Value {
	return As(dst, Type("boolean"), func(n ast.Node) (bool, bool) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.Errorf(n, "this must be true or false, not %s", d.Describe(n))
			return false, false
		}
		return b.Value, true
	})
}

// Number is a finite number.
func (d *Decoder) Number(dst *float64) Value { return As(dst, Type("number"), d.ReadNumber) }

// ReadNumber reads what Number stores. YAML 1.2 needs a dot in 1e5, which is a number here, as in JSON.
func (d *Decoder) ReadNumber(n ast.Node) (float64, bool) {
	text := ""
	switch v := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		text = strings.ReplaceAll(ScalarText(n), "_", "")
	case *ast.StringNode:
		if v.Token.Type == token.StringType {
			text = v.Value
		}
	}
	if v, ok := Decimal(text); ok {
		return v, true
	}
	hint := ""
	if strings.HasSuffix(text, "%") {
		hint = "; write a share such as 2% as 0.02"
	}
	d.Errorf(n, "this must be a finite number, not %s%s", d.Describe(n), hint)
	return 0, false
}

// Decimal reads a decimal number such as 40, -1.5 or 1e+05. Infinities, NaN, hexadecimals and digit separators are no
// numbers here.
func Decimal(s string) (float64, bool) {
	if strings.TrimLeft(s, "0123456789.-+eE") != "" { // ParseFloat also reads "inf", "nan", "0x1p4" and "1_000"
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// From0 is a number, 0 or more.
func (d *Decoder) From0(dst *float64) Value {
	return d.Within(dst, "0 or more", 0, math.Inf(1)).With("minimum", 0)
}

// Above0 is a number above 0.
func (d *Decoder) Above0(dst *float64) Value {
	return d.Within(dst, "above 0", math.SmallestNonzeroFloat64, math.Inf(1)).With("exclusiveMinimum", 0)
}

// Share is a number between 0 and 1.
func (d *Decoder) Share(dst *float64) Value {
	return d.Within(dst, "between 0 and 1", 0, 1).With("minimum", 0).With("maximum", 1)
}

// Within is a number between two others; want says so.
func (d *Decoder) Within(dst *float64, want string, lo, hi float64) Value {
	return As(dst, Type("number"), func(n ast.Node) (float64, bool) {
		v, ok := d.ReadNumber(n)
		if ok && (v < lo || v > hi) {
			d.Errorf(n, "this must be %s, not %v", want, v)
			return 0, false
		}
		return v, ok
	})
}

// Count is a whole number, least or more.
func (d *Decoder) Count(dst *int, least int) Value {
	return As(dst, Type("integer"), func(n ast.Node) (int, bool) {
		v, ok := d.ReadNumber(n)
		if ok && (v != math.Trunc(v) || v < float64(least) || v > math.MaxInt32) {
			d.Errorf(n, "this must be a whole number, %d or more", least)
			return 0, false
		}
		return int(v), ok
	}).With("minimum", least)
}

// Numbers is a list of finite numbers.
func (d *Decoder) Numbers(dst *[]float64) Value { return Listed(d, dst, d.Number) }
