package recourse

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/recourse/constraint"
	"cfq/task"
)

// DefaultSteps is the number of the teacher's gradient steps.
const DefaultSteps = 3

// TeacherOptions are the settings of Teacher; the zero value is the default.
type TeacherOptions struct {
	// Steps is the K of the paper: the number of gradient steps; 0 = DefaultSteps.
	Steps int
	// StepSize is the alpha of the paper. 0 lets every step of every person be as long as its linearised margin needs
	// to reach the required one through the projection; with Plain, 0 = 1.
	StepSize float64
	// Margin is the logit margin at which a person is left alone; 0 = any favourable one.
	Margin float64
	// Plain takes the recursion as the paper writes it: the iterate is the projected action, no person stops early.
	// It hardly ever changes a one-hot group, and step sizes above 1 overshoot.
	Plain bool
	// Noise is the sigma of the paper's noisy teacher, in model-input units: every action that the steps end at becomes
	// Pi(delta + sigma xi), xi standard normal. Who is left alone from the start stays so. 0 = none.
	Noise float64
	// Sample gives an action to this many of the people, drawn at random; the others' is zero. 0 = everyone.
	Sample int
	// Seed drives Noise and Sample. A person's random numbers depend on it and the person's row only.
	Seed uint64
	// Trace records the steps; nil records none.
	Trace *Trace
	// Workers bounds the pieces of people in flight; 0 = GOMAXPROCS. It does not change the result.
	Workers  int
	Progress func(done, total int)
}

// Trace is what the steps of Teacher did: after each of them the actions, rows x Dim, and how long the step was (the
// alpha of the paper), 0 for who was left alone.
type Trace struct {
	Actions, Sizes [][]float32
}

// Teacher returns the teacher action of every person, rows x Dim: K projected gradient steps on the target
// cross-entropy. Every row is feasible; it need not be valid. A model is called K times per piece of 2048 people.
//
// The actions are numbers, not functions of a model's weights: training treats them as data, which is
// what the paper's stopgrad asks for. No gradient passes through the steps.
//
// References: app:eq:pgd_steps; teacher construction (eq. teacher_k_action); noise (eq. noisy_teacher).
func Teacher(ctx context.Context, m LossModel, a *constraint.Set, x []float32, o TeacherOptions) ([]float32, error) {
	return teach(ctx, m, a, x, o, func(int, int, float32) {})
}

