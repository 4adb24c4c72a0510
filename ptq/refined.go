package ptq

import (
	"context"
	"fmt"

	"cfq/calib"
	"cfq/calib/refine"
	"cfq/onnxio/classifier"
	"cfq/quant"
	"cfq/quant/qdq"
)

// Refinement looks at refineRows points at most, refineFacts of them factual rows: more
// take longer and change little.
const (
	refineRows  = 4096
	refineFacts = 1024
)

// refine refines the plans of layers as a whole on points of the set; convolutions stay as they are.
func (q *job) refine(ctx context.Context, plans []quant.Layer, set *calib.Set) ([]quant.Layer, *refine.Outcome, error) {
	if q.o.Refine == 0 {
		return plans, nil, nil
	}
	var layers []refine.Layer
	var at []int // which of the plans
	for k, plan := range plans {
		for i, l := range q.wide {
			if l.Node == plan.Node && l.Conv == nil {
				layers, at = append(layers, refine.Layer{Info: l, Plan: plan, Reads: q.reads(i, plan)}), append(at, k)
			}
		}
	}
	points, err := q.refinePoints(ctx, set)
	if err != nil {
		return nil, nil, err
	}
	if len(layers) == 0 || len(points.Margins) < refine.LeastPoints {
		return plans, nil, nil
	}
	all := append([]quant.Layer(nil), plans...)
	open := func(refined []quant.Layer) (*classifier.Model, error) {
		for k, p := range refined {
			all[at[k]] = p
		}
		return q.openGradients(ctx, q.planOf(all))
	}
	refined, outcome, err := refine.Run(ctx, layers, points, open, refine.Options{
		Rounds: q.o.Refine, Progress: func(done, total int) { q.tell("refine", done, total) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("refinement: %w", err)
	}
	for k, p := range refined {
		all[at[k]] = p
	}
	return all, &outcome, nil
}

// reads returns what turns the values of layer i's input into what its kernel reads.
func (q *job) reads(i int, plan quant.Layer) func(values []float32, rows int) []float32 {
	return func(values []float32, rows int) []float32 {
		switch {
		case plan.Act != nil:
			out := make([]float32, len(values))
			for k, v := range values {
				out[k] = plan.Act.Apply(v)
			}
			return out
		case q.input != nil && q.wide[i].Input == q.input.Value:
			return q.input.Reads(values, len(values)/rows)
		}
		return values
	}
}

// refinePoints picks points of a set, recourse points first.
func (q *job) refinePoints(ctx context.Context, set *calib.Set) (refine.Points, error) {
	facts := refineRows
	if set.Recourse > 0 {
		facts = max(refineFacts, refineRows-set.Recourse)
	}
	rows := append(spread(set.Factual, set.Rows(), refineRows-facts), spread(0, set.Factual, facts)...)
	var p refine.Points
	for _, r := range rows {
		p.X = append(p.X, set.X[r*set.Dim:(r+1)*set.Dim]...)
		if set.Weights != nil {
			p.Weights = append(p.Weights, set.Weights[r])
		}
	}
	var err error
	if p.Margins, err = q.full.Margins(ctx, p.X); err != nil {
		return p, fmt.Errorf("margins of the points of refinement: %w", err)
	}
	return p, nil
}

// spread returns at most most numbers of from to to-1, evenly spread.
func spread(from, to, most int) []int {
	n := min(to-from, most)
	out := make([]int, 0, max(0, n))
	for k := range n {
		out = append(out, from+k*(to-from)/n)
	}
	return out
}

// openGradients opens the model of a plan so that gradients pass its quantizers.
func (q *job) openGradients(ctx context.Context, plan *quant.Plan) (*classifier.Model, error) {
	m, err := qdq.Write(q.canonical, plan, qdq.Options{Plain: true})
	if err != nil {
		return nil, err
	}
	target := q.full.Target()
	return classifier.Open(ctx, m, q.o.Engine, classifier.Options{Target: &target, Workers: q.o.Workers, Through: quant.StraightThrough})
}
