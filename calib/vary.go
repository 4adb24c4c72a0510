package calib

import (
	"hash/fnv"
	"math/rand/v2"

	"cfq/quant"
)

// Variation is how one deployment of a plan departs from the best fit: what another toolchain, or another run of the
// same one, might make of the same layers and widths. The zero value is no departure. All numbers are drawn by Seed,
// layer and row, so they do not depend on anything else.
//
// Reference: "Uncertainty set from quantization-induced variability" of the paper's
// appendix on robust recourse.
type Variation struct {
	Seed uint64
	// Rounding is the width of what is added to each code before it is rounded, in codes, uniform and centred: 1 is
	// stochastic rounding (the expected code is the number itself), 0 the nearest code.
	Rounding float64
	// Jitter is the largest relative change of each weight scale, and of the range of
	// each activation, uniform to both sides.
	Jitter float64
}

// Kinds of random numbers.
const (
	drawScales = iota
	drawClips
	drawRows // row r of the weights is drawRows+r
)

func (v Variation) draw(node string, kind int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(node))
	return rand.New(rand.NewPCG(v.Seed, h.Sum64()+uint64(kind)))
}

func (v Variation) scales(node string, scales []float32) {
	if v.Jitter == 0 {
		return
	}
	rng := v.draw(node, drawScales)
	for i := range scales {
		scales[i] *= v.factor(rng)
	}
}

// Clip changes the range of the activation that a layer reads; the zero point stays.
func (v Variation) Clip(node string, a quant.Act) quant.Act {
	if v.Jitter != 0 {
		a.Scale *= v.factor(v.draw(node, drawClips))
	}
	return a
}

func (v Variation) factor(rng *rand.Rand) float32 { return float32(1 + v.Jitter*(2*rng.Float64()-1)) }

// dither returns numbers to add to codes, uniform around zero.
type dither func() float64

func (v Variation) dither(node string, row int) dither {
	if v.Rounding == 0 {
		return nil
	}
	rng := v.draw(node, drawRows+row)
	return func() float64 { return v.Rounding * (rng.Float64() - 0.5) }
}

func (d dither) move(w, scale float32) float32 {
	if d == nil {
		return w
	}
	return w + float32(d()*float64(scale))
}
