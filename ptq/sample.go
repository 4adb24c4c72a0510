package ptq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/qat"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/sensitivity"
	"cfq/task"
)

// refusedShare: of this many people who are calibrated on at least one is refused, because recourse
// points are made from refused people.
const refusedShare = 4

const minLabels = 20

type calibrationSample struct {
	all      *task.People
	margins  []float32         // of all, see network.marginsOf
	people   *task.People      // those of all who are calibrated on
	rows     []int             // their positions among all, ascending
	set      *constraint.Set   // what each of people can change
	promises []recourse.Action // of people; nil where none are given
	warnings []string
}

func (p *network) chooseSample(ctx context.Context, all *task.People) (_ *calibrationSample, err error) {
	c := &calibrationSample{all: all, people: all, rows: task.AllRows(all.N), promises: p.run.Promises}
	switch {
	case all.N == 0:
		return nil, errors.New("there are no rows to calibrate on")
	case c.promises != nil && len(c.promises) != all.N:
		return nil, fmt.Errorf("%d promises for %d people", len(c.promises), all.N)
	}
	margins, err := p.marginsOf(ctx, all)
	if err != nil {
		return nil, err
	}
	c.margins = margins
	right, known := 0, 0
	for i, l := range all.Labels {
		if l >= 0 && margins[i] == margins[i] {
			known++
			if (margins[i] > 0) == (l == 1) {
				right++
			}
		}
	}
	switch doc := p.recipe.objectiveDoc(); {
	case doc.Groups && len(all.Subgroups) == 0:
		return nil, fmt.Errorf("objective %s needs subgroups of people: the task has no feature with subgroup: true",
			p.recipe.objective())
	case doc.Labels && p.full.Classes() > 2:
		return nil, fmt.Errorf("objective %s needs a model of two classes, and this one has %d: objective %s takes any",
			p.recipe.objective(), p.full.Classes(), qat.Distil)
	case doc.Labels && known == 0:
		return nil, fmt.Errorf("objective %s needs labels, and none of %d rows has one: objective %s needs none",
			p.recipe.objective(), all.N, qat.Distil)
	}
	if known >= minLabels && 5*right < 2*known { // what a wrong class index looks like
		c.warnings = append(c.warnings, fmt.Sprintf("the model decides only %.0f %% of the labelled rows as their labels "+
			"say: is class %d, the task's target.index, the favourable one?", 100*float64(right)/float64(known),
			p.full.Target()))
	}
	if p.recipe.Calibrate.Rows > 0 && all.N > p.recipe.Calibrate.Rows {
		c.rows = withRefused(qat.Spread(all.N, p.recipe.Calibrate.Rows), margins)
		c.people = all.Subset(c.rows)
		if c.promises != nil {
			c.promises = subset(c.promises, c.rows)
		}
	}
	c.set, err = personal(p.set, p.run.Overrides, c.people)
	return c, err
}

// maxMargins is how many multiplications the margins of people may take of whom only some are calibrated on.
const maxMargins = 1 << 37

// marginsOf returns the margins of all people or, where that takes too long, of lookedAt times those who are calibrated
// on, evenly spread, and not a number of the others.
func (p *network) marginsOf(ctx context.Context, all *task.People) ([]float32, error) {
	const lookedAt = 2
	rows := qat.Spread(all.N, lookedAt*p.recipe.Calibrate.Rows)
	if len(rows) == 0 || float64(all.N)*float64(sensitivity.Multiplications(p.found)) <= maxMargins {
		return p.full.Margins(ctx, all.X)
	}
	margins, err := p.full.Margins(ctx, qat.RowsAt(all.X, all.Dim, rows))
	if err != nil {
		return nil, err
	}
	out := slices.Repeat([]float32{float32(math.NaN())}, all.N)
	for k, i := range rows {
		out[i] = margins[k]
	}
	return out, nil
}

// withRefused adds rows, evenly spread, of people who are refused until there is one for
// every refusedShare rows given. Rows are in ascending order.
func withRefused(rows []int, margins []float32) []int {
	refused := 0
	var others []int
	for r, m := range margins {
		switch _, chosen := slices.BinarySearch(rows, r); {
		case !(m <= 0):
		case chosen:
			refused++
		default:
			others = append(others, r)
		}
	}
	rows = append(rows, subset(others, qat.Spread(len(others), len(rows)/refusedShare-refused))...)
	slices.Sort(rows)
	return rows
}

// personal is what each of the people can change.
func personal(set *constraint.Set, overrides []task.Override, people *task.People) (*constraint.Set, error) {
	if len(overrides) == 0 {
		return set, nil
	}
	if len(people.Rows) != people.N {
		return nil, fmt.Errorf("overrides are by rows of the data file, and %d people have %d of them", people.N,
			len(people.Rows))
	}
	by := map[int][]task.Override{}
	for _, o := range overrides {
		by[o.Row] = append(by[o.Row], o)
	}
	var own []task.Override
	for i, row := range people.Rows {
		for _, o := range by[row] {
			o.Row = i
			own = append(own, o)
		}
	}
	set, err := set.Override(own)
	if err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	return set, nil
}

func subset[T any](s []T, at []int) []T { return qat.RowsAt(s, 1, at) }

// thin returns at most limit rows of inputs, evenly spread, with their classes.
func (m *canonicalModel) thin(x []float32, classes []int, limit int) ([]float32, []int) {
	n := len(x) / m.full.Dim()
	if n <= limit {
		return x, classes
	}
	at := qat.Spread(n, limit)
	if classes != nil {
		classes = subset(classes, at)
	}
	return qat.RowsAt(x, m.full.Dim(), at), classes
}
