package calib

import (
	"context"
	"fmt"

	"cfq/recourse"
)

// Promised is U_cal with promises that were made already in place of teacher actions: the rows x, and the points of the people whose action is Found.
// Actions hold one entry per row. A promise counts whether m keeps it or not, and also when m favours the row as it is.
func Promised(ctx context.Context, m recourse.Model, x []float32, actions []recourse.Action) (*Set, error) {
	dim := m.Dim()
	if len(actions)*dim != len(x) {
		return nil, fmt.Errorf("%d promises for %d calibration rows", len(actions), len(x)/dim)
	}
	s := &Set{Dim: dim, Factual: len(actions)}
	s.X = append(s.X, x...)
	for i := range actions {
		if a := &actions[i]; a.Status == recourse.Found && !still(a.Delta) {
			s.X = append(s.X, a.Point...)
			s.Source = append(s.Source, i)
		}
	}
	s.Recourse = len(s.Source)
	margins, err := m.Margins(ctx, s.Points())
	if err != nil {
		return nil, fmt.Errorf("margins of the promised points: %w", err)
	}
	s.Reached = make([]bool, len(margins))
	for i, v := range margins {
		s.Reached[i] = v > 0
	}
	return s, nil
}
