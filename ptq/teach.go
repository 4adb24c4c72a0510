package ptq

import (
	"context"
	"math/rand/v2"
	"slices"

	"cfq/calib"
	"cfq/eval"
	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

type onlineTeacher struct {
	net    *network
	people *task.People
	set    *constraint.Set // what each of them can change
	o      recourse.TeacherOptions
	kept   map[int][]float32 // by person: where the steps from zero end, without noise; none of who is not taught
}

// newOnlineTeacher takes the steps from zero once if they are wanted online: the full-precision model does not change.
// What is new in each batch are noise and other starts.
func newOnlineTeacher(ctx context.Context, n *network, people *task.People, set *constraint.Set, margins []float32) (
	*onlineTeacher, error,
) {
	a := &onlineTeacher{net: n, people: people, set: set, o: n.teacher(), kept: map[int][]float32{}}
	if n.recipe.Train.TeacherOnline {
		refused, o := eval.Refused(margins, 0, 0), a.o
		o.Noise = 0
		delta, err := recourse.Teacher(ctx, n.full, set.Select(refused), a.rows(refused), o)
		if err != nil {
			return nil, err
		}
		for k, i := range refused {
			d := delta[k*people.Dim : (k+1)*people.Dim]
			if slices.ContainsFunc(d, func(v float32) bool { return v != 0 }) {
				a.kept[i] = d
			}
		}
	}
	a.o.Progress, a.o.Workers, a.o.Sample = nil, 1, 0
	return a, nil
}

func (a *onlineTeacher) rows(people []int) []float32 {
	return qat.RowsAt(a.people.X, a.people.Dim, people)
}

// Solve implements cohort.Recourse.
func (a *onlineTeacher) Solve(ctx context.Context, m *classifier.Model, people []int, quick bool) ([][]float32, error) {
	var o recourse.SolveOptions
	if quick {
		o = quickSearch()
	}
	o.Margin, o.Workers, o.Seed = promisedMargin, a.net.run.Workers, a.net.recipe.Train.Seed
	actions, err := recourse.Solve(ctx, m, a.set.Select(people), a.rows(people), o)
	return pointsOf(actions), err
}

// Points implements cohort.Recourse: the teacher's recourse points or those that were issued.
func (a *onlineTeacher) Points(ctx context.Context) (qat.Points, error) {
	o, out := a.net.teacher(), qat.Points{Kind: qat.Teacher}
	o.Noise = 0
	add := func(points *calib.Set, valid bool) {
		for i, person := range points.Source {
			if !valid || points.Reached[i] {
				out.Source = append(out.Source, person)
				out.X = append(out.X, points.Points()[i*points.Dim:(i+1)*points.Dim]...)
			}
		}
	}
	if a.net.run.Promises != nil {
		points, err := calib.Promised(ctx, a.net.full, a.people.X, a.net.run.Promises)
		if err == nil {
			add(points, false)
		}
		return out, err
	}
	for o.Start = range a.net.recipe.Train.TeacherActions {
		points, err := calib.Counterfactual(ctx, a.net.full, a.set, a.people.X, o)
		if err != nil {
			return out, err
		}
		add(points, o.Start > 0)
	}
	return out, nil
}

// WithNoise implements cohort.Recourse.
func (a *onlineTeacher) WithNoise(p qat.Points, round int) qat.Points {
	noise := a.net.recipe.Calibrate.Teacher.Noise
	if noise == 0 || a.net.run.Promises != nil {
		return p
	}
	x := a.rows(p.Source)
	actions := slices.Clone(p.X)
	for i := range actions {
		actions[i] -= x[i]
	}
	seed := rand.New(rand.NewPCG(a.net.recipe.Calibrate.Teacher.Seed, uint64(round))).Uint64()
	recourse.Blur(a.set.Select(p.Source), x, actions, noise, seed)
	recourse.Point(actions, x, actions)
	p.X = actions
	return p
}

// Teach implements cohort.Recourse.
func (a *onlineTeacher) Teach(ctx context.Context, people []int, seed uint64) ([]float32, error) {
	o, dim := a.o, a.people.Dim
	rng := rand.New(rand.NewPCG(o.Seed, seed))
	if o.Seed = rng.Uint64(); a.net.recipe.Train.TeacherActions > 1 {
		o.Start = rng.IntN(a.net.recipe.Train.TeacherActions)
	}
	var taught []int // positions among people
	delta := make([]float32, 0, len(people)*dim)
	for i, person := range people {
		if d := a.kept[person]; d != nil {
			taught, delta = append(taught, i), append(delta, d...)
		}
	}
	reached := func(int) bool { return true }
	if o.Start > 0 || o.Noise > 0 {
		some := subset(people, taught)
		set, x := a.set.Select(some), a.rows(some)
		if o.Start == 0 {
			recourse.Blur(set, x, delta, o.Noise, o.Seed)
		} else {
			var err error
			if delta, err = recourse.Teacher(ctx, a.net.full, set, x, o); err != nil {
				return nil, err
			}
			recourse.Point(x, x, delta)
			margins, err := a.net.full.Margins(ctx, x)
			if err != nil {
				return nil, err
			}
			reached = func(k int) bool { return margins[k] > 0 }
		}
	}
	all := make([]float32, len(people)*dim)
	for k, i := range taught {
		if reached(k) {
			copy(all[i*dim:], delta[k*dim:(k+1)*dim])
		}
	}
	return all, nil
}

// Steps implements cohort.Recourse.
func (a *onlineTeacher) Steps(ctx context.Context, m *qat.StudentModel, people []int) (qat.Steps, error) {
	o, trace := a.o, recourse.Trace{}
	o.Noise, o.Trace = 0, &trace
	_, err := recourse.Teacher(ctx, m, a.set.Select(people), a.rows(people), o)
	return qat.Steps(trace), err
}

// Cost implements cohort.Recourse.
func (a *onlineTeacher) Cost(person int, action, grad []float32) float64 {
	set, x := a.set.Person(person), a.rows([]int{person})
	set.Slope(x, action, grad)
	return set.Cost(x, action)
}

// groups returns in which groups of all attributes people are, people x groups of 0 and 1, and the number of groups.
func groups(people *task.People) (in []float32, n int) {
	for _, s := range people.Subgroups {
		n += len(s.Values)
	}
	in = make([]float32, people.N*n)
	first := 0
	for _, s := range people.Subgroups {
		for i, code := range s.Codes {
			if code >= 0 {
				in[i*n+first+int(code)] = 1
			}
		}
		first += len(s.Values)
	}
	return in, n
}
