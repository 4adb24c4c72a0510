package gate

import (
	"math"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"cfq/internal/config"
	"cfq/internal/message"
)

// A gate file is read by keys; package config says what these are.
type (
	key     = config.Key
	value   = config.Value
	mapping = config.Mapping
	schema  = config.Schema
)

const required = config.Required

// Error is one mistake in a gate file.
type Error = config.Error

// Errors are all mistakes of one gate file in the order of their places.
type Errors = config.Errors

// decoder walks a parsed gate file and collects mistakes.
type decoder struct{ config.Decoder }

func newDecoder(file string) *decoder {
	return &decoder{config.Decoder{File: file, Kind: "gate file"}}
}

// number reads a finite number.
func (d *decoder) number(n ast.Node) (float64, bool) {
	switch v := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		if x, err := decimal(strings.ReplaceAll(config.ScalarText(n), "_", "")); err == nil {
			return x, true
		}
	case *ast.StringNode: // YAML 1.2 needs a dot in 1e5, JSON does not
		if x, err := decimal(v.Value); err == nil && v.Token.Type == token.StringType {
			return x, true
		}
		if _, err := parseNumber("value", v.Value); strings.HasSuffix(strings.TrimSpace(v.Value), "%") && err != nil {
			d.Errorf(n, "%v", err)
			return 0, false
		}
	}
	d.Errorf(n, "this must be a finite number, not %s", d.Describe(n))
	return 0, false
}

// The values of keys.

func (d *decoder) textOf(dst *string) value {
	return value{Read: func(n ast.Node) {
		s, ok := d.Text(n)
		if s = strings.TrimSpace(s); ok && s == "" {
			d.Errorf(n, "this must not be empty")
		}
		*dst = s
	}, Form: textForm}
}

func (d *decoder) numberOf(dst *float64) value {
	return value{Read: func(n ast.Node) { *dst, _ = d.number(n) }, Form: config.NumberForm}
}

func (d *decoder) maybe(dst **float64) value {
	return value{Read: func(n ast.Node) {
		if x, ok := d.number(n); ok {
			*dst = &x
		}
	}, Form: config.NumberForm}
}

// count stores a whole number, 1 or more.
func (d *decoder) count(dst *int) value {
	return value{Read: func(n ast.Node) {
		x, ok := d.number(n)
		switch {
		case !ok:
		case x != math.Trunc(x) || x < 1 || x > math.MaxInt32:
			d.Errorf(n, "this must be a whole number, 1 or more")
		default:
			*dst = int(x)
		}
	}, Form: countForm}
}

// severity stores one of the severities. Another word is a problem of the check.
func (d *decoder) severity(dst *Severity) value {
	return value{Read: func(n ast.Node) {
		s, _ := d.Text(n)
		*dst = Severity(s)
	}, Form: func() schema { return schema{"enum": severities()} }}
}

func (d *decoder) date(dst *time.Time) value {
	return value{Read: func(n ast.Node) {
		s, ok := d.Text(n)
		if !ok {
			return
		}
		t, err := time.Parse(dateLayout, strings.TrimSpace(s))
		if err != nil {
			d.Errorf(n, "%s is no day; write it as 2026-12-31", message.Quote(s))
			return
		}
		*dst = t
	}, Form: func() schema { return schema{"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"} }}
}
