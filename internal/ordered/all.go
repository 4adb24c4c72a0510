package ordered

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// All does all work at once and waits for it. The errors are joined in the order of the work; a panic of one is a panic
// here.
func All(work ...func() error) error {
	errs, panicked := make([]error, len(work)), make([]any, len(work))
	one := func(i int) {
		defer func() {
			if v := recover(); v != nil {
				panicked[i] = fmt.Sprintf("%v\n%s", v, debug.Stack())
			}
		}()
		errs[i] = work[i]()
	}
	var others sync.WaitGroup
	for i := 1; i < len(work); i++ {
		others.Go(func() { one(i) })
	}
	if len(work) > 0 {
		one(0)
	}
	others.Wait()
	for _, v := range panicked {
		if v != nil {
			panic(v)
		}
	}
	return errors.Join(errs...)
}
