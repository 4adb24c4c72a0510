package refine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

type problem struct {
	m      *graph.Model
	full   *classifier.Model
	layers []Layer
	points Points
}

func draw(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// network is x -> Gemm -> Relu -> Gemm -> Relu -> ... with these sizes.
func network(r *rand.Rand, sizes ...int) *graph.Model {
	g := &graph.Graph{
		Name: "net",
		Inputs: []graph.Value{{
			Name: "x", DType: graph.Float,
			Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: int64(sizes[0])}},
		}},
		Outputs: []graph.Value{{Name: "z", DType: graph.Float}},
	}
	value := "x"
	for i, out := range sizes[1:] {
		in := sizes[i]
		w, b, z := string(rune('a'+i))+"w", string(rune('a'+i))+"b", string(rune('a'+i))+"z"
		if i == len(sizes)-2 {
			z = "z"
		}
		g.Inits = append(g.Inits, graph.FromFloats(w, draw(r, in*out), int64(out), int64(in)),
			graph.FromFloats(b, draw(r, out), int64(out)))
		g.Nodes = append(g.Nodes,
			&graph.Node{
				Op: "Gemm", Name: z, Inputs: []string{value, w, b}, Outputs: []string{z},
				Attrs: []graph.Attr{graph.IntAttr("transB", 1)},
			})
		value = z
		if z != "z" {
			value = z + "r"
			g.Nodes = append(g.Nodes, &graph.Node{Op: "Relu", Inputs: []string{z}, Outputs: []string{value}})
		}
	}
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: g}
}

// quantized prepares a network: weights of the given bits, one scale for each row,
// activations of 8 bits between layers, the input in float.
func quantized(t *testing.T, seed uint64, bits, rows int, sizes ...int) *problem {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	p := &problem{m: network(r, sizes...)}
	p.full = open(t, p.m)
	infos, err := quant.FindLayers(p.m)
	must.Do(t, err)
	f := must.Get(quant.FormatOf(bits, false))(t)
	for i, info := range infos {
		plan := quant.Layer{Node: info.Node, Bits: bits}
		for o := range info.Out {
			var largest float32
			for _, w := range info.Row(o) {
				largest = max(largest, float32(math.Abs(float64(w))))
			}
			plan.Scales = append(plan.Scales, largest/float32(f.QMax))
		}
		if i > 0 {
			act := quant.FitAct(8, 0, 12)
			plan.Act = &act
		}
		p.layers = append(p.layers, Layer{Info: info, Plan: plan})
	}
	p.points.X = draw(r, rows*sizes[0])
	if p.points.Margins, err = p.full.Margins(context.Background(), p.points.X); err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t *testing.T, m *graph.Model) *classifier.Model {
	t.Helper()
	loaded := must.Get(onnxio.FromGraph(context.Background(), m, orttest.Need(t)))(t)
	c, err := classifier.New(loaded, classifier.Options{Through: quant.StraightThrough})
	must.Do(t, err)
	t.Cleanup(func() { _ = c.Close() }) // closed already where Run had it
	return c
}

// open opens the model of plans as it would be written.
func (p *problem) open(t *testing.T) func([]quant.Layer) (*classifier.Model, error) {
	e := orttest.Need(t)
	return func(plans []quant.Layer) (*classifier.Model, error) {
		m, err := qdq.Write(p.m, &quant.Plan{Layers: plans}, qdq.Options{})
		if err != nil {
			return nil, err
		}
		loaded := must.Get(onnxio.FromGraph(context.Background(), m, e))(t)
		return classifier.New(loaded, classifier.Options{Through: quant.StraightThrough})
	}
}

// loss is the mean squared margin error of plans on points, run by ONNX Runtime.
func (p *problem) loss(t *testing.T, plans []quant.Layer, points Points) float64 {
	t.Helper()
	c := must.Get(p.open(t)(plans))(t)
	defer c.Close()
	got := must.Get(c.Margins(context.Background(), points.X))(t)
	var sum float64
	for i, v := range got {
		d := float64(v - points.Margins[i])
		sum += d * d
	}
	return sum / float64(len(got))
}

func (p *problem) plans() []quant.Layer {
	var out []quant.Layer
	for _, l := range p.layers {
		out = append(out, l.Plan)
	}
	return out
}

// Refinement has to lower the margin error on points that it has never seen, for every
// width, and by the amount that it says.
func TestRefineHelpsElsewhere(t *testing.T) {
	for _, bits := range []int{2, 3, 4} {
		p := quantized(t, 7, bits, 3000, 10, 12, 8, 2)
		fresh := Points{X: draw(rand.New(rand.NewPCG(99, 1)), 2000*10)}
		var err error
		if fresh.Margins, err = p.full.Margins(context.Background(), fresh.X); err != nil {
			t.Fatal(err)
		}
		plans, outcome, err := Run(context.Background(), p.layers, p.points, p.open(t), Options{})
		must.Do(t, err)
		before, after := math.Sqrt(p.loss(t, p.plans(), fresh)), math.Sqrt(p.loss(t, plans, fresh))
		if after > 0.7*before {
			t.Errorf("%d bits: margin error %.4f before, %.4f after", bits, before, after)
		}
		if math.Abs(outcome.After-after) > 0.2*after || math.Abs(outcome.Before-before) > 0.2*before || outcome.Rounds < 1 {
			t.Errorf("%d bits: says %+v, on fresh points %.4f and %.4f", bits, outcome, before, after)
		}
		for i, l := range plans {
			if l.Bits != bits || len(l.Scales) != len(p.layers[i].Plan.Scales) || p.layers[i].Plan.Codes != nil {
				t.Errorf("layer %q: %d bits, %d scales; the plan that was given has codes: %v", l.Node, l.Bits, len(l.Scales),
					p.layers[i].Plan.Codes != nil)
			}
		}
	}
}

