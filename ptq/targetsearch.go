package ptq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"cfq/allocate"
	"cfq/eval"
	"cfq/onnxio/classifier"
	"cfq/task"
)

// search is one run of Smallest.
type search struct {
	task       *task.Task
	o          Options
	r          *TargetResult
	full       *classifier.Model
	own, held  *part
	cal        *Calibration
	candidates []*Candidate
}

// candidate quantizes at a budget, once.
func (s *search) candidate(ctx context.Context, budget float64) (*Candidate, error) {
	for _, c := range s.candidates {
		if c.Budget == budget {
			return c, nil
		}
	}
	c := &Candidate{Budget: budget}
	s.candidates = append(s.candidates, c)
	r, err := s.cal.Quantize(ctx, budget)
	switch {
	case errors.Is(err, allocate.ErrBudget):
		c.Problem = err.Error()
		return c, nil
	case err != nil:
		return nil, err
	}
	c.result, c.Bytes = r, r.Bytes
	if err := r.Verified.Err(); err != nil {
		c.Problem = err.Error()
	}
	for _, before := range s.candidates {
		if before != c && before.Problem == "" && before.result != nil && reflect.DeepEqual(before.result.Plan, r.Plan) {
			c.Search, c.HeldOut, c.Holds = before.Search, before.HeldOut, before.Holds
		}
	}
	return c, nil
}

// promising says whether held-out people would show the target if as many promises to
// them broke as to those that c was calibrated on.
func (s *search) promising(ctx context.Context, budget float64) (bool, error) {
	c, err := s.candidate(ctx, budget)
	if err != nil || c.Problem != "" {
		return false, err
	}
	if c.Search == nil {
		if c.Search, err = s.measure(ctx, c, s.own); err != nil {
			return false, err
		}
	}
	n := s.r.Promises
	expect := func(v Share) bool {
		k := int(math.Ceil(float64(v.Num) / float64(max(v.Den, 1)) * float64(n)))
		return v.Den > 0 && eval.ClopperPearsonUpper(min(k, n), n, s.r.Level) <= s.r.Target.VD
	}
	return expect(c.Search.VD) && (s.r.Target.OneSided || expect(c.Search.RVD)), nil
}

// shortlist says about which budgets, in which order, held-out people are to be asked.
// Nothing that they say goes into it.
func (s *search) shortlist(ctx context.Context) ([]float64, error) {
	first := func(from, to, step float64) (float64, error) {
		for b := from; b <= to; b += step {
			s.tell("search by bits per weight", len(s.candidates), 0)
			if ok, err := s.promising(ctx, b); ok || err != nil {
				return b, err
			}
		}
		return 0, nil
	}
	coarse, err := first(leastBudget, mostBudget, 1)
	if err != nil {
		return nil, err
	}
	if coarse == 0 { // only those that are nearest
		seen := slices.DeleteFunc(slices.Clone(s.candidates), func(c *Candidate) bool { return c.Search == nil })
		slices.SortStableFunc(seen, func(a, b *Candidate) int {
			return compareScores(s.score(a.Search), s.score(b.Search), b.Budget, a.Budget)
		})
		var out []float64
		for _, c := range seen[:min(len(seen), 2)] {
			out = append(out, c.Budget)
		}
		return out, nil
	}
	fine, err := first(max(leastBudget, coarse-1+targetStep), coarse-targetStep, targetStep)
	if err != nil {
		return nil, err
	}
	best := coarse
	if fine > 0 {
		best = fine
	}
	var out []float64
	for _, more := range [targetTries]float64{0, targetStep, 3 * targetStep, 7 * targetStep} {
		if b := min(best+more, mostBudget); !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	return out, nil
}

// answer puts the result together: the candidate that holds, or the nearest to it.
func (s *search) answer() (*TargetResult, error) {
	slices.SortStableFunc(s.candidates, func(a, b *Candidate) int { return compareScores(a.Budget, b.Budget, 0, 0) })
	r := s.r
	r.Chosen = -1
	for i, c := range s.candidates {
		r.Candidates = append(r.Candidates, *c)
		if c.HeldOut == nil || c.Problem != "" {
			continue
		}
		best := r.Chosen < 0
		if !best {
			b := s.candidates[r.Chosen]
			switch {
			case c.Holds != b.Holds:
				best = c.Holds
			case c.Holds:
				best = c.Bytes < b.Bytes
			default:
				best = s.score(c.HeldOut) < s.score(b.HeldOut)
			}
		}
		if best {
			r.Chosen, r.Reached, r.Result = i, c.Holds, c.result
		}
	}
	if r.Chosen < 0 {
		problem := "there is no candidate"
		if len(s.candidates) > 0 {
			problem = s.candidates[len(s.candidates)-1].Problem
		}
		return nil, inputError(fmt.Errorf("no budget gives a model that can be used: %s", problem))
	}
	return r, nil
}
