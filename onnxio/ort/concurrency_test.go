package ort_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// slow applies n operators to each element, so that a run on a million elements takes about n milliseconds.
func slow(n int) *graph.Model {
	in, out := []graph.Value{value("x", graph.Float, rows())}, []graph.Value{value("y", graph.Float, rows())}
	return build(in, out, func(b *graph.Builder) {
		last := "x"
		for range n {
			last = b.Op("Tanh", []string{last})
		}
		b.Append(node("Neg", []string{last}, "y"))
	})
}

func TestRunIsCancelled(t *testing.T) {
	s := open(t, slow(3000), orttest.Need(t))
	x := []*graph.Tensor{graph.FromFloats("x", make([]float32, 1<<20), 1<<20)}
	late, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	before, cancelBefore := context.WithCancel(t.Context())
	cancelBefore()
	running, cancel := context.WithCancel(t.Context())
	if _, err := s.Run(late, x); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after a deadline: %v", err)
	}
	if _, err := s.Run(before, x); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := s.Run(running, x); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while running: %v", err)
	}
	// A cancelled run leaves the session usable.
	small := []*graph.Tensor{graph.FromFloats("x", []float32{0}, 1)}
	must.Get(s.Run(t.Context(), small))(t)
}

func TestRunsAtOnce(t *testing.T) {
	s := open(t, sumAndDifference(rows(2)), orttest.Need(t))
	var g errgroup.Group
	for w := range 8 {
		g.Go(func() error {
			for i := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%5 == 4 {
					cancel()
				}
				v := float32(100*w + i)
				out, err := s.Run(ctx, []*graph.Tensor{
					graph.FromFloats("a", []float32{v, -v}, 1, 2),
					graph.FromFloats("b", []float32{1, 2}, 1, 2),
				}, "sum")
				cancel()
				if i%5 == 4 {
					if !errors.Is(err, context.Canceled) {
						return fmt.Errorf("cancelled run: %w", err)
					}
					continue
				}
				if err != nil {
					return err
				}
				if y, _ := out[0].Floats(); y[0] != v+1 || y[1] != 2-v {
					return fmt.Errorf("%g gave %v", v, y)
				}
			}
			return nil
		})
	}
	must.Do(t, g.Wait())
}

func TestCloseWaitsForRuns(t *testing.T) {
	s := must.Get(ort.Open(slow(100), orttest.Need(t)))(t)
	x := []*graph.Tensor{graph.FromFloats("x", make([]float32, 1<<18), 1<<18)}
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			if _, err := s.Run(t.Context(), x); err != nil && !errors.Is(err, ort.ErrClosed) {
				return err
			}
			return nil
		})
	}
	time.Sleep(5 * time.Millisecond)
	must.Do(t, errors.Join(s.Close(), s.Close(), g.Wait()))
	if _, err := s.Run(t.Context(), x); !errors.Is(err, ort.ErrClosed) {
		t.Errorf("a run after Close: %v", err)
	}
}
