package qat

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/quant"
)

// Widths are the bit widths among which Search chooses for a layer.
type Widths struct {
	Plans  []quant.Layer // the layer in each width, with the scales that learning starts from
	PerRow bool          // each output has a width of its own
	Costs  []float64     // of each width for one unit, in the unit of the budget
}

func (l *Layer) units() int {
	if l.Widths.PerRow {
		return l.Info.Out
	}
	return 1
}

func (l *Layer) scales() []float32 {
	if l.Widths == nil {
		return l.Plan.Scales
	}
	return lists.Join(l.Widths.Plans, func(p quant.Layer) []float32 { return p.Scales })
}

// Names of the values of a search.
const (
	noiseName  = "qat.noise"   // Gumbel noise of all scores
	coldName   = "qat.cold"    // 1/temperature
	lambdaName = "qat.lambda"  // weight of the bit cost
	costName   = "qat.bitcost" // of the widths as drawn, softly
)

// A search takes a part of the rounds and steps of a training, while the temperature falls.
const (
	searchRounds = 4
	searchShare  = 4 // of a training's steps: one in so many
	firstHeat    = 1 // with a higher one, what is drawn softly costs more than what is drawn
	lastHeat     = 0.3
	policyRate   = 3    // how much faster than scales scores move
	rare         = 1e-9 // a probability that counts as none
)

// Unless Lambda is given it is this share of the loss of the first batch, and rises, up to e^2 times, with each bit
// that a weight costs beyond the budget.
const firstLambda, lambdaGain, mostLambda = 0.02, 4, 2

// Policy is what a search has learned.
type Policy struct {
	// Risks are, by layer, unit and width, -log of the probability that the unit needs no more than this width.
	Risks [][][]float64
	// Cost is that of the most probable widths, in the unit of the budget.
	Cost    float64
	History []Event
}

// Search learns bit widths by straight-through Gumbel-Softmax: a width is drawn for each unit in every step, with
// scales of its own; what the loss would gain by another one, and Lambda times what all cost beyond the budget, move
// the probabilities. The weights, biases and scales that it trains on the way are those of no single policy, so that
// training at the chosen widths restarts.
//
// The most probable widths rarely cost what the budget grants. Those that minimise the sum of the risks within the
// budget spend it: then it is most probable that every unit has the width it needs.
//
// References: sections Mixed-precision bit allocation and Training algorithm of the paper (BitCost).
func Search(ctx context.Context, net Network, budget float64, source Source, spec Spec, run Run) (*Policy, error) {
	j, err := spec.resolve(net, source)
	if err != nil {
		return nil, err
	}
	for i := range net.Layers {
		if net.Layers[i].Widths == nil {
			return nil, errors.New("a layer without bit widths to choose among")
		}
	}
	j.lsq, j.budget = true, budget // widths share weights, which have no scale of their own
	j.Steps = max(j.Steps/searchShare, searchRounds)
	s, err := compile(j)
	if err != nil {
		return nil, fmt.Errorf("search step: %w", err)
	}
	defer s.close()
	out, err := newTrainer(s).loop(ctx, searchRounds, searchRounds, run)
	if errors.Is(err, ErrDiverged) {
		return nil, fmt.Errorf("search for bit widths: %w", err)
	}
	if err != nil {
		return nil, err
	}
	p := &Policy{History: out.History}
	for i := range net.Layers {
		risks, cost := net.Layers[i].risks(s.Params[s.slots[i].policy:s.slots[i].bias])
		p.Risks, p.Cost = append(p.Risks, risks), p.Cost+cost
	}
	return p, nil
}

func (l *Layer) risks(policy []float32) (risks [][]float64, cost float64) {
	units := l.units()
	for u := range units {
		best := l.likely(policy, u)
		cost += l.Widths.Costs[best]
		var sums []float64
		var sum float64
		for w := range l.Widths.Plans {
			sum += math.Exp(float64(policy[w*units+u] - policy[best*units+u]))
			sums = append(sums, sum)
		}
		for w := range sums {
			sums[w] = -math.Log(max(sums[w]/sum, rare))
		}
		risks = append(risks, sums)
	}
	return risks, cost
}

func (l *Layer) likely(policy []float32, unit int) (best int) {
	for w := range l.Widths.Plans {
		if policy[w*l.units()+unit] > policy[best*l.units()+unit] {
			best = w
		}
	}
	return best
}

// chosen is a layer in its most probable widths, from scales and codes of all widths.
func (l *Layer) chosen(p quant.Layer, codes []float32, policy []float32) (quant.Layer, []float32) {
	all, n := p.Scales, l.Info.In*l.Info.Out
	per := len(all) / len(l.Widths.Plans)
	p.Bits, p.RowBits, p.Scales = 0, nil, nil
	var out []float32
	for o := range l.Info.Out {
		w := l.likely(policy, min(o, l.units()-1))
		p.RowBits = append(p.RowBits, l.Widths.Plans[w].Width(o))
		p.Scales = append(p.Scales, all[w*per+min(o, per-1)])
		out = append(out, codes[w*n+o*l.Info.In:w*n+(o+1)*l.Info.In]...)
	}
	if !l.Widths.PerRow {
		p.Bits, p.RowBits, p.Scales = p.RowBits[0], nil, p.Scales[:per]
	}
	return p, out
}

