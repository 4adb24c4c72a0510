package ptq

import (
	"cmp"
	"slices"

	"cfq/sensitivity"
)

// header is what is known before anything is measured.
func (p *profiler) header() *Profile {
	out := &Profile{
		Method: p.method.Name, Budget: p.o.Budget, People: p.all.N, Factual: p.points.Factual, Recourse: p.points.Recourse, Reached: p.points.Valid(),
		DamageRows: damageRows, Probes: p.o.Probes, TraceRows: sensitivity.TraceRows(p.layers), Promised: p.points.Recourse > 0 && p.job.o.Promises != nil,
	}
	if out.Damage = p.damageKind(); out.Damage == DamageFirstOrder {
		out.DamageRows = sensitivity.MostFirstOrderRows
	}
	for _, f := range p.formats() {
		out.Widths = append(out.Widths, f.Bits)
	}
	return out
}

// layersOf puts what was measured into the form of the result.
func (p *profiler) layersOf(out *Profile) {
	weights := p.params()
	factual, recourse := p.factual.importance(weights), p.recourse.importance(weights)
	for i, l := range p.layers {
		lp := LayerProfile{Node: l.Node, Weights: weights[i], Factual: factual[i]}
		if recourse != nil {
			lp.Recourse = &recourse[i]
		}
		out.Layers = append(out.Layers, lp)
	}
}

// params is the number of weights of each layer.
func (p *profiler) params() []int {
	out := make([]int, len(p.layers))
	for i := range out {
		out[i] = p.layers[i].Params()
	}
	return out
}

// importance returns the measures layer by layer, with ranks; nil of nil.
func (m *measures) importance(weights []int) []Importance {
	if m == nil {
		return nil
	}
	out := make([]Importance, len(weights))
	gradient := scores(m.gradient, nil, weights)
	var trace, errs []float64
	for _, t := range m.trace {
		trace, errs = append(trace, t.Trace), append(errs, t.Err)
	}
	traces := scores(trace, errs, weights)
	for i := range out {
		out[i].Damage = m.damage[i]
		if gradient != nil {
			out[i].Gradient = &gradient[i]
		}
		if traces != nil {
			out[i].Trace = &traces[i]
		}
	}
	for f := range m.damage[0] {
		column := make([]float64, len(out))
		for i := range column {
			column[i] = m.damage[i][f]
		}
		for i, r := range ranks(column) {
			out[i].DamageRank = append(out[i].DamageRank, r)
		}
	}
	return out
}

// scores adds ranks to the values of the layers.
func scores(values, errs []float64, weights []int) []Score {
	if values == nil {
		return nil
	}
	out := make([]Score, len(values))
	per := perWeight(values, weights)
	for i, r := range ranks(values) {
		out[i] = Score{Value: values[i], PerWeight: per[i], Rank: r}
		if errs != nil {
			out[i].Err = errs[i]
		}
	}
	for i, r := range ranks(per) {
		out[i].PerWeightRank = r
	}
	return out
}

func perWeight(values []float64, weights []int) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v / float64(weights[i])
	}
	return out
}

// ranks returns the place of each value, 1 for the largest; equal values share theirs.
func ranks(values []float64) []int {
	sorted := slices.SortedFunc(slices.Values(values), func(a, b float64) int { return cmp.Compare(b, a) })
	out := make([]int, len(values))
	for i, v := range values {
		out[i] = 1 + slices.Index(sorted, v)
	}
	return out
}
