package eval

import "context"

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
