package qat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/quant"
)

// widened gives the layers of a problem the choice of all bit widths, a row of a layer costing its share of the bits.
func widened(t *testing.T, p *problem, perRow bool) {
	t.Helper()
	all := 0
	for i := range p.layers {
		all += p.layers[i].Info.Params()
	}
	for i := range p.layers {
		l := &p.layers[i]
		l.Widths = &Widths{PerRow: perRow && l.Info.Conv == nil}
		for _, f := range quant.Formats() {
			plan := quant.Layer{Node: l.Info.Node, Bits: f.Bits, Act: l.Plan.Act, Result: l.Plan.Result}
			for o := range l.Info.Out {
				var largest float64
				for _, w := range l.Info.Row(o) {
					largest = max(largest, math.Abs(float64(w)))
				}
				plan.Scales = append(plan.Scales, float32(largest)/float32(f.QMax))
			}
			l.Widths.Plans = append(l.Widths.Plans, plan)
			n := l.Info.Params()
			if l.Widths.PerRow {
				n = l.Info.In
			}
			l.Widths.Costs = append(l.Widths.Costs, float64(n*f.Bits)/float64(all))
		}
	}
}

// mixed is the network of a problem in double precision, with weights that are sums over the widths of each unit by
// some shares.
func (p *problem) mixed(s *trainStep, share func(layer, width, unit int) float64, x []float32) []float64 {
	v := make([]float64, len(x))
	for i := range x {
		v[i] = float64(x[i])
	}
	for i, at := range s.slots {
		l := &p.layers[i]
		z := make([]float64, l.Info.Out)
		for o := range z {
			z[o] = float64(s.Params[at.bias+o])
			for j, in := range v {
				w := float64(s.Params[at.weights+o*l.Info.In+j])
				for k := range l.Widths.Plans {
					f, _ := quant.FormatOf(l.Widths.Plans[k].Bits, false)
					scale := math.Exp(float64(s.Params[at.scales+k*l.Info.Out+o]))
					code := min(max(math.RoundToEven(w/scale), float64(f.QMin)), float64(f.QMax))
					z[o] += in * share(i, k, min(o, l.units()-1)) * code * scale
				}
			}
			if i < len(s.slots)-1 {
				z[o] = max(z[o], 0)
			}
		}
		v = z
	}
	return v
}

// The forward pass of a search has the width that is drawn. The gradient by the scores is that of the loss by the
// shares of widths, by differences, and of the bit cost, through the softmax.
func TestSearchGradient(t *testing.T) {
	t.Parallel()
	const rows, cold, lambda, budget = 8, 2, 0.3, 2.5
	charged := map[bool]int{}
	for _, perRow := range []bool{false, true} {
		p := mlp(t, 11, compute{bits: 3})
		widened(t, p, perRow)
		m := p.written(t, p.plans())
		s := compiled(t, p.network(m), p.source(), Spec{Optimizer: Optimizer{Batch: rows}}, func(j *trainingJob) {
			j.lsq, j.budget = true, budget
		})
		r := rand.New(rand.NewPCG(2, 2))
		b := trainBatch{x: normal(r, rows*p.dim), columns: map[string][]float32{targetName: normal(r, rows)}}
		b.columns[weightName] = slices.Repeat([]float32{1}, rows)
		s.drawn = map[string][]float32{
			noiseName: normal(r, noiseOf(s.slots)), coldName: {cold}, lambdaName: {lambda},
		}
		got := must.Get(s.run(t.Context(), &b, 0))(t)
		soft, drawn, cost := p.policy(s, s.drawn[noiseName], cold)
		loss := func(layer, width, unit int, more float64) (sum float64) {
			for i := range rows {
				z := p.mixed(s, func(l, k, u int) float64 {
					share := 0.0
					if drawn[l][u] == k {
						share = 1
					}
					if l == layer && k == width && u == unit {
						share += more
					}
					return share
				}, b.x[i*p.dim:(i+1)*p.dim])
				sum += math.Pow(z[m.Target()]-z[1-m.Target()]-float64(b.columns[targetName][i]), 2)
			}
			return sum
		}
		if want := loss(0, 0, 0, 0); math.Abs(got-want) > 1e-3*want {
			t.Errorf("per row %v: loss %v, want %v", perRow, got, want)
		}
		must.Near(must.In(t, perRow), cost, s.cost, 1e-4)
		charge := 0.0
		if cost > budget {
			charge = rows * lambda
		}
		charged[cost > budget]++
		for i, at := range s.slots {
			l := &p.layers[i]
			for u := range l.units() {
				var by []float64
				var mean float64
				for k := range l.Widths.Plans {
					const h = 1e-4
					by = append(by, (loss(i, k, u, h)-loss(i, k, u, -h))/(2*h)+charge*l.Widths.Costs[k])
					mean += soft[i][u][k] * by[k]
				}
				for k := range by {
					want := cold * soft[i][u][k] * (by[k] - mean)
					if g := float64(s.First[at.policy+k*l.units()+u]); math.Abs(g-want) > 2e-3*(1+math.Abs(want)) {
						t.Errorf("per row %v, layer %d, unit %d, width %d: gradient %v, want %v", perRow, i, u, k, g, want)
					}
				}
			}
		}
	}
	must.Same(t, 2, len(charged))
}

