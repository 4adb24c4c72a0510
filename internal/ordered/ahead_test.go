package ordered

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The values come in their order, the one behind the last that was used is made at most, and nobody makes any more when
// the iteration has ended.
func TestAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "values")
		ends := rapid.IntRange(0, n).Draw(t, "used")
		failed := errors.New("failed")
		made, ended := 0, false
		all := func(yield func(int, error) bool) {
			defer func() { ended = true }()
			for made = 1; made <= n; made++ {
				var err error
				if made == n {
					err = failed
				}
				if !yield(made, err) {
					return
				}
			}
		}
		var got []int
		for v, err := range Ahead(all) {
			if (err != nil) != (v == n) {
				t.Fatalf("value %d of %d: %v", v, n, err)
			}
			if got = append(got, v); len(got) == ends {
				break
			}
		}
		want := n
		if ends > 0 {
			want = ends
		}
		if !ended || len(got) != want || !slices.IsSorted(got) {
			t.Fatalf("%v of %d values, ended %v, want %d", got, n, ended, want)
		}
		if made > want+1 {
			t.Fatalf("%d values were made, %d used", made, want)
		}
	})
}

func TestAheadPanics(t *testing.T) {
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), "broken") {
			t.Errorf("recovered %v", v)
		}
	}()
	for range Ahead(func(yield func(int, error) bool) {
		yield(1, nil)
		panic("broken")
	}) {
	}
	t.Error("no panic")
}
