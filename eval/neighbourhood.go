package eval

import (
	"context"
	"fmt"
)

// Proof is what is certain about the two models in a neighbourhood of a recourse point of f: the box of
// Settings.Radius, in model-input units, around those inputs that stand for numbers which actions may change.
type Proof struct {
	Lower Float `json:"lower"` // no point has a smaller margin under g, in logits
	Apart Float `json:"apart"` // nowhere do the two margins differ by more, in logits
}

// Certified says that g approves everywhere in the neighbourhood.
func (p *Proof) Certified() bool { return p != nil && p.Lower > 0 }

// Prover bounds margins. points are n rows of dim model inputs and half the half widths of the boxes around
// them; the result has one Proof for each row. It must be sound for the models as ONNX Runtime runs them.
type Prover func(ctx context.Context, points, half []float32, n int) ([]Proof, error)

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

// Perturber measures logit perturbations. points are n rows of dim model inputs; the result has one row for
// each, with one number for each of Perturbations, undefined where the model's graph has none.
type Perturber func(ctx context.Context, points []float32, n int) ([][]Float, error)

// Neighbourhood says how those of f's recourse points are measured; nothing of them when neither function is set.
type Neighbourhood struct {
	Prove   Prover
	Perturb Perturber
	Radius  float64 // in model-input units
}

// measureNeighbourhoods adds to the records of the people of s what holds around their recourse points at the i-th
// required margin.
func (o *Options) measureNeighbourhoods(ctx context.Context, records []Record, s *solution, i int) error {
	if o.Prove == nil && o.Perturb == nil {
		return nil
	}
	var steps []*Step
	var points, half []float32
	for k, row := range s.rows {
		step := &records[row].Steps[i]
		if !step.Full.Exists() {
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
			return fmt.Errorf("%s: %w", stage, err)
		}
		for k, step := range steps {
			step.Proof = &proofs[k]
		}
	}
	if o.Perturb != nil {
		eps, err := o.Perturb(ctx, points, len(steps))
		if err != nil {
			return fmt.Errorf("%s: %w", stage, err)
		}
		for k, step := range steps {
			step.Perturbed = eps[k]
		}
	}
	o.Progress(Event{Stage: stage, Done: len(steps), Total: len(steps)})
	return nil
}
