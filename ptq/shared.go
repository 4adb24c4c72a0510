package ptq

import (
	"slices"

	"cfq/calib"
	"cfq/quant"
)

// A model may use the same weights in several places. They are quantized once: all uses have the same codes and scales,
// which are fitted on what all of them read, stored once, cost once, and err together. Refinement, which would move the
// weights of each use by themselves, leaves them alone. Training does move them, so that then each use is a layer of
// its own, and so is each on integers, where scales depend on what it reads.

// uses says for each layer which is the first with the same weights: itself where it is that or there is none.
func (p *network) uses() []int {
	out := make([]int, len(p.layers))
	shares := func(i int) bool { return p.recipe.Train == nil && !p.integer[i] && p.layers[i].Conv == nil }
	for i, l := range p.layers {
		out[i] = i
		for k, first := range p.layers[:i] {
			if shares(i) && shares(k) && out[k] == k && first.In == l.In && slices.Equal(first.W, l.W) {
				out[i] = k
			}
		}
	}
	return out
}

func (p *network) group(i int) []int {
	var out []int
	for k, first := range p.first {
		if first == i {
			out = append(out, k)
		}
	}
	return out
}

func (p *network) index(node string) int {
	return slices.IndexFunc(p.layers, func(l quant.LayerInfo) bool { return l.Node == node })
}

// alone reports whether the weights of layer i are used once.
func (p *network) alone(i int) bool { return len(p.group(p.first[i])) == 1 }

func (p *network) join(stats []calib.Stats) {
	for i := range stats {
		g := p.group(i)
		if len(g) < 2 {
			continue
		}
		parts, weights := make([]*calib.Stats, len(g)), make([]float64, len(g))
		for k, at := range g {
			parts[k], weights[k] = &stats[at], float64(p.layers[at].Positions)
		}
		calib.Join(parts, weights)
	}
}
