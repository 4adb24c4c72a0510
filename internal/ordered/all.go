package ordered

import (
	"errors"
	"sync"
	"sync/atomic"
)

// All does all work, so many at a time, and waits for it, also after an error. The errors are joined in the order of
// the work; a panic of one is a panic here.
func All(atOnce int, work ...func() error) error {
	errs, panicked := make([]error, len(work)), make([]any, len(work))
	one := func(i int) {
		defer caught(&panicked[i])
		errs[i] = work[i]()
	}
	var next atomic.Int64
	some := func() {
		for i := int(next.Add(1)) - 1; i < len(work); i = int(next.Add(1)) - 1 {
			one(i)
		}
	}
	var others sync.WaitGroup
	for range min(atOnce, len(work)) - 1 {
		others.Go(some)
	}
	some()
	others.Wait()
	for _, v := range panicked {
		if v != nil {
			panic(v)
		}
	}
	return errors.Join(errs...)
}
