package ordered

import "iter"

// Ahead returns what all does, whose next value is made by another goroutine while the one before it is used. That
// goroutine has ended when the iteration has.
func Ahead[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		values, stop, ended := make(chan result[T]), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			defer close(values)
			for v, err := range all {
				select {
				case values <- result[T]{v, err}:
				case <-stop:
					return
				}
			}
		}()
		defer func() {
			close(stop)
			<-ended
		}()
		for r := range values {
			if !yield(r.value, r.err) {
				return
			}
		}
	}
}
