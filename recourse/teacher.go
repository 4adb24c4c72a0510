package recourse

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// TeacherOptions are the settings of Teacher; the zero value is the default.
type TeacherOptions struct {
	// Steps is the K of the paper: the number of gradient steps; 0 = 3.
	Steps int
	// StepSize is the alpha of the paper. 0 lets every step of every person be as long as its linearised margin needs
	// to reach the required one through the projection; with Plain, 0 = 1.
	StepSize float64
	// Margin is the logit margin at which a person is left alone; 0 = any favourable one.
	Margin float64
	// Plain takes the recursion as the paper writes it: the iterate is the projected action, nobody stops early.
	// It hardly ever changes a one-hot group, and step sizes above 1 overshoot.
	Plain bool
	// Noise is the sigma of the paper's noisy teacher, in model-input units: every action that the steps end at becomes
	// Pi(delta + sigma xi), xi standard normal. Who is left alone from the start stays so. 0 = none.
	Noise float64
	// Sample gives an action to this many of the people, drawn at random; the others' is zero. 0 = everyone.
	Sample int
	// Seed drives Noise and Sample. A person's random numbers depend on it and the person's row only.
	Seed uint64
	// Workers bounds the pieces of people in flight; 0 = GOMAXPROCS. It does not change the result.
	Workers  int
	Progress func(done, total int)
}

// Teacher returns the teacher action of every person, rows x Dim: K projected gradient
// steps on the target cross-entropy, from zero. Every row is feasible; it need not be valid.
// A model is called K times per piece of 2048 people.
//
// The actions are numbers, not functions of a model's weights: whoever trains on them treats them as data, which is what the
// paper's stopgrad asks for. No gradient passes through the steps.
//
// References: app:eq:pgd_steps; teacher construction (eq. teacher_k_action); noise (eq. noisy_teacher).
func Teacher(ctx context.Context, m Model, a *ActionSet, x []float32, o TeacherOptions) ([]float32, error) {
	n, err := checkArgs(m, a, x)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Steps <= 0 {
		o.Steps = 3
	}
	if o.Plain && o.StepSize == 0 {
		o.StepSize = 1
	}
	chosen := o.choose(n)
	delta := make([]float32, len(x))
	err = chunks(ctx, n, pgdChunk, o.Workers, o.Progress, func(ctx context.Context, lo, hi int) error {
		p := newPGD(m, a, lo, x[lo*a.dim:hi*a.dim], delta[lo*a.dim:hi*a.dim])
		if chosen != nil {
			p.active = slices.DeleteFunc(p.active, func(i int) bool { return !chosen[lo+i] })
		}
		moved := make([]bool, hi-lo)
		for range o.Steps {
			err := p.step(ctx, func(i int, margin float32, g []float32) bool {
				switch {
				case o.Plain:
					p.plain(i, g, o.StepSize)
				case valid(margin, float32(o.Margin)):
					return false
				case o.StepSize > 0:
					p.relaxed(i, g, o.StepSize)
				default:
					p.reach(i, g, float64(margin), o.Margin)
				}
				moved[i] = true
				return true
			})
			if err != nil {
				return err
			}
		}
		for i := range moved {
			if moved[i] && o.Noise > 0 {
				p.blur(i, o.Noise, rand.New(rand.NewPCG(o.Seed, uint64(lo+i))))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return delta, nil
}

func (o *TeacherOptions) check() error {
	if !(o.Noise >= 0) || math.IsInf(o.Noise, 1) {
		return fmt.Errorf("recourse: teacher noise %g, must be 0 or more", o.Noise)
	}
	if o.Sample < 0 {
		return fmt.Errorf("recourse: a teacher sample of %d people", o.Sample)
	}
	return nil
}

// choose says who of n people gets an action; nil = everyone.
func (o *TeacherOptions) choose(n int) []bool {
	if o.Sample == 0 || o.Sample >= n {
		return nil
	}
	chosen := make([]bool, n)
	for _, i := range rand.New(rand.NewPCG(o.Seed, 0x5ea1)).Perm(n)[:o.Sample] {
		chosen[i] = true
	}
	return chosen
}

// blur replaces an action delta by Pi(delta + sigma xi). Every input draws a number, whether it can change or not, so that
// an input's noise does not depend on what else is actionable.
func (p *pgd) blur(i int, sigma float64, rng *rand.Rand) {
	d := row(p.delta, i, p.a.dim)
	for j := range d {
		d[j] += float32(sigma * rng.NormFloat64())
	}
	p.set(i).Project(row(p.x, i, p.a.dim), d)
}
