package eval

import (
	"context"
	"fmt"
	"math"
)

// Proof is what is certain about the two models in a neighbourhood of a recourse point of f: the box of Settings.Radius, in
// model-input units, around those inputs that stand for numbers which actions may change.
type Proof struct {
	Lower Float `json:"lower"` // no point has a smaller margin under g, in logits
	Apart Float `json:"apart"` // nowhere do the two margins differ by more, in logits
}

// Certified says that g approves whoever ends anywhere in the neighbourhood.
func (p *Proof) Certified() bool { return p.Lower > 0 }

// Proofs are the proofs at one required margin.
type Proofs struct {
	Radius    float64  `json:"radius"`
	Certified Rate     `json:"share"` // of f's promises: g approves everywhere in the neighbourhood, which is certain
	Apart     Estimate `json:"apart"` // median over promises of Proof.Apart
}

// Prover bounds margins. points are n rows of dim model inputs and half the half widths of the boxes around them; the result has one
// Proof for each row. It must be sound for the models as ONNX Runtime runs them.
type Prover func(ctx context.Context, points, half []float32, n int) ([]Proof, error)

// proofs summarises the proofs at the i-th required margin; nil when there are none.
func proofs(records []Record, i int, s Settings) *Proofs {
	p := Proofs{Radius: s.Radius}
	certified := 0
	var apart []float64
	for j := range records {
		if !records[j].Evaluated {
			continue
		}
		if s := &records[j].Steps[i]; s.Full.Made() && s.Proof != nil {
			certified += count(s.Proof.Certified())
			apart = append(apart, float64(s.Proof.Apart))
		}
	}
	if len(apart) == 0 {
		return nil
	}
	p.Certified, p.Apart = NewRate(certified, len(apart), s.Confidence), quantileOf(apart, 0.5, s.Confidence)
	return &p
}

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
)

// Perturbations lists them in the order of the reports.
func Perturbations() []Perturbation { return []Perturbation{AtPoint, InBall, FirstOrder} }

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
// number for each of Perturbations, undefined where the model's graph has none.
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

// measureNeighbourhoods adds to the records of the people of s what holds around their recourse points.
func (o *Options) measureNeighbourhoods(ctx context.Context, records []Record, s *Solution) error {
	if o.Prove == nil && o.Perturb == nil {
		return nil
	}
	for i, t := range s.o.Margins {
		if err := o.measureAt(ctx, records, s, i); err != nil {
			return fmt.Errorf("neighbourhoods, margin %g: %w", t, err)
		}
	}
	return nil
}

// measureAt is measureNeighbourhoods at the i-th required margin.
func (o *Options) measureAt(ctx context.Context, records []Record, s *Solution, i int) error {
	var steps []*Step
	var points, half []float32
	for k, row := range s.rows {
		step := &records[row].Steps[i]
		if !step.Full.Made() {
			continue
		}
		steps = append(steps, step)
		points = append(points, step.Full.Point...)
		box := make([]float32, s.model.Dim())
		for _, j := range s.set.Person(k).Numbers() {
			box[j] = float32(o.Radius)
		}
		half = append(half, box...)
	}
	stage := fmt.Sprintf("neighbourhoods, margin %g", s.o.Margins[i])
	o.Progress(Event{Stage: stage, Total: len(steps)})
	if o.Prove != nil {
		proofs, err := o.Prove(ctx, points, half, len(steps))
		if err != nil {
			return err
		}
		for k, step := range steps {
			step.Proof = &proofs[k]
		}
	}
	if o.Perturb != nil {
		eps, err := o.Perturb(ctx, points, len(steps))
		if err != nil {
			return err
		}
		for k, step := range steps {
			step.Perturbed = eps[k]
		}
	}
	o.Progress(Event{Stage: stage, Done: len(steps), Total: len(steps)})
	return nil
}
