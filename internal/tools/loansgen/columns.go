package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// column is one feature: how it is written in a CSV, how the model sees it, and
// what the task file says people can change. The order of the table is the
// order of the columns and of the model's inputs.
type column struct {
	name   string
	kind   string // of the task file: numeric, ordinal, binary, onehot
	number func(person) float64
	text   func(person) string
	values []string // of text columns; the second of a binary column is its 1
	about  string   // what it means, for the task file
	extra  string   // what can be changed, in the task file's words
}

func columns() []column {
	yesNo := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	return []column{
		{name: "age", kind: "numeric", number: func(p person) float64 { return p.age }, about: "years; nobody can change it", extra: "actionable: false"},
		{name: "sex", kind: "binary", text: func(p person) string { return p.sex }, values: []string{"male", "female"}, about: "never an action; the group is kept with each person", extra: "actionable: false, subgroup: true"},
		{name: "dependants", kind: "numeric", number: func(p person) float64 { return p.dependants }, about: "people to be supported", extra: "actionable: false"},
		{name: "income", kind: "numeric", number: func(p person) float64 { return p.income }, about: "per year; a raise, but not a miracle", extra: "direction: increase, max_increase: 12000, step: 100"},
		{name: "savings", kind: "numeric", number: func(p person) float64 { return p.savings }, about: "skewed: a few people are ten standard deviations out", extra: "bounds: [0, 500000], max_increase: 15000, step: 50"},
		{name: "debt", kind: "numeric", number: func(p person) float64 { return p.debt }, about: "owed elsewhere; it can be paid back, never below nothing", extra: "direction: decrease, bounds: [0, 500000], step: 50"},
		{name: "amount", kind: "numeric", number: func(p person) float64 { return p.amount }, about: "of the loan; one can ask for less, up to a point", extra: "direction: decrease, bounds: [1000, 60000], max_decrease: 10000, step: 500, weight: 1.5"},
		{name: "months", kind: "numeric", number: func(p person) float64 { return p.months }, about: "to pay back, in whole years", extra: "bounds: [12, 84], step: 12, max_change: 36"},
		{name: "credit_grade", kind: "ordinal", number: func(p person) float64 { return float64(p.grade) }, values: []string{"1", "2", "3", "4", "5"}, about: "1 poor to 5 very good; it improves slowly", extra: "direction: increase, max_increase: 2"},
		{name: "years_employed", kind: "numeric", number: func(p person) float64 { return p.years }, about: "with the present employer; waiting costs more than its number says", extra: "direction: increase, bounds: [0, 45], step: 1, max_increase: 3, weight: 2"},
		{name: "late_payments", kind: "numeric", number: func(p person) float64 { return p.late }, about: "in the last two years; the past stays as it is", extra: "actionable: false"},
		{name: "employment", kind: "onehot", text: func(p person) string { return p.employment }, values: employments(), about: "what may become what; a value that is no key stays", extra: "transitions: {unemployed: [part-time, salaried], part-time: [salaried, public], self-employed: [salaried]}"},
		{name: "housing", kind: "onehot", text: func(p person) string { return p.housing }, values: housings(), about: "renters can move in with family", extra: "transitions: {rent: [family]}"},
		{name: "guarantor", kind: "binary", text: func(p person) string { return yesNo(p.guarantor) }, values: []string{"no", "yes"}, about: "someone signs for the loan", extra: "direction: increase"},
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
	n := float64(len(people))
	for _, c := range columns() {
		e := encoder{column: c}
		switch {
		case c.number != nil:
			sum, squares := 0.0, 0.0
			for _, p := range people {
				sum += c.number(p)
			}
			for _, p := range people {
				d := c.number(p) - sum/n
				squares += mul(d, d)
			}
			e.mean, e.std = digits(sum/n), digits(math.Sqrt(squares/n))
		default:
			for _, v := range c.values {
				count := 0.0
				for _, p := range people {
					if c.text(p) == v {
						count++
					}
				}
				e.shares = append(e.shares, digits(count/n))
			}
			if c.kind == "binary" {
				e.shares = e.shares[1:]
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

// encode appends the model inputs of a person.
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
				b.WriteString(whole(c.number(p)))
			} else {
				b.WriteString(c.text(p))
			}
			b.WriteByte(',')
		}
		if p.approved {
			b.WriteString("approved\n")
		} else {
			b.WriteString("refused\n")
		}
	}
	return b.Bytes()
}

// taskFile writes the task in the words of the task file's version 1.
func taskFile(encoders []encoder) []byte {
	var b bytes.Buffer
	b.WriteString(`# The decision: is this applicant granted the loan? All quantities are those of
# the CSV; cfq converts them to and from the model's inputs.
version: 1

data:
  label: decision       # the column with the outcome
  favourable: approved  # the outcome that people want
  delimiter: ","

target:
  class: favourable
  margin: 0.0           # logit margin that a recourse point must reach

# In the order of the model's inputs. Means, standard deviations and shares are
# those of train.csv.
features:
`)
	for _, e := range encoders {
		fmt.Fprintf(&b, "  # %s: %s\n", e.name, e.about)
		fmt.Fprintf(&b, "  - {name: %s, kind: %s, %s, %s}\n", e.name, e.kind, e.encoding(), e.extra)
	}
	b.WriteString(`
cost:
  norm: l1              # sum over changed inputs of weight x |change|
  weights: inverse_std  # a change of one standard deviation costs about 1

sparsity:
  max_features: 4       # an action changes at most four features; employment or housing counts once
`)
	return b.Bytes()
}

// encoding is the part of the task file that says how the column becomes inputs.
func (e *encoder) encoding() string {
	num := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch e.kind {
	case "numeric":
		return fmt.Sprintf("mean: %s, std: %s", num(e.mean), num(e.std))
	case "ordinal":
		return fmt.Sprintf("values: [%s], mean: %s, std: %s", strings.Join(e.values, ", "), num(e.mean), num(e.std))
	case "binary":
		return fmt.Sprintf("one: %q, zero: %q, shares: [%s]", e.values[1], e.values[0], num(e.shares[0]))
	}
	var shares []string
	for _, s := range e.shares {
		shares = append(shares, num(s))
	}
	return fmt.Sprintf("values: [%s], shares: [%s]", strings.Join(e.values, ", "), strings.Join(shares, ", "))
}
