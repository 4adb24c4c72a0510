package certify

import (
	"context"
	"math"
	"slices"

	"cfq/eval"
)

// Limits of the work on one box: parts that are bounded, inputs that are run, and inputs of a part that is run in place
// of being divided further.
const (
	maxParts  = 2000
	maxInputs = 1 << 16
	fewInputs = 256
)

// part is a part of a box: between two values of each input, which are stops of the grid where there is one.
type part struct {
	lo, hi []float32
	cells  [][]stop // nil without a grid
}

// inputs is how many distinct inputs the part has, +Inf without a grid.
func (p *part) inputs() float64 {
	if p.cells == nil {
		return math.Inf(1)
	}
	n := 1.0
	for _, list := range p.cells {
		n *= float64(len(list))
	}
	return n
}

// divide bounds the quantized margin in a box from below as finely as it takes to certify it, and returns -Inf when
// that cannot be done. It bounds the box, and where that is not enough its two halves (branch and bound). A part with
// few inputs on the grid of the model's first quantizers is run in ONNX Runtime, all of them: nothing else is in it.
// Then the bound is less than the smallest margin by twice what rounding may be there.
func (k *Certifier) divide(ctx context.Context, s *noiseSymbols, point, half []float32) (eval.Float, error) {
	none := eval.Float(math.Inf(-1))
	whole := part{slices.Clone(point), slices.Clone(point), nil}
	for j, p := range point {
		if h := float64(half[j]); h > 0 {
			h += edge * (math.Abs(float64(p)) + h)
			whole.lo[j], whole.hi[j] = float32(float64(p)-h), float32(float64(p)+h)
		}
	}
	if k.grid != nil {
		var err error
		if whole.cells, err = k.grid.cells(ctx, whole.lo, whole.hi); err != nil {
			return none, err
		}
		whole.shrink()
	}
	lower, inputs := math.Inf(1), 0.0
	todo := []part{whole}
	for parts := 0; len(todo) > 0; parts++ {
		if parts == maxParts || inputs > maxInputs {
			return none, nil
		}
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		bound, slopes := k.bound(s, &p)
		if bound > 0 {
			lower = min(lower, bound)
			continue
		}
		if n := p.inputs(); n <= fewInputs {
			inputs += n
			at, margin, ok, err := k.grid.least(ctx, p.cells)
			if !ok {
				return none, err
			}
			exact, _ := k.prove(s, at, make([]float32, len(at)))
			if lower = min(lower, 2*float64(exact.Lower)-float64(margin)); lower <= 0 {
				return none, nil
			}
			continue
		}
		m, err := k.quant.plain.Margins(ctx, p.corner(slopes))
		if err != nil || !(m[0] > 0) {
			return none, err
		}
		a, b, ok := p.halves(slopes)
		if !ok {
			return none, nil
		}
		todo = append(todo, a, b)
	}
	return eval.Float(lower), nil
}

// bound bounds the quantized margin in a part from below; slopes are those of a linear bound by the inputs, times the
// width of the part.
func (k *Certifier) bound(s *noiseSymbols, p *part) (lower float64, slopes []float64) {
	s.reset()
	middle, half := make([]float32, len(p.lo)), make([]float32, len(p.lo))
	for j, lo := range p.lo {
		if hi := p.hi[j]; hi > lo {
			middle[j] = float32((float64(lo) + float64(hi)) / 2)
			half[j] = math.Nextafter32(max(hi-middle[j], middle[j]-lo), math.MaxFloat32)
		} else {
			middle[j] = lo
		}
	}
	single := pass{noiseSymbols: s}
	y := k.quant.p.run(&single, s.box(middle, half))
	lower, _ = k.margin(y, nil)
	lower = max(lower, k.substituted(&single))
	if math.IsNaN(lower) || overflows(single.values) {
		lower = math.Inf(-1)
	}
	slopes = make([]float64, len(p.lo))
	at := 0
	for j, h := range half {
		if h > 0 && at < y.k {
			slopes[j] = k.slope(y, at)
			at++
		}
	}
	return lower, slopes
}

// substituted bounds the quantized margin from below by backward substitution.
func (k *Certifier) substituted(p *pass) float64 {
	g := k.quant.p
	y := p.values[g.logits]
	logits := len(y.c)
	round := func(i int) float64 { return 8 * roundoff * math.Max(y.mag[i], y.reach(i)) }
	w := make([]float64, logits)
	if logits == 1 {
		w[0] = 1
		if k.target == 0 {
			w[0] = -1
		}
		return g.substituted(p, w) - round(0)
	}
	lower := math.Inf(1)
	for j := range logits {
		if j != k.target {
			clear(w)
			w[k.target], w[j] = 1, -1
			lower = min(lower, g.substituted(p, w)-round(j)-round(k.target))
		}
	}
	return lower
}

// slope is the coefficient of a symbol in the margin: in that of the class whose logit may come nearest.
func (k *Certifier) slope(y *zonotope, symbol int) float64 {
	if len(y.c) == 1 {
		if k.target == 0 {
			return -y.row(0)[symbol]
		}
		return y.row(0)[symbol]
	}
	other := -1
	for j := range y.c {
		if j != k.target && (other < 0 || y.hi[j] > y.hi[other]) {
			other = j
		}
	}
	return y.row(k.target)[symbol] - y.row(other)[symbol]
}

// corner is the point of the part where a linear function with these slopes is least.
func (p *part) corner(slopes []float64) []float32 {
	x := slices.Clone(p.lo)
	for j, v := range slopes {
		if v < 0 {
			x[j] = p.hi[j]
		}
	}
	return x
}

// halves divides the part where the margin depends on an input most; ok is false when floats are too coarse for that.
func (p *part) halves(slopes []float64) (a, b part, ok bool) {
	at, largest := -1, -1.0
	for j := range p.lo {
		if v := math.Abs(slopes[j]); p.lo[j] < p.hi[j] && v > largest && (p.cells == nil || len(p.cells[j]) > 1) {
			at, largest = j, v
		}
	}
	if at < 0 {
		return a, b, false
	}
	a, b = p.clone(), p.clone()
	if p.cells == nil {
		m := float32((float64(p.lo[at]) + float64(p.hi[at])) / 2)
		a.hi[at], b.lo[at] = m, m
		return a, b, m > p.lo[at] && m < p.hi[at]
	}
	list := p.cells[at]
	a.cells[at], b.cells[at] = list[:len(list)/2], list[len(list)/2:]
	a.shrink()
	b.shrink()
	return a, b, true
}

func (p *part) clone() part {
	return part{slices.Clone(p.lo), slices.Clone(p.hi), slices.Clone(p.cells)}
}

// shrink leaves what lies between the first and the last stop of each input.
func (p *part) shrink() {
	for j, list := range p.cells {
		p.lo[j], p.hi[j] = list[0].x, list[len(list)-1].x
	}
}
