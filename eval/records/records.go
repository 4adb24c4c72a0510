// Package records keeps the records of an evaluation in tables: the seam between those who make records, of any part of
// the people and anywhere, and the one who sums them up.
//
// In: the records of an evaluation and what it was made of (see [Run]). Out: a table as Parquet, CSV or
// tab-delimited text (see [Writer]), and the records of any number of such tables (see [Read]).
//
// The invariant: a table says itself what it was made of, and every row of the data is accounted for. Tables of other
// models, tasks, settings or versions are not put together, and what is read is what was written: the same bits, in
// any order and however the rows were spread over tables.
package records

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"cfq/eval"
	"cfq/internal/lists"
	"cfq/recourse"
)

// schema names the layout of a table. It changes when a column changes its meaning or goes away.
const schema = "cfq.records/1"

// Run is what records were made of. All records that are summed up have the same.
type Run struct {
	Schema    string `json:"schema"` // cfq.records/1
	Tool      string `json:"tool"`   // program and version
	Full      string `json:"full"`   // SHA-256 of the original, in hexadecimal
	Quantized string `json:"quantized"`
	Task      string `json:"task"`
	Overrides string `json:"overrides,omitempty"` // nothing without
	Coder     string `json:"coder,omitempty"`     // SHA-256 of encoder and decoder of the task, if any
	// Attributes tell groups of people apart, and Columns are those of the data that are neither input nor outcome.
	Attributes []string      `json:"attributes,omitempty"`
	Columns    []string      `json:"columns,omitempty"`
	Settings   eval.Settings `json:"settings"`
}

func (r *Run) layout() eval.Layout {
	return eval.Layout{Margins: r.Settings.Margins, Attributes: r.Attributes}
}

// Differs says in what two runs differ; "" in nothing.
func (r *Run) Differs(o *Run) string {
	one, other := r.stated(), o.stated()
	keys := maps.Clone(one)
	maps.Copy(keys, other)
	for _, key := range append([]string{toolVersion}, slices.Sorted(maps.Keys(keys))...) {
		if a, b := one[key], other[key]; a != b {
			return fmt.Sprintf("%s: %s and %s", key, cmp.Or(a, "none"), cmp.Or(b, "none"))
		}
	}
	return ""
}

const toolVersion = "version of cfq" // of which other differences may follow

func (r *Run) stated() map[string]string {
	encoder, decoder, _ := strings.Cut(r.Coder, " ")
	all := map[string]string{
		toolVersion: r.Tool, "original": short(r.Full), "quantized model": short(r.Quantized), "task file": short(r.Task),
		"overrides file": short(r.Overrides), "encoder": short(encoder), "decoder": short(decoder),
		"groups": fmt.Sprintf("%q", r.Attributes), "columns of the data": fmt.Sprintf("%q", r.Columns),
	}
	data, err := json.Marshal(r.Settings)
	var settings map[string]json.RawMessage
	if err = cmp.Or(err, json.Unmarshal(data, &settings)); err != nil { // numbers and flags can be written
		panic(err)
	}
	for key, value := range settings {
		all["settings: "+key] = string(value)
	}
	return all
}

func short(hash string) string { return hash[:min(12, len(hash))] }

// Outcome is what became of a row of the data.
type Outcome string

// The outcomes. Rows with another one than Judged hold nothing else but how many rows they stand for.
const (
	Judged     Outcome = ""
	Unreadable Outcome = "unreadable"
	Filtered   Outcome = "filtered"  // by the task's filter
	LeftOut    Outcome = "left out"  // by the choice of rows
	Unmatched  Outcome = "unmatched" // no row, but a promise that belongs to nobody
)

func outcomes() []Outcome { return []Outcome{Unreadable, Filtered, LeftOut, Unmatched} }

// counted is where a file counts the rows of an outcome, those filtered not being left out as well; nil for none.
func counted(file *eval.DataFile, why Outcome) *int {
	return map[Outcome]*int{
		Unreadable: &file.Unreadable, Filtered: &file.Filtered, LeftOut: &file.LeftOut, Unmatched: &file.Unmatched,
	}[why]
}

// The columns of a table before those of records.
const (
	colRun     = "run"
	colOutcome = "outcome"
	colCount   = "count"
)

// ColID is the column of IDs.
const ColID = "id"

type tableColumn struct {
	name string
	node parquet.Node
}

func head(r *Run) []tableColumn {
	all := []tableColumn{{colRun, textNode()}, {colOutcome, textNode()}, {colCount, parquet.Int(64)}}
	l := r.layout()
	blank := l.Blank()
	cells := l.Cells(&blank)
	for i, name := range l.Columns() {
		all = append(all, tableColumn{name, nodeOf(cells[i])})
	}
	return all
}

func nodeOf(cell any) parquet.Node {
	switch cell.(type) {
	case *int, *int8:
		return parquet.Int(64)
	case *bool, nil: // what follows from other cells says whether a promise breaks
		return parquet.Leaf(parquet.BooleanType)
	case *eval.Float:
		return parquet.Leaf(parquet.DoubleType)
	}
	return textNode()
}

func textNode() parquet.Node { return parquet.Encoded(parquet.String(), &parquet.RLEDictionary) }

