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
	r := &Robustness{
		Refused: len(eval.Refused(margins, 0, 0)), People: len(rows), Seen: seen, HeldOut: drawn - seen,
	}
	if r.People == 0 {
		return r, nil
	}
	set = set.Select(rows)
	x := qat.RowsAt(people.X, full.Dim(), rows)
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
	var points []float32
	for i := range actions {
		points = append(points, actions[i].Point...)
		if actions[i].Status == recourse.Found {
			row.Found++
		}
	}
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

// approved is the mean of the shares of people that models approve, and the share that all of them approve.
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
	for _, no := range refused {
		if !no {
			all++
		}
	}
	return mean, all / float64(people)
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
