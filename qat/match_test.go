package qat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/quant"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// reach is how far people can change every input but the first.
const reach = 0.25

// boxed is what people can change in these tests, at a cost that is the root of an action's squares.
func boxed(t *testing.T, dim int) *constraint.Set {
	t.Helper()
	text := "version: 1\ncost: {norm: l2, weights: uniform}\nfeatures:\n  - {name: x0, kind: numeric, mean: 0, std: 1, " +
		"actionable: false}\n"
	for i := 1; i < dim; i++ {
		text += fmt.Sprintf("  - {name: x%d, kind: numeric, mean: 0, std: 1, max_change: %v}\n", i, reach)
	}
	return must.Get(constraint.Compile(must.Get(task.Parse("task.yaml", []byte(text)))(t)))(t)
}

// matched is a problem whose second layer is in float, with points of people and what they can change.
func matched(t *testing.T, logits, people, k int) (*problem, Source, []Points) {
	t.Helper()
	p := wide(t, uint64(20+logits), -1, logits, compute{bits: 3})
	p.layers[1].Plan = quant.Layer{Node: p.layers[1].Info.Node, Float: true}
	facts := must.Get(p.points(t.Context(), rand.New(rand.NewPCG(4, 4)), Factual, people))(t)
	s := Source{Set: boxed(t, p.dim), Teacher: recourse.TeacherOptions{Steps: k, StepSize: 0.9, Plain: true, Workers: 1}}
	teacher := s
	teacher.Teacher.StepSize = 0.6 // or both would end at the same corners, where the loss has no gradient
	return p, s, []Points{facts, p.taughtPoints(t, teacher, facts)}
}

// gradient is that of the cross-entropy with the target class by the inputs.
func (p *problem) gradient(slots []paramSlot, params, x []float64, target int) []float64 {
	z, back := p.through(slots, params, x)
	var sum float64
	for _, v := range z {
		sum += math.Exp(v)
	}
	for c, v := range z {
		z[c] = math.Exp(v) / sum
	}
	z[target]--
	return back(z)
}

// The gradient by the parameters goes through every step of the student: it is that of central differences of the
// whole loss, in which each step is followed by the same projection, as the paper says to differentiate it.
func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ logits, k int }{{1, 1}, {2, 3}, {3, 2}} {
		p, source, points := matched(t, c.logits, 12, c.k)
		m := p.written(t, p.plans())
		tr := newTrainer(compiled(t, p.network(m), source, Spec{
			Objective: Match, Optimizer: Optimizer{Batch: 10, Seed: 5},
			Weights: Weights{"eta": 0.7, "alpha1": 1.7, "alpha2": 2.3},
		}, nil))
		s, j := tr.trainStep, tr.job
		tr.replace(points)
		must.Do(t, tr.draw(t.Context()))
		start := make([]float64, len(s.Params))
		for i, v := range s.Params {
			start[i] = float64(v)
		}
		clipped, free := 0, 0
		loss := func(params []float64) (sum float64) {
			for k, person := range tr.pairs.people {
				z := p.forward(s.slots, params, wide64(points[0].X[person*p.dim:(person+1)*p.dim]))
				sum += rowLoss(Match, &points[0], person, z, m.Target(), j)
				at := tr.pairs.taught[k]
				if at < 0 {
					continue
				}
				x, to := wide64(points[0].X[person*p.dim:(person+1)*p.dim]), wide64(points[1].X[at*p.dim:(at+1)*p.dim])
				sum += rowLoss(Match, &points[1], at, p.forward(s.slots, params, to), m.Target(), j)
				// The student's action at these parameters, and where training stands: the projection moves the step
				// here as it does there.
				own, there := make([]float64, p.dim), make([]float64, p.dim)
				for n := range c.k {
					size := float64(tr.next.columns[fmt.Sprint(sizeName, n)][k])
					here, then := p.gradient(s.slots, params, plus(x, own), m.Target()),
						p.gradient(s.slots, start, plus(x, there), m.Target())
					for j := 1; j < p.dim; j++ {
						step := there[j] - size*then[j]
						projected := min(max(step, -reach), reach)
						if projected != step {
							clipped++
						} else {
							free++
						}
						own[j], there[j] = own[j]-size*here[j]+projected-step, projected
					}
				}
				var away, cost, theirs float64
				for j, want := range wide64(tr.next.columns[wantedName][k*p.dim : (k+1)*p.dim]) {
					if math.Abs(want-(to[j]-x[j])) > 1e-6 {
						t.Fatalf("the teacher's action is %v, not %v", want, to[j]-x[j])
					}
					away, cost, theirs = away+math.Abs(own[j]-want), cost+own[j]*own[j], theirs+want*want
				}
				sum += j.Weights.Of("alpha1")*away + j.Weights.Of("alpha2")*math.Abs(math.Sqrt(cost)-math.Sqrt(theirs))
			}
			return sum
		}
		checkGradient(t, fmt.Sprintf("%d logits, %d steps", c.logits, c.k), s, &tr.next, loss)
		if clipped == 0 || free == 0 {
			t.Errorf("the projection changes %d coordinates and leaves %d", clipped, free)
		}
	}
}

func wide64(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func plus(x, d []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] + d[i]
	}
	return out
}
