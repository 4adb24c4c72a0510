package recourse

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cfq/task"
)

// Override returns the action set with constraints of single people in place: row i of the people is given to it
// as Row i, until Select says otherwise. A weight of their own counts; all else that costs come from stays the task's.
func (a *ActionSet) Override(overrides []task.Override) (*ActionSet, error) {
	by := map[int][]task.Override{}
	for _, o := range overrides {
		by[o.Row] = append(by[o.Row], o)
	}
	b := *a
	b.own = map[int]*ActionSet{}
	var errs []error
	for _, row := range slices.Sorted(maps.Keys(by)) {
		t := *a.task
		t.Features = slices.Clone(t.Features)
		for _, o := range by[row] {
			t.Features[o.Feature] = o.With
		}
		own, err := compileWith(&t, a.task.Features)
		if err != nil {
			errs = append(errs, fmt.Errorf("row %d: %w", row, err))
		}
		b.own[row] = own
	}
	return &b, errors.Join(errs...)
}

// Select returns the action set for people of whom the i-th is row rows[i] of those it is for now.
func (a *ActionSet) Select(rows []int) *ActionSet {
	if len(a.own) == 0 {
		return a
	}
	b := *a
	b.own = map[int]*ActionSet{}
	for i, row := range rows {
		if own := a.own[row]; own != nil {
			b.own[i] = own
		}
	}
	return &b
}

// Person returns the action set of the person in the given row: what Check, Cost and Changes mean for them.
func (a *ActionSet) Person(row int) *ActionSet {
	if own := a.own[row]; own != nil {
		return own
	}
	return a
}
