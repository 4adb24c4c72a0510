package onnxio

import (
	"context"
	"fmt"
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
	if m.dim > maxImputed {
		return slices.Repeat([]float64{math.NaN()}, m.dim), nil
	}
	p := &imputation{m: m, base: make([]float32, m.dim), found: slices.Repeat([]float64{math.NaN()}, m.dim)}
	for i := range m.dim {
		p.at = append(p.at, i)
	}
	if columns := m.Columns(); columns != nil {
		p.at = nil
		for _, c := range columns {
			switch {
			case c.Values != nil:
				p.base[c.First] = 1
			case c.DType.IsFloat():
				p.at = append(p.at, c.First)
			}
		}
	}
	if err := p.known(ctx); err != nil || len(p.at) == 0 {
		return p.found, err
	}
	if err := p.find(ctx); err != nil {
		return nil, err
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

func (p *imputation) rows(ctx context.Context, s *ort.Session, x [][]float32,
	feed func(x []float32) ([]*graph.Tensor, error), each func(rows, batch int, out []*graph.Tensor),
) error {
	const most = 256
	for from := 0; from < len(x); {
		n := min(most, len(x)-from)
		batch := n
		if p.m.fixed > 0 {
			n, batch = min(p.m.fixed, n), p.m.fixed
		}
		all := slices.Concat(x[from : from+n]...)
		for range batch - n {
			all = append(all, x[from]...)
		}
		in, err := feed(all)
		if err != nil {
			return err
		}
		out, err := s.Run(ctx, in)
		if err != nil {
			return fmt.Errorf("the model does not run with a number that is not known: %w", err)
		}
		each(n, batch, out)
		from += n
	}
	return nil
}

func (p *imputation) own(x []float32) ([]*graph.Tensor, error) {
	return []*graph.Tensor{p.m.Feed(x)}, nil
}

func (p *imputation) logits() (*ort.Session, error) {
	return ort.OpenValues(p.m.graph, p.m.engine, p.m.logits)
}

func (p *imputation) known(ctx context.Context) error {
	s, err := p.logits()
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	var left []int
	for _, at := range p.at { // one by one: the model may refuse it, as an index for example
		x := [][]float32{with(p.base, at, math.NaN())}
		err := p.rows(ctx, s, x, p.own, func(_, batch int, out []*graph.Tensor) {
			v, err := out[0].Numbers()
			if err == nil && !slices.ContainsFunc(v[:len(v)/batch], math.IsNaN) {
				left = append(left, at)
			}
		})
		if err != nil && ctx.Err() != nil {
			return err
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
		var x [][]float32
		for _, v := range tries {
			x = append(x, with(p.base, at, v))
		}
		made := map[string][][]float64{}
		var names []string
		err := p.rows(ctx, s, x, p.own, func(rows, batch int, out []*graph.Tensor) {
			for _, t := range out {
				v, err := t.Numbers()
				if err != nil || len(t.Dims) == 0 || t.Dims[0] != int64(batch) || len(v) == 0 {
					continue
				}
				if made[t.Name] == nil {
					names = append(names, t.Name)
				}
				for i := range rows {
					made[t.Name] = append(made[t.Name], v[i*len(v)/batch:(i+1)*len(v)/batch])
				}
			}
		})
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			continue // it refuses a number
		}
		for _, name := range names {
			if v := straight(tries, made[name]); !math.IsNaN(v) {
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
	for e := range made[0] {
		at, slope := made[0][e], (made[last-1][e]-made[0][e])/tries[last-1] // the first try is 0
		if slope == 0 || math.IsNaN(slope+made[last][e]) || math.IsInf(slope+made[last][e], 0) {
			continue
		}
		line := true
		for i, t := range tries[:last] {
			line = line && math.Abs(made[i][e]-at-slope*t) <= 1e-5*(math.Abs(slope*t)+math.Abs(at))
		}
		if line {
			v := (made[last][e] - at) / slope
			if math.Abs(v) > noNumber {
				continue
			}
			short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
			return short
		}
	}
	return math.NaN()
}

func (p *imputation) confirm(ctx context.Context) error {
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
	logits, err := p.logits()
	if err != nil {
		return err
	}
	defer logits.Close() //nolint:errcheck // nothing was written
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

func (p *imputation) same(
	ctx context.Context, s *ort.Session, feed func(x []float32) ([]*graph.Tensor, error), at int,
) (bool, error) {
	for _, scale := range []float64{0, 1, 2} { // of the imputed numbers, which are such as the model knows
		row := slices.Clone(p.base)
		for _, k := range p.at {
			if v := scale * p.found[k]; !math.IsNaN(v) {
				row[k] = float32(v)
			}
		}
		var outs [2][]float64
		for k, v := range []float64{math.NaN(), p.found[at]} {
			err := p.rows(ctx, s, [][]float32{with(row, at, v)}, feed, func(_, _ int, out []*graph.Tensor) {
				for _, t := range out {
					numbers, err := t.Numbers()
					if err == nil {
						outs[k] = append(outs[k], numbers...)
					}
				}
			})
			if err != nil && ctx.Err() != nil {
				return false, err
			}
		}
		if len(outs[0]) == 0 || !slices.EqualFunc(outs[0], outs[1], func(a, b float64) bool {
			return math.Abs(a-b) <= 1e-4*(1+math.Abs(b))
		}) {
			return false, nil
		}
	}
	return true, nil
}