// cellOf is a cell of a record: nil, an int, a float64, a bool or a string.
func cellOf(cell any, r *eval.Record) any {
	switch x := cell.(type) {
	case *int:
		return *x
	case *int8:
		if *x < 0 {
			return nil
		}
		return int(*x)
	case bool:
		return x
	case *bool:
		return *x
	case *eval.Float:
		if math.IsNaN(float64(*x)) {
			return nil
		}
		return float64(*x) + 0 // Parquet files are read without a sign of 0, and none of the metrics has one
	case *string:
		return text(*x)
	case *uint64:
		return fmt.Sprintf("%016x", *x)
	case *[]uint64:
		words := lists.Map(*x, func(v uint64) string { return fmt.Sprintf("%016x", v) })
		return text(strings.Join(words, " "))
	case *[]eval.Float:
		words := lists.Map(*x, func(v eval.Float) string { return strconv.FormatFloat(float64(v), 'g', -1, 64) })
		return text(strings.Join(words, " "))
	case *recourse.Status:
		return x.String()
	case *[]float32:
		if x == &r.X {
			return text(sparse(*x, make([]float32, len(*x))))
		}
		return text(sparse(*x, r.X))
	}
	return nil
}

// text is nil for an empty text: a table tells the two apart in some formats only.
func text(s string) any {
	if s == "" {
		return nil
	}
	if lost(s) || plain(s) != s {
		return strconv.Quote(s)
	}
	return s
}

// lost says that some format cannot keep a text as it is: one with a control character, \N, which is no text where tabs
// stand between fields, or what is no UTF-8.
func lost(s string) bool {
	return s == `\N` || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl)
}

// plain is the text that stands in a cell. Only what text has quoted is taken out of quotes: others may be part of an
// ID that another program has handed on.
func plain(s string) string {
	if u, err := strconv.Unquote(s); err == nil && s[0] == '"' && strconv.Quote(u) == s && (lost(u) || plain(u) != u) {
		return u
	}
	return s
}

// sparse writes the numbers of x that differ from those of others, as position:number, behind the number of all.
func sparse(x, others []float32) string {
	if len(x) == 0 {
		return ""
	}
	b := strconv.AppendInt(nil, int64(len(x)), 10)
	for i, v := range x {
		if i >= len(others) || math.Float32bits(v) != math.Float32bits(others[i]) {
			b = append(b, ' ')
			b = strconv.AppendInt(b, int64(i), 10)
			b = append(b, ':')
			b = strconv.AppendFloat(b, float64(v), 'g', -1, 32)
		}
	}
	return string(b)
}

func dense(s string, inputs int, others []float32) ([]float32, error) {
	count, rest, _ := strings.Cut(s, " ")
	n, err := strconv.Atoi(count)
	if err != nil || n != inputs {
		return nil, fmt.Errorf("%.20q is not the number of inputs: the task has %d", count, inputs)
	}
	x := make([]float32, n)
	copy(x, others)
	for rest != "" {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		at, number, ok := strings.Cut(word, ":")
		i, err := strconv.Atoi(at)
		v, err2 := strconv.ParseFloat(number, 32)
		if !ok || i < 0 || i >= n || errors.Join(err, err2) != nil {
			return nil, fmt.Errorf("%.40q is not input:number of %d inputs", word, n)
		}
		x[i] = float32(v)
	}
	return x, nil
}

func put(cell any, s string, r *eval.Record, inputs int) (err error) {
	switch x := cell.(type) {
	case *int:
		*x, err = strconv.Atoi(s)
	case *int8:
		var v int
		v, err = strconv.Atoi(s)
		if *x = int8(v); err == nil && v != 0 && v != 1 {
			err = fmt.Errorf("%q is neither 0 nor 1", s)
		}
	case *bool:
		*x, err = strconv.ParseBool(s)
	case *eval.Float:
		*x, err = float(s)
	case *string:
		*x = strings.Clone(plain(s))
	case *uint64:
		*x, err = strconv.ParseUint(s, 16, 64)
	case *[]uint64:
		*x, err = words(s, func(word string) (uint64, error) { return strconv.ParseUint(word, 16, 64) })
	case *[]eval.Float:
		*x, err = words(s, float)
	case *recourse.Status:
		all := recourse.Statuses()
		i := slices.IndexFunc(all, func(o recourse.Status) bool { return o.String() == s })
		if i < 0 {
			return fmt.Errorf("unknown status %q; there are %v", s, all)
		}
		*x = all[i]
	case *[]float32:
		*x, err = dense(s, inputs, r.X) // which is empty before it is read
	}
	return err
}

func float(s string) (eval.Float, error) {
	v, err := strconv.ParseFloat(s, 64)
	return eval.Float(v), err
}

func words[T any](s string, parse func(string) (T, error)) (all []T, err error) {
	for word := range strings.SplitSeq(s, " ") {
		v, bad := parse(word)
		all, err = append(all, v), errors.Join(err, bad)
	}
	return all, err
}

func check(r *eval.Record, inputs int) error {
	switch {
	case len(r.X) != inputs:
		return errors.New("column \"inputs\": the inputs are missing")
	case !r.Full.Defined() || !r.Quant.Defined():
		return errors.New("columns \"margin_full\" and \"margin_quant\": a number is missing")
	case r.Row < 0 || r.Line < 0:
		return errors.New("columns \"row\" and \"line\": a number is less than 0")
	case !r.Evaluated:
		return nil
	}
	promises := []*eval.Promise{&r.First}
	if r.Issued != nil {
		promises = append(promises, r.Issued)
	}
	for i := range r.Steps {
		promises = append(promises, &r.Steps[i].Full, &r.Steps[i].Quant)
	}
	for i, p := range promises {
		if !p.Exists() {
			continue
		}
		if !p.Cost.Defined() || !p.Own.Defined() || !p.Other.Defined() || i > 0 && len(p.Point) != inputs {
			return errors.New("columns of promises: one was found whose cost, margin or point is missing")
		}
	}
	return nil
}
