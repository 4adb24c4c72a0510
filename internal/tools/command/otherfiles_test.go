package command

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

type dense struct {
	in, out int
	bits    int
	codes   []int8
	scale   float32
	bias    string
}

type writer struct {
	*graph.Builder
}

func (w writer) node(domain, op string, outputs int, inputs []string, attrs ...graph.Attr) []string {
	n := &graph.Node{Op: op, Domain: domain, Inputs: inputs, Attrs: attrs}
	for range outputs {
		n.Outputs = append(n.Outputs, w.Name(strings.ToLower(op)))
	}
	n.Name = n.Outputs[0]
	w.Append(n)
	return n.Outputs
}

func (w writer) number(v ...float32) string {
	if len(v) == 1 {
		return w.Const(graph.FromFloats("s", v))
	}
	return w.Const(graph.FromFloats("s", v, int64(len(v))))
}

func (w writer) zero(t graph.DType, at int, n int) string {
	z := &graph.Tensor{Name: "z", DType: t}
	if n > 1 {
		z.Dims = []int64{int64(n)}
	}
	if z.Raw = make([]byte, t.RawSize(n)); at != 0 {
		z.Raw[len(z.Raw)-1] = byte(at >> (8 * (len(z.Raw) - 1))) // one number, of which the last byte alone is not 0
	}
	return w.Const(z)
}

func (w writer) weights(l *dense, transposed bool) string {
	t := &graph.Tensor{Name: "w", DType: graph.Int8, Dims: []int64{int64(l.out), int64(l.in)}}
	codes := l.codes
	if transposed {
		t.Dims, codes = []int64{int64(l.in), int64(l.out)}, make([]int8, len(l.codes))
		for i, c := range l.codes {
			codes[i%l.in*l.out+i/l.in] = c
		}
	}
	if l.bits == 4 {
		t.DType = graph.Int4
	}
	t.Raw = make([]byte, t.DType.RawSize(len(codes)))
	for i, c := range codes {
		if l.bits == 4 {
			t.Raw[i/2] |= byte(c) & 15 << (i % 2 * 4)
		} else {
			t.Raw[i] = byte(c)
		}
	}
	return w.Const(t)
}

func (w writer) quantized(domain, x string, t graph.DType) string {
	steps := math.Exp2(float64(t.Bits()))
	scale, zero := w.number(float32(16/steps)), w.zero(t, int(steps/2), 1)
	q := w.node(domain, "QuantizeLinear", 1, []string{x, scale, zero})
	return w.node(domain, "DequantizeLinear", 1, []string{q[0], scale, zero})[0]
}

func (w writer) gemm(x, weight string, l *dense) string {
	return w.node("", "Gemm", 1, []string{x, weight, l.bias}, graph.IntAttr("transB", 1))[0]
}

const ms = "com.microsoft"

type form struct {
	bits   int
	stored int // bits of a weight in the file
	opset  int64
	twin   string // a form that computes the same numbers
	layer  func(w writer, x string, l *dense) string
	bytes  func(in, out int) int // of a layer's weights with scales and zero points
}

func static(domain string, activations graph.DType) func(w writer, x string, l *dense) string {
	return func(w writer, x string, l *dense) string {
		if activations != graph.Undefined {
			x = w.quantized(domain, x, activations)
		}
		t := map[int]graph.DType{4: graph.Int4, 8: graph.Int8}[l.bits]
		in := []string{w.weights(l, false), w.number(l.scale), w.zero(t, 0, 1)}
		return w.gemm(x, w.node(domain, "DequantizeLinear", 1, in)[0], l)
	}
}

func simulated(w writer, x string, l *dense) string {
	floats := make([]float32, len(l.codes))
	for i, c := range l.codes {
		floats[i] = float32(c) * l.scale
	}
	t := map[int]graph.DType{4: graph.Int4, 8: graph.Int8}[l.bits]
	scale, zero := w.number(l.scale), w.zero(t, 0, 1)
	weight := w.Const(graph.FromFloats("w", floats, int64(l.out), int64(l.in)))
	q := w.node("", "QuantizeLinear", 1, []string{weight, scale, zero})
	dq := w.node("", "DequantizeLinear", 1, []string{q[0], scale, zero})
	return w.gemm(w.quantized("", x, graph.Uint8), dq[0], l)
}

func perChannel(w writer, x string, l *dense) string {
	scales := make([]float32, l.out)
	for i := range scales {
		scales[i] = l.scale
	}
	in := []string{w.weights(l, false), w.number(scales...), w.zero(graph.Int8, 0, l.out)}
	weight := w.node("", "DequantizeLinear", 1, in, graph.IntAttr("axis", -2))
	return w.gemm(w.quantized("", x, graph.Uint8), weight[0], l)
}

