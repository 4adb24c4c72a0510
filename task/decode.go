package task

import (
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
	"cfq/internal/message"
)

// A task file is read by keys; package config says what these are.
type (
	key     = config.Key
	value   = config.Value
	mapping = config.Mapping
	schema  = config.Schema
)

const required = config.Required

// Error is one mistake in a task file.
type Error = config.Error

// Errors are all mistakes of one task file in the order of their places.
type Errors = config.Errors

// decoder walks a parsed task file and collects mistakes.
type decoder struct{ config.Decoder }

func newDecoder(file string) *decoder {
	return &decoder{config.Decoder{File: file, Kind: "task file"}}
}

// clause is a part of a message that is never shortened.
type clause string

// errorf notes a mistake at n. Texts among args are cut to a length that a terminal line can hold: they may be a whole file that is no task file.
func (d *decoder) errorf(n ast.Node, format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = message.Clip(s)
		}
	}
	d.Errorf(n, format, args...)
}

// mapping decodes n by its keys; what names it in messages ("data", "a feature").
func (d *decoder) mapping(n ast.Node, what string, keys []key) mapping {
	m := d.Mapping(n, what, keys)
	for _, k := range keys {
		if k.Fallback == required && !m.Has(k.Name) && !m.Bad[k.Name] {
			d.errorf(m.Node, "%s needs the key %q", what, k.Name)
		}
	}
	return m
}

// describe names what a node is, for messages.
func (d *decoder) describe(n ast.Node) clause { return clause(d.Describe(n)) }

// didYouMean is the clause to put behind a message about the unknown word s.
func didYouMean(s string, candidates []string) clause {
	return clause(message.DidYouMean(s, candidates))
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
