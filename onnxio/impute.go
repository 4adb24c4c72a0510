package onnxio

import (
	"context"
	"math"
	"slices"
	"strconv"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

const maxImputed = 1 << 10

// Imputed returns, by input, the number that the model takes for one that is not known (NaN), and NaN where there is
// none. It is not read off operators: the model is run. What a value of the graph is for NaN, where it follows the
// input in a straight line, tells the number; and the file, run with NaN and with that number, must give the same.
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
	logits, err := ort.OpenValues(m.graph, m.engine, m.logits) // which do not saturate as probabilities do
	if err != nil {
		return nil, err
	}
	defer logits.Close() //nolint:errcheck // nothing was written
	if err := p.known(ctx, logits); err != nil || len(p.at) == 0 {
		return p.found, err
	}
	if err := p.find(ctx); err != nil {
		return nil, err
	}
	return p.found, p.confirm(ctx, logits)
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

func (p *imputation) run(ctx context.Context, s *ort.Session, feed rowFeed, row []float32) ([][]float64, error) {
	batch := max(1, p.m.fixed)
	in, err := feed(slices.Repeat(row, batch))
	if err != nil {
		return nil, ctx.Err()
	}
	out, err := s.Run(ctx, in)
	if err != nil {
		return nil, ctx.Err()
	}
	all := make([][]float64, len(out))
	for k, t := range out {
		if v, err := t.Numbers(); err == nil && len(t.Dims) > 0 && t.Dims[0] == int64(batch) {
			all[k] = v[:len(v)/batch]
		}
	}
	return all, nil
}

type rowFeed = func(x []float32) ([]*graph.Tensor, error)

func (p *imputation) own(x []float32) ([]*graph.Tensor, error) {
	return []*graph.Tensor{p.m.Feed(x)}, nil
}

func (p *imputation) known(ctx context.Context, logits *ort.Session) error {
	var left []int
	for _, at := range p.at {
		out, err := p.run(ctx, logits, p.own, with(p.base, at, math.NaN()))
		if err != nil {
			return err
		}
		if out != nil && !slices.ContainsFunc(out[0], math.IsNaN) {
			left = append(left, at)
		}
	}
	p.at = left
	return nil
}

func (p *imputation) find(ctx context.Context) error {
	tries := []float64{0, 1, -1000, 1e4, math.NaN()}
	s, err := p.m.Exposed()
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	for _, at := range p.at {
		var made [][][]float64 // by value and number tried
		for i, v := range tries {
			out, err := p.run(ctx, s, p.own, with(p.base, at, v))
			if err != nil {
				return err
			}
			if i == 0 {
				made = make([][][]float64, len(out))
			}
			for k := range min(len(made), len(out)) {
				made[k] = append(made[k], out[k])
			}
		}
		for _, value := range made {
			if v := straight(tries, value); !math.IsNaN(v) {
				p.found[at] = v
				break
			}
		}
	}
	return nil
}

// noNumber is the size of what stands for no number, as the largest of none does.
const noNumber = 1e30

// straight returns the number for which an element of a value, given for each number tried of which the last is NaN,
// is what it is for NaN; NaN where no element is a straight line.
func straight(tries []float64, made [][]float64) float64 {
	last := len(tries) - 1
	other := func(v []float64) bool { return len(v) != len(made[0]) }
	if len(made) < len(tries) || slices.ContainsFunc(made, other) { // a number is refused, or counted
		return math.NaN()
	}
	for e := range made[0] {
		at, slope := made[0][e], (made[last-1][e]-made[0][e])/tries[last-1] // the first try is 0
		v := (made[last][e] - at) / slope
		if slope == 0 || !(math.Abs(v) <= noNumber) {
			continue
		}
		line := true
		for i, t := range tries[:last] {
			line = line && math.Abs(made[i][e]-at-slope*t) <= 1e-5*(math.Abs(slope*t)+math.Abs(at))
		}
		if line {
			short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
			return short
		}
	}
	return math.NaN()
}

func (p *imputation) confirm(ctx context.Context, logits *ort.Session) error {
	file := p.m.File()
	var numbers []string // the outputs but texts
	produced := file.Graph.Producers()
	for _, v := range p.m.base.Graph.Outputs {
		if produced[v.Name] != nil {
			numbers = append(numbers, v.Name)
		}
	}
	s, err := ort.OpenValues(file, p.m.engine, numbers...)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	for _, at := range p.at {
		if math.IsNaN(p.found[at]) {
			continue
		}
		same, err := p.same(ctx, s, p.m.FileFeed, at)
		if err == nil && same {
			same, err = p.same(ctx, logits, p.own, at)
		}
		if err != nil {
			return err
		}
		if !same {
			p.found[at] = math.NaN()
		}
	}
	return nil
}

func (p *imputation) same(ctx context.Context, s *ort.Session, feed rowFeed, at int) (bool, error) {
	for _, scale := range []float64{0, 1, 2} { // of the imputed numbers, which are such as the model knows
		row := slices.Clone(p.base)
		for _, k := range p.at {
			if v := scale * p.found[k]; !math.IsNaN(v) {
				row[k] = float32(v)
			}
		}
		unknown, err := p.run(ctx, s, feed, with(row, at, math.NaN()))
		if err != nil {
			return false, err
		}
		imputed, err := p.run(ctx, s, feed, with(row, at, p.found[at]))
		a, b := slices.Concat(unknown...), slices.Concat(imputed...)
		if len(a) == 0 || err != nil || !slices.EqualFunc(a, b, func(a, b float64) bool {
			return math.Abs(a-b) <= 1e-4*(1+math.Abs(b))
		}) {
			return false, err
		}
	}
	return true, nil
}
