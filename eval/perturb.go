package eval

import (
	"context"
	"math"
)

// Perturbation is a way to measure the logit perturbation eps around a recourse point u, in logits:
// the largest difference, over the classes, between the two models' logits.
//
// References: "Empirical estimation of logit perturbation" and "Bounding logit perturbation from quantization error".
type Perturbation string

// The perturbations.
const (
	AtPoint    Perturbation = "point"       // of the two models at u
	InBall     Perturbation = "ball"        // the largest of u and samples of the l2 ball around it: eps hat
	FirstOrder Perturbation = "first_order" // at u, plus the radius times the norm of the difference's gradient
	Lipschitz  Perturbation = "layerwise"   // the bound by layers' norms: nothing in the ball is farther apart
)

// Perturbations lists them in the order of the reports.
func Perturbations() []Perturbation { return []Perturbation{AtPoint, InBall, FirstOrder, Lipschitz} }

// Perturbed is how far the two models' logits are apart around f's recourse points, and what the paper's
// condition m_f(u) > 2 eps then says: points that meet it are safe.
//
// References: Proposition prop:margin_robust; table tab:margin_diagnostics.
type Perturbed struct {
	N             int      `json:"n"`
	Mean          Estimate `json:"mean"`
	P95           Estimate `json:"p95"` // eps hat .95 of the paper for InBall
	Max           Estimate `json:"max"`
	Safe          Rate     `json:"safe"`           // of the promises, those with m_f(u) > 2 eps
	BrokenInside  Rate     `json:"broken_inside"`  // of the safe ones, those that g refuses
	BrokenOutside Rate     `json:"broken_outside"` // of the others
}

// Perturber measures logit perturbations. points are n rows of dim model inputs; the result has one row for each, with one
// number for each of Perturbations, undefined where the model's graph has none, and infinite where it has one that cannot be told: that is not safe.
type Perturber func(ctx context.Context, points []float32, n int) ([][]Float, error)

// perturbed summarises the perturbations at the i-th required margin; nil when they were not measured.
func perturbed(records []Record, i int, confidence float64) map[Perturbation]Perturbed {
	out := map[Perturbation]Perturbed{}
	for k, kind := range Perturbations() {
		var p Perturbed
		var eps []float64
		var safe, inside, outside int
		asked := false
		for j := range records {
			if !records[j].Evaluated {
				continue
			}
			s := &records[j].Steps[i]
			if !s.Full.Made() || s.Perturbed == nil {
				continue
			}
			asked = true
			e := s.Perturbed[k]
			if math.IsNaN(float64(e)) {
				continue
			}
			eps = append(eps, float64(e))
			if s.Full.Own > 2*e {
				safe++
				inside += count(s.Full.Broken())
			} else {
				outside += count(s.Full.Broken())
			}
		}
		if !asked {
			return nil
		}
		n := len(eps)
		p.N, p.Mean, p.P95, p.Max = n, meanOf(eps, confidence), quantileOf(eps, 0.95, confidence), quantileOf(eps, 1, confidence)
		p.Safe, p.BrokenInside, p.BrokenOutside = NewRate(safe, n, confidence), NewRate(inside, safe, confidence), NewRate(outside, n-safe, confidence)
		out[kind] = p
	}
	return out
}
