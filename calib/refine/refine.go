// Package refine improves a quantized model as a whole: codes, weight scales and biases are moved so that margins,
// above all those at recourse points, become those of the full-precision model.
//
// In: plans of layers, points, the margins wanted there, and a way to open the model of a plan. Out: plans of the same
// widths. The invariant: nothing is trained and no labels are used; what counts is the margin error of the model as it
// would be written, run by ONNX Runtime, on points that no step has looked at, and plans that are worse there are not
// returned.
//
// References: output-logit reconstruction, one of the ways in which the paper lets
// its calibration objective (eq. cfptq_calibration) be instantiated.
package refine

import (
	"context"
	"errors"
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Layer is a dense layer to refine.
type Layer struct {
	Info  quant.LayerInfo // behind an integer input, folded
	Plan  quant.Layer
	Input *quant.Input // the grid of the model's input where that feeds the layer, else nil
}

// Points are where margins count.
type Points struct {
	X       []float32 // rows of model inputs
	Margins []float32 // of the full-precision model
	Weights []float64 // how much each row counts; nil: all the same
}

// Options of Run; the zero value is the default.
type Options struct {
	Rounds   int // at most (4)
	Progress func(done, total int)
}

// Outcome says what came of it.
type Outcome struct {
	Before float64 `json:"before"` // root mean square margin error on the points held out, in logits
	After  float64 `json:"after"`
	Rounds int     `json:"rounds"` // after how many rounds it was best
	// Steps is how many gradient steps followed, 0 where the rounds were enough or the steps did not help.
	Steps int `json:"steps,omitempty"`
}

// Error is the root mean square margin error of a model on the points, in logits.
func (p *Points) Error(ctx context.Context, m *classifier.Model) (float64, error) {
	got, err := m.Margins(ctx, p.X)
	var sum, weights float64
	for i, v := range got {
		d := float64(v) - float64(p.Margins[i])
		sum += p.weight(i) * d * d
		weights += p.weight(i)
	}
	return math.Sqrt(sum / max(weights, math.SmallestNonzeroFloat64)), err
}

// Add appends points, all of which have weights.
func (p *Points) Add(more *Points) {
	p.X, p.Margins = append(p.X, more.X...), append(p.Margins, more.Margins...)
	p.Weights = append(p.Weights, more.Weights...)
}

func (p *Points) weight(i int) float64 {
	if p.Weights == nil {
		return 1
	}
	return p.Weights[i]
}

// Part parts the points into those that refinement looks at and those held out to judge by.
func (p *Points) Part() (seen, held Points) {
	dim := len(p.X) / len(p.Margins)
	for i, m := range p.Margins {
		part := &seen
		if i%heldEvery == 0 {
			part = &held
		}
		part.X = append(part.X, p.X[i*dim:(i+1)*dim]...)
		part.Margins, part.Weights = append(part.Margins, m), append(part.Weights, p.weight(i))
	}
	return seen, held
}

// MinPoints is the number of points that Run needs.
const MinPoints = 2 * heldEvery

const (
	// heldEvery: one point of this number is held out to judge by.
	heldEvery = 5
	// enough is the relative gain below which another round is not worth its time.
	enough = 0.005
	// localWeight is the weight of the error of each single output of a layer, that of the margin
	// having 1: without it codes overfit to the points at hand.
	localWeight = 0.1
	// After a round that made things worse it grows by this factor, maxShortened times at most.
	shorter      = 10
	maxShortened = 2
)

// Opener opens the model in which the layers are as the plans say.
type Opener func(plans []quant.Layer) (*classifier.Model, error)

// Run refines the layers and returns their plans. Each round runs the model, linearises the margin in all layers'
// outputs, and moves one number after the other to where the squared margin error on the points is smallest (see
// descend); then the model is run again. A round that makes things worse is taken back, and those after it are shorter.
// The result does not depend on anything but the arguments.
func Run(ctx context.Context, layers []Layer, p Points, open Opener, o Options) ([]quant.Layer, Outcome, error) {
	var out Outcome
	if o.Rounds == 0 {
		o.Rounds = 4
	}
	s, err := newRefinement(layers, p)
	if err != nil {
		return nil, out, err
	}
	var best []quant.Layer
	smallest := math.Inf(1)
	for round := 0; ; round++ {
		if o.Progress != nil {
			o.Progress(round, o.Rounds)
		}
		held, err := s.look(ctx, open, round < o.Rounds)
		if err != nil {
			return nil, out, err
		}
		if round == 0 {
			out.Before = held
		}
		worse, gained := held > smallest, held < smallest*(1-enough)
		if held < smallest {
			best, smallest, out.Rounds = s.plans(), held, round
		}
		if round == o.Rounds || !gained && !(worse && s.shorten()) {
			out.After = smallest
			return best, out, nil
		}
		if worse { // the step was too long: a shorter one from where it was best
			for l, p := range best {
				s.layers[l].Plan = cloned(p)
			}
			if _, err := s.look(ctx, open, true); err != nil {
				return nil, out, err
			}
		}
		for l := range s.layers {
			if err := ctx.Err(); err != nil {
				return nil, out, err
			}
			descend(s, l)
		}
	}
}

// shorten makes the error of single outputs count more, so that rounds move less; it
// reports false when that has been done often enough.
func (s *refinement) shorten() bool {
	s.local *= shorter
	s.shortened++
	return s.shortened <= maxShortened
}

func cloned(p quant.Layer) quant.Layer {
	p.Codes, p.Bias, p.Scales = slices.Clone(p.Codes), slices.Clone(p.Bias), slices.Clone(p.Scales)
	return p
}

// refinement is a run: the layers as they are now and what is known of the model of them.
type refinement struct {
	layers  []Layer
	formats [][]quant.Format // of each row of each layer
	local   float64          // see localWeight
	// shortened counts how often a round was taken back.
	shortened int

	seen, held Points
	n          int         // seen points
	h, g       [][]float32 // of each layer: what it reads and the margin's gradient by its outputs, In x n and Out x n
	r, w       []float32   // of each seen point: the margin error and the weight
}

// newRefinement copies the layers' plans, fills in codes and biases where a plan leaves
// them to rounding, and parts the points.
func newRefinement(layers []Layer, p Points) (*refinement, error) {
	s := &refinement{layers: slices.Clone(layers), local: localWeight}
	for l := range s.layers {
		one := &s.layers[l]
		enc, err := one.Plan.Encode(one.Info, 0)
		if err != nil {
			return nil, err
		}
		one.Plan.Codes, one.Plan.Bias = enc.Codes, enc.FloatB
		one.Plan = cloned(one.Plan)
		s.formats = append(s.formats, enc.Formats)
	}
	s.seen, s.held = p.Part()
	s.n = len(s.seen.Margins)
	s.r, s.w = make([]float32, s.n), lists.Map(s.seen.Weights, func(w float64) float32 { return float32(w) })
	s.h, s.g = make([][]float32, len(layers)), make([][]float32, len(layers))
	for l := range s.layers {
		info := &s.layers[l].Info
		s.h[l], s.g[l] = make([]float32, info.In*s.n), make([]float32, info.Out*s.n)
	}
	return s, nil
}

func (s *refinement) plans() []quant.Layer {
	return lists.Map(s.layers, func(l Layer) quant.Layer { return cloned(l.Plan) })
}

// look runs the model of the plans: it returns the root mean square margin error on the
// points held out and, if more is to come, notes what the seen points show.
func (s *refinement) look(ctx context.Context, open Opener, more bool) (held float64, err error) {
	m, err := open(s.plans())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if held, err = s.held.Error(ctx, m); err != nil || !more {
		return held, err
	}
	got, err := m.Margins(ctx, s.seen.X)
	if err != nil {
		return 0, err
	}
	for k, v := range got {
		s.r[k] = v - s.seen.Margins[k]
	}
	probe := classifier.Probe{Margin: true}
	for l := range s.layers {
		info := &s.layers[l].Info
		probe.Values, probe.Grads = append(probe.Values, info.Input), append(probe.Grads, info.Output)
	}
	err = m.Observe(ctx, s.seen.X, probe, func(from, rows int, values, grads [][]float32) error {
		for l := range s.layers {
			reads := quant.Reads(s.layers[l].Plan.Act, s.layers[l].Input, values[l], rows)
			columns(s.h[l], reads, s.n, from, rows)
			columns(s.g[l], grads[l], s.n, from, rows)
		}
		return nil
	})
	return held, err
}

// columns writes rows of values, the first being row from of n, column by column.
func columns(dst, v []float32, n, from, rows int) {
	k := len(v) / rows
	for r := range rows {
		for j, x := range v[r*k : (r+1)*k] {
			dst[j*n+from+r] = x
		}
	}
}
