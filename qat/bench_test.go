package qat

import (
	"context"
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
	set    *constraint.Set
	teach  recourse.TeacherOptions
	points []Points
}

func newBench(b *testing.B) *bench {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	t, err := task.Load("../reproduce/testdata/tasks/adult.yaml")
	must.Do(b, err)
	n := &bench{teach: recourse.TeacherOptions{Workers: 1}}
	if n.set, err = constraint.Compile(t); err != nil {
		b.Fatal(err)
	}
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
	teach := func(ctx context.Context, people []int) ([]float32, error) {
		return recourse.Teacher(ctx, n.full, n.set, n.x(people), n.teach)
	}
	n.points = append(n.points, taughtPoints(b, teach, facts, t.Dim()))
	return n
}

func (n *bench) x(people []int) []float32 { return RowsAt(n.points[0].X, n.dim, people) }

// Steps implements Recourse.
func (n *bench) Steps(ctx context.Context, m *StudentModel, people []int) (Steps, error) {
	o, trace := n.teach, recourse.Trace{}
	o.Trace = &trace
	_, err := recourse.Teacher(ctx, m, n.set, n.x(people), o)
	return Steps(trace), err
}

// Cost implements Recourse.
func (n *bench) Cost(person int, action, grad []float32) float64 {
	x := n.x([]int{person})
	n.set.Slope(x, action, grad)
	return n.set.Cost(x, action)
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
			n.teach.Plain = c.plain
			source := Source{Recourse: n, Unrolled: 3}
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
