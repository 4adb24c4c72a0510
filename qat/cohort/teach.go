package cohort

import (
	"context"
	"math/rand/v2"
	"slices"

	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/recourse"
)

const promisedMargin = 0.1

// QuickSearch uses a quarter of the solver's budget: an estimate over many people does not need optimal actions.
func QuickSearch() recourse.SolveOptions {
	return recourse.SolveOptions{Margin: promisedMargin, Restarts: -1, Rounds: 1, Beam: 1}
}

// solve returns the cheapest recourse point of each of some people under a model; nil for who has none.
func (s *Source) solve(ctx context.Context, m *classifier.Model, people []int, quick bool) ([][]float32, error) {
	o := recourse.SolveOptions{Margin: promisedMargin}
	if quick {
		o = QuickSearch()
	}
	o.Workers, o.Seed = s.Teacher.Workers, s.Seed
	actions, err := recourse.Solve(ctx, m, s.Set.Select(people), s.rows(people), o)
	return Points(actions), err
}

func (s *Source) rows(people []int) []float32 { return qat.RowsAt(s.X, s.Dim, people) }

// Points are the points of the actions that were found, nil for the others.
func Points(actions []recourse.Action) [][]float32 {
	points := make([][]float32, len(actions))
	for i := range actions {
		if actions[i].Status == recourse.Found {
			points[i] = actions[i].Point
		}
	}
	return points
}

// RaysTo are the ways of people to their points; nil is no point.
func RaysTo(people []int, points [][]float32) []Ray {
	rays := []Ray{}
	for k, to := range points {
		if to != nil {
			rays = append(rays, Ray{people[k], to})
		}
	}
	return rays
}

// teach takes the steps from zero once: the full-precision model does not change. What is new in each batch is
// noise.
func (s *Source) teach(ctx context.Context, refused []int) error {
	o := s.Teacher
	o.Noise = 0
	delta, err := recourse.Teacher(ctx, s.Full, s.Set.Select(refused), s.rows(refused), o)
	if err != nil {
		return err
	}
	for k, i := range refused {
		d := delta[k*s.Dim : (k+1)*s.Dim]
		if slices.ContainsFunc(d, func(v float32) bool { return v != 0 }) {
			s.kept[i] = d
		}
	}
	return nil
}

// inBatch are the teacher's options for a batch of people who have been sampled before.
func (s *Source) inBatch() recourse.TeacherOptions {
	o := s.Teacher
	o.Progress, o.Workers, o.Sample = nil, 1, 0
	return o
}

func (s *Source) withNoise(round int) qat.Points {
	p, o := s.Points, &s.Teacher
	p.Kind = qat.Teacher // of none, too: they are not to stand for people
	if o.Noise > 0 {
		x := s.rows(p.Source)
		p.X = slices.Clone(p.X)
		for i := range p.X {
			p.X[i] -= x[i]
		}
		seed := rand.New(rand.NewPCG(o.Seed, uint64(round))).Uint64()
		recourse.Blur(s.Set.Select(p.Source), x, p.X, o.Noise, seed)
		recourse.Point(p.X, x, p.X)
	}
	return p
}

// Teach implements qat.Recourse.
func (s *Source) Teach(ctx context.Context, people []int, seed uint64) ([]float32, error) {
	o := s.inBatch()
	var taught []int // positions among people
	var delta []float32
	for i, person := range people {
		if d := s.kept[person]; d != nil {
			taught, delta = append(taught, i), append(delta, d...)
		}
	}
	if o.Noise > 0 {
		some := qat.RowsAt(people, 1, taught)
		recourse.Blur(s.Set.Select(some), s.rows(some), delta, o.Noise, rand.New(rand.NewPCG(o.Seed, seed)).Uint64())
	}
	all := make([]float32, len(people)*s.Dim)
	for k, i := range taught {
		copy(all[i*s.Dim:], delta[k*s.Dim:(k+1)*s.Dim])
	}
	return all, nil
}

// Steps implements qat.Recourse.
func (s *Source) Steps(ctx context.Context, m *qat.StudentModel, people []int) (qat.Steps, error) {
	o, trace := s.inBatch(), recourse.Trace{}
	o.Noise, o.Trace = 0, &trace
	_, err := recourse.Teacher(ctx, m, s.Set.Select(people), s.rows(people), o)
	return qat.Steps(trace), err
}

// Cost implements qat.Recourse.
func (s *Source) Cost(person int, action, grad []float32) float64 {
	set, x := s.Set.Person(person), s.rows([]int{person})
	set.Slope(x, action, grad)
	return set.Cost(x, action)
}
