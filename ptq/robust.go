package ptq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"cfq/calib"
	"cfq/eval"
	"cfq/internal/lists"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/ptq/taskmodel"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Deployments vary as toolchains do, see docs/recourse.md: by stochastic rounding, by the largest relative change of
// each weight scale and activation range, and by the rows that each is calibrated on, drawn with replacement.
const drawRounding, drawJitter, drawRows = 1, 0.02, 4096

// Draws says how many deployments of a plan are drawn, and how the model is quantized.
type Draws struct {
	Recipe Recipe
	Models int
	Seed   uint64
}

// draw makes deployment k of a plan: the same graph, layers, widths and input grid, but other codes, scales, biases
// and activation ranges. It depends on the seed and k only. With 0 rows all are taken, undrawn.
func (c *calibration) draw(ctx context.Context, widths assignment, vary calib.Variation, rows, k int) (*Result, error) {
	recipe := c.written(c.net.recipe.Allocate.Budget, map[string]string{
		"deployment": strconv.Itoa(k), "deployment_seed": strconv.FormatUint(vary.Seed, 10),
	})
	vary.Seed = rand.NewPCG(vary.Seed, uint64(k)).Uint64()
	drawn := *c
	if rows > 0 {
		drawn.fitSet = c.fitSet.Batch(rows, vary.Seed)
	}
	stats, err := c.collect(ctx, drawn.fitSet)
	if err != nil {
		return nil, err
	}
	if drawn.layers, err = c.fitWeights(ctx, stats, widths, vary); err != nil {
		return nil, err
	}
	made, err := drawn.better(ctx, []allocation{{from: &drawn, widths: widths}})
	if err != nil {
		return nil, err
	}
	return c.net.write(c.planOf(made.layers), recipe)
}

// Fleet is a model, its quantized version and sampled deployments of that, ready to run.
type Fleet struct {
	Models []*classifier.Model // the original, its quantized version and the deployments
	Result *Result             // of the quantized version
}

