package ordered

import (
	"errors"

	"golang.org/x/sync/errgroup"
)

// All does all work, so many at a time, and waits for it, also after an error. The errors are joined in the order of
// the work; a panic of one is a panic here.
func All(atOnce int, work ...func() error) error {
	errs, panicked := make([]error, len(work)), make([]any, len(work))
	var group errgroup.Group
	group.SetLimit(max(1, atOnce))
	for i, one := range work {
		group.Go(func() error {
			defer caught(&panicked[i])
			errs[i] = one()
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	for _, v := range panicked {
		if v != nil {
			panic(v)
		}
	}
	return errors.Join(errs...)
}
