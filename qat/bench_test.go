package qat

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// bench is the network and batch that bench/torch_step.py times in PyTorch, 104-64-32-2 and 256 rows, on people made up
// after Adult's task, of whom three quarters are refused.
type bench struct {
	model  *classifier.Model
	layers []Layer
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
	if err != nil {
		b.Fatal(err)
	}
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
	g := &graph.Graph{Inputs: []graph.Value{{
		Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: int64(t.Dim())}},
	}}}
	build := graph.NewBuilder(g, "")
	h, last := "x", []float32{0, 0}
	sizes := []int{t.Dim(), 64, 32, 2}
	bias := graph.FromFloats("b", last, 2)
	for k := range 3 {
		w := normal(rng, sizes[k]*sizes[k+1])
		for i := range w {
			w[i] /= 4
		}
		at := build.Const(graph.FromFloats("b", make([]float32, sizes[k+1]), int64(sizes[k+1])))
		if k == 2 {
			at = build.Const(bias)
		}
		h = build.Op("Gemm", []string{
			h, build.Const(graph.FromFloats("w", w, int64(sizes[k+1]), int64(sizes[k]))), at,
		}, graph.IntAttr("transB", 1))
		if k < 2 {
			h = build.Op("Relu", []string{h})
		}
	}
	g.Outputs = []graph.Value{{Name: h, DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}}}
	open := func() *classifier.Model {
		m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: g}
		c, err := classifier.Open(b.Context(), m, ort.Options{}, classifier.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		infos, err := quant.FindLayers(m)
		if err != nil {
			b.Fatal(err)
		}
		n.layers = nil
		for _, l := range infos {
			p := quant.Layer{Node: l.Node, Bits: 4, Scales: slices.Repeat([]float32{0.04}, l.Out)}
			n.layers = append(n.layers, Layer{Info: l, Plan: p})
		}
		return c
	}
	if facts.Margins, err = open().Margins(b.Context(), facts.X); err != nil {
		b.Fatal(err)
	}
	sorted := slices.Sorted(slices.Values(facts.Margins))
	for i, init := range g.Inits {
		if init.Name == bias.Name {
			g.Inits[i] = graph.FromFloats(init.Name, []float32{0, -sorted[people*3/4]}, 2)
		}
	}
	n.model = open()
	if facts.Margins, err = n.model.Margins(b.Context(), facts.X); err != nil {
		b.Fatal(err)
	}
	taught := Points{Kind: Teacher}
	n.points = []Points{facts, taught}
	for i, m := range facts.Margins {
		if m <= 0 {
			taught.Source = append(taught.Source, i)
		}
	}
	actions, err := n.Teach(b.Context(), taught.Source, 0)
	if err != nil {
		b.Fatal(err)
	}
	taught.X = n.x(taught.Source)
	for i, v := range actions {
		taught.X[i] += v
	}
	for k, i := range taught.Source {
		n.kept[i] = actions[k*t.Dim() : (k+1)*t.Dim()]
	}
	n.points[1] = taught
	return n
}

func (n *bench) x(people []int) (x []float32) {
	dim := n.set.Dim()
	x = make([]float32, 0, len(people)*dim)
	for _, i := range people {
		x = append(x, n.points[0].X[i*dim:(i+1)*dim]...)
	}
	return x
}

// Teach implements Recourse.
func (n *bench) Teach(ctx context.Context, people []int, seed uint64) ([]float32, error) {
	if n.noise > 0 {
		actions := make([]float32, 0, len(people)*n.set.Dim())
		for _, i := range people {
			actions = append(actions, n.kept[i]...)
		}
		recourse.Blur(n.set, n.x(people), actions, n.noise, seed)
		return actions, nil
	}
	return recourse.Teacher(ctx, n.model, n.set, n.x(people), n.teach)
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
	dim := n.set.Dim()
	x := n.points[0].X[person*dim : (person+1)*dim]
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
			j, err := c.spec.resolve(Network{Model: n.model, Layers: n.layers}, source)
			if err != nil {
				b.Fatal(err)
			}
			s, err := compile(j)
			if err != nil {
				b.Fatal(err)
			}
			defer s.close()
			t := newTrainer(s)
			t.replace(n.points)
			step := func() {
				if err := t.draw(b.Context()); err != nil {
					b.Fatal(err)
				}
				if _, err := s.run(b.Context(), &t.next, 1e-5); err != nil {
					b.Fatal(err)
				}
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
