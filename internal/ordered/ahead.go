package ordered

import (
	"fmt"
	"iter"
	"runtime/debug"
)

// Ahead returns what all does, whose next value is made by another goroutine while the one before it is used. That
// goroutine has ended when the iteration has; a panic there is one here.
func Ahead[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		values, stop, ended := make(chan result[T]), make(chan struct{}), make(chan struct{})
		var panicked any
		go func() {
			defer close(ended)
			defer close(values)
			defer caught(&panicked)
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
			if <-ended; panicked != nil {
				panic(panicked)
			}
		}()
		for r := range values {
			if !yield(r.value, r.err) {
				return
			}
		}
	}
}

// caught, deferred, keeps what a goroutine panics with and where, for the one that waits for it to panic with.
func caught(as *any) {
	if v := recover(); v != nil {
		*as = fmt.Sprintf("%v\n%s", v, debug.Stack())
	}
}
