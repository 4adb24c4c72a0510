package certify

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// layerwise bounds the logits' difference by the norms of the layers: eq. app_global_bound_2, with what activation
// quantizers add. Its layers are those of the chain f; g's differ in weights, and round.
type layerwise struct {
	f, g    *chain
	dim     int
	w, b    [][]float64 // f's layers, the first by model inputs
	offsets []float64   // of collapse, for g
	norm    []float64   // spectral norms of f's weights
	delta   []float64   // of the differences of the weights
	bias    []float64   // norms of the differences of the biases
	size    []float64   // Frobenius norms of both models' weights, and of their biases, which rounding errors are relative to
	sizeB   []float64
	rows    [][]float64 // norms of the rows of f's weights
	lip     []float64   // Lipschitz constants of the functions behind the layers
}

// newLayerwise prepares the bound; nil when the two models are not chains of the same layers.
func newLayerwise(full, quant *program, dim int) *layerwise {
	if full == nil || quant == nil {
		return nil
	}
	l := &layerwise{f: full.follow(), g: quant.follow(), dim: dim}
	if l.f == nil || l.g == nil || len(l.f.stages) != len(l.g.stages) {
		return nil
	}
	for _, of := range l.f.lanes(dim) {
		if len(of) > 1 {
			return nil
		}
		for _, j := range of {
			if lane := l.f.front[j]; lane.step != 0 || !math.IsInf(lane.lo, -1) || !math.IsInf(lane.hi, 1) {
				return nil
			}
		}
	}
	fw, fb, _, ok := l.f.collapse(dim)
	if !ok {
		return nil
	}
	gw, gb, offsets, ok := l.g.collapse(dim)
	if !ok {
		return nil
	}
	l.offsets = offsets
	for i := range l.f.stages {
		f, g := &l.f.stages[i], &l.g.stages[i]
		if i > 0 {
			fw, fb, gw, gb = f.w, f.b, g.w, g.b
		}
		if f.grid != nil || f.rows != g.rows || len(fw) != len(gw) || !slices.EqualFunc(f.curves, g.curves, slices.Equal[[]curve]) {
			return nil
		}
		dw, db := minus(gw, fw), minus(gb, fb)
		cols := len(fw) / f.rows
		l.w, l.b = append(l.w, fw), append(l.b, fb)
		l.norm, l.delta = append(l.norm, spectral(fw, f.rows)), append(l.delta, spectral(dw, f.rows))
		l.bias = append(l.bias, euclid(db))
		l.size, l.sizeB = append(l.size, float64(cols+8)*(euclid(fw)+euclid(gw))), append(l.sizeB, float64(cols+8)*(euclid(fb)+euclid(gb)))
		rows := make([]float64, f.rows)
		for o := range rows {
			rows[o] = euclid(fw[o*cols : (o+1)*cols])
		}
		l.rows = append(l.rows, rows)
		lip := 1.0
		for _, of := range f.curves {
			most := 0.0
			for _, c := range of {
				_, s := c.slopes(math.Inf(-1), math.Inf(1))
				most = math.Max(most, s)
			}
			lip *= most
		}
		l.lip = append(l.lip, lip)
	}
	return l
}

// at bounds the largest difference of a logit within radius of the point u.
func (l *layerwise) at(u []float32, radius float64) float64 {
	z := make([]float64, len(u))
	for i, v := range u {
		z[i] = float64(v)
	}
	apart := l.reading(z, radius)
	gain := 1.0 // Lipschitz constant of all layers so far
	for i := range l.w {
		f, grid := &l.f.stages[i], l.g.stages[i].grid
		reach := euclid(z) + gain*radius + apart // of what g's layer reads
		apart = l.norm[i]*apart + l.delta[i]*reach + l.bias[i] + unit*(l.size[i]*reach+l.sizeB[i])
		apart *= l.lip[i]
		next := make([]float64, f.rows)
		cols := len(z)
		for o := range next {
			v := l.b[i][o]
			for j, x := range z {
				v += l.w[i][o*cols+j] * x
			}
			for _, of := range f.curves {
				v = of[o].at(v)
				apart += of[o].rounding(math.Abs(v)) * 2
			}
			next[o] = v
		}
		z = next
		if grid != nil {
			apart += rounded(grid, z, func(o int) float64 { return l.lip[i] * l.rows[i][o] * gain * radius })
		}
		gain *= l.lip[i] * l.norm[i]
	}
	return apart * (1 + 1e-6)
}

// reading bounds how far what g's first layer reads is from the input, within radius of x: half steps, and
// what is cut off. The norm is Euclid's, the unit that of the model's inputs.
func (l *layerwise) reading(x []float64, radius float64) float64 {
	sum := 0.0
	for i, of := range l.g.lanes(l.dim) {
		if len(of) == 0 {
			continue // the layer does not look at it
		}
		h := radius + 4*unit*(math.Abs(x[i])+radius)
		lo, hi := x[i]-h, x[i]+h
		e := math.Max(math.Abs(l.g.sum(of, lo)-lo-l.offsets[i]), math.Abs(l.g.sum(of, hi)-hi-l.offsets[i]))
		round := 0.0
		for _, j := range of {
			lane := l.g.front[j]
			for _, bound := range []float64{lane.lo, lane.hi} {
				if at := (bound - lane.off) / lane.gain; at > lo && at < hi {
					e = math.Max(e, math.Abs(l.g.sum(of, at)-at-l.offsets[i]))
				}
			}
			a, b := lane.at(lo), lane.at(hi)
			round += (off(lane, a, b) + 8*unit*(math.Abs(lane.off)+math.Abs(lane.gain)*(math.Abs(x[i])+h))) / math.Abs(lane.gain)
		}
		sum += (e + round) * (e + round)
	}
	return math.Sqrt(sum)
}

// off bounds how far rounding moves the numbers of a lane between a and b.
func off(l lane, a, b float64) float64 {
	if l.step == 0 {
		return 0
	}
	near := quotient * (math.Abs(a) + math.Abs(b))
	least, most := math.RoundToEven((math.Min(a, b)-near)/l.step), math.RoundToEven((math.Max(a, b)+near)/l.step)
	if least == most {
		return math.Max(math.Abs(least*l.step-a), math.Abs(least*l.step-b)) + near
	}
	return l.step/2 + near
}

// rounded bounds the norm of what a quantizer adds to the numbers z, each of which may move by up to moves: half steps, and
// what is cut off.
func rounded(q *quantize, z []float64, moves func(o int) float64) float64 {
	least, most := (q.qmin-q.zero)*q.scale, (q.qmax-q.zero)*q.scale
	cut := make([]float64, len(z))
	for o, v := range z {
		m := moves(o)
		cut[o] = math.Max(0, math.Max(least-(v-m), v+m-most))
	}
	half := q.scale / 2 * (1 + 1e-4)
	return half*math.Sqrt(float64(len(z))) + euclid(cut)
}

func minus(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

func euclid(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// spectral is the largest singular value of a matrix; its Frobenius norm, which is no smaller, where none is found.
func spectral(w []float64, rows int) float64 {
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(rows, len(w)/rows, slices.Clone(w)), mat.SVDNone) {
		return euclid(w)
	}
	return svd.Values(nil)[0] * (1 + 1e-9)
}
