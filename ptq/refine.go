package ptq

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"cfq/calib"
	"cfq/calib/refine"
	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/qat/cohort"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/recourse/constraint"
	"cfq/sensitivity"
)

// Refinement looks at refineRows points at most, a share of them people: more take longer and change little.
const (
	refineRows   = 4096
	refinePeople = 0.05
	refineLeast  = 512 // of fewer, many codes learn nothing that holds elsewhere
	refineSeed   = 1
)

// Where every weight meets every row, at most maxProducts are made, on minRows rows at least.
const maxProducts, minRows = 1 << 30, 128

func (c *calibration) affordable(rows int) int {
	return min(rows, max(minRows, maxProducts/max(1, sensitivity.Multiplications(c.net.layers))))
}

func (c *calibration) refine(ctx context.Context, plans []quant.Layer, set *calib.Set) ([]quant.Layer,
	*refine.Outcome, error,
) {
	if c.net.recipe.Refine.Rounds == 0 || c.affordable(refineRows) < refineLeast {
		return plans, nil, nil
	}
	var layers []refine.Layer
	var at []int // which of the plans
	for k, plan := range plans {
		i := c.net.index(plan.Node)
		l := c.foldedLayers[i]
		if l.Conv != nil || l.Positions > 1 || !c.net.alone(i) {
			continue
		}
		layer := refine.Layer{Info: l, Plan: plan}
		if c.onGrid(i) {
			layer.Input = c.input
		}
		layers, at = append(layers, layer), append(at, k)
	}
	points, err := c.refinePoints(ctx, set)
	if err != nil {
		return nil, nil, err
	}
	if len(layers) == 0 || len(points.Margins) < refine.MinPoints {
		return plans, nil, nil
	}
	all := slices.Clone(plans)
	replace := func(refined []quant.Layer) {
		for k, p := range refined {
			all[at[k]] = p
		}
	}
	open := func(refined []quant.Layer) (*classifier.Model, error) {
		replace(refined)
		return c.openLayers(ctx, all)
	}
	refined, outcome, err := refine.Run(ctx, layers, points, open, refine.Options{
		Rounds: c.net.recipe.Refine.Rounds, Progress: func(done, total int) { c.net.run.tell("refine", done, total) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("refinement: %w", err)
	}
	replace(refined)
	all, err = c.descend(ctx, all, &points, &outcome)
	return all, &outcome, err
}

// openLayers opens the model in which the layers are as the plans say, so that gradients pass the quantizers.
func (c *calibration) openLayers(ctx context.Context, plans []quant.Layer) (*classifier.Model, error) {
	m, err := qdq.Write(c.net.canonical, c.planOf(plans), qdq.Options{Plain: true})
	if err != nil {
		return nil, err
	}
	return openGraph(ctx, m, c.net.task, c.net.engine, c.net.run.Workers)
}

func (c *calibration) refinePoints(ctx context.Context, set *calib.Set) (refine.Points, error) {
	n, from := c.affordable(refineRows), c.net.ways(set, c.sample.set)
	if len(from.Rays) > 0 {
		return c.drawPoints(ctx, from, n, 0)
	}
	p := refine.Points{X: qat.RowsAt(set.X, set.Dim, qat.Spread(set.Rows(), n))}
	var err error
	if p.Margins, err = c.net.full.Margins(ctx, p.X); err != nil {
		return p, fmt.Errorf("margins of the points of refinement: %w", err)
	}
	return p, nil
}

func (p *network) ways(set *calib.Set, can *constraint.Set) cohort.Population {
	from := p.population(set.Facts(), can)
	for i, ok := range set.Reached {
		if ok {
			from.Rays = append(from.Rays, cohort.Ray{Person: set.Source[i], To: set.Points()[i*set.Dim : (i+1)*set.Dim]})
		}
	}
	return from
}

func (c *calibration) drawPoints(ctx context.Context, from cohort.Population, n int, seed uint64) (p refine.Points,
	err error,
) {
	rng := rand.New(rand.NewPCG(refineSeed, seed))
	people := int(refinePeople * float64(n))
	if p.X, err = from.DrawTeacher(ctx, rng, c.net.full.Margins, n-people); err != nil {
		return p, err
	}
	x := append(from.Draw(rng, people), p.X...)
	if in := c.input; in != nil && c.isInput(in.Value) && !c.net.task.Made() {
		set := calib.FactualSet(x, from.Dim)
		set.Clip(in) // what the quantized model cannot read says nothing
		x = set.X
	}
	margins, err := c.net.full.Margins(ctx, x)
	if err != nil {
		return p, fmt.Errorf("margins of the points of refinement: %w", err)
	}
	p.X = p.X[:0]
	for i, m := range margins {
		if m-m == 0 { // a point off the data may have none
			p.X = append(p.X, x[i*from.Dim:(i+1)*from.Dim]...)
			p.Margins, p.Weights = append(p.Margins, m), append(p.Weights, float64(qat.MarginWeight(m)))
		}
	}
	return p, nil
}
