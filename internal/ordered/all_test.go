package ordered

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Everything is done at once: each waits for the others here. Errors come in the order of the work.
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
	if err := All(3, fails("one"), fails(""), fails("three")); fmt.Sprint(err) != "one\nthree" {
		t.Errorf("%v", err)
	}
	if err := All(2); err != nil {
		t.Error(err)
	}
}

func TestAllPanics(t *testing.T) {
	ended := false
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), "broken") || !ended {
			t.Errorf("recovered %v, others have ended: %v", v, ended)
		}
	}()
	err := All(2, func() error { panic("broken") }, func() error { ended = true; return nil })
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
	if done.Load() != 40 {
		t.Errorf("%d of 40 were done", done.Load())
	}
}
