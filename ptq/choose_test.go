package ptq

import (
	"slices"
	"testing"

	"cfq/qat"
)

// Of many people some are calibrated on, evenly spread; where few of them are refused,
// refused ones are added until there are enough.
func TestWithRefused(t *testing.T) {
	t.Parallel()
	margins := make([]float32, 20000)
	for i := range margins {
		margins[i] = 1
		if i%10 == 7 {
			margins[i] = -1 // 2000 refused
		}
	}
	even := qat.Spread(len(margins), 4000)
	if len(even) != 4000 || even[0] != 0 || even[1]-even[0] != 5 || even[3999] != 19995 {
		t.Fatalf("%d rows, from %d to %d", len(even), even[0], even[len(even)-1])
	}
	rows := withRefused(slices.Clone(even), margins) // every fifth row: none of them refused
	refused := 0
	for k, r := range rows {
		if k > 0 && r <= rows[k-1] {
			t.Fatalf("row %d behind row %d", r, rows[k-1])
		}
		if margins[r] < 0 {
			refused++
		}
	}
	if len(rows) != 5000 || refused != 1000 {
		t.Errorf("%d rows, %d of them refused", len(rows), refused)
	}
	for i := range margins {
		margins[i] = -1
	}
	if got := withRefused(slices.Clone(even), margins); !slices.Equal(got, even) {
		t.Errorf("all are refused, and %d rows were added", len(got)-len(even))
	}
	if got := withRefused([]int{1, 2, 4, 5}, []float32{-1, 1, 1, -1, 1, 1}); !slices.Equal(got, []int{0, 1, 2, 4, 5}) {
		t.Errorf("%v of six people", got)
	}
}