func dynamic(w writer, x string, l *dense) string {
	q := w.node("", "DynamicQuantizeLinear", 3, []string{x})
	scale := w.node("", "Mul", 1, []string{q[1], w.number(l.scale)})
	sum := w.node("", "MatMulInteger", 1, []string{q[0], w.weights(l, true), q[2], w.zero(graph.Int8, 0, 1)})
	float := w.node("", "Cast", 1, sum, graph.IntAttr("to", int64(graph.Float)))
	return w.Op("Add", []string{w.Op("Mul", []string{float[0], scale[0]}), l.bias})
}

func qgemm(w writer, x string, l *dense) string {
	scale, zero := w.number(16./256), w.zero(graph.Uint8, 128, 1)
	q := w.node("", "QuantizeLinear", 1, []string{x, scale, zero})
	in := []string{q[0], scale, zero, w.weights(l, false), w.number(l.scale), w.zero(graph.Int8, 0, 1)}
	return w.Op("Add", []string{w.node(ms, "QGemm", 1, in, graph.IntAttr("transB", 1))[0], l.bias})
}

const block = 16

func nbits(w writer, x string, l *dense) string {
	blocks := (l.in + block - 1) / block
	size := block * l.bits / 8
	packed := &graph.Tensor{
		Name: "w", DType: graph.Uint8, Dims: []int64{int64(l.out), int64(blocks), int64(size)},
		Raw: make([]byte, l.out*blocks*size),
	}
	for i, c := range l.codes {
		row, k := i/l.in, i%l.in
		at := packed.Raw[(row*blocks+k/block)*size:]
		if code := byte(int(c) + 1<<(l.bits-1)); l.bits == 4 {
			at[k%block/2] |= code << (k % 2 * 4)
		} else {
			at[k%block] = code
		}
	}
	scales := make([]float32, l.out*blocks)
	for i := range scales {
		scales[i] = l.scale
	}
	in := []string{x, w.Const(packed), w.number(scales...)}
	y := w.node(ms, "MatMulNBits", 1, in, graph.IntAttr("K", int64(l.in)), graph.IntAttr("N", int64(l.out)),
		graph.IntAttr("bits", int64(l.bits)), graph.IntAttr("block_size", block))
	return w.Op("Add", []string{y[0], l.bias})
}

func otherForms() map[string]form {
	perTensor := func(bits int) func(in, out int) int {
		return func(in, out int) int { return in*out*bits/8 + 4 + 1 }
	}
	packed := func(bits int) func(in, out int) int {
		return func(in, out int) int { return out * ((in + block - 1) / block) * (block*bits/8 + 4) }
	}
	none := func(_, _ int) int { return 0 }
	return map[string]form{
		"ort-qdq":           {8, 8, 17, "", static("", graph.Uint8), perTensor(8)},
		"ort-qdq-contrib":   {8, 8, 17, "ort-qdq", static(ms, graph.Uint8), perTensor(8)},
		"ort-qoperator":     {8, 8, 17, "ort-qdq", qgemm, perTensor(8)},
		"ort-a16":           {8, 8, 21, "", static("", graph.Uint16), perTensor(8)},
		"ort-a16-contrib":   {8, 8, 17, "ort-a16", static(ms, graph.Uint16), perTensor(8)},
		"ort-a8w4":          {4, 4, 17, "", static(ms, graph.Uint8), perTensor(4)},
		"ort-dynamic":       {8, 8, 17, "", dynamic, perTensor(8)},
		"ort-nbits-4":       {4, 4, 17, "", nbits, packed(4)},
		"ort-nbits-8":       {8, 8, 17, "", nbits, packed(8)},
		"nncf-int8":         {8, 8, 17, "ort-qdq", perChannel, func(in, out int) int { return in*out + 5*out }},
		"nncf-weights-int8": {8, 8, 17, "ort-nbits-8", static("", graph.Undefined), perTensor(8)},
		"nncf-weights-int4": {4, 4, 21, "ort-nbits-4", static("", graph.Undefined), perTensor(4)},
		"aimet-w8a8":        {8, 32, 17, "ort-qdq", simulated, none},
		"aimet-w4a8":        {4, 32, 21, "ort-a8w4", simulated, none},
	}
}

