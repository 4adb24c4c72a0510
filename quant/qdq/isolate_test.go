package qdq_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	floats64 "gonum.org/v1/gonum/floats"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

func kernelsOf(t *testing.T, m *graph.Model, eng ort.Options) map[string]string {
	t.Helper()
	opt := must.Get(ort.Optimized(marshal(t, m), eng))(t)
	kernels := map[string]string{}
	for _, n := range opt.Graph.Nodes {
		name := n.Name[strings.LastIndex(n.Name, " ")+1:] // an activation that was taken in stands before it
		kernels[name] = n.Op
		if n.Op == "DequantizeLinear" {
			t.Errorf("%s is left", n.Label())
		}
	}
	return kernels
}

// simulate computes a network of dense layers, Relu between them, as its plan says, in float64.
func simulate(t failer, m *graph.Model, p *quant.Plan, x []float32, n int) []float64 {
	t.Helper()
	layers := must.Get(quant.FindLayers(m))(t)
	v := doubles(x)
	for k, l := range layers {
		w, b := doubles(l.W), doubles(l.B)
		if q := p.Layer(l.Node); q != nil && !q.Float {
			scale := float32(0)
			if q.Act != nil {
				scale = q.Act.Scale
			}
			e := must.Get(q.Encode(l, scale))(t)
			w = doubles(weights(e))
			for o, code := range e.Bias {
				b[o] = float64(code) * float64(e.InScale*e.Scale(o))
			}
			for i := range v {
				if q.Act != nil {
					v[i] = float64(q.Act.Apply(float32(v[i])))
				}
			}
		}
		out := make([]float64, n*l.Out)
		for i := range out {
			r, o := i/l.Out, i%l.Out
			out[i] = floats64.Dot(w[o*l.In:(o+1)*l.In], v[r*l.In:(r+1)*l.In]) + b[o]
			if k < len(layers)-1 {
				out[i] = math.Max(out[i], 0)
			}
		}
		v = out
	}
	return v
}

func doubles(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// wantSimulated fails unless what is written computes what the plan says, but for codes on the other side of a half.
func wantSimulated(t failer, q, m *graph.Model, p *quant.Plan, eng ort.Options) {
	t.Helper()
	const n = 200
	x := rows(5, n, int(m.Graph.Inputs[0].Shape[1].Size))
	want, got := simulate(t, m, p, floats(t, x), n), floats(t, run(t, q, eng, x)["y"])
	far := 0
	for i, v := range got {
		if math.Abs(float64(v)-want[i]) > 1e-4 {
			far++
		}
	}
	if far > len(got)/25 {
		t.Errorf("%d of %d outputs are not those of the plan: %v, want %v", far, len(got), got[:3], want[:3])
	}
}

// TestKeptFloat keeps every set of layers of networks of two to four in float: the
// others run on integer kernels, those in float, and all computes what the plan says.
func TestKeptFloat(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	for depth := 2; depth <= 4; depth++ {
		for kept := range 1<<depth - 1 {
			t.Run(fmt.Sprintf("%d layers, kept %b", depth, kept), func(t *testing.T) {
				m := net(7, append([]int{12, 10, 9, 8}[:depth], 1+kept%2)...)
				p := planFor(t, m, 4, true)
				for i := range p.Layers {
					p.Layers[i].Float = kept>>i&1 != 0
				}
				q := write(t, m, p, qdq.Options{})
				if kept == 0 && slices.ContainsFunc(q.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "Max" }) {
					t.Error("layers between quantizers are kept apart from their Relus")
				}
				kernels := kernelsOf(t, q, eng)
				for _, l := range p.Layers {
					if k := kernels[l.Node]; (k == "QGemm") == l.Float || l.Float && !strings.HasSuffix(k, "Gemm") {
						t.Errorf("%s (float: %v) runs as %q", l.Node, l.Float, k)
					}
				}
				wantSimulated(t, q, m, p, eng)
			})
		}
	}
}

func after(m *graph.Model, n, k *graph.Node) {
	i := slices.Index(m.Graph.Nodes, n)
	m.Graph.Nodes = slices.Insert(m.Graph.Nodes, i+1, k)
}

