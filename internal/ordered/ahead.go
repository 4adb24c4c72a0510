package ordered

import "iter"

// Ahead returns what all does, whose next value is made by another goroutine while the one before it is used. That
// goroutine has ended when the iteration has; a panic there is one here.
func Ahead[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		next, stop := iter.Pull2(all)
		more := true
		ahead := func() <-chan result[T] {
			coming := make(chan result[T], 1)
			go func() {
				defer close(coming)
				coming <- called(func() (v T, err error) {
					v, err, more = next()
					return v, err
				})
			}()
			return coming
		}
		coming := ahead()
		defer func() {
			<-coming
			stop()
		}()
		for {
			r := <-coming
			if r.panicked != nil {
				panic(r.panicked)
			}
			if !more {
				return
			}
			if coming = ahead(); !yield(r.value, r.err) {
				return
			}
		}
	}
}
