package eval

import (
	"context"
	"fmt"
	"math"
)

// Proof is what is certain about the two models in a neighbourhood of a recourse point of f: the box of
// Settings.Radius, in model-input units, around those inputs that stand for numbers which actions may change.
type Proof struct {
	Lower Float `json:"lower"` // no point has a smaller margin under g, in logits
	Apart Float `json:"apart"` // nowhere do the two margins differ by more, in logits
}

// Certified says that g approves everywhere in the neighbourhood.
func (p *Proof) Certified() bool { return p.Lower > 0 }

// Proofs are the proofs at one required margin.
type Proofs struct {
	Radius    float64  `json:"radius"`
	Certified Rate     `json:"share"` // of f's promises: g approves everywhere in the neighbourhood, which is certain
	Apart     Estimate `json:"apart"` // median over promises of Proof.Apart
}

// Prover bounds margins. points are n rows of dim model inputs and half the half widths of the boxes around
// them; the result has one Proof for each row. It must be sound for the models as ONNX Runtime runs them.
type Prover func(ctx context.Context, points, half []float32, n int) ([]Proof, error)

// proofs summarizes the proofs at the i-th required margin; nil when there are none.
func (y *scope) proofs(i int) *Proofs {
	apart := y.margins[i].apart
	if apart.len() == 0 {
		return nil
	}
	return &Proofs{
		Radius: y.s.Radius, Certified: y.share("certified.share", i), Apart: apart.ranked().quantile(0.5, y.s.Confidence),
	}
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

// Perturber measures logit perturbations. points are n rows of dim model inputs; the result has one row for
// each, with one number for each of Perturbations, undefined where the model's graph has none.
type Perturber func(ctx context.Context, points []float32, n int) ([][]Float, error)

// perturbedScope is what one kind of perturbation says of people.
type perturbedScope struct {
	eps                   valueScope
	safe, inside, outside int
}

// addPerturbed adds a person. One with several points has the largest perturbation of them, is safe when all are, and
// broken when one is.
func addPerturbed(all []perturbedScope, of []*Record, at int) {
	for k := range all {
		x := &all[k]
		largest, safe, broken := math.Inf(-1), true, false
		for _, r := range of {
			if !r.Evaluated || r.Steps[at].Perturbed == nil {
				continue
			}
			s := &r.Steps[at]
			if e := s.Perturbed[k]; !math.IsNaN(float64(e)) {
				largest = max(largest, float64(e))
				safe = safe && s.Full.Own > 2*e
				broken = broken || s.Full.Broken()
			}
		}
		switch {
		case math.IsInf(largest, -1):
			continue
		case safe:
			x.safe++
			x.inside += count(broken)
		default:
			x.outside += count(broken)
		}
		x.eps.add(largest)
	}
}

// perturbed summarizes the perturbations at the i-th required margin; nil when they were not measured.
func (y *scope) perturbed(i int) map[Perturbation]Perturbed {
	out, c := map[Perturbation]Perturbed{}, y.s.Confidence
	any := false
	for k, kind := range Perturbations() {
		x := &y.margins[i].perturbed[k]
		n, eps := x.eps.n, x.eps.list.ranked()
		any = any || n > 0
		out[kind] = Perturbed{
			N: n, Mean: x.eps.mean(c), P95: eps.quantile(0.95, c), Max: eps.quantile(1, c),
			Safe: NewRate(x.safe, n, c), BrokenInside: NewRate(x.inside, x.safe, c),
			BrokenOutside: NewRate(x.outside, n-x.safe, c),
		}
	}
	if !any {
		return nil
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
