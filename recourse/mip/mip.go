// Package mip has mixed-integer linear programs solved by a program that is installed.
//
// In: a [Program]. Out: its optimum, or that there is none. The program is written as an MPS file, which every solver
// reads, and the answer is read from the file that the solver writes. The invariant: what is not proved optimal or
// infeasible within the solver's tolerances has the status [Unknown].
package mip

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Program is to minimise a linear cost over variables within bounds, so that every row lies between its limits.
type Program struct {
	Variables []Variable
	Rows      []Row
}

// Variable is a number from Low to High, which may be infinite, that adds Cost for each unit.
type Variable struct {
	Low, High, Cost float64
	Integer         bool
}

// Row is the sum of terms, which is Low or more and High or less; an infinite limit is none.
type Row struct {
	Terms     []Term
	Low, High float64
}

// Term is a variable times a number.
type Term struct {
	Variable int
	Coef     float64
}

// Add adds a variable and returns its index.
func (p *Program) Add(v Variable) int {
	p.Variables = append(p.Variables, v)
	return len(p.Variables) - 1
}

// AtLeast adds the row that the sum of terms is need or more.
func (p *Program) AtLeast(need float64, terms ...Term) {
	p.Rows = append(p.Rows, Row{Terms: terms, Low: need, High: math.Inf(1)})
}

// AtMost adds the row that the sum of terms is most or less.
func (p *Program) AtMost(most float64, terms ...Term) {
	p.Rows = append(p.Rows, Row{Terms: terms, Low: math.Inf(-1), High: most})
}

// WriteMPS writes the program in free MPS format. Variable i is called xi, row i is ri.
func (p *Program) WriteMPS(w io.Writer) error {
	out := bufio.NewWriter(w)
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	line := func(words ...string) {
		for _, word := range words {
			_, _ = out.WriteString(" " + word) // Flush returns the error
		}
		_ = out.WriteByte('\n')
	}
	_, _ = out.WriteString("NAME recourse FREE\nROWS\n")
	line("N", "cost")
	columns := make([][]entry, len(p.Variables))
	for i, r := range p.Rows {
		line(r.sense(), fmt.Sprintf("r%d", i))
		sums := map[int]float64{} // a variable may stand in several terms
		for _, t := range r.Terms {
			sums[t.Variable] += t.Coef
		}
		for _, t := range r.Terms {
			if v := sums[t.Variable]; v != 0 {
				columns[t.Variable] = append(columns[t.Variable], entry{i, v})
			}
			delete(sums, t.Variable)
		}
	}
	_, _ = out.WriteString("COLUMNS\n")
	for k, v := range p.Variables {
		name := fmt.Sprintf("x%d", k)
		if v.Integer {
			line("MARKER", "'MARKER'", "'INTORG'")
		}
		line(name, "cost", number(v.Cost))
		for _, e := range columns[k] {
			line(name, fmt.Sprintf("r%d", e.row), number(e.coef))
		}
		if v.Integer {
			line("MARKER", "'MARKER'", "'INTEND'")
		}
	}
	_, _ = out.WriteString("RHS\n")
	for i, r := range p.Rows {
		line("rhs", fmt.Sprintf("r%d", i), number(r.side()))
	}
	_, _ = out.WriteString("RANGES\n")
	for i, r := range p.Rows {
		if r.sense() == "G" && !math.IsInf(r.High, 0) {
			line("range", fmt.Sprintf("r%d", i), number(r.High-r.Low))
		}
	}
	_, _ = out.WriteString("BOUNDS\n")
	for k, v := range p.Variables {
		for _, b := range []struct {
			kind, none string
			at         float64
		}{{"LO", "MI", v.Low}, {"UP", "PL", v.High}} {
			if math.IsInf(b.at, 0) {
				line(b.none, "bound", fmt.Sprintf("x%d", k))
			} else {
				line(b.kind, "bound", fmt.Sprintf("x%d", k), number(b.at))
			}
		}
	}
	_, _ = out.WriteString("ENDATA\n")
	return out.Flush()
}

// entry is a coefficient of a variable.
type entry struct {
	row  int
	coef float64
}

// sense is how MPS names the row: at least, at most, or equal.
func (r *Row) sense() string {
	switch {
	case r.Low == r.High:
		return "E"
	case math.IsInf(r.Low, 0):
		return "L"
	}
	return "G"
}

// side is the number on the right of the row.
func (r *Row) side() float64 {
	if math.IsInf(r.Low, 0) {
		return r.High
	}
	return r.Low
}
