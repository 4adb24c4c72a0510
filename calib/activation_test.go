package calib

import (
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/quant"
)

func spreadOf(seed uint64, lo, hi float32) *Stats {
	r := rand.New(rand.NewPCG(seed, 3))
	s := &Stats{
		Min: lo, Max: hi, Zeros: 500, Hist: make([]float64, histBins), OutputHist: make([]float64, histBins),
		LogitHist: make([]float64, histBins),
	}
	width := float64(hi-lo) / histBins
	for range 4000 {
		x := math.Exp(r.NormFloat64()) / 12 * float64(hi)
		if lo < 0 && r.IntN(3) == 0 {
			x = math.Exp(r.NormFloat64()/2) / 6 * float64(lo)
		}
		if x < float64(lo) {
			continue
		}
		b := min(int((x-float64(lo))/width), histBins-1)
		s.Hist[b]++
		s.OutputHist[b] += r.Float64()
		s.LogitHist[b] += math.Abs(x) * r.Float64()
	}
	return s
}

// The least squared error against all pairs of ends on a fine grid, with the error
// summed bin by bin, for the histogram that each kind looks at.
func TestActivationSquared(t *testing.T) {
	t.Parallel()
	for seed, ends := range [][2]float32{{0, 9}, {-3, 9}, {-4, 0}, {2, 9}} {
		s := spreadOf(uint64(seed), ends[0], ends[1])
		for kind, hist := range map[Range][]float64{MSE: s.Hist, Output: s.OutputHist, Logits: s.LogitHist, "": s.Hist} {
			direct := *s
			direct.Hist = hist
			for _, bits := range []int{2, 3, 4, 8} {
				a := Activation(s, bits, kind)
				got, least := binError(&direct, a), math.Inf(1)
				sums := newSpread(hist, float64(s.Min), float64(s.Max))
				if sum := sums.squaredError(a); math.Abs(sum-got) > 1e-4*got {
					t.Errorf("%v, %s, %d bits: error %v by sums, %v bin by bin", ends, kind, bits, sum, got)
				}
				const n = 60
				for i := range n + 1 {
					for j := range n + 1 {
						clipped := quant.FitAct(bits, min(0, ends[0])*float32(i)/n, max(0, ends[1])*float32(j)/n)
						least = min(least, sums.squaredError(clipped))
					}
				}
				if got > least*1.02 {
					t.Errorf("%v, %s, %d bits: error %v, there is %v", ends, kind, bits, got, least)
				}
				if ends[0] >= 0 && a.Zero != 0 {
					t.Errorf("%s, %d bits: zero point %d behind a Relu", kind, bits, a.Zero)
				}
			}
		}
	}
}

// Every kind gives a quantizer that can be written, with zero point 0 behind a
// Relu, also of hardly anything.
func TestActivationKinds(t *testing.T) {
	lonely := &Stats{Max: 5, Zeros: 1e6, Hist: make([]float64, histBins), OutputHist: make([]float64, histBins)}
	lonely.Hist[histBins-1], lonely.OutputHist[histBins-1] = 1, 1
	empty := &Stats{Hist: make([]float64, histBins), OutputHist: make([]float64, histBins)}
	same := &Stats{Min: 2, Max: 2, Zeros: 7, Hist: make([]float64, histBins)}
	for _, r := range Ranges() {
		for bits := 2; bits <= 8; bits++ {
			for i, s := range []*Stats{spreadOf(1, 0, 3), spreadOf(1, -1, 3), lonely, empty, same} {
				a := Activation(s, bits, r.Name)
				if err := a.Check(); err != nil || a.Bits != bits || (s.Min >= 0 && a.Zero != 0) {
					t.Errorf("%s, %d bits, statistics %d: %+v, %v", r.Name, bits, i, a, err)
				}
				if hi := a.Scale * float32(a.QMax()-int(a.Zero)); s.Max > 0 && hi > s.Max*1.2 || hi <= 0 {
					t.Errorf("%s, %d bits, statistics %d: reaches to %v of %v", r.Name, bits, i, hi, s.Max)
				}
			}
		}
	}
	must.Same(t, 5, Activation(lonely, 4, Percentile).Scale*15)
}

// Percentiles by hand: 20000 numbers evenly spread over 4096 bins of [0, 1], 10000
// with or without zeros, and on both sides of zero.
func TestActivationPercentile(t *testing.T) {
	s := &Stats{Max: 1, Hist: make([]float64, histBins)}
	for b := range s.Hist {
		s.Hist[b] = 20000.0 / histBins
	}
	near := func(what string, got, want float64) {
		t.Helper()
		must.Near(must.In(t, what), want, got, 1e-6)
	}
	near("behind a Relu", float64(Activation(s, 8, Percentile).Scale)*255, 0.9999)
	near("the median", s.quantile(0.5), 0.5)
	s.Zeros = 10000 // 3 of 30000 lie above: 3 of the 20000
	near("with zeros", float64(Activation(s, 8, Percentile).Scale)*255, 1-3.0/20000)
	near("the median with zeros", s.quantile(0.5), 0.25)
	near("a third is zero", s.quantile(0.3), 0)
	s.Min, s.Max, s.Zeros = -1, 1, 0
	lo, hi := s.tails(1 - kept)
	near("lower end", float64(lo), -0.9999)
	near("upper end", float64(hi), 0.9999)
	s.Zeros = 20000 // the median of the whole
	near("median of both sides", s.quantile(0.5), 0)
	near("a quarter", s.quantile(0.125), -0.5)
}

