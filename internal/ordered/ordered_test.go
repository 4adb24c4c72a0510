package ordered

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, n := rapid.IntRange(0, 4).Draw(t, "most"), rapid.IntRange(0, 12).Draw(t, "jobs")
		atOnce := rapid.IntRange(0, 4).Draw(t, "at once")
		fails := rapid.IntRange(-1, n).Draw(t, "fails")
		taking := rapid.Bool().Draw(t, "taking fails")
		q := New[int](most, atOnce)
		var running, peak, begun, ended atomic.Int32
		var got []int
		failed := errors.New("failed")
		started := 0
		var err error
		for i := range n {
			pause := time.Duration(rapid.IntRange(0, 300).Draw(t, "pause")) * time.Microsecond
			started++
			err = q.Go(func() (int, error) {
				begun.Add(1)
				now := running.Add(1)
				for p := peak.Load(); now > p && !peak.CompareAndSwap(p, now); p = peak.Load() {
				}
				time.Sleep(pause)
				running.Add(-1)
				ended.Add(1)
				if i == fails && !taking {
					return 0, failed
				}
				return i, nil
			}, func(v int) error {
				if v == fails && taking {
					return failed
				}
				got = append(got, v)
				return nil
			})
			if err != nil {
				break
			}
		}
		if err == nil {
			err = q.Wait()
		}
		want := n
		if fails >= 0 && fails < n {
			want = fails
		}
		if (err != nil) != (want < n) || len(got) != want || !slices.IsSorted(got) {
			t.Fatalf("%v, %v of %d jobs, of which %d fails", err, got, n, fails)
		}
		if int(peak.Load()) > max(1, min(most, atOnce)) {
			t.Fatalf("%d jobs at once, want %d at most", peak.Load(), min(most, atOnce))
		}
		if begun, ended := int(begun.Load()), int(ended.Load()); begun != ended || err == nil && ended != started {
			t.Fatalf("%d of %d jobs were waited for, %d begun", ended, started, begun)
		}
	})
}
