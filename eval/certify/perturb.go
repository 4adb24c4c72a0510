package certify

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/eval"
	"cfq/onnxio/graph"
)

// Perturb measures the largest difference of the two models' logits within a Euclidean radius of points, in
// logits: at the point, over samples of the ball, and to first order. The samples of a point depend on the
// seed and on the point only.
//
// References: equations app_eps_hat_i and app_eps_grad_bound.
func (k *Certifier) Perturb(radius float64, samples int, seed uint64) eval.Perturber {
	return func(ctx context.Context, points []float32, n int) ([][]eval.Float, error) {
		dim := k.full.c.Dim()
		if len(points) != n*dim || !(radius >= 0) {
			return nil, fmt.Errorf("perturbation: %d numbers for %d rows of %d inputs, radius %v",
				len(points), n, dim, radius)
		}
		at, err := k.apart(ctx, points)
		if err != nil {
			return nil, fmt.Errorf("perturbation: %w", err)
		}
		slope, err := k.gradientNorms(ctx, points)
		if err != nil {
			return nil, fmt.Errorf("perturbation: %w", err)
		}
		out := make([][]eval.Float, n)
		for i := range out {
			u := points[i*dim : (i+1)*dim]
			sampled, err := k.apart(ctx, ball(u, radius, samples, seed))
			if err != nil {
				return nil, fmt.Errorf("perturbation: %w", err)
			}
			largest := slices.Max(append(sampled, at[i]))
			first := eval.Float(math.NaN())
			if slope != nil {
				first = eval.Float(at[i] + radius*slope[i])
			}
			out[i] = []eval.Float{eval.Float(at[i]), eval.Float(largest), first}
		}
		return out, nil
	}
}

// apart returns the largest difference, over the classes, of the two models' logits in each row of x.
func (k *Certifier) apart(ctx context.Context, x []float32) ([]float64, error) {
	f, classes, err := k.full.c.Logits(ctx, x)
	if err != nil {
		return nil, err
	}
	g, _, err := k.quant.c.Logits(ctx, x)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(f)/classes)
	for i, v := range f {
		out[i/classes] = math.Max(out[i/classes], math.Abs(float64(g[i])-float64(v)))
	}
	return out, nil
}

// ball draws samples points uniformly from the ball around u.
func ball(u []float32, radius float64, samples int, seed uint64) []float32 {
	h := fnv.New64a()
	h.Write(graph.FromFloats("", u).Raw) //nolint:errcheck // a hash takes all
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
// where it is largest. The quantized model's quantizers have the gradient 1 (straight-through). It is nil
// where a model has no gradient.
func (k *Certifier) gradientNorms(ctx context.Context, points []float32) ([]float64, error) {
	dim := k.full.c.Dim()
	out := make([]float64, len(points)/dim)
	_, classes, err := k.full.c.Logits(ctx, points[:min(dim, len(points))])
	if err != nil {
		return nil, err
	}
	for class := range classes {
		if classes == 1 {
			class = 1 // a single logit is that of the second class
		}
		f, err := k.full.c.LogitGrads(ctx, points, class)
		if err != nil {
			return nil, ctx.Err() // without a gradient this is not an error
		}
		g, err := k.quant.c.LogitGrads(ctx, points, class)
		if err != nil {
			return nil, ctx.Err()
		}
		for i := range out {
			sum := 0.0
			for j := i * dim; j < (i+1)*dim; j++ {
				d := float64(g[j]) - float64(f[j])
				sum += d * d
			}
			out[i] = math.Max(out[i], math.Sqrt(sum))
		}
	}
	return out, nil
}
