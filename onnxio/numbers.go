package onnxio

import (
	"context"
	"math"
	"slices"
	"strconv"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/lower"
	"cfq/onnxio/ort"
)

const maxImputed = 1 << 10

// Imputed returns, by input, the number that the model takes for one that is not known (NaN), and NaN where there is
// none. It is not read off operators: the model is run. What a value of the graph is for NaN, where it follows the
// input in a straight line, tells the number; and the logits must be the same for NaN and for that number.
func (m *Model) Imputed(ctx context.Context) ([]float64, error) {
	p := &imputation{m: m, base: make([]float32, m.dim), found: slices.Repeat([]float64{math.NaN()}, m.dim)}
	if m.dim > maxImputed {
		return p.found, nil
	}
	columns := m.Columns()
	for i := range m.dim {
		if columns == nil {
			p.at = append(p.at, i)
		}
	}
	for _, c := range columns {
		switch {
		case c.Values != nil:
			p.base[c.First] = 1
		case c.DType.IsFloat():
			p.at = append(p.at, c.First)
		}
	}
	if err := p.find(ctx); err != nil || !slices.ContainsFunc(p.found, func(v float64) bool { return v == v }) {
		return p.found, err
	}
	return p.found, p.confirm(ctx)
}

type imputation struct {
	m     *Model
	base  []float32 // a row
	at    []int     // inputs that may have an imputed number
	found []float64
}

func with(row []float32, at int, v float64) []float32 {
	row = slices.Clone(row)
	row[at] = float32(v)
	return row
}

// run returns what values are for a row; nil where the row is refused or has no logits.
func (p *imputation) run(ctx context.Context, s *ort.Session, row []float32) ([][]float64, error) {
	batch := max(1, p.m.fixed)
	out, err := s.Run(ctx, []*graph.Tensor{p.m.Feed(slices.Repeat(row, batch))})
	if err != nil {
		return nil, ctx.Err()
	}
	all := make([][]float64, len(out))
	for k, t := range out {
		if v, err := t.Numbers(); err == nil && len(t.Dims) > 0 && t.Dims[0] == int64(batch) {
			all[k] = v[:len(v)/batch]
		}
		if t.Name == p.m.logits && slices.ContainsFunc(all[k], math.IsNaN) {
			return nil, nil
		}
	}
	return all, nil
}

func (p *imputation) find(ctx context.Context) error {
	s, err := p.m.Exposed()
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	for _, at := range p.at {
		var made [][][]float64 // by number tried and value
		for _, v := range tries() {
			out, err := p.run(ctx, s, with(p.base, at, v))
			if err != nil {
				return err
			}
			if out == nil {
				break
			}
			made = append(made, out)
		}
		for k := 0; len(made) == len(tries()) && k < len(made[0]) && math.IsNaN(p.found[at]); k++ {
			p.found[at] = straight(made, k)
		}
	}
	return nil
}

// tries are the numbers that an input is tried with, after none.
func tries() []float64 { return []float64{math.NaN(), 0, 1, -1000, 1e4} }

// noNumber is the size of what stands for no number, as the largest of none does.
const noNumber = 1e30

// straight returns the number for which an element of the k-th value, given for each number tried, is what it is for
// NaN; NaN where no element is a straight line.
func straight(made [][][]float64, k int) float64 {
	x := tries()
	last := len(x) - 1
	other := func(v [][]float64) bool { return len(v[k]) != len(made[0][k]) }
	if slices.ContainsFunc(made, other) { // a size that depends on the number
		return math.NaN()
	}
	for e, unknown := range made[0][k] {
		at, slope := made[1][k][e], (made[last][k][e]-made[1][k][e])/x[last] // at 0
		v := (unknown - at) / slope
		if slope == 0 || !(math.Abs(v) <= noNumber) {
			continue
		}
		line := true
		for i, t := range x[1:] {
			line = line && math.Abs(made[i+1][k][e]-at-slope*t) <= 1e-5*(math.Abs(slope*t)+math.Abs(at))
		}
		if line {
			short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
			return short
		}
	}
	return math.NaN()
}

func (p *imputation) confirm(ctx context.Context) error {
	s, err := ort.OpenValues(p.m.graph, p.m.engine, p.m.logits)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	for _, at := range p.at {
		if math.IsNaN(p.found[at]) {
			continue
		}
		same, err := p.same(ctx, s, at)
		if err != nil {
			return err
		}
		if !same {
			p.found[at] = math.NaN()
		}
	}
	return nil
}

func (p *imputation) same(ctx context.Context, s *ort.Session, at int) (bool, error) {
	for _, scale := range []float64{0, 1, 2} { // of the imputed numbers, which are such as the model knows
		row := slices.Clone(p.base)
		for _, k := range p.at {
			if v := scale * p.found[k]; !math.IsNaN(v) {
				row[k] = float32(v)
			}
		}
		unknown, err := p.run(ctx, s, with(row, at, math.NaN()))
		if err != nil {
			return false, err
		}
		imputed, err := p.run(ctx, s, with(row, at, p.found[at]))
		a, b := slices.Concat(unknown...), slices.Concat(imputed...)
		if len(a) == 0 || err != nil || !slices.EqualFunc(a, b, func(a, b float64) bool {
			return math.Abs(a-b) <= 1e-4*(1+math.Abs(b))
		}) {
			return false, err
		}
	}
	return true, nil
}

// ScalesNumbers says whether the graph shifts or scales the numbers that it is given, before any layer with weights: it
// then takes the numbers of the data as they are. A graph that does not may take either these or scaled ones.
func (m *Model) ScalesNumbers() bool {
	g := m.graph.Graph
	given := map[string]bool{}
	if !slices.ContainsFunc(m.Columns(), func(c lower.Column) bool { return c.Values != nil }) {
		given[m.input.Name] = true
	}
	for _, n := range g.Nodes {
		if from := g.Init(n.Input(1)); n.Op == "Slice" && n.Inputs[0] == m.input.Name && from != nil {
			at, err := from.Ints()
			if err == nil && len(at) == 1 && slices.ContainsFunc(m.Columns(), func(c lower.Column) bool {
				return c.Values == nil && int64(c.First) == at[0]
			}) {
				given[n.Outputs[0]] = true
				continue
			}
		}
		if !slices.ContainsFunc(n.Inputs, func(in string) bool { return given[in] }) {
			continue
		}
		switch n.Op {
		case "Sub", "Add", "Mul", "Div":
			// A product that gives more numbers than it takes is a layer, as the tokens of an FT-Transformer are.
			like := func(in string) bool { return slices.Equal(m.types[in].Shape, m.types[n.Outputs[0]].Shape) }
			for i, in := range n.Inputs {
				if g.Init(in) != nil && g.Init(n.Inputs[1-i]) == nil && like(n.Inputs[1-i]) {
					return true
				}
			}
		case "Cast", "Clip", "Concat", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze", "Where":
			lists.Mark(given, n.Outputs...)
		}
	}
	return false
}