// policy is what the scores of a step and some noise draw: shares, widths, and what the shares cost.
func (p *problem) policy(s *trainStep, noise []float32, cold float64) (soft [][][]float64, drawn [][]int,
	cost float64,
) {
	for i, at := range s.slots {
		l := &p.layers[i]
		n := l.units()
		soft, drawn = append(soft, nil), append(drawn, nil)
		for u := range n {
			var shares []float64
			var sum float64
			for k := range l.Widths.Plans {
				v := math.Exp(cold * float64(s.Params[at.policy+k*n+u]+noise[k*n+u]))
				shares, sum = append(shares, v), sum+v
			}
			best := 0
			for k := range shares {
				shares[k] /= sum
				cost += shares[k] * l.Widths.Costs[k]
				if shares[k] > shares[best] {
					best = k
				}
			}
			soft[i], drawn[i] = append(soft[i], shares), append(drawn[i], best)
		}
		noise = noise[len(l.Widths.Plans)*n:]
	}
	return soft, drawn, cost
}

// A search gives bits to rows whose weights matter. Rows whose outputs count nothing in the margin need none.
func TestSearchFindsWhatMatters(t *testing.T) {
	t.Parallel()
	p := planned(t, dense(graphOf(-1, 40), rand.New(rand.NewPCG(3, 1)), "x", 40, 12, 2), compute{bits: 3})
	first, second := &p.layers[0].Info, &p.layers[1].Info
	for o := range second.Out { // half of the outputs of the first layer lead nowhere
		for j := range first.Out / 2 {
			second.Row(o)[j] = 0
		}
	}
	*p.m.Graph.Init(second.Weight) = *graph.FromFloats(second.Weight, second.W, int64(second.Out), int64(second.In))
	p.full = open(t, p.m)
	widened(t, p, true)
	spec := Spec{Optimizer: Optimizer{Steps: 3200, Batch: 64, LearningRate: 4e-3, Seed: 5}}
	learn := func() *Policy {
		return must.Get(Search(t.Context(), p.network(p.written(t, p.plans())), 3, p.source(), spec, Run{}))(t)
	}
	got := learn()
	var idle, busy float64 // mean risk of two bits
	for u, risks := range got.Risks[0] {
		if !slices.IsSortedFunc(risks, func(a, b float64) int { return int(math.Copysign(1, b-a)) }) || risks[3] > 1e-6 {
			t.Errorf("unit %d: more bits have more risk: %v", u, risks)
		}
		if u < first.Out/2 {
			idle += risks[0]
		} else {
			busy += risks[0]
		}
	}
	if !(busy > 1.5*idle) {
		t.Errorf("the risk of two bits is %v where it matters and %v where it does not", busy, idle)
	}
	if len(got.History) != searchRounds || got.History[searchRounds-1].Steps != spec.Steps/searchShare ||
		!(got.Cost > 2 && got.Cost < 4) {
		t.Errorf("history %+v, cost %v", got.History, got.Cost)
	}
	must.Same(t, got, learn())
}
