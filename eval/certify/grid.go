package certify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// edge widens a box, relative to its numbers: what ONNX Runtime computes in front of the quantizers may round otherwise
// in its optimized graph.
const edge = 0x1p-20

// grid is the part of a model in front of its first quantizers, where every number is a monotone function of one input.
// Of a box around a point, the model behind sees the codes only: finitely many inputs stand for all.
type grid struct {
	c     *classifier.Model
	s     *ort.Session
	codes []string
}

// monotone are the operators that may stand in front of the quantizers, with constants for all inputs but one.
func monotone(op string) bool {
	return slices.Contains(movers(), op) ||
		slices.Contains([]string{"Add", "Sub", "Mul", "Div", "Neg", "Clip", "Min", "Max", "Relu", "Concat", "Cast"}, op)
}

// newGrid finds the first quantizers of a model; nil when the input goes elsewhere, too.
func newGrid(c *classifier.Model) (*grid, error) {
	m := c.Graph().Clone()
	plain := map[string]bool{c.Input().Name: true}
	codes := map[string]bool{}
	d := &grid{c: c}
	logits, _ := c.Head()
	needed := m.Graph.Needed(logits)
	for _, n := range m.Graph.Nodes {
		reads := 0
		for _, in := range n.Inputs {
			if codes[in] {
				reads = -len(n.Inputs) // behind a quantizer
			}
			if plain[in] {
				reads++
			}
		}
		switch {
		case n.Op == "Shape" || n.Op == "Size" || !needed[n]:
		case reads == 0:
		case reads < 0 && !slices.ContainsFunc(n.Inputs, func(in string) bool { return plain[in] }):
			for _, out := range n.Outputs {
				codes[out] = true
			}
		case n.Is("QuantizeLinear") && plain[n.Input(0)] && reads == 1:
			codes[n.Outputs[0]] = true
			d.codes = append(d.codes, n.Outputs[0])
		case reads < 0, !n.Standard(), !monotone(n.Op), reads > 1 && n.Op != "Concat":
			return nil, nil
		default:
			for _, out := range n.Outputs {
				plain[out] = true
			}
		}
	}
	if plain[logits] || len(d.codes) == 0 {
		return nil, nil
	}
	m.Graph.Outputs = nil
	for _, name := range d.codes {
		t := c.Types()[name]
		if len(t.Shape) == 0 || t.Shape[0].Param == "" && t.Shape[0].Size != 1 {
			return nil, nil // rows are not apart
		}
		m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: name, DType: t.DType, Shape: t.Shape})
	}
	var err error
	if d.s, err = ort.Open(m, c.Engine()); err != nil {
		return nil, fmt.Errorf("the quantizers of the input: %w", err)
	}
	return d, nil
}

// of returns the codes of rows of inputs.
func (d *grid) of(ctx context.Context, x []float32) ([][]int64, error) {
	dim := d.c.Dim()
	out := make([][]int64, len(x)/dim)
	step := len(out)
	if d.c.Fixed() > 0 {
		step = d.c.Fixed()
	}
	for from := 0; from < len(out); from += step {
		to := min(from+step, len(out))
		batch := append(slices.Clip(x[from*dim:to*dim]), make([]float32, max(0, d.c.Fixed()-(to-from))*dim)...)
		values, err := d.s.Run(ctx, []*graph.Tensor{d.c.Feed(batch)})
		if err != nil {
			return nil, err
		}
		for _, t := range values {
			v, err := t.Ints()
			if err != nil {
				return nil, err
			}
			each := len(v) * dim / len(batch)
			for i := from; i < to; i++ {
				out[i] = append(out[i], v[(i-from)*each:(i-from+1)*each]...)
			}
		}
	}
	return out, nil
}

// stop is a value of one input with the codes that it gives.
type stop struct {
	x     float32
	codes []int64
}

// cells returns, for each input of a box, values that give all codes that its numbers give.
func (d *grid) cells(ctx context.Context, lo, hi []float32) ([][]stop, error) {
	cells := make([][]stop, len(lo))
	var x []float32
	type open struct{ input, at int } // behind the stop at
	var ends []int
	for j := range lo {
		cells[j] = []stop{{x: lo[j]}}
		if hi[j] > lo[j] {
			cells[j] = append(cells[j], stop{x: hi[j]})
			ends = append(ends, j)
			for _, s := range cells[j] {
				x = append(x, replaced(lo, j, s.x)...)
			}
		}
	}
	codes, err := d.of(ctx, x)
	if err != nil {
		return nil, err
	}
	for i, j := range ends {
		cells[j][0].codes, cells[j][1].codes = codes[2*i], codes[2*i+1]
	}
	for {
		var middle []open
		x = x[:0]
		for j, list := range cells {
			for at := range list[:len(list)-1] {
				a, b := &list[at], &list[at+1]
				gaps := steps(a.codes, b.codes)
				m := float32((float64(a.x) + float64(b.x)) / 2)
				if gaps > 1 && m != a.x && m != b.x {
					middle = append(middle, open{j, at})
					x = append(x, replaced(lo, j, m)...)
				}
			}
		}
		if len(middle) == 0 {
			break
		}
		if codes, err = d.of(ctx, x); err != nil {
			return nil, err
		}
		for i, o := range slices.Backward(middle) {
			s := stop{x[i*len(lo)+o.input], codes[i]}
			cells[o.input] = slices.Insert(cells[o.input], o.at+1, s)
		}
	}
	for j := range cells {
		cells[j] = slices.CompactFunc(cells[j], func(a, b stop) bool { return steps(a.codes, b.codes) == 0 })
	}
	return cells, nil
}

// steps counts the steps between codes, up to 2.
func steps(a, b []int64) int {
	n := int64(0)
	for i, v := range a {
		if n += max(v-b[i], b[i]-v); n > 1 {
			return 2
		}
	}
	return int(n)
}

func replaced(point []float32, j int, v float32) []float32 {
	x := slices.Clone(point)
	x[j] = v
	return x
}

// least runs the model on all inputs that the cells make and returns the one with the smallest margin; ok is false as
// soon as one is refused.
func (d *grid) least(ctx context.Context, cells [][]stop) (at []float32, margin float32, ok bool, err error) {
	n := 1
	for _, list := range cells {
		n *= len(list)
	}
	stride := max(1, int(0.618*float64(n))) // far apart at first, so that a refusal is found soon
	for gcd(stride, n) != 1 {
		stride++
	}
	const batch = 2048
	margin = float32(math.Inf(1))
	x := make([]float32, 0, min(n, batch)*len(cells))
	for from := 0; from < n; from += batch {
		x = x[:0]
		for i := from; i < min(from+batch, n); i++ {
			rest := i * stride % n
			for _, list := range cells {
				x = append(x, list[rest%len(list)].x)
				rest /= len(list)
			}
		}
		m, err := d.c.Margins(ctx, x)
		if err != nil {
			return nil, 0, false, err
		}
		for i, v := range m {
			if !(v > 0) {
				return nil, 0, false, nil
			}
			if v < margin {
				margin, at = v, append(at[:0], x[i*len(cells):(i+1)*len(cells)]...)
			}
		}
	}
	return at, margin, true, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
