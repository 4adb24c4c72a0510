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
	o := t.net.teacher()
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
	if t.net.o.Promises != nil {
		points, err := calib.Promised(ctx, t.net.full, t.sample.all.X, t.net.o.Promises)
		if err == nil {
			add(points, false)
		}
		return err
	}
	for o.Start = range t.net.o.TeacherActions {
		points, err := calib.Counterfactual(ctx, t.net.full, t.group.set, t.group.people.X, o)
		if err != nil {
			return err
		}
		add(points, o.Start > 0)
	}
	return nil
}

// withNoise returns the teacher's points with the noise of a round.
func (t *trainer) withNoise(round int) qat.Points {
	p, dim := t.teacher, t.sample.all.Dim
	if t.net.o.Teacher.Noise == 0 || t.net.o.Promises != nil {
		return p
	}
	x := rowsOf(t.sample.all.X, dim, p.Source)
	actions := slices.Clone(p.X)
	for i := range actions {
		actions[i] -= x[i]
	}
	seed := rand.New(rand.NewPCG(t.net.o.Teacher.Seed, uint64(round))).Uint64()
	recourse.Blur(t.group.set.Select(p.Source), x, actions, t.net.o.Teacher.Noise, seed)
	recourse.Point(actions, x, actions)
	p.X = actions
	return p
}

// onlineTeacher finds recourse of people during training, see qat.Recourse.
type onlineTeacher struct {
	t    *trainer
	o    recourse.TeacherOptions
	kept map[int][]float32 // by person: where the steps from zero end, without noise; none of who is not taught
}

// newOnlineTeacher takes the steps from zero once if they are wanted online: the full-precision model does not change.
// What is new in each batch are noise and other starts.
func (t *trainer) newOnlineTeacher(ctx context.Context, margins []float32) (*onlineTeacher, error) {
	a := &onlineTeacher{t: t, o: t.net.teacher(), kept: map[int][]float32{}}
	if t.net.o.TeacherOnline {
		var refused []int
		for i, m := range margins {
			if m <= 0 {
				refused = append(refused, i)
			}
		}
		o, dim := a.o, t.sample.all.Dim
		o.Noise = 0
		x := rowsOf(t.sample.all.X, dim, refused)
		delta, err := recourse.Teacher(ctx, t.net.full, t.group.set.Select(refused), x, o)
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
func (a *onlineTeacher) Teach(ctx context.Context, people []int, seed uint64) ([]float32, error) {
	o, dim := a.o, a.t.sample.all.Dim
	rng := rand.New(rand.NewPCG(o.Seed, seed))
	if o.Seed = rng.Uint64(); a.t.net.o.TeacherActions > 1 {
		o.Start = rng.IntN(a.t.net.o.TeacherActions)
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
		set, x := a.t.group.set.Select(subset(people, taught)), rowsOf(a.t.sample.all.X, dim, subset(people, taught))
		if o.Start == 0 {
			recourse.Blur(set, x, delta, o.Noise, o.Seed)
		} else {
			var err error
			if delta, err = recourse.Teacher(ctx, a.t.net.full, set, x, o); err != nil {
				return nil, err
			}
			recourse.Point(x, x, delta)
			margins, err := a.t.net.full.Margins(ctx, x)
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
func (a *onlineTeacher) Steps(ctx context.Context, m *qat.StudentModel, people []int) (qat.Steps, error) {
	o, trace := a.o, recourse.Trace{}
	o.Noise, o.Trace = 0, &trace
	x := rowsOf(a.t.sample.all.X, a.t.sample.all.Dim, people)
	_, err := recourse.Teacher(ctx, m, a.t.group.set.Select(people), x, o)
	return qat.Steps(trace), err
}

// Cost implements qat.Recourse.
func (a *onlineTeacher) Cost(person int, action, grad []float32) float64 {
	set, x := a.t.group.set.Person(person), a.t.sample.all.X[person*a.t.sample.all.Dim:(person+1)*a.t.sample.all.Dim]
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
