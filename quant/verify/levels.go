package verify

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant/qdq"
)

// Levels compares the outputs at the production level with those of the unoptimized graph. The two round inner
// activations in different ways: where a value lies within float rounding of the middle between two codes, one takes
// the upper and one the lower. Everything else must agree.
type Levels struct {
	Rows int `json:"rows"` // probes
	// Diff is the largest difference of a float output, where it is a number.
	Diff float64 `json:"diff"`
	// Step is one output step: what one code of the last integer layer moves an
	// output by at most. 0 when the model has no integer layer.
	Step float64 `json:"step"`
	// Beyond counts the rows that differ by more than one Step. Codes flip
	// rarely, one at a time, so there must be few: at most 1 in 50.
	Beyond int `json:"beyond"`
	// Flipped counts the rows in which an integer output (a class) differs. They may be as few as those Beyond.
	Flipped int `json:"flipped,omitempty"`
	// NaN counts the rows in which an output is not a number, or infinite at one level only.
	NaN int `json:"nan,omitempty"`
}

const (
	// beyondShare is the share of rows that may differ by more than one output step, or in their class.
	beyondShare = 0.02
	// floatRounding is by how much a number of 1 or less, or else its share, may differ besides: sums in
	// float32 depend on the order of their terms.
	floatRounding = 1e-4
)

func (r *Report) levels(ctx context.Context, onnx []byte, opt *graph.Graph, o ort.Options, in []*graph.Tensor) error {
	got, err := runBytes(ctx, onnx, o, in)
	if err != nil {
		return err
	}
	o.Level = ort.Disabled
	want, err := runBytes(ctx, onnx, o, in)
	if err != nil {
		return err
	}
	l := &r.Levels
	var bound float64
	l.Step, bound = step(opt)
	d := &differing{map[int]bool{}, map[int]bool{}, map[int]bool{}, 0}
	for i := range got {
		if err := l.compare(got[i], want[i], d); err != nil {
			return err
		}
	}
	l.Beyond, l.Flipped, l.NaN = len(d.beyond), len(d.flipped), len(d.nan)
	few := math.Max(beyondShare*float64(l.Rows), 1)
	if l.NaN > 0 {
		r.problem("in %d of %d rows an output is not a number, or infinite at one optimization level only", l.NaN, l.Rows)
	}
	if float64(l.Flipped) > few {
		r.problem("%d of %d rows have another class at another optimization level", l.Flipped, l.Rows)
	}
	if bound > 0 && d.excess > bound {
		r.problem("outputs differ by %.3g between optimization levels; rounding explains at most %.3g", l.Diff, bound)
	}
	if float64(l.Beyond) > few {
		r.problem("%d of %d rows differ by more than one output step (%.3g) between optimization levels",
			l.Beyond, l.Rows, l.Step)
	}
	return nil
}

type differing struct {
	beyond, flipped, nan map[int]bool
	excess               float64 // the largest difference, less what floatRounding makes
}

func (l *Levels) compare(a, b *graph.Tensor, d *differing) error {
	if len(a.Raw) != len(b.Raw) || a.DType != b.DType {
		return fmt.Errorf("output %q has another shape without optimizations", a.Name)
	}
	rows := 1
	if len(a.Dims) > 0 {
		rows = int(a.Dims[0])
	}
	l.Rows = max(l.Rows, rows)
	if !a.DType.IsFloat() {
		width := len(a.Raw) / max(rows, 1)
		for i := range a.Raw {
			if a.Raw[i] != b.Raw[i] {
				d.flipped[i/width] = true
			}
		}
		return nil
	}
	x, y := numbers(a), numbers(b)
	for i := range x {
		row, diff := i*rows/len(x), math.Abs(x[i]-y[i])
		switch {
		case x[i] == y[i]: // also infinities
		case math.IsNaN(diff) || math.IsInf(diff, 0):
			d.nan[row] = true
		default:
			l.Diff = math.Max(l.Diff, diff)
			excess := diff - floatRounding*max(1, math.Abs(x[i]))
			d.excess = max(d.excess, excess)
			if excess > l.Step {
				d.beyond[row] = true
			}
		}
	}
	return nil
}

func runBytes(ctx context.Context, onnx []byte, o ort.Options, in []*graph.Tensor) (out []*graph.Tensor, err error) {
	s, err := ort.OpenBytes(onnx, o)
	if err == nil {
		defer s.Close() //nolint:errcheck // nothing was written
		out, err = s.Run(ctx, in, s.Tensors()...)
	}
	if err != nil {
		return nil, fmt.Errorf("optimizations %s: %w", o.Level, err)
	}
	return out, nil
}

// step returns the output step of the graph that ONNX Runtime runs. Each integer layer has one, and the float
// layers behind the last multiply it by their weights. No output differs by more than the bound: every quantized
// value off by one code more than what it is computed from, through the absolute weights. It is infinite where an
// operator stands in the graph that may enlarge differences.
func step(opt *graph.Graph) (step, bound float64) {
	kernels, inits := qdq.Kernels(), opt.InitMap()
	for _, n := range opt.Nodes {
		k := kernels[n.Op]
		var w *graph.Tensor
		if k.Planned() {
			w = inits[n.Input(k.Weights[0])]
		}
		if w == nil || len(w.Dims) < 2 || w.Len() == 0 {
			switch {
			case n.Op == "QuantizeLinear":
				bound += slices.Max(numbers(inits[n.Input(1)]))
			case !slices.Contains(strings.Fields(passing), n.Op):
				bound = math.Inf(1)
			}
			continue
		}
		scales := []float64{1}
		if k.Integer() {
			scales = numbers(inits[n.Input(k.Weights[1])])
		}
		outputs, rows := int(w.Dims[len(w.Dims)-1]), false // rows: the weights of an output lie together
		if n.Int("transB", 0) != 0 || strings.HasSuffix(n.Op, "Conv") {
			outputs, rows = int(w.Dims[0]), true
		}
		sums, largest := make([]float64, outputs), 0.0
		for i, v := range numbers(w) {
			o := i % outputs
			if rows {
				o = i / (w.Len() / outputs)
			}
			v = math.Abs(v) * scales[o%len(scales)]
			sums[o] += v
			largest = max(largest, v)
		}
		gain, code := slices.Max(sums), 0.0
		if !k.Integer() {
			step *= gain
		} else {
			code = numbers(inits[n.Input(k.OutputScale)])[0]
			step = max(largest*numbers(inits[n.Input(k.Scale)])[0], code)
		}
		bound = max(bound, bound*gain+code) // what other branches may read differs by no more
	}
	return step, bound
}

const passing = "DequantizeLinear Relu Clip Max Min Sigmoid Tanh Softmax MaxPool AveragePool GlobalAveragePool " +
	"Concat Flatten Reshape Squeeze Unsqueeze Transpose Identity"

func numbers(t *graph.Tensor) []float64 {
	if t != nil {
		if v, err := t.Numbers(); err == nil && len(v) > 0 {
			return v
		}
	}
	return []float64{0}
}
