package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// column is one feature: how it is written in a CSV and how the model sees it. The order of the table is the order of
// the columns and of the model's inputs. What people can change is in task.yaml.tmpl.
type column struct {
	name, kind string // of the task file: numeric, ordinal, binary, onehot
	number     func(person) float64
	text       func(person) string
	values     []string // of text columns; the second of a binary column is its 1
}

func columns() []column {
	guarantor := func(p person) string {
		if p.guarantor {
			return "yes"
		}
		return "no"
	}
	grades := []string{"1", "2", "3", "4", "5"}
	return []column{
		{"age", "numeric", func(p person) float64 { return p.age }, nil, nil},
		{"sex", "binary", nil, func(p person) string { return p.sex }, []string{"male", "female"}},
		{"dependants", "numeric", func(p person) float64 { return p.dependants }, nil, nil},
		{"income", "numeric", func(p person) float64 { return p.income }, nil, nil},
		{"savings", "numeric", func(p person) float64 { return p.savings }, nil, nil},
		{"debt", "numeric", func(p person) float64 { return p.debt }, nil, nil},
		{"amount", "numeric", func(p person) float64 { return p.amount }, nil, nil},
		{"months", "numeric", func(p person) float64 { return p.months }, nil, nil},
		{"credit_grade", "ordinal", func(p person) float64 { return float64(p.grade) }, nil, grades},
		{"years_employed", "numeric", func(p person) float64 { return p.years }, nil, nil},
		{"late_payments", "numeric", func(p person) float64 { return p.late }, nil, nil},
		{"employment", "onehot", nil, func(p person) string { return p.employment }, employments()},
		{"housing", "onehot", nil, func(p person) string { return p.housing }, housings()},
		{"guarantor", "binary", nil, guarantor, []string{"no", "yes"}},
	}
}

// encoder is a column with the numbers that the training rows give it, as the
// task file states them.
type encoder struct {
	column
	mean, std float64
	shares    []float64 // of each value; for a binary column of the second
}

// fit makes the encoders of people.
func fit(people []person) []encoder {
	var out []encoder
	mean := func(of func(p person) float64) float64 {
		sum := 0.0
		for _, p := range people {
			sum += of(p)
		}
		return sum / float64(len(people))
	}
	for _, c := range columns() {
		e := encoder{column: c}
		if c.number != nil {
			m := mean(c.number)
			e.mean = digits(m)
			e.std = digits(math.Sqrt(mean(func(p person) float64 { return mul(c.number(p)-m, c.number(p)-m) })))
		}
		for i, v := range c.values {
			if c.kind == "onehot" || c.kind == "binary" && i == 1 {
				share := mean(func(p person) float64 { return indicator(c.text(p) == v) })
				e.shares = append(e.shares, digits(share))
			}
		}
		out = append(out, e)
	}
	return out
}

// digits rounds to the digits that the task file will show.
func digits(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		panic(err)
	}
	return r
}

// encode returns the model inputs of a person.
func encode(encoders []encoder, p person) []float64 {
	var x []float64
	for _, e := range encoders {
		switch e.kind {
		case "numeric", "ordinal":
			x = append(x, (e.number(p)-e.mean)/e.std)
		case "binary":
			x = append(x, indicator(e.text(p) == e.values[1]))
		default:
			for _, v := range e.values {
				x = append(x, indicator(e.text(p) == v))
			}
		}
	}
	return x
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// table writes people as CSV with a header; the outcome is the last column.
func table(people []person) []byte {
	var b bytes.Buffer
	cols := columns()
	for _, c := range cols {
		fmt.Fprintf(&b, "%s,", c.name)
	}
	b.WriteString("decision\n")
	for _, p := range people {
		for _, c := range cols {
			if c.number != nil {
				fmt.Fprintf(&b, "%d,", int64(c.number(p))) // all are whole
			} else {
				fmt.Fprintf(&b, "%s,", c.text(p))
			}
		}
		fmt.Fprintln(&b, map[bool]string{true: "approved", false: "refused"}[p.approved])
	}
	return b.Bytes()
}

// String is the part of the task file that says how the column becomes inputs.
func (e encoder) String() string {
	num := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	scale := fmt.Sprintf("mean: %s, std: %s", num(e.mean), num(e.std))
	var shares []string
	for _, s := range e.shares {
		shares = append(shares, num(s))
	}
	values, share := strings.Join(e.values, ", "), strings.Join(shares, ", ")
	switch e.kind {
	case "numeric":
		return "kind: numeric, " + scale
	case "ordinal":
		return fmt.Sprintf("kind: ordinal, values: [%s], %s", values, scale)
	case "binary":
		return fmt.Sprintf("kind: binary, one: %q, zero: %q, shares: [%s]", e.values[1], e.values[0], share)
	}
	return fmt.Sprintf("kind: onehot, values: [%s], shares: [%s]", values, share)
}