// Where many units are at a kink for most points, the linearised margin promises what a
// whole round does not keep: the round is taken back and a shorter one tried.
func TestRefineShortensRounds(t *testing.T) {
	p := quantized(t, 13, 8, 1000, 10, 12, 12, 12, 8, 2)
	_, outcome, err := Run(context.Background(), p.layers, p.points, p.open(t), Options{Rounds: 8})
	must.Do(t, err)
	if outcome.After > 0.8*outcome.Before {
		t.Errorf("margin error %.4f before, %.4f after %d rounds", outcome.Before, outcome.After, outcome.Rounds)
	}
}

// One layer alone is linear in everything, so a descent without the local term must end
// where no single number can be moved to any gain. All neighbours are tried by running them.
func TestRefineEndsAtLocalOptimum(t *testing.T) {
	p := quantized(t, 3, 3, 400, 6, 2)
	s := must.Get(newRefinement(p.layers, p.points))(t)
	s.local = 1e-9
	for range 12 {
		must.Get(s.look(context.Background(), p.open(t), true))(t)
		descend(s, 0)
	}
	plan := s.plans()
	best := p.loss(t, plan, s.seen)
	if start := p.loss(t, p.plans(), s.seen); best > start/2 {
		t.Errorf("loss %.5f, %.5f at the start", best, start)
	}
	try := func(what string, i int, change func(l *quant.Layer)) {
		moved := s.plans()
		change(&moved[0])
		if got := p.loss(t, moved, s.seen); got < best*(1-1e-4) {
			t.Errorf("%s %d: %.6f instead of %.6f", what, i, got, best)
		}
	}
	for i, c := range plan[0].Codes {
		for _, by := range []int8{-1, 1} {
			if c+by >= -4 && c+by <= 3 {
				try("code", i, func(l *quant.Layer) { l.Codes[i] += by })
			}
		}
	}
	for o := range plan[0].Bias {
		for _, by := range []float32{0.99, 1.01} {
			try("bias", o, func(l *quant.Layer) { l.Bias[o] *= by })
			try("scale", o, func(l *quant.Layer) { l.Scales[o] *= by })
		}
	}
}

// What the linearisation says of the margin must be what happens: the derivative of the
// squared error by every bias against central differences of the written model.
func TestGradientOfObjective(t *testing.T) {
	p := quantized(t, 5, 4, 500, 5, 6, 2)
	s := must.Get(newRefinement(p.layers, p.points))(t)
	must.Get(s.look(context.Background(), p.open(t), true))(t)
	const h = 0.1 // activations have steps of 0.05: a wide difference averages over them
	for l := range s.layers {
		for o := range s.layers[l].Info.Out {
			var want float64
			for k, g := range s.g[l][o*s.n : (o+1)*s.n] {
				want += 2 * float64(s.r[k]) * float64(g) / float64(s.n)
			}
			shifted := func(by float32) float64 {
				plans := s.plans()
				plans[l].Bias[o] += by
				return p.loss(t, plans, s.seen)
			}
			got := (shifted(h) - shifted(-h)) / (2 * h)
			must.Near(must.In(t, l, o), want, got, 0.1*math.Abs(want)+0.02)
		}
	}
}

func TestRunIsDeterministic(t *testing.T) {
	p := quantized(t, 2, 3, 200, 4, 6, 2)
	p.points.Weights = make([]float64, len(p.points.Margins))
	for i := range p.points.Weights {
		p.points.Weights[i] = 1 / (1 + math.Abs(float64(p.points.Margins[i])))
	}
	a, oa, err := Run(context.Background(), p.layers, p.points, p.open(t), Options{})
	must.Do(t, err)
	b, ob, err := Run(context.Background(), p.layers, p.points, p.open(t), Options{})
	must.Do(t, err)
	if d := cmp.Diff(a, b); d != "" || oa != ob {
		t.Errorf("two runs differ: %v %v\n%s", oa, ob, d)
	}
	// Per-tensor scales stay; codes and biases move.
	for i := range p.layers {
		p.layers[i].Plan.Scales = []float32{slices.Max(p.layers[i].Plan.Scales)}
	}
	c, _, err := Run(context.Background(), p.layers, p.points, p.open(t), Options{})
	must.Do(t, err)
	for i := range c {
		if len(c[i].Scales) != 1 || c[i].Scales[0] != p.layers[i].Plan.Scales[0] {
			t.Errorf("layer %d has the scales %v", i, c[i].Scales)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	p := quantized(t, 2, 3, 100, 4, 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := Run(ctx, p.layers, p.points, p.open(t), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	p.layers[0].Plan.Scales = nil
	if _, _, err := Run(context.Background(), p.layers, p.points, p.open(t), Options{}); err == nil {
		t.Error("a plan without scales is no error")
	}
}
