package ordered

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cfq/internal/must"
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

// Everything is done at once: each waits for the others here. The first error in the order of the work counts.
func TestAll(t *testing.T) {
	var met sync.WaitGroup
	met.Add(3)
	fails := func(text string) func() error {
		return func() error {
			met.Done()
			met.Wait()
			if text == "" {
				return nil
			}
			return errors.New(text)
		}
	}
	must.Same(t, "one", fmt.Sprint(All(3, fails("one"), fails(""), fails("three"))))
	must.Do(t, All(2))
}

func TestAllPanics(t *testing.T) {
	var begun, ended atomic.Int32
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), "broken") || begun.Load() != ended.Load() {
			t.Errorf("recovered %v, %d others have begun and %d ended", v, begun.Load(), ended.Load())
		}
	}()
	err := All(2, func() error { panic("broken") }, func() error {
		begun.Add(1)
		time.Sleep(time.Millisecond)
		ended.Add(1)
		return nil
	})
	t.Errorf("no panic, %v", err)
}

func TestAllInTurns(t *testing.T) {
	var running, peak, done atomic.Int32
	work := make([]func() error, 20)
	for i := range work {
		work[i] = func() error {
			if now := running.Add(1); now > peak.Load() {
				peak.Store(now)
			}
			time.Sleep(time.Millisecond)
			running.Add(-1)
			done.Add(1)
			return nil
		}
	}
	for _, most := range []int{1, 3} {
		peak.Store(0)
		if err := All(most, work...); err != nil || int(peak.Load()) > most {
			t.Errorf("%d at a time, want %d: %v", peak.Load(), most, err)
		}
	}
	must.Same(t, 40, done.Load())
}

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