// The divergence of a worked example (8 bins into 2 codes, that of the slides on
// TensorRT's calibration), and of random histograms and grids with P and Q written out.
func TestDivergence(t *testing.T) {
	// Bins of width 1 over [-2, 6], codes 0 and 1 of scale 4: P as it is, Q =
	// 2 0 2 2 4 4 4 4, both over 22.
	e := newEntropy([]float64{1, 0, 2, 3, 5, 3, 1, 7}, -2, 6)
	want := (math.Log(1./2) + 3*math.Log(3./2) + 5*math.Log(5./4) +
		3*math.Log(3./4) + math.Log(1./4) + 7*math.Log(7./4)) / 22
	must.Near(t, want, e.of(4, 0, 1), 1e-12)
	// Codes 0 and 1 of scale 2 reach from -1 to 3: P = 1+0 2 3 5+11... by hand,
	// bins -1..2: 0+1, 2 | 3, 5+11; Q = 1 1 | 4 4 of 10 (bin -1 is empty before, not in P).
	want = (1*math.Log(1./22/(1./10)) + 2*math.Log(2./22/(1./10)) +
		3*math.Log(3./22/(4./10)) + 16*math.Log(16./22/(4./10))) / 22
	must.Near(t, want, e.of(2, 0, 1), 1e-12)
	r := rand.New(rand.NewPCG(4, 4))
	finite := 0
	for range 300 {
		hist := make([]float64, 40)
		for k := range hist {
			hist[k] = float64(max(0, r.IntN(12)-5))
		}
		lo := -3 * r.Float64()
		hi := 4 * r.Float64()
		e := newEntropy(hist, lo, hi)
		scale, least, most := 0.05+r.Float64()/2, -r.IntN(5), 1+r.IntN(6)
		got, want := e.of(scale, least, most), naiveDivergence(hist, lo, hi, scale, least, most)
		if math.IsInf(want, 1) != math.IsInf(got, 1) || math.Abs(got-want) > 1e-9 {
			t.Fatalf("divergence %v, written out %v (%v over %v to %v, scale %v, codes %d to %d)", got, want, hist, lo, hi,
				scale, least, most)
		}
		if !math.IsInf(want, 1) {
			finite++
		}
	}
	if finite < 50 {
		t.Errorf("only %d of the grids are comparable", finite)
	}
}

func naiveDivergence(hist []float64, lo, hi, scale float64, least, most int) float64 {
	n := len(hist)
	code := make([]int, n) // of each bin; least-1 and most+1 for those that are clipped
	first, last := -1, -1
	for b := range hist {
		x := lo + (float64(b)+0.5)*(hi-lo)/float64(n)
		code[b] = int(math.Floor(x/scale + 0.5))
		if code[b] >= least && code[b] <= most {
			if last = b; first < 0 {
				first = b
			}
		}
	}
	if first < 0 {
		return math.Inf(1)
	}
	p, inside := make([]float64, n), map[int]float64{}
	var sumP, sumQ float64
	for b, v := range hist {
		sumP += v
		switch {
		case b < first:
			p[first] += v
		case b > last:
			p[last] += v
		default:
			p[b] += v
			inside[code[b]] += v
			sumQ += v
		}
	}
	full := map[int]float64{}
	for b := first; b <= last; b++ {
		if p[b] > 0 {
			full[code[b]]++
		}
	}
	if sumQ == 0 {
		return math.Inf(1)
	}
	var sum float64
	for b, v := range p {
		if v > 0 {
			q := inside[code[b]] / full[code[b]]
			if q == 0 {
				return math.Inf(1)
			}
			sum += v / sumP * math.Log(v/sumP/(q/sumQ))
		}
	}
	return sum
}

// The entropy range is the one of least divergence among all on a fine grid, to
// within what that can miss.
func TestActivationEntropy(t *testing.T) {
	for seed := range uint64(4) {
		s := spreadOf(seed, 0, 6)
		for _, bits := range []int{3, 4, 8} {
			a := Activation(s, bits, Entropy)
			got := naiveDivergence(s.Hist, 0, 6, float64(a.Scale), 0, a.QMax())
			least := math.Inf(1)
			for i := 1; i <= 60; i++ {
				c := quant.FitAct(bits, 0, 6*float32(i)/60)
				least = min(least, naiveDivergence(s.Hist, 0, 6, float64(c.Scale), 0, c.QMax()))
			}
			if got > least*1.05+1e-9 {
				t.Errorf("%d bits: divergence %v, there is %v", bits, got, least)
			}
		}
	}
}
