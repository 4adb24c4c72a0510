package task

import (
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"cfq/internal/config"
)

// text stores a scalar as it is written: a label 0 or a category 1e5 is a text here, whatever YAML takes it for.
func (d *decoder) text(dst *string) value {
	return value{Read: func(n ast.Node) {
		if s, ok := d.Text(n); ok {
			*dst = s
		}
	}, Form: scalarForm}
}

// texts stores a list of texts; a single one may stand without brackets.
func (d *decoder) texts(dst *[]string) value {
	return value{Read: func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			if s, ok := d.Text(n); ok {
				*dst = []string{s}
			}
			return
		}
		*dst = make([]string, 0, len(seq.Values))
		for _, v := range seq.Values {
			s, _ := d.Text(v) // a mistake keeps its place in the list, so that the others keep theirs
			*dst = append(*dst, s)
		}
	}, Form: oneOrMore(scalarForm)}
}

func (d *decoder) float(n ast.Node) (float64, bool) {
	switch v := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		if f, ok := Number(strings.ReplaceAll(config.ScalarText(n), "_", "")); ok {
			return f, true
		}
	case *ast.InfinityNode:
		return v.Value, true
	case *ast.StringNode: // YAML 1.2 needs a dot in 1e5, JSON does not
		if f, ok := Number(v.Value); ok && v.Token.Type == token.StringType {
			return f, true
		}
	}
	d.errorf(n, "this must be a number, not %s", d.describe(n))
	return 0, false
}

// number stores a finite number.
func (d *decoder) number(dst *float64) value {
	return value{Read: func(n ast.Node) {
		f, ok := d.float(n)
		switch {
		case !ok:
		case math.IsInf(f, 0):
			d.errorf(n, "this must be a finite number")
		default:
			*dst = f
		}
	}, Form: config.NumberForm}
}

// numbers stores a list of finite numbers.
func (d *decoder) numbers(dst *[]float64) value {
	return value{Read: func(n ast.Node) {
		*dst = nil
		d.List(n, "this", func(_ int, n ast.Node) {
			var f float64
			d.number(&f).Read(n)
			*dst = append(*dst, f)
		})
	}, Form: config.ListOf(config.NumberForm)}
}

// count stores a whole number >= 0.
func (d *decoder) count(dst *int) value {
	return value{Read: func(n ast.Node) {
		f, ok := d.float(n)
		switch {
		case !ok:
		case f != math.Trunc(f) || f < 0 || f > math.MaxInt32:
			d.errorf(n, "this must be a whole number, 0 or more")
		default:
			*dst = int(f)
		}
	}, Form: countForm}
}

func (d *decoder) flag(dst *bool) value {
	return value{Read: func(n ast.Node) {
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.errorf(n, "this must be true or false, not %s", d.describe(n))
			return
		}
		*dst = b.Value
	}, Form: flagForm}
}

// char stores a single character.
func (d *decoder) char(dst *rune) value {
	return value{Read: func(n ast.Node) {
		s, ok := d.Text(n)
		if !ok {
			return
		}
		r := []rune(s)
		if len(r) != 1 || strings.ContainsAny(s, "\x00\"\r\n\ufffd") {
			d.errorf(n, "this must be a single character, not %q", s)
			return
		}
		*dst = r[0]
	}, Form: charForm}
}

// word stores one of the given words.
func word[T ~string](d *decoder, dst *T, words ...T) value {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return value{Read: func(n ast.Node) {
		if i := d.oneOf(n, all); i >= 0 {
			*dst = words[i]
		}
	}, Form: oneOf(all)}
}

// oneOf returns the index of n among words, -1 and a mistake when it is none of them.
func (d *decoder) oneOf(n ast.Node, words []string) int {
	s, ok := d.Text(n)
	if !ok {
		return -1
	}
	for i, w := range words {
		if s == w {
			return i
		}
	}
	d.errorf(n, "%q is not known here%s", s, didYouMean(s, words))
	return -1
}
