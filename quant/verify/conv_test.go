package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/verify"
)

func convolutional(dims ...int64) *graph.Model {
	b := newNet(72)
	ones := func(n int) []int64 { return slices.Repeat([]int64{int64(n)}, len(dims)-1) }
	h := b.Op("Reshape", []string{"x", b.Const(graph.FromInts("shape", append([]int64{-1}, dims...), int64(len(dims)+1)))})
	h = b.Op("Conv", []string{h, b.random(append([]int64{8, dims[0]}, ones(3)...)...), b.random(8)},
		graph.IntsAttr("pads", slices.Concat(ones(1), ones(1))...))
	h = b.Op("MaxPool", []string{b.Op("Relu", []string{h})}, graph.IntsAttr("kernel_shape", ones(2)...),
		graph.IntsAttr("strides", ones(2)...))
	h = b.Op("Relu", []string{b.Op("Conv", []string{h, b.random(append([]int64{4, 8}, ones(1)...)...), b.random(4)})})
	size := int64(4)
	for _, d := range dims[1:] {
		size *= d / 2
	}
	return b.model(b.Op("Gemm", []string{b.Op("Flatten", []string{h}), b.random(2, size), b.random(2)},
		graph.IntAttr("transB", 1)))
}

func TestConvKernels(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	for _, dims := range [][]int64{{2, 6, 6}, {6, 12}} {
		m := convolutional(dims...)
		x := probe(m, 128)
		layers := must.Get(quant.FindLayers(m))(t)
		for _, floats := range []bool{false, true} {
			p := planFor(t, m, eng, x, 8)
			for i, l := range layers {
				if l.Conv != nil && !floats {
					a := quant.FitAct(8, 0, 6)
					p.Layers[i].Result = &a
				}
				if floats {
					p.Layers[i].Act = nil
				}
			}
			r := check(t, write(t, m, p), verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}})
			must.Do(t, r.Err())
			var kernels []string
			for _, l := range r.Layers {
				kernels = append(kernels, l.Kernel)
			}
			want := "[QLinearConv QLinearConv QGemm]"
			if floats {
				want = "[Conv Conv Gemm]"
			}
			got := strings.ReplaceAll(fmt.Sprint(kernels), "Fused", "")
			must.Same(must.In(t, kernels), want, got)
			if !floats && (r.Levels.Step == 0 || r.Levels.Beyond > 2) {
				t.Errorf("levels %+v", r.Levels)
			}
		}
	}
}

func TestConvActivations(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	for _, op := range []string{"Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Elu"} {
		m := convolutional(2, 6, 6)
		for _, n := range m.Graph.Nodes {
			if n.Is("Relu") {
				n.Op = op
			}
		}
		x := probe(m, 64)
		p := planFor(t, m, eng, x, 4)
		for i := range p.Layers {
			p.Layers[i].Act = nil
		}
		r := check(t, write(t, m, p), verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}})
		must.Do(must.In(t, op), r.Err())
	}
}

func TestConvNotFused(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	m := convolutional(2, 6, 6)
	x := probe(m, 32)
	p := planFor(t, m, eng, x, 8)
	a := quant.FitAct(8, 0, 6)
	p.Layers[0].Result, p.Layers[1].Result = &a, &a
	q := write(t, m, p)
	// The first quantizer of the output is taken away again.
	for _, n := range q.Graph.Nodes {
		if n.Is("MaxPool") {
			n.Inputs[0] = q.Graph.Producers()[q.Graph.Producers()[n.Inputs[0]].Input(0)].Input(0)
		}
	}
	r := check(t, q, verify.Options{Engine: eng, Plan: p, Probes: []*graph.Tensor{x}})
	if r.Err() == nil || r.Layers[0].Fused || !r.Layers[1].Fused {
		t.Errorf("problems %q, layers %+v", r.Problems, r.Layers)
	}
}
