// Package ordered works on several batches at once and takes the results one after the other.
//
// In: work, in some order. Out: its results in the same order, each taken where the work was handed in. The invariant:
// no more than so many results exist at a time, the first error ends everything, and a panic of work is one of whoever
// waits for it.
package ordered

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"sync/atomic"
)

// Queue is work under way. One goroutine may use it.
type Queue[T any] struct {
	most   int
	jobs   []queued[T]
	slots  chan struct{} // one is taken by each job that works
	failed atomic.Bool
}

type queued[T any] struct {
	done <-chan result[T]
	take func(T) error
}

type result[T any] struct {
	value    T
	err      error
	panicked any // what work panicked with, and where
}

func called[T any](work func() (T, error)) (r result[T]) {
	defer func() {
		if v := recover(); v != nil {
			r.panicked = fmt.Sprintf("%v\n%s", v, debug.Stack())
		}
	}()
	r.value, r.err = work()
	return r
}

// All does all work, so many at a time, and waits for it. Work that has not begun after an error is left out.
func All(atOnce int, work ...func() error) error {
	q := New[any](len(work)+1, atOnce)
	for _, one := range work {
		// The queue is never full, so no result is taken here.
		_ = q.Go(func() (any, error) { return nil, one() }, func(any) error { return nil })
	}
	return q.Wait()
}

// New makes a queue of up to most jobs, at least one, of which up to atOnce work at a time. The others wait for their
// turn, or for their results to be taken.
func New[T any](most, atOnce int) *Queue[T] {
	return &Queue[T]{most: max(1, most), slots: make(chan struct{}, max(1, atOnce))}
}

// Go starts work, and waits for earlier work when there is as much as may be. take is called with its result by this
// or a later call of Go, or by Wait. Its error, or that of work, is returned, and then there is no more to be taken.
func (q *Queue[T]) Go(work func() (T, error), take func(T) error) error {
	done := make(chan result[T], 1)
	go func() {
		q.slots <- struct{}{}
		var r result[T]
		if !q.failed.Load() {
			r = called(work)
		}
		<-q.slots
		done <- r
	}()
	q.jobs = append(q.jobs, queued[T]{done, take})
	for len(q.jobs) >= q.most {
		if err := q.next(); err != nil {
			return err
		}
	}
	return nil
}

// Wait takes all results that are left. After an error it waits for the work that is under way, whose results nobody
// takes.
func (q *Queue[T]) Wait() error {
	for len(q.jobs) > 0 {
		if err := q.next(); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue[T]) next() error {
	first := q.jobs[0]
	q.jobs = q.jobs[1:]
	r := <-first.done
	if r.err == nil && r.panicked == nil {
		r.err = first.take(r.value)
	}
	if r.err != nil || r.panicked != nil {
		q.failed.Store(true)
		for _, j := range q.jobs { // which may use what the caller closes
			<-j.done
		}
		q.jobs = nil
	}
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.err
}

type oneCore struct{}

// OneCore marks the context of one of several pieces of work that keep all cores busy: its calls are not divided among
// more than one.
func OneCore(ctx context.Context) context.Context { return context.WithValue(ctx, oneCore{}, true) }

// OnOneCore says whether OneCore made the context.
func OnOneCore(ctx context.Context) bool { return ctx.Value(oneCore{}) != nil }

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
