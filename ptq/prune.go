package ptq

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"cfq/qat"
	"cfq/quant"
	"cfq/sensitivity"
)

// prunePoints is how many recourse points the sensitivity of weights is the mean over.
const prunePoints = 1024

// Sparsity is what pruning made of the weights of the quantized layers.
type Sparsity struct {
	By     string  `json:"by"`
	Pruned float64 `json:"pruned"` // share of the weights that were made zero and kept so
	Zero   float64 `json:"zero"`   // share of the codes that are zero in the end
}

// prune says which weights of the layers become zero: the given share of all of them with the least scores.
//
// Reference: Prune+Quant, magnitude- or sensitivity-based, of the paper; single weights, not structures.
func (c *calibration) prune(ctx context.Context, layers []qat.Layer) error {
	if c.net.recipe.Train.Sparsity == 0 {
		return nil
	}
	infos := make([]quant.LayerInfo, len(layers))
	for k := range layers {
		infos[k] = c.net.layers[c.net.index(layers[k].Info.Node)] // in float: after an integer input weights have other units
	}
	scores, err := c.pruningScores(ctx, infos)
	if err != nil {
		return err
	}
	type weight struct {
		layer, at int
		score     float64
	}
	var all []weight
	for k := range scores {
		layers[k].Pruned = make([]bool, len(scores[k]))
		for at, v := range scores[k] {
			all = append(all, weight{k, at, v})
		}
	}
	slices.SortStableFunc(all, func(a, b weight) int { return cmp.Compare(a.score, b.score) })
	for _, w := range all[:int(math.Round(c.net.recipe.Train.Sparsity*float64(len(all))))] {
		layers[w.layer].Pruned[w.at] = true
	}
	return nil
}

func (c *calibration) pruningScores(ctx context.Context, layers []quant.LayerInfo) ([][]float64, error) {
	if c.net.recipe.Train.PruneBy == pruneMagnitude {
		scores := make([][]float64, len(layers))
		for i := range layers {
			for _, w := range layers[i].W {
				scores[i] = append(scores[i], math.Abs(float64(w)))
			}
		}
		return scores, nil
	}
	var x []float32
	for _, ray := range subset(c.source.Rays, qat.Spread(len(c.source.Rays), prunePoints)) {
		x = append(x, ray.To...)
	}
	if len(x) == 0 {
		return nil, inputError(errors.New("nobody has recourse to measure the sensitivity of weights at: prune by magnitude"))
	}
	return sensitivity.Weights(ctx, c.net.full, layers, x)
}

func (s *TrainSpec) sparsity(plan *quant.Plan) *Sparsity {
	if s == nil || s.Sparsity == 0 {
		return nil
	}
	var zero, all int
	for _, l := range plan.Layers {
		for _, q := range l.Codes {
			if all++; q == 0 {
				zero++
			}
		}
	}
	return &Sparsity{By: s.PruneBy, Pruned: s.Sparsity, Zero: float64(zero) / float64(all)}
}
