package recourse

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

// The noisy teacher is Pi(delta + sigma xi) of the clean teacher's action, xi drawn by seed and row: feasible for
// any task, and the same for any number of workers. Those who have nothing to do stay where they are.
func TestNoisyTeacher(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		tk := drawTask(t, false)
		a := compile(t, tk)
		const people = 20
		var x []float32
		for range people {
			x = append(x, drawPerson(t, tk)...)
		}
		m := newMLP(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "net"), 0)), -0.3, tk.Dim(), 5, 1)
		o := TeacherOptions{Steps: rapid.IntRange(1, 4).Draw(t, "steps"), Plain: rapid.Bool().Draw(t, "plain"), Workers: 1}
		clean := must.Get(Teacher(ctx, m, a, x, o))(t)
		o.Noise = rapid.SampledFrom([]float64{1e-3, 0.1, 1, 50}).Draw(t, "sigma")
		o.Seed = rapid.Uint64().Draw(t, "seed")
		noisy := must.Get(Teacher(ctx, m, a, x, o))(t)
		margins := must.Get(m.Margins(ctx, x))(t)
		for i := range people {
			px, d := row(x, i, a.Dim()), slices.Clone(row(clean, i, a.Dim()))
			if o.Plain || !(margins[i] > 0) {
				rng := rand.New(rand.NewPCG(o.Seed, uint64(i)))
				for j := range d {
					d[j] += float32(o.Noise * rng.NormFloat64())
				}
				a.Project(px, d)
			}
			got := row(noisy, i, a.Dim())
			must.Same(must.In(t, i), d, got)
			must.Do(must.In(t, i), a.Check(px, got))
			if !slices.Equal(got, row(clean, i, a.Dim())) {
				changed++
			}
		}
	})
	if changed == 0 {
		t.Error("noise changed nothing")
	}
}

func TestTeacherSampleAndWorkers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(8, 9))
	tk := smallTask(rng, 3)
	a := compile(t, tk)
	const people, sample = 2500, 800
	x := randomPeople(rng, tk, people)
	m := newMLP(rng, -2, tk.Dim(), 8, 1)
	all := must.Get(Teacher(ctx, m, a, x, TeacherOptions{Noise: 0.1, Seed: 3}))(t)
	drawn := map[uint64][]int{}
	for _, seed := range []uint64{3, 4} {
		o := TeacherOptions{Noise: 0.1, Seed: seed, Sample: sample, Workers: 1}
		one := must.Get(Teacher(ctx, m, a, x, o))(t)
		if o.Workers = 3; seed == 3 {
			must.Same(t, must.Get(Teacher(ctx, m, a, x, o))(t), one)
		}
		for i := range people {
			if got := row(one, i, a.Dim()); a.Changed(got) > 0 {
				drawn[seed] = append(drawn[seed], i)
				if seed == 3 && !slices.Equal(got, row(all, i, a.Dim())) {
					t.Fatalf("person %d: the sample's action is not that of the whole", i)
				}
			}
		}
		if n := len(drawn[seed]); n > sample || n < sample*9/10 {
			t.Errorf("%d actions in a sample of %d, nearly all of whom are refused", n, sample)
		}
	}
	if slices.Equal(drawn[3], drawn[4]) {
		t.Error("both seeds draw the same people")
	}
	for _, o := range []TeacherOptions{{Noise: -1}, {Noise: math.NaN()}, {Noise: math.Inf(1)}, {Sample: -1}} {
		must.Fail(t, must.Err(Teacher(ctx, m, a, x, o)), "teacher")
	}
}

func TestTeacherTrace(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tk, a := adultTask(t)
	rng := rand.New(rand.NewPCG(8, 9))
	const people, alpha = 30, 0.7
	dim := a.Dim()
	x := randomPeople(rng, tk, people)
	m := newMLP(rng, -2, dim, 8, 1)
	for _, o := range []TeacherOptions{{Plain: true, StepSize: alpha}, {}} {
		var trace Trace
		o.Trace, o.Workers = &trace, 1
		all := must.Get(Teacher(ctx, m, a, x, o))(t)
		if len(trace.Actions) != 3 || len(trace.Sizes) != 3 || !slices.Equal(trace.Actions[2], all) {
			t.Fatalf("plain %v: the trace of %d steps does not end at the result", o.Plain, len(trace.Actions))
		}
		before, points := make([]float32, len(x)), make([]float32, len(x))
		for k, after := range trace.Actions {
			Point(points, x, before)
			margins, g, err := m.LossGrads(ctx, points)
			must.Do(t, err)
			for i := range people {
				moves, size := !slices.Equal(row(before, i, dim), row(after, i, dim)), trace.Sizes[k][i]
				if moves && !(size > 0) || !o.Plain && margins[i] > 0 && size != 0 || o.Plain && size != alpha {
					t.Fatalf("plain %v, step %d, person %d at margin %v: size %v", o.Plain, k, i, margins[i], size)
				}
				if want := slices.Clone(row(before, i, dim)); o.Plain {
					a.Pullback(row(g, i, dim))
					for j := range want {
						want[j] -= alpha * g[i*dim+j]
					}
					if a.Project(row(x, i, dim), want); !slices.Equal(want, row(after, i, dim)) {
						t.Fatalf("step %d, person %d: %v, want %v", k, i, row(after, i, dim), want)
					}
				}
			}
			before = after
		}
	}
	o := TeacherOptions{Plain: true, Noise: 0.2, Seed: 5, Workers: 1}
	noisy := must.Get(Teacher(ctx, m, a, x, o))(t)
	o.Noise = 0
	clean := must.Get(Teacher(ctx, m, a, x, o))(t)
	if Blur(a, x, clean, 0.2, 5); !slices.Equal(clean, noisy) {
		t.Error("noise on actions is not that of the noisy teacher")
	}
}
