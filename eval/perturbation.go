package eval

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/onnxio/classifier"
)

// Perturbations are the ways to measure the logit perturbation eps around a recourse point u, in the order of the
// reports. Eps is the largest difference, over the classes, between the two models' logits: at u; at u and samples of
// the l2 ball around it (eps hat); and at u, plus the radius times the norm of the difference's gradient.
//
// Reference: "Empirical estimation of logit perturbation".
func Perturbations() []string { return []string{"point", "ball", "first_order"} }

// Perturber measures logit perturbations. points are n rows of dim model inputs; the result has one row for
// each, with one number for each of Perturbations, undefined where the model's graph has none.
type Perturber func(ctx context.Context, points []float32, n int) ([][]Float, error)

// PerturbationBetween measures the largest difference of the logits of f and g within a Euclidean radius of points: at
// the point, over samples of the ball, and to first order. The samples of a point depend on the seed and on the point
// only.
//
// References: equations app_eps_hat_i and app_eps_grad_bound.
func PerturbationBetween(f, g *classifier.Model, radius float64, samples int, seed uint64) Perturber {
	return func(ctx context.Context, points []float32, n int) ([][]Float, error) {
		dim := f.Dim()
		if len(points) != n*dim || !(radius >= 0) {
			return nil, fmt.Errorf("perturbation: %d numbers for %d rows of %d inputs, radius %v", len(points), n, dim, radius)
		}
		at, err := logitDifferences(ctx, f, g, points)
		var slope []float64
		if err == nil {
			slope, err = gradientNorms(ctx, f, g, points)
		}
		out := make([][]Float, 0, n)
		for i := 0; i < n && err == nil; i++ {
			var sampled []float64
			sampled, err = logitDifferences(ctx, f, g, ball(points[i*dim:(i+1)*dim], radius, samples, seed))
			largest, first := slices.Max(append(sampled, at[i])), math.NaN()
			if slope != nil {
				first = at[i] + radius*slope[i]
			}
			out = append(out, []Float{Float(at[i]), Float(largest), Float(first)})
		}
		if err != nil {
			return nil, fmt.Errorf("perturbation: %w", err)
		}
		return out, nil
	}
}

// logitDifferences returns the largest difference, over the classes, of the two models' logits in each row of x.
func logitDifferences(ctx context.Context, f, g *classifier.Model, x []float32) ([]float64, error) {
	full, classes, err := f.Logits(ctx, x)
	if err != nil {
		return nil, err
	}
	quant, _, err := g.Logits(ctx, x)
	if err != nil {
		return nil, err
	}
	if len(quant) != len(full) {
		return nil, fmt.Errorf("the original has %d logits, the quantized model %d", len(full), len(quant))
	}
	out := make([]float64, len(full)/classes)
	for i, v := range full {
		out[i/classes] = math.Max(out[i/classes], math.Abs(float64(quant[i])-float64(v)))
	}
	return out, nil
}

// ball draws samples points uniformly from the ball around u.
func ball(u []float32, radius float64, samples int, seed uint64) []float32 {
	h := fnv.New64a()
	binary.Write(h, binary.LittleEndian, u) //nolint:errcheck // a hash takes all
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	out := make([]float32, 0, samples*len(u))
	step := make([]float64, len(u))
	for range samples {
		norm := 0.0
		for j := range step {
			step[j] = rng.NormFloat64()
			norm += step[j] * step[j]
		}
		size := radius * math.Pow(rng.Float64(), 1/float64(len(u))) / math.Max(math.Sqrt(norm), 1e-300)
		for j, v := range u {
			out = append(out, float32(float64(v)+size*step[j]))
		}
	}
	return out
}

// gradientNorms returns, for each row, the norm of the gradient of the difference of the logits of the class
// where it is largest. It is nil where a model has no gradient.
func gradientNorms(ctx context.Context, f, g *classifier.Model, points []float32) ([]float64, error) {
	dim := f.Dim()
	out := make([]float64, len(points)/dim)
	_, classes := f.Head()
	for class := range classes {
		if classes == 1 {
			class = 1 // a single logit is that of the second class
		}
		full, err := f.LogitGrads(ctx, points, class)
		if err != nil {
			return nil, ctx.Err() // without a gradient this is not an error
		}
		quant, err := g.LogitGrads(ctx, points, class)
		if err != nil {
			return nil, ctx.Err()
		}
		for i := range out {
			sum := 0.0
			for j := i * dim; j < (i+1)*dim; j++ {
				d := float64(quant[j]) - float64(full[j])
				sum += d * d
			}
			out[i] = math.Max(out[i], math.Sqrt(sum))
		}
	}
	return out, nil
}

// measurePerturbations adds the logit perturbation at the recourse points of s at the i-th required margin to the
// records of its people.
func (o *Options) measurePerturbations(ctx context.Context, records []Record, s *solution, i int) error {
	if o.Perturb == nil {
		return nil
	}
	var steps []*Step
	var points []float32
	for _, row := range s.rows {
		if step := &records[row].Steps[i]; step.Full.Exists() {
			steps, points = append(steps, step), append(points, step.Full.Point...)
		}
	}
	stage := fmt.Sprintf("logit perturbation, margin %g", s.o.Margins[i])
	o.Progress(Event{Stage: stage, Total: len(steps)})
	eps, err := o.Perturb(ctx, points, len(steps))
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	for k, step := range steps {
		step.Perturbed = eps[k]
	}
	o.Progress(Event{Stage: stage, Done: len(steps), Total: len(steps)})
	return nil
}
