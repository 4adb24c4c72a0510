package calib

import "math"

// nearMargin is tau, the margin at which a row counts half of what one on the
// decision boundary does: half a logit, odds of 1.65 to 1. Without it a row that
// happens to lie on the boundary would count for all others together.
const nearMargin = 0.5

// Weigh lets rows and recourse points near the decision count most:
// w = 1/(tau + |margin|), scaled to a mean of 1. margins holds one margin per row;
// rows whose margin is not finite count nothing.
func (s *Set) Weigh(margins []float32) {
	s.Weights = make([]float64, s.Rows())
	var sum float64
	for i := range s.Weights {
		w := 1 / (nearMargin + math.Abs(float64(margins[i])))
		if w != w {
			w = 0
		}
		s.Weights[i] = w
		sum += w
	}
	if sum == 0 {
		s.Weights = nil
		return
	}
	for i := range s.Weights {
		s.Weights[i] *= float64(len(s.Weights)) / sum
	}
}
