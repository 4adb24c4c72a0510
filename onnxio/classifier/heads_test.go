package classifier

import (
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"cfq/internal/must"
	"cfq/internal/onnxpb"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// headed is a way of ending a network whose logits are z.
type headed struct {
	name    string
	columns int // of z
	build   func(b *graph.Builder) string
	meaning onnxio.Meaning
	// margin of class 1 by the logits; nil is that of the logits
	margin func(z []float64) float64
	// what the task declares
	output    onnxio.Meaning
	threshold float64
	refused   string // the error says
}

func one(b *graph.Builder, v ...float32) string {
	return b.Const(graph.FromFloats("k", v, int64(len(v))))
}

func pair(b *graph.Builder, p string) string {
	return b.Op("Concat", []string{b.Op("Sub", []string{one(b, 1), p}), p}, graph.IntAttr("axis", 1))
}

func branch(b *graph.Builder, v string) string {
	text := proto.String
	body, err := proto.Marshal(&onnxpb.GraphProto{
		Name:   text("body"),
		Node:   []*onnxpb.NodeProto{{OpType: text("Sigmoid"), Input: []string{v}, Output: []string{"inner"}}},
		Output: []*onnxpb.ValueInfoProto{{Name: text("inner")}},
	})
	if err != nil {
		panic(err)
	}
	body = protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), body) // AttributeProto.g
	attr := func(name string) graph.Attr { return graph.Attr{Name: name, Kind: graph.AttrGraph, Extra: body} }
	cond := b.Const(&graph.Tensor{Name: "cond", DType: graph.Bool, Dims: []int64{1}, Raw: []byte{1}})
	return b.Op("If", []string{cond}, attr("then_branch"), attr("else_branch"))
}

func heads() []headed {
	plain := func(*graph.Builder) string { return "z" }
	op := func(op string) func(*graph.Builder) string {
		return func(b *graph.Builder) string { return b.Op(op, []string{"z"}) }
	}
	sigmoid := op("Sigmoid")
	paired := func(p func(*graph.Builder) string) func(*graph.Builder) string {
		return func(b *graph.Builder) string { return pair(b, p(b)) }
	}
	half := func(b *graph.Builder) string {
		t := b.Op("Tanh", []string{b.Op("Mul", []string{"z", one(b, .5)})})
		return b.Op("Add", []string{b.Op("Mul", []string{t, one(b, .5)}), one(b, .5)})
	}
	exps := func(b *graph.Builder) string {
		axes := b.Const(graph.FromInts("axes", []int64{1}, 1))
		most := b.Op("ReduceMax", []string{"z"}, graph.IntsAttr("axes", 1))
		e := b.Op("Exp", []string{b.Op("Sub", []string{"z", most})})
		return b.Op("Div", []string{e, b.Op("ReduceSum", []string{e, axes})})
	}
	clipped := func(b *graph.Builder) string {
		return b.Op("Clip", []string{"z", b.Const(scalar(0)), b.Const(scalar(1))})
	}
	unit := func(z []float64) float64 {
		p := math.Min(math.Max(z[0], math.Exp2(-24)), 1-math.Exp2(-24))
		return math.Log(p / (1 - p))
	}
	single := func(z []float64) float64 { return z[0] }
	return []headed{
		{name: "logits", columns: 2, build: plain, meaning: "logits"},
		{name: "one logit", columns: 1, build: plain, meaning: "logits"},
		{name: "sigmoid", columns: 1, build: sigmoid, meaning: "probabilities"},
		{name: "softmax", columns: 2, meaning: "probabilities", build: func(b *graph.Builder) string {
			return b.Op("Softmax", []string{"z"}, graph.IntAttr("axis", 1))
		}},
		{name: "[1-p, p]", columns: 1, meaning: "probabilities", build: paired(sigmoid)},
		{name: "[1-p, p] of tanh", columns: 1, meaning: "probabilities", build: paired(half)},
		{
			name: "[p, 1-p]", columns: 1, meaning: "probabilities", margin: func(z []float64) float64 { return -z[0] },
			build: func(b *graph.Builder) string {
				p := sigmoid(b)
				return b.Op("Concat", []string{p, b.Op("Sub", []string{one(b, 1), p})}, graph.IntAttr("axis", 1))
			},
		},
		{name: "decomposed softmax", columns: 2, build: exps, meaning: "probabilities"},
		{name: "tanh form", columns: 1, build: half, meaning: "probabilities"},
		{name: "If", columns: 1, meaning: "probabilities", build: func(b *graph.Builder) string { return branch(b, "z") }},
		{name: "1/(1+exp(-z))", columns: 1, meaning: "probabilities", build: func(b *graph.Builder) string {
			e := b.Op("Exp", []string{b.Op("Neg", []string{"z"})})
			return b.Op("Div", []string{one(b, 1), b.Op("Add", []string{one(b, 1), e})})
		}},
		{name: "softmax of one column", columns: 2, meaning: "probabilities", build: func(b *graph.Builder) string {
			return b.Op("Gather", []string{
				b.Op("Softmax", []string{"z"}, graph.IntAttr("axis", 1)),
				b.Const(graph.FromInts("i", []int64{1}, 1)),
			}, graph.IntAttr("axis", 1))
		}},
		{name: "Clip(0,1)", columns: 1, build: clipped, meaning: "probabilities", margin: unit},
		{name: "[1-p, p] of Clip(0,1)", columns: 1, meaning: "probabilities", margin: unit, build: paired(clipped)},
		{name: "log softmax", columns: 2, meaning: "logits", build: func(b *graph.Builder) string {
			return b.Op("Log", []string{exps(b)})
		}},
		{
			name: "sigmoid at 0.2", columns: 1, build: sigmoid, meaning: "probabilities", output: "probabilities", threshold: .2,
			margin: func(z []float64) float64 { return z[0] - math.Log(.2/.8) },
		},
		{
			name: "logits at 0.3", columns: 2, build: plain, meaning: "logits", output: "logits",
			threshold: .3, margin: func(z []float64) float64 { return z[1] - z[0] - .3 },
		},
		{name: "tanh", columns: 1, build: op("Tanh"), meaning: "unknown", refused: "declare it in the task file"},
		{name: "exp", columns: 1, build: op("Exp"), meaning: "unknown", refused: "it has one sign"},
		{name: "sigmoid of a sigmoid", columns: 1, meaning: "probabilities", margin: func(z []float64) float64 {
			return 1 / (1 + math.Exp(-z[0]))
		}, build: func(b *graph.Builder) string { return b.Op("Sigmoid", []string{sigmoid(b)}) }},
		{
			name: "tanh, declared", columns: 1, build: op("Tanh"),
			meaning: "unknown", output: "logits", margin: func(z []float64) float64 { return math.Tanh(z[0]) },
		},
		{
			name: "probabilities declared as logits", columns: 1, build: sigmoid, meaning: "probabilities", output: "logits",
			refused: "holds probabilities: Sigmoid",
		},
		{
			name: "logits declared as probabilities", columns: 1, build: plain, meaning: "logits",
			output: "probabilities", refused: "leaves [0,1]", margin: single,
		},
	}
}

