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
func (y *summary) proofs(i int) *Proofs {
	apart := y.values(i, func(o person) (x, n float64) {
		if o.p.Proof == nil {
			return 0, 0
		}
		return float64(o.p.Proof.Apart), 1
	}, Lower)
	if len(apart) == 0 {
		return nil
	}
	return &Proofs{
		Radius: y.s.Radius, Certified: y.rate("certified.share", i), Apart: quantileOf(apart, 0.5, y.s.Confidence),
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

// perturbed summarizes the perturbations at the i-th required margin; nil when they were not measured. A person with
// several points has the largest perturbation of them, is safe when all are, and broken when one is.
func (y *summary) perturbed(i int) map[Perturbation]Perturbed {
	var people [][]*Step
	for _, of := range y.persons {
		var steps []*Step
		for _, j := range of {
			if r := &y.records[j]; r.Evaluated && r.Steps[i].Perturbed != nil {
				steps = append(steps, &r.Steps[i])
			}
		}
		if steps != nil {
			people = append(people, steps)
		}
	}
	if len(people) == 0 {
		return nil
	}
	out, c := map[Perturbation]Perturbed{}, y.s.Confidence
	for k, kind := range Perturbations() {
		var eps []float64
		var safe, inside, outside int
		for _, steps := range people {
			largest, allSafe, broken := math.Inf(-1), true, false
			for _, s := range steps {
				if e := s.Perturbed[k]; !math.IsNaN(float64(e)) {
					largest = max(largest, float64(e))
					allSafe = allSafe && s.Full.Own > 2*e
					broken = broken || s.Full.Broken()
				}
			}
			switch {
			case math.IsInf(largest, -1):
				continue
			case allSafe:
				safe++
				inside += count(broken)
			default:
				outside += count(broken)
			}
			eps = append(eps, largest)
		}
		n := len(eps)
		out[kind] = Perturbed{
			N: n, Mean: meanOf(eps, c), P95: quantileOf(eps, 0.95, c), Max: quantileOf(eps, 1, c),
			Safe: NewRate(safe, n, c), BrokenInside: NewRate(inside, safe, c), BrokenOutside: NewRate(outside, n-safe, c),
		}
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
