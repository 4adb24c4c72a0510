package refine

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"cfq/internal/lists"
	"cfq/quant"
)

const (
	// passes over the codes of a row in a round.
	passes = 2
	// scaleStep is the largest relative change of a scale in a round.
	scaleStep = 0.05
	// scarceWeight times the weights of a row over the points that it counts at is what its own error counts in addition:
	// a few points say nothing about many codes.
	scarceWeight = 10
	// maxCodes: in layers with more weights than this only scales and biases are moved; a pass would take minutes.
	maxCodes = 1 << 18
)

// descend moves the numbers of layer l one after the other, each to where the objective is least while all others stay:
// biases and scales by what a quadratic asks for, codes up or down by one where that is nearer to it.
//
// With e_o the error of output o at a point and g_o the margin's gradient by it, the
// margin error moves by g_o times the change of e_o. The objective is, over points u,
//
//	sum_u w(u) r(u)^2 + local x sum_o p_o sum_u e_o(u)^2,   p_o = mean_u w(u) g_o(u)^2 times what second says,
//
// r being the margin error. All rows of all layers share r, so each makes up for what those before it left.
func descend(s *refinement, l int) {
	layer := &s.layers[l]
	vector := func() []float32 { return make([]float32, s.n) }
	d := &descent{
		s: s, layer: layer, h: s.h[l], n: s.n,
		t: vector(), p: vector(), e: vector(), moved: vector(), col: vector(),
		ones: slices.Repeat([]float32{1}, s.n),
	}
	curvature := d.curvatures(s.g[l])
	for o := range layer.Info.Out {
		d.begin(o, s.g[l][o*s.n:(o+1)*s.n])
		d.bias(o)
		if len(layer.Info.W) <= maxCodes {
			for range passes {
				d.codes(o, s.formats[l][o], curvature[o*layer.Info.In:(o+1)*layer.Info.In])
				d.bias(o)
			}
		}
		if len(layer.Plan.Scales) > 1 {
			d.scale(o)
			d.bias(o)
		}
		for k, v := range d.moved {
			s.r[k] += d.g[k] * v
		}
	}
}

type descent struct {
	s     *refinement
	layer *Layer
	n     int
	h     []float32 // In x n

	g        []float32 // the margin's gradient by the row's output
	t, p     []float32 // half the objective's first and second derivative by the row's output at each point
	e, moved []float32 // the row's output error, and by how much it has been moved
	col      []float32
	ones     []float32
}

// curvatures returns the objective's second derivative by every weight, Out x In: sum_u p(u) h_i(u)^2.
func (d *descent) curvatures(g []float32) []float32 {
	in, out, n := d.layer.Info.In, d.layer.Info.Out, d.n
	square := lists.Map(d.h, func(v float32) float32 { return v * v })
	p := make([]float32, out*n)
	for o := range out {
		row := p[o*n : (o+1)*n]
		local := d.second(row, g[o*n:(o+1)*n])
		for k := range row {
			row[k] += local
		}
	}
	c := make([]float32, out*in)
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, blas32.General{Rows: out, Cols: n, Stride: n, Data: p},
		blas32.General{Rows: in, Cols: n, Stride: n, Data: square}, 0, blas32.General{
			Rows: out, Cols: in, Stride: in,
			Data: c,
		})
	return c
}

// second fills p with w g^2 and returns what the output's own error adds to it: more for a row that reads many numbers
// and moves the margin at few points, as that of a unit that rarely fires does. (sum p)^2 / sum p^2 is the number of
// points that count.
func (d *descent) second(p, g []float32) (local float32) {
	var sum, squares float64
	for k, v := range g {
		p[k] = d.s.w[k] * v * v
		sum += float64(p[k])
		squares += float64(p[k]) * float64(p[k])
	}
	scarce := float64(d.layer.Info.In) * squares / max(sum*sum, math.SmallestNonzeroFloat64)
	return float32(d.s.local * (1 + scarceWeight*scarce) * sum / float64(d.n))
}

func (d *descent) begin(o int, g []float32) {
	info, plan := &d.layer.Info, &d.layer.Plan
	d.g = g
	clear(d.moved)
	for k := range d.e {
		d.e[k] = plan.Bias[o] - info.B[o]
	}
	scale := d.scaleOf(o)
	codes := plan.Codes[o*info.In : (o+1)*info.In]
	for i, w := range info.Row(o) {
		if e := quant.Dequantize(codes[i], *scale) - w; e != 0 {
			axpy(e, d.read(i), d.e)
		}
	}
	local := d.second(d.p, g)
	for k := range d.t {
		d.t[k] = d.s.w[k]*d.s.r[k]*g[k] + local*d.e[k]
		d.p[k] += local
	}
}

func (d *descent) scaleOf(o int) *float32 {
	return &d.layer.Plan.Scales[o%len(d.layer.Plan.Scales)]
}

func (d *descent) read(i int) []float32 { return d.h[i*d.n : (i+1)*d.n] }

func (d *descent) move(column []float32, step float32) {
	for k, v := range column {
		v *= step
		d.moved[k] += v
		d.t[k] += v * d.p[k]
	}
}

// best is the step along a column at which the objective is smallest, 0 where it does not depend on it.
func (d *descent) best(column []float32) float64 {
	var first, second float64
	for k, c := range column {
		first += float64(d.t[k]) * float64(c)
		second += float64(d.p[k]) * float64(c) * float64(c)
	}
	if !(second > 0) {
		return 0
	}
	return -first / second
}

func (d *descent) bias(o int) {
	b := &d.layer.Plan.Bias[o]
	d.set(b, *b+float32(d.best(d.ones)), d.ones)
}

// set moves a number that col multiplies, to one that is stored in two bytes where the old one was.
func (d *descent) set(v *float32, to float32, col []float32) {
	if quant.AreHalf(*v) {
		var ok bool
		if to, ok = quant.Half(to); !ok {
			return
		}
	}
	d.move(col, to-*v)
	*v = to
}

// codes moves the codes of row o by one where that lowers the objective.
func (d *descent) codes(o int, f quant.Format, curvature []float32) {
	in, scale := d.layer.Info.In, *d.scaleOf(o)
	codes := d.layer.Plan.Codes[o*in : (o+1)*in]
	for i, c := range curvature {
		if !(c > 0) {
			continue // it reads zeros
		}
		steps := -dot(d.t, d.read(i)) / (c * scale)
		switch {
		case steps > 0.5 && int(codes[i]) < f.QMax:
			codes[i]++
			d.move(d.read(i), scale)
		case steps < -0.5 && int(codes[i]) > f.QMin:
			codes[i]--
			d.move(d.read(i), -scale)
		}
	}
}

func (d *descent) scale(o int) {
	in, scale := d.layer.Info.In, d.scaleOf(o)
	clear(d.col)
	for i, c := range d.layer.Plan.Codes[o*in : (o+1)*in] {
		if c != 0 {
			axpy(float32(c), d.read(i), d.col)
		}
	}
	limit := scaleStep * math.Abs(float64(*scale))
	d.set(scale, *scale+float32(min(max(d.best(d.col), -limit), limit)), d.col)
}

func vector(v []float32) blas32.Vector { return blas32.Vector{N: len(v), Inc: 1, Data: v} }

func dot(a, b []float32) float32 { return blas32.Dot(vector(a), vector(b)) }

func axpy(a float32, x, y []float32) { blas32.Axpy(a, vector(x), vector(y)) }
