package qat

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/lists"
	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/recourse"
)

// problem is a random network and plans of it that round to the nearest codes.
type problem struct {
	m      *graph.Model // in float, canonical
	dim    int
	full   *classifier.Model
	layers []Layer
	input  *quant.Input // grid in front of the first layer
}

func normal(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// graphOf is a graph with the input x, rows x dim; rows < 0 leaves their number open.
func graphOf(rows, dim int64) *graph.Model {
	batch := graph.Dim{Size: rows}
	if rows < 0 {
		batch.Param = "N"
	}
	return &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{
		Name:   "net",
		Inputs: []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{batch, {Size: dim}}}},
	}}
}

// dense appends dense layers with a Relu between them; the last one makes the logits.
func dense(m *graph.Model, r *rand.Rand, value string, sizes ...int) *graph.Model {
	b := graph.NewBuilder(m.Graph, "")
	for i, out := range sizes[1:] {
		in := sizes[i]
		if i > 0 {
			value = b.Op("Relu", []string{value})
		}
		w := normal(r, in*out)
		for k := range w {
			w[k] /= float32(math.Sqrt(float64(in)))
		}
		value = b.Op("Gemm", []string{
			value, b.Const(graph.FromFloats("w", w, int64(out), int64(in))),
			b.Const(graph.FromFloats("b", normal(r, out), int64(out))),
		}, graph.IntAttr("transB", 1))
	}
	m.Graph.Outputs = []graph.Value{{Name: value, DType: graph.Float}}
	return m
}

type compute struct {
	bits      int
	perTensor bool
	rows      bool // rows of the first layer have widths of their own
	integer   bool // activations are quantized, convolutions run on integers
	grid      bool // the model's input is on a grid, its first column in two segments
}

func planned(t testing.TB, m *graph.Model, c compute) *problem {
	t.Helper()
	p := &problem{m: m, full: open(t, m)}
	p.dim = p.full.Dim()
	infos := must.Get(quant.FindLayers(m))(t)
	f := must.Get(quant.FormatOf(c.bits, false))(t)
	if c.grid {
		p.input = &quant.Input{Scale: 6. / 255, Columns: []quant.InputColumn{
			{Source: 0, Lo: -3, Hi: 0, Gain: 2}, {Source: 0, Lo: 0, Hi: 3, Gain: 2},
		}}
		for j := 1; j < p.dim; j++ {
			p.input.Columns = append(p.input.Columns, quant.InputColumn{Source: j, Lo: -3, Hi: 3, Gain: 1})
		}
	}
	for i, info := range infos {
		l := Layer{Plan: quant.Layer{Node: info.Node, Bits: c.bits}}
		if i == 0 && c.grid {
			info, l.Sources = p.input.Fold(info), p.input.Sources()
		}
		l.Info = info
		var all float32
		for o := range info.Out {
			var largest float32
			for _, w := range info.Row(o) {
				largest = max(largest, float32(math.Abs(float64(w))))
			}
			all = max(all, largest)
			format := f
			if c.rows && i == 0 {
				format = quant.Formats()[o%len(quant.Formats())]
				l.Plan.Bits, l.Plan.RowBits = 0, append(l.Plan.RowBits, format.Bits)
			}
			l.Plan.Scales = append(l.Plan.Scales, largest/float32(format.QMax))
		}
		if c.perTensor {
			l.Plan.Scales = []float32{all / float32(f.QMax)}
		}
		if c.integer && (i > 0 || !c.grid) {
			lo := float32(0)
			if i == 0 {
				lo = -4
			}
			act := quant.FitAct(8, lo, 5)
			l.Plan.Act = &act
		}
		if c.integer && info.Conv != nil {
			result := quant.FitAct(8, 0, 5)
			l.Plan.Result = &result
		}
		p.layers = append(p.layers, l)
	}
	return p
}

func mlp(t *testing.T, seed uint64, c compute) *problem {
	t.Helper()
	return wide(t, seed, -1, 2, c)
}

// wide is a network with any number of logits, for so many rows.
func wide(t *testing.T, seed uint64, rows int64, logits int, c compute) *problem {
	t.Helper()
	return planned(t, dense(graphOf(rows, 5), rand.New(rand.NewPCG(seed, 1)), "x", 5, 10, 6, logits), c)
}

// convolutional is x -> [N, 2, 6] -> Conv -> Relu -> Flatten -> Gemm.
func convolutional(t *testing.T, c compute) *problem {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 1))
	m := graphOf(-1, 12)
	b := graph.NewBuilder(m.Graph, "conv.")
	h := b.Op("Reshape", []string{"x", b.Const(graph.FromInts("shape", []int64{-1, 2, 6}, 3))})
	v := normal(r, 4*2*3)
	for k := range v {
		v[k] /= float32(math.Sqrt(2 * 3))
	}
	w, bias := b.Const(graph.FromFloats("w", v, 4, 2, 3)), b.Const(graph.FromFloats("b", normal(r, 4), 4))
	h = b.Op("Relu", []string{b.Op("Conv", []string{h, w, bias}, graph.IntsAttr("kernel_shape", 3))})
	return planned(t, dense(m, r, b.Op("Flatten", []string{h}), 16, 2), c)
}

