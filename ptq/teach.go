package ptq

import (
	"context"
	"math/rand/v2"
	"slices"

	"cfq/calib"
	"cfq/qat"
	"cfq/recourse"
	"cfq/task"
)

// teach finds the teacher's recourse points, without noise, or takes those that were issued.
func (t *trainer) teach(ctx context.Context) error {
	o := t.prepared.teacher()
	o.Noise = 0
	t.teacher = qat.Points{Kind: qat.Teacher}
	add := func(points *calib.Set, valid bool) {
		for i, person := range points.Source {
			if !valid || points.Reached[i] {
				t.teacher.Source = append(t.teacher.Source, person)
				t.teacher.X = append(t.teacher.X, points.Points()[i*points.Dim:(i+1)*points.Dim]...)
			}
		}
	}
	if t.o.Promises != nil {
		points, err := calib.Promised(ctx, t.full, t.all.X, t.o.Promises)
		if err == nil {
			add(points, false)
		}
		return err
	}
	for o.Start = range t.o.TeacherActions {
		points, err := calib.Counterfactual(ctx, t.full, t.group.set, t.group.people.X, o)
		if err != nil {
			return err
		}
		add(points, o.Start > 0)
	}
	return nil
}

// noisy returns the teacher's points with the noise of a round.
func (t *trainer) noisy(round int) qat.Points {
	p, dim := t.teacher, t.all.Dim
	if t.o.Teacher.Noise == 0 || t.o.Promises != nil {
		return p
	}
	x := rowsOf(t.all.X, dim, p.Source)
	actions := slices.Clone(p.X)
	for i := range actions {
		actions[i] -= x[i]
	}
	seed := rand.New(rand.NewPCG(t.o.Teacher.Seed, uint64(round))).Uint64()
	recourse.Blur(t.group.set.Select(p.Source), x, actions, t.o.Teacher.Noise, seed)
	recourse.Point(actions, x, actions)
	p.X = actions
	return p
}

// actions finds recourse of people during training, see qat.Recourse.
type actions struct {
	*trainer
	o    recourse.TeacherOptions
	kept map[int][]float32 // by person: where the steps from zero end, without noise; none of who is not taught
}

// actions takes the steps from zero once if they are wanted online: the full-precision model does not change. What is
// new in each batch are noise and other starts.
func (t *trainer) actions(ctx context.Context, margins []float32) (*actions, error) {
	a := &actions{trainer: t, o: t.prepared.teacher(), kept: map[int][]float32{}}
	if t.o.TeacherOnline {
		var refused []int
		for i, m := range margins {
			if m <= 0 {
				refused = append(refused, i)
			}
		}
		o, dim := a.o, t.all.Dim
		o.Noise = 0
		x := rowsOf(t.all.X, dim, refused)
		delta, err := recourse.Teacher(ctx, t.full, t.group.set.Select(refused), x, o)
		if err != nil {
			return nil, err
		}
		for k, i := range refused {
			if d := delta[k*dim : (k+1)*dim]; slices.ContainsFunc(d, func(v float32) bool { return v != 0 }) {
				a.kept[i] = d
			}
		}
	}
	a.o.Progress, a.o.Workers, a.o.Sample = nil, 1, 0
	return a, nil
}

// Teach implements qat.Recourse.
func (a *actions) Teach(ctx context.Context, people []int, seed uint64) ([]float32, error) {
	o, dim := a.o, a.all.Dim
	rng := rand.New(rand.NewPCG(o.Seed, seed))
	if o.Seed = rng.Uint64(); a.trainer.o.TeacherActions > 1 {
		o.Start = rng.IntN(a.trainer.o.TeacherActions)
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
		set, x := a.group.set.Select(subset(people, taught)), rowsOf(a.all.X, dim, subset(people, taught))
		if o.Start == 0 {
			recourse.Blur(set, x, delta, o.Noise, o.Seed)
		} else {
			var err error
			if delta, err = recourse.Teacher(ctx, a.full, set, x, o); err != nil {
				return nil, err
			}
			recourse.Point(x, x, delta)
			margins, err := a.full.Margins(ctx, x)
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

// Steps implements qat.Recourse.
func (a *actions) Steps(ctx context.Context, m *qat.Network, people []int) (qat.Steps, error) {
	o, trace := a.o, recourse.Trace{}
	o.Noise, o.Trace = 0, &trace
	_, err := recourse.Teacher(ctx, m, a.group.set.Select(people), rowsOf(a.all.X, a.all.Dim, people), o)
	return qat.Steps(trace), err
}

// Cost implements qat.Recourse.
func (a *actions) Cost(person int, action, grad []float32) float64 {
	set, x := a.group.set.Person(person), a.all.X[person*a.all.Dim:(person+1)*a.all.Dim]
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