// teach is Teacher that shows the margin of each person, by row, as each step finds it.
func teach(ctx context.Context, m LossModel, a *constraint.Set, x []float32, o TeacherOptions,
	seen func(row, step int, margin float32),
) ([]float32, error) {
	n, err := people(m, a, x, o.Margin)
	if err != nil {
		return nil, err
	}
	switch {
	case !(o.Noise >= 0) || math.IsInf(o.Noise, 1):
		return nil, fmt.Errorf("recourse: teacher noise %g, must be 0 or more", o.Noise)
	case o.Sample < 0:
		return nil, fmt.Errorf("recourse: a teacher sample of %d people", o.Sample)
	}
	if o.Steps <= 0 {
		o.Steps = DefaultSteps
	}
	if o.Plain && o.StepSize == 0 {
		o.StepSize = 1
	}
	chosen := o.chosen(n)
	delta := make([]float32, len(x))
	if o.Trace != nil {
		*o.Trace = Trace{make([][]float32, o.Steps), make([][]float32, o.Steps)}
		for t := range o.Steps {
			o.Trace.Actions[t], o.Trace.Sizes[t] = make([]float32, len(x)), make([]float32, n)
		}
	}
	err = chunks(ctx, n, pgdChunk, o.Workers, o.Progress, func(ctx context.Context, lo, hi int) error {
		n := (hi - lo) * a.Dim()
		p := &pgd{
			m: m, a: a, first: lo, x: x[lo*a.Dim():][:n], delta: delta[lo*a.Dim():][:n], inner: make([]float32, n),
			active: task.AllRows(hi - lo), points: make([]float32, n), try: make([]float32, a.Dim()),
		}
		if chosen != nil {
			p.active = slices.DeleteFunc(p.active, func(i int) bool { return !chosen[lo+i] })
		}
		moved := make([]bool, hi-lo)
		for t := range o.Steps {
			err := p.step(ctx, func(i int, margin float32, g []float32) bool {
				seen(lo+i, t, margin)
				alpha := o.StepSize
				switch {
				case o.Plain:
					p.plain(i, g, alpha)
				case valid(margin, float32(o.Margin)):
					return false
				case alpha > 0:
					p.relaxed(i, g, alpha)
				default:
					alpha = p.reach(i, g, float64(margin), o.Margin)
				}
				moved[i] = true
				if o.Trace != nil {
					o.Trace.Sizes[t][lo+i] = float32(alpha)
				}
				return true
			})
			if err != nil {
				return err
			}
			if o.Trace != nil {
				copy(o.Trace.Actions[t][lo*a.Dim():], p.delta)
			}
		}
		for i := range moved {
			if moved[i] && o.Noise > 0 {
				a, x, _, d := p.person(i)
				blur(a, x, d, o.Noise, rand.New(rand.NewPCG(o.Seed, uint64(lo+i))))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return delta, nil
}

// chosen says who of n people gets an action; nil = everyone.
func (o *TeacherOptions) chosen(n int) []bool {
	if o.Sample == 0 || o.Sample >= n {
		return nil
	}
	chosen := make([]bool, n)
	for _, i := range rand.New(rand.NewPCG(o.Seed, 0x5ea1)).Perm(n)[:o.Sample] {
		chosen[i] = true
	}
	return chosen
}

const pgdChunk = 2048 // people per model call

// FirstValid runs 100 steps of size 0.2 of projected gradient descent on the target cross-entropy with a relaxed
// iterate and returns each person's first projected iterate that reaches the required margin ("PGD-first").
// Such points overshoot the boundary by up to one step, which is what makes promises at them look robust. Of the
// options, Margin, Workers and Progress count.
func FirstValid(ctx context.Context, m LossModel, a *constraint.Set, x []float32, o SolveOptions) ([]Action, error) {
	const steps, stepSize = 100, 0.2
	actions := make([]Action, len(x)/max(1, a.Dim()))
	delta, err := teach(ctx, m, a, x, TeacherOptions{
		Steps: steps + 1, StepSize: stepSize, Margin: o.Margin, Workers: o.Workers, Progress: o.Progress,
	}, func(row, step int, margin float32) {
		act, ok := &actions[row], valid(margin, float32(o.Margin))
		switch {
		case step > 0 && ok:
			act.Status, act.Margin = Found, float64(margin)
		case step == 0 && ok:
			act.Margin = float64(margin)
		case step == 0:
			act.Status, act.Margin = NoneFound, float64(margin)
		}
	})
	if err != nil {
		return nil, err
	}
	dim := a.Dim()
	for i := range actions {
		act, person := &actions[i], row(x, i, dim)
		act.Delta, act.Point = row(delta, i, dim), make([]float32, dim)
		if act.Status == NoneFound {
			clear(act.Delta)
		}
		act.Cost = a.Person(i).Cost(person, act.Delta)
		Point(act.Point, person, act.Delta)
	}
	return actions, nil
}

type pgd struct {
	m      LossModel
	a      *constraint.Set // of everybody
	first  int             // row of the piece's first person among them
	x      []float32
	delta  []float32 // the actions: always feasible
	inner  []float32 // the relaxed iterates
	active []int     // people not yet left alone
	points []float32
	try    []float32 // one row of scratch
}

// step evaluates the loss gradient at everyone's action and lets move change it; a person for whom it returns
// false is left alone from then on.
func (p *pgd) step(ctx context.Context, move func(i int, margin float32, g []float32) bool) error {
	if len(p.active) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	dim := p.a.Dim()
	points := p.points[:len(p.active)*dim]
	for k, i := range p.active {
		Point(row(points, k, dim), row(p.x, i, dim), row(p.delta, i, dim))
	}
	margins, g, err := p.m.LossGrads(ctx, points)
	if err := call(dim, len(p.active), margins, g, err); err != nil {
		return err
	}
	keep := p.active[:0]
	for k, i := range p.active {
		p.a.Person(p.first + i).Pullback(row(g, k, dim))
		if move(i, margins[k], row(g, k, dim)) {
			keep = append(keep, i)
		}
	}
	p.active = keep
	return nil
}

func (p *pgd) person(i int) (a *constraint.Set, x, inner, delta []float32) {
	dim := p.a.Dim()
	return p.a.Person(p.first + i), row(p.x, i, dim), row(p.inner, i, dim), row(p.delta, i, dim)
}

func (p *pgd) plain(i int, g []float32, alpha float64) {
	a, x, _, d := p.person(i)
	for _, f := range a.Free() { // the projection leaves nothing of other changes
		for j := f.First; j < f.First+f.Width; j++ {
			d[j] -= float32(alpha) * g[j]
		}
	}
	a.Project(x, d)
}

// relaxed moves the inner iterate, which stays in the box but off the grid, the vertices and the sparsity
// limit, and makes its projection the action.
func (p *pgd) relaxed(i int, g []float32, alpha float64) {
	a, x, u, d := p.person(i)
	a.Relax(x, u, u, g, alpha)
	copy(d, u)
	a.ProjectRelaxed(x, d)
}

// reach chooses alpha by the margin's linearisation at the action: doubled from the unprojected Newton step until
// the projected action gains enough, as far as the constraints let it.
//
// The cross-entropy's gradient is -(1-p) times the margin's, p the target's probability, and 1-p is the
// sigmoid of minus the margin.
func (p *pgd) reach(i int, g []float32, margin, required float64) float64 {
	a, x, u, d := p.person(i)
	slope := -(1 + math.Exp(margin)) // margin gradient = slope * g
	square := 0.0
	for _, f := range a.Free() {
		for j := f.First; j < f.First+f.Width; j++ {
			square += float64(g[j]) * float64(g[j])
		}
	}
	if !(square > 0) || math.IsInf(square, 0) {
		return 0
	}
	target := max((required-margin)*1.1, 1e-3) // a little beyond, for curvature
	gain := func(alpha float64) float64 {
		a.Relax(x, p.try, u, g, alpha)
		a.ProjectRelaxed(x, p.try)
		sum := 0.0
		for j, v := range p.try {
			if v != d[j] {
				sum += slope * float64(g[j]) * float64(v-d[j])
			}
		}
		return sum
	}
	short, alpha := 0.0, target/(-slope*square)
	for range 8 {
		if gain(alpha) >= target {
			for range 3 {
				if mid := (short + alpha) / 2; gain(mid) >= target {
					alpha = mid
				} else {
					short = mid
				}
			}
			break
		}
		short, alpha = alpha, 2*alpha
	}
	p.relaxed(i, g, alpha)
	return alpha
}

// blur replaces the action d of the person x by Pi(d + sigma xi). Every input up to the last one that can change draws
// a number, so that an input's noise does not depend on what else is actionable.
func blur(a *constraint.Set, x, d []float32, sigma float64, rng *rand.Rand) {
	end := 0
	for _, f := range a.Free() {
		end = f.First + f.Width
	}
	for j := range d[:end] {
		d[j] += float32(sigma * rng.NormFloat64())
	}
	a.Project(x, d)
}

// Blur puts noise on actions, rows x Dim: they become Pi(delta + sigma xi), as those of Teacher with Noise.
//
// Reference: eq. noisy_teacher.
func Blur(a *constraint.Set, x, delta []float32, sigma float64, seed uint64) {
	dim := a.Dim()
	for i := range len(x) / dim {
		blur(a.Person(i), row(x, i, dim), row(delta, i, dim), sigma, rand.New(rand.NewPCG(seed, uint64(i))))
	}
}