func open(t testing.TB, m *graph.Model) *classifier.Model {
	t.Helper()
	loaded := must.Get(onnxio.FromGraph(context.Background(), m, orttest.Need(t)))(t)
	c, err := classifier.New(loaded, classifier.Options{Through: quant.StraightThrough})
	must.Do(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (p *problem) plans() []quant.Layer {
	var out []quant.Layer
	for _, l := range p.layers {
		out = append(out, l.Plan)
	}
	return out
}

func (p *problem) network(m *classifier.Model) Network { return Network{Model: m, Layers: p.layers} }

// compiled is the step of a training, after a change of its job.
func compiled(t testing.TB, net Network, source Source, spec Spec, change func(j *trainingJob)) *trainStep {
	t.Helper()
	j := must.Get(spec.resolve(net, source))(t)
	if change != nil {
		change(j)
	}
	s := must.Get(compile(j))(t)
	t.Cleanup(s.close)
	return s
}

func (p *problem) written(t *testing.T, plans []quant.Layer) *classifier.Model {
	t.Helper()
	m := must.Get(qdq.Write(p.m, &quant.Plan{Input: p.input, Layers: plans}, qdq.Options{Plain: true}))(t)
	return open(t, m)
}

func margins(t testing.TB, m *classifier.Model, x []float32) []float32 {
	t.Helper()
	return must.Get(m.Margins(context.Background(), x))(t)
}

// rms is the error of the margin of plans on rows, those near the decision counting most.
func (p *problem) rms(t *testing.T, plans []quant.Layer, x []float32) float64 {
	t.Helper()
	var sum, all float64
	want, got := margins(t, p.full, x), margins(t, p.written(t, plans), x)
	for i, v := range got {
		near := 1 / (1 + math.Pow(float64(want[i])/0.15, 2))
		sum += near * math.Pow(float64(v-want[i]), 2)
		all += near
	}
	return math.Sqrt(sum / all)
}

// points draws rows with everything that an objective may ask for. Every seventh label is not known.
func (p *problem) points(ctx context.Context, r *rand.Rand, kind Kind, rows int) (Points, error) {
	out := Points{Kind: kind, X: normal(r, rows*p.dim)}
	var err error
	if out.Margins, err = p.full.Margins(ctx, out.X); err != nil {
		return out, err
	}
	z, n, err := p.full.Logits(ctx, out.X)
	if err != nil {
		return out, err
	}
	for i := range out.Margins {
		row := slices.Clone(z[i*n : (i+1)*n])
		if n == 1 {
			row = append([]float32{0}, row...)
		}
		class, sum := 0, 0.0
		for k, v := range row {
			sum += math.Exp(float64(v))
			if v > row[class] {
				class = k
			}
		}
		for _, v := range row {
			out.Probabilities = append(out.Probabilities, float32(math.Exp(float64(v))/sum))
		}
		if i%7 == 6 {
			class = -1
		}
		out.Classes = append(out.Classes, class)
	}
	return out, nil
}

// taughtPoints are where actions under the full-precision model lead those whom it refuses.
func (p *problem) taughtPoints(t testing.TB, s Source, facts Points) Points {
	t.Helper()
	out := Points{Kind: Teacher}
	for i, m := range facts.Margins {
		if m <= 0 {
			out.Source = append(out.Source, i)
		}
	}
	out.X = lists.RowsAt(facts.X, p.dim, out.Source)
	actions := must.Get(recourse.Teacher(context.Background(), p.full, s.Set, out.X, s.Teacher))(t)
	recourse.Point(out.X, out.X, actions)
	return out
}

func (p *problem) source() Source { return Source{Draw: p.draw} }

func (p *problem) draw(ctx context.Context, round int, _ [Kinds]int, _ []Trained) (Draw, error) {
	r := rand.New(rand.NewPCG(uint64(round), 77))
	var d Draw
	var errs []error
	for k := range Kinds {
		one, err := p.points(ctx, r, k, 200)
		one.Source = Spread(200, 200)
		d.Points, errs = append(d.Points, one), append(errs, err)
	}
	return d, errors.Join(errs...)
}

func (p *problem) train(t *testing.T, spec Spec, run Run) (*Outcome, error) {
	t.Helper()
	return Train(context.Background(), p.network(p.written(t, p.plans())), p.source(), spec, run)
}

func (p *problem) trained(t *testing.T, spec Spec, run Run) *Outcome {
	t.Helper()
	return must.Get(p.train(t, spec, run))(t)
}
