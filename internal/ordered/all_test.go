package ordered

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Everything is done, at once: each waits for the others here. Errors come in the order of the work.
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
	if err := All(fails("one"), fails(""), fails("three")); fmt.Sprint(err) != "one\nthree" {
		t.Errorf("%v", err)
	}
	if err := All(); err != nil {
		t.Error(err)
	}
}

// A panic is one of the goroutine that waits, and the others have ended by then.
func TestAllPanics(t *testing.T) {
	ended := false
	defer func() {
		if v := recover(); !strings.Contains(fmt.Sprint(v), "broken") || !ended {
			t.Errorf("recovered %v, others have ended: %v", v, ended)
		}
	}()
	err := All(func() error { panic("broken") }, func() error { ended = true; return nil })
	t.Errorf("no panic, %v", err)
}