func (f form) made(t *testing.T, m *graph.Model) (file *graph.Model, bytes int) {
	t.Helper()
	g := &graph.Graph{Name: "other", Inputs: m.Graph.Inputs, Outputs: m.Graph.Outputs}
	file = &graph.Model{IRVersion: 10, Graph: g, Opsets: []graph.Opset{{Version: f.opset}, {Domain: ms, Version: 1}}}
	w := writer{graph.NewBuilder(g, "other.")}
	x := m.Graph.Inputs[0].Name
	for _, n := range m.Graph.Nodes {
		if n.Op != "Gemm" {
			x = w.Op(n.Op, []string{x})
			continue
		}
		weight, bias := m.Graph.Init(n.Inputs[1]), m.Graph.Init(n.Inputs[2])
		floats := must.Get(weight.Floats())(t)
		l := &dense{
			in: int(weight.Dims[1]), out: int(weight.Dims[0]), bits: f.bits, codes: make([]int8, len(floats)),
			bias: w.Const(bias),
		}
		most := math.Exp2(float64(f.bits-1)) - 1
		for _, v := range floats {
			l.scale = max(l.scale, float32(math.Abs(float64(v))/most))
		}
		for i, v := range floats {
			l.codes[i] = int8(math.Round(float64(v / l.scale)))
		}
		x = f.layer(w, x, l)
		bytes += f.bytes(l.in, l.out)
	}
	w.Append(&graph.Node{Op: "Identity", Inputs: []string{x}, Outputs: []string{g.Outputs[0].Name}})
	return file, bytes
}

type counted struct{ vd, rvd [2]int }

// TestOtherToolsFiles: each file has bits, bytes, VD, RVD and a verdict; files that compute the same numbers have the
// same VD and, when gradients pass, RVD.
func TestOtherToolsFiles(t *testing.T) {
	t.Parallel()
	w := newWorkdir(t)
	original := loans("model.onnx")
	w.put("test.csv", firstLoans(t, "test.csv", 200))
	people := []string{"-d", "test.csv", "-t", loans("task.yaml"), "--sample", "10"}
	have, forms := map[string]counted{}, otherForms()
	if !long() { // one of each kind
		few := []string{"ort-qdq", "ort-qoperator", "ort-dynamic", "ort-nbits-4", "nncf-weights-int4"}
		maps.DeleteFunc(forms, func(name string, _ form) bool { return !slices.Contains(few, name) })
	}
	for name, f := range forms {
		file, bytes := f.made(t, must.Get(codec.ReadFile(original))(t))
		onnx := name + ".onnx"
		w.model(onnx, file)
		var seen struct {
			Bits   float64 `json:"stored_bits_per_weight"`
			Stored int     `json:"stored_bytes"`
			Layers []struct{ Bits float64 }
		}
		if w.result(&seen, "inspect", onnx); len(seen.Layers) != 3 || seen.Layers[0].Bits != float64(f.stored) ||
			seen.Stored != bytes || seen.Bits < float64(f.stored) {
			t.Errorf("%s: inspect says %+v; want %d bits, %d bytes, 3 layers", name, seen, f.stored, bytes)
		}
		var report struct {
			Result struct {
				Margins []struct {
					VD, RVD struct {
						Num, Den int
					}
				}
			}
			Gate struct {
				Verdict  string
				Findings []struct{ Metric, Verdict string }
			}
		}
		w.result(&report, append([]string{"eval", original, onnx, "--margins", "0", "--noise", "0"}, people...)...)
		x := report.Result.Margins[0]
		if have[name] = (counted{[2]int{x.VD.Num, x.VD.Den}, [2]int{x.RVD.Num, x.RVD.Den}}); x.VD.Den*x.RVD.Den == 0 {
			t.Errorf("%s: %+v", name, x)
		}
		code := w.result(&report, append([]string{"gate", original, onnx, "--max-vd", "0.9"}, people...)...)
		if want := name == "ort-dynamic"; (code == 1) != want { // its outputs depend on the rest of the batch
			t.Errorf("%s: exit code %d, gate %+v", name, code, report.Gate)
		}
		t.Logf("%-18s %2.0f bits, %5d bytes, VD %v, RVD %v, %s", name, seen.Bits, seen.Stored, have[name].vd, have[name].rvd,
			report.Gate.Verdict)
	}
	for name, f := range forms {
		a, b := have[name], have[f.twin]
		if f.twin == "" {
			continue
		}
		borrowed := strings.Contains(name+f.twin, "nbits") || strings.Contains(name+f.twin, "qoperator")
		same := a == b
		if borrowed { // another search, or sums in another order, for people at the boundary
			same = max(a.vd[0]-b.vd[0], b.vd[0]-a.vd[0]) <= 1 && max(a.rvd[0]-b.rvd[0], b.rvd[0]-a.rvd[0]) <= 3
		}
		if !same {
			t.Errorf("%s has %+v, %s, which computes the same, %+v", name, a, f.twin, b)
		}
	}
}
