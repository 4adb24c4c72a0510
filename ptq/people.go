package ptq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/task"
)

// refusedShare: for so many people who are calibrated on there is one who is refused, at
// least: recourse points are made of them.
const refusedShare = 4

// choosePeople picks the people to calibrate on and lets each change what Options.Overrides says.
func (q *job) choosePeople(ctx context.Context, people *task.People) error {
	switch {
	case people.N == 0:
		return errors.New("there are no rows to calibrate on")
	case q.o.Promises != nil && len(q.o.Promises) != people.N:
		return fmt.Errorf("%d promises for %d people", len(q.o.Promises), people.N)
	}
	margins, err := q.full.Margins(ctx, people.X)
	if err != nil {
		return err
	}
	q.lookAtTarget(people.Labels, margins)
	q.people, q.all = people, people
	q.rows = spread(0, people.N, people.N)
	if q.o.Rows > 0 && people.N > q.o.Rows {
		rows := withRefused(spread(0, people.N, q.o.Rows), margins)
		q.people, q.rows = people.Subset(rows), rows
		if q.o.Promises != nil {
			q.o.Promises = subset(q.o.Promises, rows)
		}
	}
	return q.personal(q.people)
}

// withRefused adds rows, evenly spread, of people who are refused until there is one for
// every refusedShare rows given. Rows are in ascending order.
func withRefused(rows []int, margins []float32) []int {
	chosen := make(map[int]bool, len(rows))
	refused := 0
	for _, r := range rows {
		chosen[r] = true
		if margins[r] <= 0 {
			refused++
		}
	}
	var others []int
	for r, m := range margins {
		if m <= 0 && !chosen[r] {
			others = append(others, r)
		}
	}
	for _, k := range spread(0, len(others), max(0, len(rows)/refusedShare-refused)) {
		rows = append(rows, others[k])
	}
	slices.Sort(rows)
	return rows
}

// personal lets the people change what Options.Overrides gives them.
func (q *job) personal(people *task.People) error {
	if len(q.o.Overrides) == 0 {
		return nil
	}
	if len(people.Rows) != people.N {
		return fmt.Errorf("overrides are by rows of the data file, and %d people have %d of them", people.N, len(people.Rows))
	}
	by := map[int][]task.Override{}
	for _, o := range q.o.Overrides {
		by[o.Row] = append(by[o.Row], o)
	}
	q.own = nil
	for i, row := range people.Rows {
		for _, o := range by[row] {
			o.Row = i
			q.own = append(q.own, o)
		}
	}
	set, err := q.set.Override(q.own)
	if err != nil {
		return fmt.Errorf("overrides: %w", err)
	}
	q.set = set
	return nil
}

// lookAtTarget warns when the model disagrees with most labels, which is what a
// wrong class index looks like.
func (q *job) lookAtTarget(labels []int8, margins []float32) {
	right, known := agreement(labels, margins)
	if known >= 20 && 5*right < 2*known {
		q.warn("the model decides only %.0f %% of the labelled rows as their labels say: is class %d, the task's target.index, the favourable one?", 100*float64(right)/float64(known), q.full.Target())
	}
}

// agreement counts the rows with a label and those that margins decide as it says.
func agreement(labels []int8, margins []float32) (right, known int) {
	for i, l := range labels {
		if l >= 0 {
			known++
			if (margins[i] > 0) == (l == 1) {
				right++
			}
		}
	}
	return right, known
}

// subset returns the elements at the positions.
func subset[T any](s []T, at []int) []T {
	out := make([]T, len(at))
	for k, i := range at {
		out[k] = s[i]
	}
	return out
}
