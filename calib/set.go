// Package calib makes the counterfactual calibration set and fits quantizer
// parameters on it.
//
// In: rows of model inputs, the full-precision classifier, an action set. Out:
// the set U_cal, statistics of every layer's input over it, and from those the
// weight scales, activation quantizers and input grid of a plan. The invariant:
// statistics are sums over rows, so memory does not grow with the rows and
// results do not depend on the number of workers.
//
// References: Counterfactual calibration set (eq. cfptq_ucal), calibration
// objective (eq. cfptq_calibration) of section Training-Free
// Counterfactual-Aware PTQ.
package calib

import (
	"context"
	"fmt"
	"slices"

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
	// Weights say how much each row counts in statistics; nil: all the same.
	Weights []float64
}

// Rows returns the number of rows of the set.
func (s *Set) Rows() int { return s.Factual + s.Recourse }

// Valid returns the number of recourse points that are Reached.
func (s *Set) Valid() int {
	n := 0
	for _, ok := range s.Reached {
		if ok {
			n++
		}
	}
	return n
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

// Counterfactual is U_cal: the rows and, for each row that m refuses, its teacher
// recourse point x + delta. A row that m favours already has the action zero;
// its point is the row itself and is not listed twice. Actions that leave a
// person where they are add no point either.
func Counterfactual(ctx context.Context, m recourse.Model, a *constraint.Set, x []float32, o recourse.TeacherOptions) (*Set, error) {
	dim := m.Dim()
	n := len(x) / dim
	margins, err := m.Margins(ctx, x)
	if err != nil {
		return nil, fmt.Errorf("margins of the calibration rows: %w", err)
	}
	s := &Set{Dim: dim, Factual: n}
	var refused []float32
	for i, v := range margins {
		if v <= 0 {
			refused = append(refused, x[i*dim:(i+1)*dim]...)
			s.Source = append(s.Source, i)
		}
	}
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
	s.Source, s.Recourse = source, len(points)/dim
	reached, err := m.Margins(ctx, points)
	if err != nil {
		return nil, fmt.Errorf("margins of the recourse points: %w", err)
	}
	s.Reached = make([]bool, len(reached))
	for i, v := range reached {
		s.Reached[i] = v > 0
	}
	s.X = append(append(make([]float32, 0, len(x)+len(points)), x...), points...)
	return s, nil
}

func still(delta []float32) bool {
	for _, v := range delta {
		if v != 0 {
			return false
		}
	}
	return true
}
