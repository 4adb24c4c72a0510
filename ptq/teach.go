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
		points, err := t.counterfactual(ctx, &t.group, o)
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
	p.X = recourse.Noisy(t.group.set.Select(p.Source), x, actions, t.o.Teacher.Noise, seed)
	for i := range p.X {
		p.X[i] += x[i]
	}
	return p
}

// actions finds recourse of people during training, see qat.Recourse.
type actions struct {
	*trainer
	o      recourse.TeacherOptions
	chosen []bool // who of all people may be taught; nil = everyone
}

func (t *trainer) actions(margins []float32) *actions {
	a := &actions{trainer: t, o: t.prepared.teacher()}
	a.o.Progress, a.o.Workers = nil, 1
	refused := 0
	for _, m := range margins {
		if m <= 0 {
			refused++
		}
	}
	if chosen := a.o.Chosen(refused); chosen != nil {
		for _, m := range margins {
			a.chosen = append(a.chosen, m <= 0 && chosen[0])
			if m <= 0 {
				chosen = chosen[1:]
			}
		}
	}
	a.o.Sample = 0
	return a
}

// Teach implements qat.Recourse.
func (a *actions) Teach(ctx context.Context, people []int, seed uint64) ([]float32, error) {
	o, dim := a.o, a.all.Dim
	rng := rand.New(rand.NewPCG(o.Seed, seed))
	if o.Seed = rng.Uint64(); a.trainer.o.TeacherActions > 1 {
		o.Start = rng.IntN(a.trainer.o.TeacherActions)
	}
	var taught []int // positions among people
	for i, person := range people {
		if a.chosen == nil || a.chosen[person] {
			taught = append(taught, i)
		}
	}
	x := rowsOf(a.all.X, dim, subset(people, taught))
	delta, err := recourse.Teacher(ctx, a.full, a.group.set.Select(subset(people, taught)), x, o)
	if err != nil || len(taught) == len(people) && o.Start == 0 {
		return delta, err
	}
	points := make([]float32, len(x))
	recourse.Point(points, x, delta)
	margins, err := a.full.Margins(ctx, points)
	if err != nil {
		return nil, err
	}
	all := make([]float32, len(people)*dim)
	for k, i := range taught {
		if o.Start == 0 || margins[k] > 0 {
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
