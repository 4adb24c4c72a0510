package verify_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/quant/verify"
)

func canonical(t *testing.T, path string) *graph.Model {
	t.Helper()
	m := must.Get(codec.ReadFile(path))(t)
	must.Do(t, pass.Upgrade(m, nil))
	c, _, err := pass.Canonical(m, nil)
	must.Do(t, err)
	return c
}

// mixed stands for rows of 2, 3, 4 and 8 bits in turn.
const mixed = 0

func planFor(t *testing.T, m *graph.Model, eng ort.Options, x *graph.Tensor, bits int) *quant.Plan {
	t.Helper()
	layers := must.Get(quant.FindLayers(m))(t)
	c := m.Clone()
	for _, l := range layers {
		if l.Input != x.Name {
			c.Graph.Outputs = append(c.Graph.Outputs, graph.Value{Name: l.Input, DType: graph.Float})
		}
	}
	values := map[string]*graph.Tensor{x.Name: x}
	for _, v := range orttest.Run(t, c, eng, x) {
		values[v.Name] = v
	}
	p := &quant.Plan{}
	for _, l := range layers {
		q := quant.Layer{Node: l.Node, Bits: bits, Reduced: true}
		for o := range l.Out {
			width := bits
			if bits == mixed {
				width = []int{2, 3, 4, 8}[o%4]
				q.RowBits = append(q.RowBits, width)
			}
			f := must.Get(quant.FormatOf(width, true))(t)
			s := max(slices.Max(l.Row(o))/float32(f.QMax), slices.Min(l.Row(o))/float32(f.QMin), 1e-9)
			q.Scales = append(q.Scales, s)
		}
		v := must.Get(values[l.Input].Floats())(t)
		lo, hi := v[0], v[0]
		for _, x := range v {
			lo, hi = min(lo, x), max(hi, x)
		}
		a := quant.FitAct(8, lo, hi)
		q.Act = &a
		p.Layers = append(p.Layers, q)
	}
	return p
}

func probe(m *graph.Model, n int) *graph.Tensor {
	in := m.Graph.DataInputs()[0]
	dim := int(in.Shape[1].Size)
	rng := rand.New(rand.NewPCG(4, uint64(dim)))
	x := make([]float32, n*dim)
	for i := range x {
		if i%dim < 6 {
			x[i] = float32(rng.NormFloat64())
		} else if rng.IntN(8) == 0 {
			x[i] = 1
		}
	}
	return graph.FromFloats(in.Name, x, int64(n), int64(dim))
}

func check(t *testing.T, m *graph.Model, o verify.Options) *verify.Report {
	t.Helper()
	onnx := must.Get(codec.Marshal(m))(t)
	return must.Get(verify.Check(context.Background(), onnx, o))(t)
}

func write(t *testing.T, m *graph.Model, p *quant.Plan) *graph.Model {
	t.Helper()
	q := must.Get(qdq.Write(m, p, qdq.Options{Size: func(m *graph.Model) int {
		b := must.Get(codec.Marshal(m))(t)
		return len(b)
	}}))(t)
	return q
}

func TestRealModels(t *testing.T) {
	t.Parallel()
	eng := orttest.Need(t)
	files, err := filepath.Glob(filepath.Join(realdata.Dir(t, "models"), "*", "*-s0.onnx"))
	if err != nil || len(files) < 9 {
		t.Fatalf("%d models (%v)", len(files), err)
	}
	for n, path := range files {
		m := canonical(t, path)
		info := must.Get(os.Stat(path))(t)
		x := probe(m, 300)
		for k, bits := range []int{2, 3, 4, 8, mixed} {
			if (n+k)%2 > 0 {
				continue
			}
			p := planFor(t, m, eng, x, bits)
			name := fmt.Sprintf("%s/%s at %d bits", filepath.Base(filepath.Dir(path)), filepath.Base(path), bits)
			r := check(t, write(t, m, p),
				verify.Options{Engine: eng, Plan: p, FloatBytes: int(info.Size()), Probes: []*graph.Tensor{x}})
			t.Logf("%s: %d -> %d bytes, levels %+v", name, r.FloatBytes, r.Bytes, r.Levels)
			tiny := strings.Contains(path, "logreg")
			if r.Err() != nil && !tiny {
				t.Errorf("%s: %v", name, r.Err())
			}
			for i, l := range r.Layers {
				if l.Kernel != "QGemm" || !l.Fused || bits != mixed && l.Bits != float64(bits) || l.Bits != p.Layers[i].MeanBits() {
					t.Errorf("%s: %+v", name, l)
				}
			}
			must.Same(must.In(t, name), len(p.Layers), len(r.Layers))
		}
	}
}
