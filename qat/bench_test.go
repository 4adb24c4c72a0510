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
	kept   map[int][]float32 // the teacher's actions, by person
	noise  float64           // on these, if they are not computed anew
}

func newBench(b *testing.B) *bench {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	t, err := task.Load("../reproduce/testdata/tasks/adult.yaml")
	must.Do(b, err)
	n := &bench{teach: recourse.TeacherOptions{Workers: 1}, kept: map[int][]float32{}}
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
	taught := taughtPoints(b, n, facts, t.Dim())
	n.points = append(n.points, taught)
	for k, i := range taught.Source {
		n.kept[i] = slices.Clone(taught.X[k*t.Dim() : (k+1)*t.Dim()])
		for j, x := range n.x([]int{i}) {
			n.kept[i][j] -= x
		}
	}
	return n
}

func (n *bench) x(people []int) []float32 { return RowsAt(n.points[0].X, n.dim, people) }

// Teach implements Recourse.
func (n *bench) Teach(ctx context.Context, people []int, seed uint64) ([]float32, error) {
	if n.noise > 0 {
		actions := make([]float32, 0, len(people)*n.dim)
		for _, i := range people {
			actions = append(actions, n.kept[i]...)
		}
		recourse.Blur(n.set, n.x(people), actions, n.noise, seed)
		return actions, nil
	}
	return recourse.Teacher(ctx, n.full, n.set, n.x(people), n.teach)
}

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
// and the paper's objectives on 256 people and the teacher points of the three quarters who are refused. These points
// are kept; or noise is drawn for each batch (online), on actions that are kept since the teacher does not change; or
// all K = 3 steps are taken for each batch, as Teacher or as the paper does it (steps), which only random starts need.
func BenchmarkStep(b *testing.B) {
	n := newBench(b)
	for _, c := range []struct {
		name   string
		spec   Spec
		online bool
		plain  bool
		noise  float64
	}{
		{"lsq", Spec{Objective: Task, Quantizers: LSQ}, false, false, 0},
		{"ratios", Spec{Objective: Task}, false, false, 0},
		{"cfq", Spec{Objective: Validity, Quantizers: LSQ}, false, false, 0},
		{"cfq online", Spec{Objective: Validity, Quantizers: LSQ}, true, false, 0.1},
		{"cfq steps", Spec{Objective: Validity, Quantizers: LSQ}, true, false, 0},
		{"cfq steps paper", Spec{Objective: Validity, Quantizers: LSQ}, true, true, 0},
		{"match", Spec{Objective: Match, Quantizers: LSQ}, false, false, 0},
		{"match paper", Spec{Objective: Match, Quantizers: LSQ}, false, true, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			n.teach.Plain, n.noise = c.plain, c.noise
			source := Source{Recourse: n, Online: c.online, Unrolled: 3}
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
