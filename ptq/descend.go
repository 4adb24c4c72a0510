package ptq

import (
	"context"
	"errors"
	"math"
	"slices"

	"cfq/calib/refine"
	"cfq/qat"
	"cfq/qat/cohort"
	"cfq/quant"
	"cfq/recourse"
	"cfq/sensitivity"
	"cfq/task"
)

// Gradient steps follow the rounds of refinement where these leave a margin error of more than stepsFrom times the
// required margin, in networks of at most maxStepWork multiplications a row.
const (
	stepsFrom   = 0.3
	refineSteps = 1280
	maxStepWork = 1 << 18
	// Points lie on the ways of stepPeople of the people who are calibrated on to their cheapest recourse: the teacher's
	// is dearer, and elsewhere. One way of stepHeld judges. Points are redrawn after sameDraws of the rounds of a
	// training.
	stepPeople = 400
	stepHeld   = 5
	sameDraws  = 4
)

// descend refines plans further by gradient steps on margins, through fake quantizers: many weights move together
// where one after the other none would, those of convolutions, too. No labels are used. Plans that are not better at
// points held out are not returned. A model that takes a few rows at once would see too few points.
func (c *calibration) descend(ctx context.Context, plans []quant.Layer, points *refine.Points, outcome *refine.Outcome) (
	_ []quant.Layer, err error,
) {
	if !c.canStep() || c.net.full.Fixed() > 0 || outcome.After <= stepsFrom*c.net.required() {
		return plans, nil
	}
	from, err := c.cheapest(ctx)
	if err != nil {
		return nil, err
	}
	ways, judging := from, from
	ways.Rays, judging.Rays = nil, nil
	for i, r := range from.Rays {
		if i%stepHeld == 0 {
			judging.Rays = append(judging.Rays, r)
		} else {
			ways.Rays = append(ways.Rays, r)
		}
	}
	if len(ways.Rays) == 0 {
		return plans, nil
	}
	moved, err := c.steps(ctx, plans, ways)
	if errors.Is(err, qat.ErrDiverged) {
		return plans, nil
	}
	if err != nil {
		return nil, err
	}
	held, err := c.drawPoints(ctx, judging, heldPoints, 0)
	if err != nil {
		return nil, err
	}
	_, same := points.Part() // where Outcome.Before was measured
	held.Add(&same)
	before, err := c.errorAt(ctx, plans, &held)
	if err != nil {
		return nil, err
	}
	after, err := c.errorAt(ctx, moved, &held)
	if err != nil || !(after < before) {
		return plans, err
	}
	outcome.Steps = refineSteps
	outcome.After, err = c.errorAt(ctx, moved, &same)
	return moved, err
}

func (c *calibration) canStep() bool {
	return c.net.recipe.Refine.Rounds > 0 && c.net.recipe.Train == nil && c.fitSet.Valid() > 0 &&
		sensitivity.Multiplications(c.net.layers) <= maxStepWork
}

func (c *calibration) cheapest(ctx context.Context) (cohort.Population, error) {
	from := c.net.population(c.sample.people.X, c.sample.set)
	people, actions := task.AllRows(c.sample.people.N), c.sample.promises
	if actions == nil {
		margins, err := c.net.full.Margins(ctx, c.sample.people.X)
		if err != nil {
			return from, err
		}
		people = slices.DeleteFunc(people, func(i int) bool { return !(margins[i] <= 0) })
		people = subset(people, qat.Spread(len(people), stepPeople))
		o := cohort.QuickSearch()
		o.Workers, o.Seed = c.net.run.Workers, refineSeed
		x := qat.RowsAt(c.sample.people.X, c.sample.people.Dim, people)
		if actions, err = recourse.Solve(ctx, c.net.full, c.sample.set.Select(people), x, o); err != nil {
			return from, err
		}
	}
	from.Rays = cohort.RaysTo(people, cohort.Points(actions))
	from.Rays = subset(from.Rays, qat.Spread(len(from.Rays), stepPeople))
	return from, nil
}

func (c *calibration) steps(ctx context.Context, plans []quant.Layer, from cohort.Population) (_ []quant.Layer,
	err error,
) {
	m, err := c.openLayers(ctx, plans)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	drawn := qat.Draw{VD: math.NaN(), RVD: math.NaN()}
	draw := func(ctx context.Context, round int, use [qat.Kinds]int, _ []qat.Trained) (qat.Draw, error) {
		c.net.run.tell("refine by gradient steps", round, qat.Rounds)
		if round%sameDraws != 0 {
			return drawn, nil
		}
		p, err := c.drawPoints(ctx, from, use[qat.Teacher], uint64(round)+1)
		drawn.Points = []qat.Points{{Kind: qat.Teacher, X: p.X, Margins: p.Margins}}
		return drawn, err
	}
	layers := c.trainable(plans)
	if len(layers) == 0 {
		return plans, nil
	}
	out, err := qat.Train(ctx, qat.Network{Model: m, Layers: layers}, qat.Source{Draw: draw},
		qat.Spec{Optimizer: qat.Optimizer{Steps: refineSteps, Seed: refineSeed}}, qat.Run{})
	if err != nil {
		return nil, err
	}
	all := slices.Clone(plans)
	for _, l := range qat.Quantized(out.Layers) {
		all[slices.IndexFunc(all, func(p quant.Layer) bool { return p.Node == l.Node })] = l
	}
	return all, nil
}

func (c *calibration) errorAt(ctx context.Context, plans []quant.Layer, at *refine.Points) (_ float64, err error) {
	m, err := c.openLayers(ctx, plans)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return at.Error(ctx, m)
}
