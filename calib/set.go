// Package calib makes the counterfactual calibration set and fits quantizer parameters on it.
//
// In: rows of model inputs, the full-precision classifier, an action set. Out: the set U_cal, statistics of every
// layer's input over it, and from those the weight scales, activation quantizers and input grid of a plan. The
// invariant: statistics are sums over rows, so memory does not grow with the rows and results do not depend on the
// number of workers.
//
// References: Counterfactual calibration set (eq. cfptq_ucal), calibration
// objective (eq. cfptq_calibration) of section Training-Free Counterfactual-Aware PTQ.
package calib

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"cfq/internal/lists"
	"cfq/quant"
	"cfq/recourse"
	"cfq/recourse/constraint"
)

// Set is a calibration set: factual rows first, then recourse points.
type Set struct {
	X       []float32 // rows x Dim
	Dim     int
	Factual int // number of factual rows
	// Recourse is the number of recourse points; Source[i] is the factual row that
	// point i belongs to, Reached[i] whether its margin is positive.
	Recourse int
	Source   []int
	Reached  []bool
}

// Rows returns the number of rows of the set.
func (s *Set) Rows() int { return s.Factual + s.Recourse }

// Valid returns the number of recourse points that are Reached.
func (s *Set) Valid() int {
	return len(lists.Where(len(s.Reached), func(i int) bool { return s.Reached[i] }))
}

// Points returns the recourse points, Recourse x Dim.
func (s *Set) Points() []float32 { return s.X[s.Factual*s.Dim:] }

// Moved returns x + delta for every x of X_cal: the recourse points, and the rows
// of people who stay where they are; Factual x Dim.
func (s *Set) Moved() []float32 {
	x := slices.Clone(s.Facts())
	for i, row := range s.Source {
		copy(x[row*s.Dim:(row+1)*s.Dim], s.Points()[i*s.Dim:])
	}
	return x
}

// Facts returns the factual rows, Factual x Dim.
func (s *Set) Facts() []float32 { return s.X[:s.Factual*s.Dim] }

// FactualSet is the calibration set of standard PTQ: the rows alone.
func FactualSet(x []float32, dim int) *Set {
	return &Set{X: x, Dim: dim, Factual: len(x) / dim}
}

// Counterfactual is U_cal: the rows and, for each row that m refuses, its teacher recourse point x + delta. A row that
// m favours already has the action zero; its point is the row itself and is not listed twice. Actions that leave a
// person where they are add no point either.
func Counterfactual(ctx context.Context, m recourse.Model, a *constraint.Set, x []float32,
	o recourse.TeacherOptions,
) (*Set, error) {
	dim := m.Dim()
	margins, err := m.Margins(ctx, x)
	if err != nil {
		return nil, fmt.Errorf("margins of the calibration rows: %w", err)
	}
	s := FactualSet(x, dim)
	s.Source = lists.Where(len(margins), func(i int) bool { return margins[i] <= 0 })
	refused := lists.RowsAt(x, dim, s.Source)
	delta, err := recourse.Teacher(ctx, m, a.Select(s.Source), refused, o)
	if err != nil {
		return nil, fmt.Errorf("teacher actions: %w", err)
	}
	points := make([]float32, 0, len(refused))
	source := s.Source[:0]
	for i := range s.Source {
		d := delta[i*dim : (i+1)*dim]
		if still(d) {
			continue
		}
		points = append(points, make([]float32, dim)...)
		recourse.Point(points[len(points)-dim:], refused[i*dim:(i+1)*dim], d)
		source = append(source, s.Source[i])
	}
	s.Source = source
	return s, s.add(ctx, m, points)
}

func still(delta []float32) bool {
	return !slices.ContainsFunc(delta, func(v float32) bool { return v != 0 })
}

func (s *Set) add(ctx context.Context, m recourse.Model, points []float32) error {
	margins, err := m.Margins(ctx, points)
	if err != nil {
		return fmt.Errorf("margins of the recourse points: %w", err)
	}
	s.X, s.Recourse = slices.Concat(s.X, points), len(s.Source)
	s.Reached = lists.Map(margins, func(m float32) bool { return m > 0 })
	return nil
}

// Clip moves the values of the set that lie outside the grid onto its ends, as the
// quantized model does, and returns the inputs in which there were any.
func (s *Set) Clip(in *quant.Input) []int {
	lo, hi := in.Ranges(s.Dim)
	clipped := make([]bool, s.Dim)
	x := slices.Clone(s.X)
	for j := range s.Dim {
		// A bound is a value of the column from another computation: a rounding error away from it is not outside.
		slack := 1e-4 * (hi[j] - lo[j])
		for k := j; k < len(x); k += s.Dim {
			if v := x[k]; !(v >= lo[j] && v <= hi[j]) {
				clipped[j] = clipped[j] || v < lo[j]-slack || v > hi[j]+slack
				x[k] = min(max(v, lo[j]), hi[j])
			}
		}
	}
	s.X = x
	return lists.Where(s.Dim, func(j int) bool { return clipped[j] })
}

// Promised is U_cal with promises that were made already in place of teacher actions: the rows x,
// and the points of the people whose action is Found.
// Actions hold one entry per row. A promise counts whether m keeps it or not, and also when m favours the row as it is.
func Promised(ctx context.Context, m recourse.Model, x []float32, actions []recourse.Action) (*Set, error) {
	s := FactualSet(x, m.Dim())
	s.Source = lists.Where(len(actions), func(i int) bool {
		return actions[i].Status == recourse.Found && !still(actions[i].Delta)
	})
	return s, s.add(ctx, m, lists.Join(s.Source, func(i int) []float32 { return actions[i].Point }))
}

// Batch returns a calibration batch for statistics: at most limit rows of the set, factual rows and recourse points
// alike, drawn with replacement by seed.
func (s *Set) Batch(limit int, seed uint64) *Set {
	rng := rand.New(rand.NewPCG(seed, 0xca11b))
	n := min(limit, s.Rows())
	x := make([]float32, 0, n*s.Dim)
	for range n {
		r := rng.IntN(s.Rows())
		x = append(x, s.X[r*s.Dim:(r+1)*s.Dim]...)
	}
	return FactualSet(x, s.Dim)
}
