package ptq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/calib"
	"cfq/calib/refine"
	"cfq/internal/lists"
	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/qat/cohort"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/sensitivity"
	"cfq/task"
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

// refineRounds improves all layers together. It has no outcome where there is nothing to refine.
func (c *calibration) refineRounds(ctx context.Context, plans []quant.Layer, points refine.Points) ([]quant.Layer,
	*refine.Outcome, error,
) {
	var layers []refine.Layer
	for _, plan := range plans {
		i := c.net.index(plan.Node)
		l := c.foldedLayers[i]
		if l.Conv != nil || l.Positions > 1 || !c.net.alone(i) {
			continue
		}
		layer := refine.Layer{Info: l, Plan: plan}
		if c.onGrid(i) {
			layer.Input = c.input
		}
		layers = append(layers, layer)
	}
	if len(layers) == 0 || len(points.Margins) < refine.MinPoints {
		return plans, nil, nil
	}
	opener := func(refined []quant.Layer) (*classifier.Model, error) {
		return c.openLayers(ctx, replaced(plans, refined))
	}
	refined, outcome, err := refine.Run(ctx, layers, points, opener, refine.Options{
		Rounds: c.net.recipe.Refine.Rounds, Progress: func(done, total int) { c.net.run.tell("refine", done, total) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("refinement: %w", err)
	}
	return replaced(plans, refined), &outcome, nil
}

// replaced are plans in which others of the same layers take the place of the first.
func replaced(plans, others []quant.Layer) []quant.Layer {
	all := slices.Clone(plans)
	for _, l := range others {
		all[slices.IndexFunc(all, func(p quant.Layer) bool { return p.Node == l.Node })] = l
	}
	return all
}

func (c *calibration) openLayers(ctx context.Context, plans []quant.Layer) (*classifier.Model, error) {
	m, err := qdq.Write(c.net.canonical, c.planOf(plans), qdq.Options{Plain: true})
	if err != nil {
		return nil, err
	}
	return open(ctx, m, c.net.task, c.net.full.Model, c.net.run.Workers)
}

// refinePoints lie on the ways to the teacher's recourse, which are more diverse than those to the cheapest. There are
// none where nothing is refined.
func (c *calibration) refinePoints(ctx context.Context) (p refine.Points, err error) {
	n := c.affordable(refineRows)
	if c.net.recipe.Refine.Rounds == 0 || n < refineLeast {
		return p, nil
	}
	set := c.fitSet
	if from := c.net.ways(set, c.sample.set); len(from.Rays) > 0 {
		return c.drawPoints(ctx, from, n, 0)
	}
	p.X = lists.RowsAt(set.X, set.Dim, qat.Spread(set.Rows(), n))
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

// Gradient steps follow the rounds of refinement where these leave a margin error of more than stepsFrom times the
// required margin, in networks of at most maxStepWork multiplications a row.
const (
	stepsFrom   = 0.3
	refineSteps = 2560
	maxStepWork = 1 << 18
	// Points lie on the ways of stepPeople of the people who are calibrated on to their cheapest recourse, by the original
	// and by the quantized model: the teacher's is dearer, and elsewhere. One way of stepHeld judges. Points are redrawn
	// after sameDraws of the rounds of a training.
	stepPeople = 400
	stepHeld   = 5
	sameDraws  = 4
)

// descend refines plans further by gradient steps on margins, through fake quantizers: many weights move together
// where one after the other none would, those of convolutions, too. No labels are used. Plans that are not better at
// points held out are not returned. A model that takes a few rows at once would see too few points.
func (c *calibration) descend(
	ctx context.Context, plans []quant.Layer, points *refine.Points, outcome *refine.Outcome,
) (_ []quant.Layer, err error) {
	if !c.canStep() || c.net.full.Fixed() > 0 || outcome.After <= stepsFrom*c.net.required() {
		return plans, nil
	}
	from, err := c.cheapest(ctx)
	if err != nil {
		return nil, err
	}
	own, err := c.ownWays(ctx, plans) // what it accepts may be what the original refuses
	if err != nil {
		return nil, err
	}
	from.Rays = slices.Concat(from.Rays, own)
	ways, judging, n := from, from, len(from.Rays)
	ways.Rays = subset(from.Rays, lists.Where(n, func(i int) bool { return i%stepHeld > 0 }))
	judging.Rays = subset(from.Rays, lists.Where(n, func(i int) bool { return i%stepHeld == 0 }))
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

// cheapest are the ways of people to their cheapest recourse, which is looked for once.
func (c *calibration) cheapest(ctx context.Context) (from cohort.Population, err error) {
	if c.sample.cheapest != nil {
		return *c.sample.cheapest, nil
	}
	from = c.net.population(c.sample.people.X, c.sample.set)
	if given := c.sample.promises; given != nil {
		from.Rays = cohort.RaysTo(task.AllRows(len(given)), cohort.Points(given))
		from.Rays = subset(from.Rays, qat.Spread(len(from.Rays), stepPeople))
	} else if from.Rays, err = c.cheapestWays(ctx, c.net.full); err != nil {
		return from, err
	}
	c.sample.cheapest = &from
	return from, nil
}

// cheapestWays are the ways of stepPeople whom a model refuses to what it accepts.
func (c *calibration) cheapestWays(ctx context.Context, m *classifier.Model) ([]cohort.Ray, error) {
	all := c.sample.people
	margins, err := m.Margins(ctx, all.X)
	if err != nil {
		return nil, err
	}
	people := lists.Where(all.N, func(i int) bool { return margins[i] <= 0 })
	people = subset(people, qat.Spread(len(people), stepPeople))
	o := cohort.QuickSearch()
	o.Workers, o.Seed = c.net.run.Workers, refineSeed
	actions, err := recourse.Solve(ctx, m, c.sample.set.Select(people), lists.RowsAt(all.X, all.Dim, people), o)
	return cohort.RaysTo(people, cohort.Points(actions)), err
}

func (c *calibration) ownWays(ctx context.Context, plans []quant.Layer) (_ []cohort.Ray, err error) {
	m, err := c.openLayers(ctx, plans)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return c.cheapestWays(ctx, m)
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
	return replaced(plans, qat.Quantized(out.Layers)), nil
}

func (c *calibration) errorAt(ctx context.Context, plans []quant.Layer, at *refine.Points) (_ float64, err error) {
	m, err := c.openLayers(ctx, plans)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return at.Error(ctx, m)
}
