package eval

import (
	"errors"
	"testing"
)

func TestVisitEnds(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	list := make([]Record, 100)
	for i := range list {
		list[i] = Record{Row: i, X: []float32{float32(i)}}
	}
	r := gathered(t, [][]Record{list}, []float64{0}, nil, limits{bytes: 1 << 20, records: 80})
	seen, parts := 0, 0
	err := r.Visit(VisitRecords(func(some []*Record) error {
		seen += len(some)
		return nil
	}), func([]*Record, [][]*Record) error {
		if parts++; parts == 3 {
			return failed
		}
		return nil
	})
	if !errors.Is(err, failed) || seen != 30 {
		t.Errorf("%d records seen, want 30 of 3 parts: %v", seen, err)
	}
	if err := r.Visit(); err != nil {
		t.Errorf("nobody: %v", err)
	}
	var none *Records
	if err := none.Visit(VisitRecords(func([]*Record) error { return failed })); err != nil {
		t.Errorf("no records: %v", err)
	}
}
