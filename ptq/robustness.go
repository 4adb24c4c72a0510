package ptq

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"cfq/eval"
	"cfq/qat"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// RobustOptions are the settings of Robustness.
type RobustOptions struct {
	Seen    int     // how many of the fleet's deployments the robust solver knows; the rest are held out
	Margin  float64 // the required logit margin
	Sample  int     // the largest number of people, drawn by Seed; 0 = all that the original refuses
	Seed    uint64  // of the sample and of the solver
	Workers int     // of the solver
}

// Robustness says how the recourse of three solvers fares under deployments that
// differ a little: solved on the original, on the quantized version, and on all
// of them at once together with the deployments seen.
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

// RobustRow is one solver. Shares are of all people
// evaluated; a person without an action counts as refused where the model refuses
// them as they are.
type RobustRow struct {
	Margin float64 `json:"margin"`
	Solver string  `json:"solver"` // what it was solved on: "original", "quantized" or "all seen"
	Found  int     `json:"found"`  // people with an action
	// The share of people that a model approves at the point they were promised.
	Original  float64 `json:"original"`
	Quantized float64 `json:"quantized"`
	// Of the deployments seen and of those held out: the mean of their shares, which is the paper's
	// robust success, and the share of people that all of them approve.
	Seen       float64 `json:"seen"`
	SeenAll    float64 `json:"seen_all"`
	HeldOut    float64 `json:"held_out"`
	HeldOutAll float64 `json:"held_out_all"`
	// Compared people have an action from every solver; Cost is their mean cost, CostRatio its ratio to that of the
	// original's.
	Compared  int     `json:"compared"`
	Cost      float64 `json:"cost"`
	CostRatio float64 `json:"cost_ratio"`
	Seconds   float64 `json:"seconds"` // that the solver took
}

// Robustness solves recourse for the people that the original refuses and judges it under the
// original, the quantized version, and the deployments of the fleet.
//
// Reference: "Results: solver-robust baselines under deployment shift".
func (f *Fleet) Robustness(ctx context.Context, set *constraint.Set, people *task.People,
	o RobustOptions,
) (*Robustness, error) {
	if o.Seen < 0 || o.Seen > len(f.Drawn) {
		return nil, inputError(fmt.Errorf("%d of %d deployments seen", o.Seen, len(f.Drawn)))
	}
	margins, err := f.Full.Margins(ctx, people.X)
	if err != nil {
		return nil, err
	}
	rows := eval.Refused(margins, o.Sample, o.Seed)
	r := &Robustness{Refused: len(eval.Refused(margins, 0, 0)), Seen: o.Seen, HeldOut: len(f.Drawn) - o.Seen}
	if r.People = len(rows); r.People == 0 {
		return r, nil
	}
	set = set.Select(rows)
	x := qat.RowsAt(people.X, f.Full.Dim(), rows)
	var found [][]recourse.Action
	for i, s := range []struct {
		name  string
		model recourse.Model
	}{{"original", f.Full}, {"quantized", f.Nominal}, {"all seen", f.Worst(o.Seen)}} {
		start := time.Now()
		actions, err := recourse.Solve(ctx, s.model, set, x, recourse.SolveOptions{
			Margin: o.Margin, Seed: o.Seed, Workers: o.Workers,
		})
		row, drift := RobustRow{Margin: o.Margin, Solver: s.name, Seconds: time.Since(start).Seconds()}, 0.0
		if err == nil {
			drift, err = f.judge(ctx, actions, o.Seen, &row)
		}
		if err != nil {
			return nil, fmt.Errorf("recourse of %s, margin %g: %w", s.name, o.Margin, err)
		}
		if i == 0 {
			r.Drift = drift
		}
		r.Rows, found = append(r.Rows, row), append(found, actions)
	}
	costs(r.Rows, found)
	return r, nil
}

func (f *Fleet) judge(ctx context.Context, actions []recourse.Action, seen int, r *RobustRow) (drift float64,
	err error,
) {
	var points []float32
	for i := range actions {
		points = append(points, actions[i].Point...)
		if actions[i].Status == recourse.Found {
			r.Found++
		}
	}
	n := float64(len(actions))
	original, err := f.Full.Margins(ctx, points)
	if err != nil {
		return 0, err
	}
	nominal, err := f.Nominal.Margins(ctx, points)
	if err != nil {
		return 0, err
	}
	r.Original, r.Quantized = approved(original), approved(nominal)
	for _, part := range []struct {
		from, to  int
		mean, all *float64
	}{{0, seen, &r.Seen, &r.SeenAll}, {seen, len(f.Drawn), &r.HeldOut, &r.HeldOutAll}} {
		least := slices.Repeat([]float32{float32(math.Inf(1))}, len(actions))
		for _, c := range f.Drawn[part.from:part.to] {
			margins, err := c.Margins(ctx, points)
			if err != nil {
				return 0, err
			}
			*part.mean += approved(margins) / float64(part.to-part.from)
			for i, v := range margins {
				least[i] = min(least[i], v)
				if part.from == seen {
					d := float64(v - nominal[i])
					drift += d * d / n / float64(part.to-part.from)
				}
			}
		}
		*part.all = approved(least)
	}
	return math.Sqrt(drift), nil
}

func approved(margins []float32) float64 {
	yes := 0
	for _, v := range margins {
		if v > 0 {
			yes++
		}
	}
	return float64(yes) / float64(len(margins))
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
