package recourse

import (
	"context"
	"sync/atomic"
	"testing"

	"cfq/internal/must"
	"cfq/internal/ordered"
)

// Everyone is worked on once. A piece is told to keep to its core when there are others for the other workers, not when
// it is alone with several workers or one worker has them all.
func TestChunks(t *testing.T) {
	for _, tt := range []struct {
		n, size, workers int
		oneCore          bool
	}{
		{10, 3, 2, true},
		{4, 3, 2, true},
		{3, 3, 2, false},
		{10, 3, 1, false},
		{0, 3, 2, false},
	} {
		var pieces, marked atomic.Int32
		seen := make([]atomic.Int32, tt.n)
		err := chunks(t.Context(), tt.n, tt.size, tt.workers, nil, func(ctx context.Context, lo, hi int) error {
			pieces.Add(1)
			if ordered.OnOneCore(ctx) {
				marked.Add(1)
			}
			for i := lo; i < hi; i++ {
				seen[i].Add(1)
			}
			return nil
		})
		must.Do(t, err)
		for i := range seen {
			if seen[i].Load() != 1 {
				t.Errorf("%+v: person %d was worked on %d times", tt, i, seen[i].Load())
			}
		}
		if want := pieces.Load(); tt.oneCore && marked.Load() != want || !tt.oneCore && marked.Load() != 0 {
			t.Errorf("%+v: %d of %d pieces keep to one core", tt, marked.Load(), want)
		}
	}
}
