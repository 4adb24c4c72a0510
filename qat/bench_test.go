package qat

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// bench is the network and batch that bench/torch_step.py times in PyTorch, 104-64-32-2 and 256 rows, on people made up
// after Adult's task, of whom three quarters are refused.
type bench struct {
	*problem
	source Source
	points []Points
}

func newBench(b *testing.B) *bench {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	t, err := task.Load("../reproduce/testdata/tasks/adult.yaml")
	must.Do(b, err)
	n := &bench{source: Source{
		Set: must.Get(constraint.Compile(t))(b), Teacher: recourse.TeacherOptions{Workers: 1},
	}}
	const people = 4096
	facts := Points{Kind: Factual, X: make([]float32, people*t.Dim())}
	for person := range slices.Chunk(facts.X, t.Dim()) {
		for i := range t.Features {
			if f := &t.Features[i]; f.Encoding.Kind() == "onehot" {
				person[f.Offset+rng.IntN(f.Width)] = 1
			} else {
				raw := min(max(f.Number().Mean+f.Number().Std*rng.NormFloat64(), f.Bounds[0]), f.Bounds[1])
				person[f.Offset] = f.ToInput(raw)
			}
		}
		facts.Classes = append(facts.Classes, rng.IntN(2))
	}
	m := dense(graphOf(-1, int64(t.Dim())), rng, "x", t.Dim(), 64, 32, 2)
	n.problem = planned(b, m, compute{bits: 4})
	sorted := slices.Sorted(slices.Values(margins(b, n.full, facts.X)))
	bias := m.Graph.Init(n.layers[2].Info.Bias)
	v := must.Get(bias.Floats())(b)
	v[1] -= sorted[people*3/4]
	*bias = *graph.FromFloats(bias.Name, v, 2)
	n.problem = planned(b, m, compute{bits: 4})
	facts.Margins = margins(b, n.full, facts.X)
	n.points = []Points{facts}
	n.points = append(n.points, n.taughtPoints(b, n.source, facts))
	return n
}

// BenchmarkStep times a step with its draw: weights in their own units (lsq) and of their scale (ratios) on 256 rows;
// and the paper's objectives on 256 people and the teacher points of the three quarters who are refused.
func BenchmarkStep(b *testing.B) {
	n := newBench(b)
	for _, c := range []struct {
		name  string
		spec  Spec
		plain bool
	}{
		{"lsq", Spec{Objective: Task, Quantizers: LSQ}, false},
		{"ratios", Spec{Objective: Task}, false},
		{"cfq", Spec{Objective: Validity, Quantizers: LSQ}, false},
		{"match", Spec{Objective: Match, Quantizers: LSQ}, false},
		{"match paper", Spec{Objective: Match, Quantizers: LSQ}, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			source := n.source
			source.Teacher.Plain = c.plain
			s := compiled(b, n.network(n.full), source, c.spec, nil)
			t := newTrainer(s)
			t.replace(n.points)
			step := func() {
				must.Do(b, t.draw(b.Context()))
				must.Get(s.run(b.Context(), &t.next, 1e-5))(b)
			}
			for range 100 { // until sessions of all sizes are open
				step()
			}
			begun := processor()
			defer func() { b.ReportMetric(float64(processor()-begun)/1e3/float64(b.N), "cpu-µs/op") }()
			for b.Loop() {
				step()
			}
		})
	}
}

// processor is the processor time of this process in nanoseconds: what other programs do makes less difference to it.
func processor() int64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}