// OpenFleet quantizes the model as Quantize does, draws deployments of the same plan, and opens all of them: what other
// runs of a toolchain, which round by chance, calibrate on other rows and clip a little differently, would have
// shipped. Close the fleet after use.
//
// Reference: U(f_q) of "Uncertainty set from quantization-induced variability".
func OpenFleet(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, draws Draws, run Run) (
	_ *Fleet, err error,
) {
	if draws.Recipe.Train != nil {
		return nil, inputError(fmt.Errorf("method %s: deployments vary a calibration, and this one trains: cf-ptq does "+
			"not", draws.Recipe.Method))
	}
	c, err := calibrate(ctx, m, t, people, draws.Recipe, run)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the fleet is what counts
	f := &Fleet{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	add := func(m *classifier.Model, err error) error {
		if err == nil {
			f.Models = append(f.Models, m)
		}
		return err
	}
	if f.Result, err = c.quantize(ctx, c.net.recipe.Allocate.Budget); err != nil {
		return nil, err
	}
	if err = add(taskmodel.Open(m, t, run.Workers)); err != nil {
		return nil, inputError(err)
	}
	if err = add(openFile(ctx, f.Result.Model, t, m, run.Workers)); err != nil {
		return nil, err
	}
	vary := calib.Variation{Seed: draws.Seed, Rounding: drawRounding, Jitter: drawJitter}
	for k := range draws.Models {
		run.tell("sampled deployments", k, draws.Models)
		r, err := f.Result.made.from.draw(ctx, f.Result.made.widths, vary, drawRows, k)
		if err != nil {
			return nil, fmt.Errorf("deployment %d: %w", k, err)
		}
		if err := add(openFile(ctx, r.Model, t, m, run.Workers)); err != nil {
			return nil, err
		}
	}
	run.tell("sampled deployments", draws.Models, draws.Models)
	return f, nil
}

// Worst is the original, its quantized version and the first seen deployments in
// one model that accepts what all of them accept.
func (f *Fleet) Worst(seen int) recourse.Model {
	models := lists.Map(f.Models[:2+seen], func(m *classifier.Model) recourse.Model { return m })
	return recourse.Worst(models...)
}

// Close frees the models.
func (f *Fleet) Close() error {
	errs := lists.Map(f.Models, func(m *classifier.Model) error { return m.Close() })
	return errors.Join(errs...)
}

// Robustness says how the recourse of three solvers fares under deployments that differ a little: solved on the
// original, on the quantized version, and on all of them at once together with the deployments seen.
type Robustness struct {
	Refused int `json:"refused"` // people that the original refuses
	People  int `json:"people"`  // of these, evaluated
	Seen    int `json:"seen"`
	HeldOut int `json:"held_out"`
	// Drift is the root mean square difference, in logits, of a held-out deployment's
	// margin to the quantized version's, at the points of the first solver.
	Drift float64     `json:"drift"`
	Rows  []RobustRow `json:"rows"`
}

// RobustRow is one solver. Shares are of all people evaluated; a person without an action counts as refused where the
// model refuses them as they are.
type RobustRow struct {
	Margin float64 `json:"margin"`
	Solver string  `json:"solver"` // what it was solved on: "original", "quantized" or "all seen"
	Found  int     `json:"found"`  // people with an action
	ApprovalShares
	// Compared people have an action from every solver; Cost is their mean cost, CostRatio its ratio to that of the
	// original's.
	Compared  int     `json:"compared"`
	Cost      float64 `json:"cost"`
	CostRatio float64 `json:"cost_ratio"`
	Seconds   float64 `json:"seconds"` // that the solver took
}

// ApprovalShares are the shares of people that models approve at the point they were promised.
type ApprovalShares struct {
	Original  float64 `json:"original"`
	Quantized float64 `json:"quantized"`
	// Of the deployments seen and of those held out: the mean of their shares, which is the paper's
	// robust success, and the share of people that all of them approve.
	Seen       float64 `json:"seen"`
	SeenAll    float64 `json:"seen_all"`
	HeldOut    float64 `json:"held_out"`
	HeldOutAll float64 `json:"held_out_all"`
}

// Robustness solves recourse for the people that the original refuses, at most sample (0 = all) drawn by the solver's
// seed, and judges it under the original, the quantized version, and the deployments of the fleet, of which the robust
// solver knows those seen.
//
// Reference: "Results: solver-robust baselines under deployment shift".
func (f *Fleet) Robustness(ctx context.Context, set *constraint.Set, people *task.People, seen, sample int,
	o recourse.SolveOptions,
) (*Robustness, error) {
	full, drawn := f.Models[0], len(f.Models)-2
	if seen < 0 || seen > drawn {
		return nil, inputError(fmt.Errorf("%d of %d deployments seen", seen, drawn))
	}
	margins, err := full.Margins(ctx, people.X)
	if err != nil {
		return nil, err
	}
	rows := eval.Refused(margins, sample, o.Seed)
	r := &Robustness{Refused: len(eval.Refused(margins, 0, 0)), People: len(rows), Seen: seen, HeldOut: drawn - seen}
	if r.People == 0 {
		return r, nil
	}
	set = set.Select(rows)
	x := lists.RowsAt(people.X, full.Dim(), rows)
	var found [][]recourse.Action
	solvers := []recourse.Model{full, f.Models[1], f.Worst(seen)}
	for k, name := range []string{"original", "quantized", "all seen"} {
		start := time.Now()
		actions, err := recourse.Solve(ctx, solvers[k], set, x, o)
		row := RobustRow{Margin: o.Margin, Solver: name, Seconds: time.Since(start).Seconds()}
		if err == nil {
			err = f.judge(ctx, actions, r, &row)
		}
		if err != nil {
			return nil, fmt.Errorf("recourse of %s, margin %g: %w", name, o.Margin, err)
		}
		r.Rows, found = append(r.Rows, row), append(found, actions)
	}
	costs(r.Rows, found)
	return r, nil
}

// judge sets what becomes of the actions of a solver, and the drift of the fleet at those of the first one.
func (f *Fleet) judge(ctx context.Context, actions []recourse.Action, r *Robustness, row *RobustRow) (err error) {
	points := lists.Join(actions, func(a recourse.Action) []float32 { return a.Point })
	row.Found = len(lists.Filter(actions, func(a recourse.Action) bool { return a.Status == recourse.Found }))
	margins := make([][]float32, len(f.Models))
	for k, m := range f.Models {
		if margins[k], err = m.Margins(ctx, points); err != nil {
			return err
		}
	}
	held, n := margins[2+r.Seen:], len(actions)
	row.Original, _ = approved(margins[:1], n)
	row.Quantized, _ = approved(margins[1:2], n)
	row.Seen, row.SeenAll = approved(margins[2:2+r.Seen], n)
	row.HeldOut, row.HeldOutAll = approved(held, n)
	if len(r.Rows) == 0 {
		for _, of := range held {
			for i, v := range of {
				d := float64(v - margins[1][i])
				r.Drift += d * d / float64(n) / float64(len(held))
			}
		}
		r.Drift = math.Sqrt(r.Drift)
	}
	return nil
}

func approved(margins [][]float32, people int) (mean, all float64) {
	refused := make([]bool, people)
	for _, of := range margins {
		yes := 0
		for i, v := range of {
			if v > 0 {
				yes++
			} else {
				refused[i] = true
			}
		}
		mean += float64(yes) / float64(people) / float64(len(margins))
	}
	kept := lists.Filter(refused, func(no bool) bool { return !no })
	return mean, float64(len(kept)) / float64(people)
}

func costs(rows []RobustRow, found [][]recourse.Action) {
	compared := 0
	for i := range found[0] {
		if slices.ContainsFunc(found, func(a []recourse.Action) bool { return a[i].Status != recourse.Found }) {
			continue
		}
		compared++
		for k := range rows {
			rows[k].Cost += found[k][i].Cost
		}
	}
	for k := range rows {
		rows[k].Compared = compared
		rows[k].Cost /= float64(max(1, compared))
		if rows[0].Cost > 0 {
			rows[k].CostRatio = rows[k].Cost / rows[0].Cost
		}
	}
}