// TestReaders puts all kinds of readers behind an integer layer: it runs on the integer
// kernel, and optimizations change nothing.
func TestReaders(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	output := func(m *graph.Model, name string) {
		m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: name, DType: graph.Float})
	}
	number := func(m *graph.Model, v float32) string {
		name := fmt.Sprintf("number %v", v)
		if m.Graph.Init(name) == nil {
			m.Graph.Inits = append(m.Graph.Inits, graph.FromFloats(name, []float32{v}))
		}
		return name
	}
	type change = func(m *graph.Model, relu *graph.Node)
	as := func(op string, more ...float32) change {
		return func(m *graph.Model, relu *graph.Node) {
			relu.Op = op
			for _, v := range more {
				relu.Inputs = append(relu.Inputs, number(m, v))
			}
		}
	}
	also := func(read func(relu *graph.Node) string, op string) change {
		return func(m *graph.Model, relu *graph.Node) {
			after(m, relu, &graph.Node{Op: op, Inputs: []string{read(relu)}, Outputs: []string{"also"}})
			output(m, "also")
		}
	}
	before, behind := func(n *graph.Node) string { return n.Inputs[0] }, func(n *graph.Node) string { return n.Outputs[0] }
	cases := map[string]change{
		"Relu":                  func(*graph.Model, *graph.Node) {},
		"Relu6":                 as("Clip", 0, 6),
		"narrow Clip":           as("Clip", -1, 1),
		"Clip above":            as("Clip", 1, 9),
		"Clip from below":       as("Clip", 0),
		"no Clip":               as("Clip"),
		"computed Clip":         func(m *graph.Model, relu *graph.Node) { computed(m, relu, number(m, 0)) },
		"PRelu":                 as("PRelu", 0.25),
		"layer is an output":    func(m *graph.Model, relu *graph.Node) { output(m, relu.Inputs[0]) },
		"Relu is an output":     func(m *graph.Model, relu *graph.Node) { output(m, relu.Outputs[0]) },
		"layer is read":         also(before, "Neg"),
		"Relu is read":          also(behind, "Neg"),
		"two Relus":             also(before, "Relu"),
		"Relu behind Relu":      also(behind, "Relu"),
		"layer is read by Tanh": also(before, "Tanh"),
		"no activation":         func(m *graph.Model, relu *graph.Node) { relu.Op = "Identity" },
		"no activation, output": func(m *graph.Model, relu *graph.Node) { relu.Op = "Identity"; output(m, relu.Inputs[0]) },
		"between": func(m *graph.Model, relu *graph.Node) {
			after(m, relu, &graph.Node{Op: "Flatten", Inputs: []string{"raw"}, Outputs: []string{relu.Outputs[0]}})
			relu.Outputs = []string{"raw"}
		},
		"moved": func(m *graph.Model, relu *graph.Node) {
			m.Graph.Inits = append(m.Graph.Inits, graph.FromInts("shape", []int64{-1, 9}, 2))
			relu.Op, relu.Inputs = "Reshape", append(relu.Inputs, "shape")
		},
		"moved, output": func(m *graph.Model, relu *graph.Node) {
			m.Graph.Inits = append(m.Graph.Inits, graph.FromInts("shape", []int64{-1, 9}, 2))
			relu.Op, relu.Inputs = "Reshape", append(relu.Inputs, "shape")
			output(m, relu.Inputs[0])
		},
		"moved, read": func(m *graph.Model, relu *graph.Node) {
			m.Graph.Inits = append(m.Graph.Inits, graph.FromInts("shape", []int64{-1, 9}, 2))
			relu.Op, relu.Inputs = "Reshape", append(relu.Inputs, "shape")
			also(behind, "Neg")(m, relu)
		},
		"moved, Relu, read": func(m *graph.Model, relu *graph.Node) {
			after(m, relu, &graph.Node{Op: "Relu", Inputs: []string{"raw"}, Outputs: []string{relu.Outputs[0]}})
			relu.Outputs, relu.Op = []string{"raw"}, "Flatten"
			also(behind, "Neg")(m, relu)
		},
		"residual": func(m *graph.Model, relu *graph.Node) {
			last := node(t, m, "layer3")
			after(m, m.Graph.Producers()[last.Inputs[0]],
				&graph.Node{Op: "Add", Inputs: []string{last.Inputs[0], relu.Outputs[0]}, Outputs: []string{"sum"}})
			last.Inputs[0] = "sum"
		},
		"two layers read it, one before the Relu": func(m *graph.Model, relu *graph.Node) {
			node(t, m, "layer3").Inputs[0] = relu.Inputs[0]
			output(m, m.Graph.Producers()["r2"].Outputs[0])
		},
		"two layers read it": func(m *graph.Model, relu *graph.Node) {
			node(t, m, "layer3").Inputs[0] = relu.Inputs[0]
			node(t, m, "layer2").Inputs[0] = relu.Inputs[0]
			output(m, "r2")
		},
	}
	for _, op := range []string{"LeakyRelu", "Sigmoid", "Tanh", "Elu", "Softplus", "Gelu", "HardSwish", "Abs"} {
		cases[op] = as(op)
	}
	for name, change := range cases {
		for kept := range 3 { // none, the second and the third layer
			for _, bits := range []int{8, 4} {
				if bits == 4 && kept > 0 || (bits == 4 || kept > 0) && (len(name)+kept)%2 == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s, kept %d, %d bits", name, kept, bits), func(t *testing.T) {
					m := net(11, 12, 9, 9, 2)
					change(m, m.Graph.Nodes[1])
					must.Do(t, m.Graph.Check())
					p := planFor(t, m, 4, true)
					p.Layers[1].Act = &quant.Act{Bits: bits, Scale: 8 / float32(int(1)<<bits), Zero: 0}
					if kept > 0 {
						p.Layers[kept].Float = true
					}
					q := write(t, m, p, qdq.Options{})
					kernels := kernelsOf(t, q, eng)
					for _, l := range p.Layers {
						if k := kernels[l.Node]; (k == "QGemm") == l.Float {
							t.Errorf("%s (float: %v) runs as %q of %v", l.Node, l.Float, k, kernels)
						}
					}
					const n = 100
					x, plain := rows(5, n, 12), eng
					plain.Level = ort.Disabled
					got, want := run(t, q, eng, x), run(t, q, plain, x)
					for _, v := range q.Graph.Outputs {
						a, b := floats(t, got[v.Name]), floats(t, want[v.Name])
						far := 0
						for i := range a {
							if math.Abs(float64(a[i]-b[i])) > 1e-3 {
								far++
							}
						}
						if far > len(a)/20 {
							t.Errorf("%d of %d values of %s depend on optimizations", far, len(a), v.Name)
						}
					}
				})
			}
		}
	}
}

func computed(m *graph.Model, relu *graph.Node, zero string) {
	relu.Op, relu.Inputs = "Clip", append(relu.Inputs, "bound")
	m.Graph.Nodes = slices.Insert(m.Graph.Nodes, 0,
		&graph.Node{Op: "Abs", Inputs: []string{zero}, Outputs: []string{"bound"}})
}
