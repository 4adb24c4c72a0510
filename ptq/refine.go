package ptq

import (
	"context"
	"fmt"
	"slices"

	"cfq/calib"
	"cfq/calib/refine"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/sensitivity"
)

// Refinement looks at refineRows points at most, refineFacts of them factual rows: more
// take longer and change little.
const (
	refineRows  = 4096
	refineFacts = 1024
	refineLeast = 512 // of fewer, many codes learn nothing that holds elsewhere
)

// Where every weight meets every row, at most maxProducts are made, on minRows rows at least.
const maxProducts, minRows = 1 << 30, 128

// affordable is how many of the rows may meet every weight of the layers.
func (c *calibrated) affordable(rows int) int {
	return min(rows, max(minRows, maxProducts/max(1, sensitivity.Multiplications(c.layers))))
}

// refine refines the plans of layers as a whole on points of the set; convolutions stay as they are.
func (c *calibrated) refine(ctx context.Context, plans []quant.Layer, set *calib.Set) ([]quant.Layer,
	*refine.Outcome, error,
) {
	if c.o.Refine == 0 || c.affordable(refineRows) < refineLeast {
		return plans, nil, nil
	}
	var layers []refine.Layer
	var at []int // which of the plans
	for k, plan := range plans {
		for i, l := range c.grid.wide {
			if l.Node != plan.Node || l.Conv != nil {
				continue
			}
			layer := refine.Layer{Info: l, Plan: plan}
			if c.onGrid(i) {
				layer.Input = c.grid.input
			}
			layers, at = append(layers, layer), append(at, k)
		}
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
		Rounds: c.o.Refine, Progress: func(done, total int) { c.tell("refine", done, total) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("refinement: %w", err)
	}
	replace(refined)
	return all, &outcome, nil
}

// openLayers opens the model in which the layers are as the plans say, so that gradients pass the quantizers.
func (c *calibrated) openLayers(ctx context.Context, plans []quant.Layer) (*classifier.Model, error) {
	m, err := qdq.Write(c.canonical, c.planOf(plans), qdq.Options{Plain: true})
	if err != nil {
		return nil, err
	}
	opened, err := onnxio.FromGraph(ctx, m, c.engine)
	if err != nil {
		return nil, err
	}
	return OpenFor(opened, c.task, c.o.Workers)
}

// refinePoints picks points of a set, recourse points first.
func (c *calibrated) refinePoints(ctx context.Context, set *calib.Set) (refine.Points, error) {
	most := c.affordable(refineRows)
	facts := most
	if set.Recourse > 0 {
		facts = max(most*refineFacts/refineRows, most-set.Recourse)
	}
	rows := append(spread(set.Factual, set.Rows(), most-facts), spread(0, set.Factual, facts)...)
	p := refine.Points{X: rowsOf(set.X, set.Dim, rows)}
	if set.Weights != nil {
		p.Weights = subset(set.Weights, rows)
	}
	var err error
	if p.Margins, err = c.full.Margins(ctx, p.X); err != nil {
		return p, fmt.Errorf("margins of the points of refinement: %w", err)
	}
	return p, nil
}