func scalar(v float32) *graph.Tensor { return graph.FromFloats("k", []float32{v}) }

func TestHeads(t *testing.T) {
	e := orttest.Need(t)
	for _, h := range heads() {
		t.Run(h.name, func(t *testing.T) {
			n := newMLP(3, h.columns, 7)
			m := n.model(rows())
			b := graph.NewBuilder(m.Graph, "h.")
			m.Graph.Outputs = []graph.Value{{Name: h.build(b), DType: graph.Float}}
			file := m.Graph.Clone()
			loaded := must.Get(onnxio.FromGraph(t.Context(), m, e))(t)
			must.Same(t, h.meaning, loaded.Decision().Meaning)
			c, err := New(loaded, Options{Output: h.output, Threshold: h.threshold})
			if h.refused != "" {
				must.Fail(t, err, h.refused)
				return
			}
			must.Do(t, err)
			defer c.Close()
			margin := func(x []float64) float64 { return trueMargin(n.logits(x), 1) }
			if h.margin != nil {
				margin = func(x []float64) float64 { return h.margin(n.logits(x)) }
			}
			check(t, c, 1e-4, margin, nil)
			if canonical, err := loaded.Canonical(); err == nil {
				again := must.Get(New(canonical, Options{Output: h.output, Threshold: h.threshold}))(t)
				defer again.Close()
				check(t, again, 1e-4, margin, nil)
				must.Same(t, 1, len(canonical.Graph().Graph.Outputs))
			} else if h.name != "If" {
				t.Error(err)
			}
			must.Same(t, file, m.Graph)
		})
	}
}

// Probabilities that are 0 or 1 far from the decision are not taken for decisions, which are 0 or 1 everywhere.
func TestSaturatedHead(t *testing.T) {
	e := orttest.Need(t)
	for name, want := range map[string]onnxio.Meaning{"Sigmoid": onnxio.Probabilities, "Greater": onnxio.Unknown} {
		n := newMLP(3, 1, 7)
		for _, v := range [][]float32{n.w2, n.b2} {
			for i := range v {
				v[i] *= 1e5
			}
		}
		m := n.model(rows())
		b := graph.NewBuilder(m.Graph, "h.")
		p := ""
		if name == "Greater" {
			p = b.Op("Cast", []string{b.Op(name, []string{"z", one(b, 0)})}, graph.IntAttr("to", int64(graph.Float)))
		} else {
			p = b.Op(name, []string{"z"})
		}
		m.Graph.Outputs = []graph.Value{{Name: pair(b, p), DType: graph.Float}}
		loaded := must.Get(onnxio.FromGraph(t.Context(), m, e))(t)
		must.Same(must.In(t, name), want, loaded.Decision().Meaning)
	}
}

// A decision without its margin is one whatever the task declares.
func TestDecisionHead(t *testing.T) {
	e := orttest.Need(t)
	to := func(b *graph.Builder, v string, d graph.DType) string {
		return b.Op("Cast", []string{v}, graph.IntAttr("to", int64(d)))
	}
	for want, build := range map[string]func(b *graph.Builder) (string, graph.DType){
		"Greater": func(b *graph.Builder) (string, graph.DType) {
			return to(b, b.Op("Greater", []string{"z", one(b, 0)}), graph.Float), graph.Float
		},
		"Less": func(b *graph.Builder) (string, graph.DType) {
			return to(b, b.Op("Less", []string{"z", one(b, 0)}), graph.Int64), graph.Int64
		},
		"Sign": func(b *graph.Builder) (string, graph.DType) { return b.Op("Sign", []string{"z"}), graph.Float },
	} {
		m := newMLP(3, 1, 7).model(rows())
		out, dtype := build(graph.NewBuilder(m.Graph, "h."))
		m.Graph.Outputs = []graph.Value{{Name: out, DType: dtype}}
		for _, declared := range []onnxio.Meaning{"", onnxio.Logits, onnxio.Probabilities} {
			loaded, err := onnxio.FromGraph(t.Context(), m, e)
			if err == nil {
				_, err = New(loaded, Options{Output: declared})
			}
			must.Fail(must.In(t, want, declared), err, "the input of "+want+" node")
		}
	}
}