// mixture makes the weights of a layer, Out x In, in the width that is drawn for each unit, from weights, logarithms of
// scales and scores of the widths. All widths are one tensor, widths x Out x In.
func (b *stepBuilder) mixture(l *Layer, weights, scales, policy string) (string, error) {
	n, out, in, units := int64(len(l.Widths.Plans)), int64(l.Info.Out), int64(l.Info.In), int64(l.units())
	var lo, hi []float32
	for i := range l.Widths.Plans {
		l1, h1, err := bounds(l, &l.Widths.Plans[i])
		if err != nil {
			return "", err
		}
		lo, hi = append(lo, l1...), append(hi, h1...)
	}
	logs := b.reshape(scales, n, int64(len(l.scales()))/n, 1)
	each := b.fake().LearnedSteps(b.reshape(weights, 1, out, in), logs, graph.FromFloats("lo", lo, n, out, 1),
		graph.FromFloats("hi", hi, n, out, 1))
	b.codes = append(b.codes, each.Codes, each.Scale)

	noise := b.Op("Slice", []string{noiseName, b.ints(int64(b.noise)), b.ints(int64(b.noise) + n*units)})
	b.noise += int(n * units)
	scores := b.Op("Mul", []string{b.Op("Add", []string{policy, noise}), coldName})
	share := b.Op("Softmax", []string{b.reshape(scores, n, units, 1)}, graph.IntAttr("axis", 0))
	b.known(share, n, units, 1)
	drawn := b.fake().Hardest(share)
	cost := lists.Map(l.Widths.Costs, func(c float64) float32 { return float32(c) })
	b.costs = append(b.costs, b.Op("ReduceSum", []string{
		b.Op("Mul", []string{share, b.Const(graph.FromFloats("cost", cost, n, 1, 1))}), b.ints(0, 1, 2),
	}, graph.IntAttr("keepdims", 0)))
	return b.known(b.Op("ReduceSum", []string{b.Op("Mul", []string{each.Value, drawn}), b.ints(0)},
		graph.IntAttr("keepdims", 0)), out, in), nil
}

// charged adds to a loss, which is summed over the batch, Lambda times what the widths cost beyond the budget for each
// person: the paper's BitCost.
func (b *stepBuilder) charged(loss string) string {
	if b.costs == nil {
		return loss
	}
	b.Append(&graph.Node{Op: "Sum", Inputs: b.costs, Outputs: []string{costName}})
	over := b.Op("Relu", []string{b.Op("Sub", []string{costName, b.scalar(b.job.budget)})})
	each := b.Op("Mul", []string{lambdaName, b.scalar(float64(b.job.Batch))})
	return b.Op("Add", []string{lossName, b.Op("Mul", []string{over, each})})
}

func noiseOf(slots []paramSlot) (n int) {
	for _, at := range slots {
		n += at.bias - at.policy
	}
	return n
}

// gumbel is the noise of a step of a search, its temperature and the weight of the bit cost.
func (t *trainer) gumbel() map[string][]float32 {
	n, rng := noiseOf(t.slots), rand.New(rand.NewPCG(t.job.Seed, 2<<32+uint64(t.Steps)))
	if n == 0 {
		return nil
	}
	noise := lists.Make(n, func(int) float32 { return float32(-math.Log(-math.Log(max(rng.Float64(), rare)))) })
	heat := firstHeat * math.Pow(lastHeat/firstHeat, float64(t.Steps)/float64(t.job.Steps))
	return map[string][]float32{noiseName: noise, coldName: {float32(1 / heat)}, lambdaName: {float32(t.lambda)}}
}

// firstScores are scores at which widths cost the budget on average: they fall evenly with the bits.
func (l *Layer) firstScores(budget float64) []float32 {
	if l.Widths == nil {
		return nil
	}
	plans := l.Widths.Plans
	at := func(slope float64) (p []float64, mean float64) {
		var sum float64
		for w := range plans {
			b := plans[w].MeanBits()
			v := math.Exp(-slope * (b - plans[0].MeanBits()))
			p, sum, mean = append(p, -slope*b), sum+v, mean+v*b
		}
		return p, mean / sum
	}
	lo, hi := -5.0, 5.0
	for range 40 {
		mid := (lo + hi) / 2
		if _, m := at(mid); m > budget {
			lo = mid
		} else {
			hi = mid
		}
	}
	p, _ := at(hi)
	return lists.Join(p, func(v float64) []float32 { return slices.Repeat([]float32{float32(v)}, l.units()) })
}
