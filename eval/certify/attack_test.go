package certify_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/eval/certify"
	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

// found is the worst that an attack found in the box of one point.
type found struct{ lower, apart float64 }

// pair are two models, to be attacked.
type pair struct {
	f, g *classifier.Model
	k    *certify.Certifier
}

func opened(t testing.TB, f, g *graph.Model, target int) *pair {
	t.Helper()
	return openedModels(t, loaded(t, f), loaded(t, g), target)
}

func openedModels(t testing.TB, f, g *onnxio.Model, target int) *pair {
	t.Helper()
	p := &pair{}
	var err error
	options := classifier.Options{Target: &target, Through: quant.StraightThrough}
	if p.f, err = classifier.New(f, options); err != nil {
		t.Fatal(err)
	}
	if p.g, err = classifier.New(g, options); err != nil {
		t.Fatal(err)
	}
	if p.k, err = certify.Open(t.Context(), f, g, target); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = p.f.Close(), p.g.Close(), p.k.Close() })
	return p
}

// attack looks for the smallest margin of g and the largest distance of the margins in each box: at random points, at
// random corners, and by following the signs of gradients, of g and of the difference in both directions.
func (p *pair) attack(t testing.TB, points, half []float32, n, tries int, rng *rand.Rand) []found {
	t.Helper()
	out := make([]found, n)
	for i := range out {
		out[i].lower = math.Inf(1)
	}
	x := make([]float32, len(points))
	see := func() {
		mf := must.Get(p.f.Margins(t.Context(), x))(t)
		mg := must.Get(p.g.Margins(t.Context(), x))(t)
		for i := range out {
			out[i].lower = math.Min(out[i].lower, float64(mg[i]))
			out[i].apart = math.Max(out[i].apart, math.Abs(float64(mg[i])-float64(mf[i])))
		}
	}
	for range tries {
		random := rng.Float64() < 0.5
		for i, c := range points {
			v := rng.Float64()*2 - 1
			if random {
				v = math.Copysign(1, v)
			}
			x[i] = within(c, half[i], float64(c)+v*float64(half[i]))
		}
		see()
	}
	for goal := range 3 { // g down; the difference up, and down
		copy(x, points)
		for step := range 8 {
			_, gg, err := p.g.MarginGrads(t.Context(), x)
			must.Do(t, err)
			_, gf, err := p.f.MarginGrads(t.Context(), x)
			must.Do(t, err)
			size := math.Pow(0.5, float64(step))
			for i := range x {
				d := -float64(gg[i])
				if goal > 0 {
					d = (float64(gg[i]) - float64(gf[i])) * float64(3-2*goal)
				}
				switch {
				case d > 0:
					d = 1
				case d < 0:
					d = -1
				}
				x[i] = within(points[i], half[i], float64(x[i])+2*size*d*float64(half[i]))
			}
			see()
		}
	}
	return out
}

// within is v as a float32 in the box.
func within(c, half float32, v float64) float32 {
	lo, hi := float64(c)-float64(half), float64(c)+float64(half)
	x := float32(math.Max(lo, math.Min(v, hi)))
	if float64(x) < lo {
		x = math.Nextafter32(x, math.MaxFloat32)
	}
	if float64(x) > hi {
		x = math.Nextafter32(x, -math.MaxFloat32)
	}
	return x
}

// holds fails the test where an attack got through a proof.
func holds(t testing.TB, name string, proofs []eval.Proof, attacked []found) (certified int, loose, apart float64) {
	t.Helper()
	for i, p := range proofs {
		a := attacked[i]
		if a.lower < float64(p.Lower) || a.apart > float64(p.Apart) || math.IsNaN(float64(p.Lower)) ||
			math.IsNaN(float64(p.Apart)) {
			t.Errorf("%s: row %d: a margin of %v was found where none is below %v, and %v apart where none is above %v", name, i,
				a.lower, p.Lower, a.apart, p.Apart)
		}
		if p.Certified() {
			certified++
			if a.lower <= 0 {
				t.Errorf("%s: row %d is certified, and refused with margin %v", name, i, a.lower)
			}
		}
		loose += (a.lower - float64(p.Lower)) / float64(len(proofs))
		apart += (float64(p.Apart) - a.apart) / float64(len(proofs))
	}
	return certified, loose, apart
}

// Random boxes on random networks: what is proved is never found otherwise.
func TestAttack(t *testing.T) {
	t.Parallel()
	attackRandom(t, 7, 16)
}

// The same until 50,000 certificates were attacked.
func TestAttackLong(t *testing.T) {
	t.Parallel()
	if os.Getenv("CFQ_LONG") != "1" {
		t.Skip("make long attacks 50,000 certificates: it takes minutes")
	}
	attacked, broken := 0, t.Failed()
	for seed := uint64(100); attacked < 50000 && !broken; seed++ {
		attacked += attackRandom(t, seed, 200)
		broken = t.Failed()
	}
	t.Logf("%d certificates attacked, broken: %v", attacked, broken)
}

// attackRandom attacks n boxes on each of some networks, and returns how many were certified.
func attackRandom(t *testing.T, seed uint64, n int) (certified int) {
	t.Helper()
	o := orttest.Need(t)
	for i, c := range []struct {
		net    shape
		ways   ways
		target int
		level  ort.Level
	}{
		{shape{widths: []int{5, 12, 8, 2}, act: "Relu"}, ways{bits: 4, act: 8, channels: true}, 1, ort.All},
		{shape{widths: []int{5, 12, 8, 2}, act: "Relu"}, ways{bits: 4, act: 8, channels: true}, 0, ort.Disabled},
		{
			shape{widths: []int{6, 16, 10, 2}, act: "Relu", scaled: true},
			ways{bits: 8, act: 8, grid: true, channels: true},
			1,
			ort.All,
		},
		{shape{widths: []int{6, 16, 10, 2}, act: "Relu"}, ways{bits: 3, act: 4, grid: true}, 1, ort.All},
		{shape{widths: []int{4, 9, 1}, act: "Relu", matmul: true}, ways{bits: 4, act: 5}, 1, ort.All},
		{shape{widths: []int{4, 9, 1}, act: "Relu"}, ways{bits: 2, act: 8, channels: true}, 0, ort.All},
		{shape{widths: []int{5, 10, 4}, act: "Clip"}, ways{bits: 4, act: 8}, 2, ort.All},
		{shape{widths: []int{5, 10, 6, 3}, act: "LeakyRelu"}, ways{bits: 4, weightOnly: true}, 0, ort.All},
		{shape{widths: []int{5, 10, 6, 3}, act: "LeakyRelu"}, ways{bits: 8, act: 8}, 1, ort.All},
		{shape{widths: []int{4, 8, 8, 2}, act: "Sigmoid"}, ways{bits: 4, act: 8}, 1, ort.All},
		{shape{widths: []int{4, 8, 8, 2}, act: "Tanh", matmul: true}, ways{bits: 4, weightOnly: true}, 1, ort.All},
		{shape{widths: []int{3, 2}, act: "Relu"}, ways{bits: 8, act: 8}, 1, ort.All},
		{shape{widths: []int{4, 8, 8, 2}, act: "Silu"}, ways{bits: 4, act: 8}, 1, ort.All},
		{shape{widths: []int{4, 8, 8, 2}, act: "Gelu"}, ways{bits: 4, weightOnly: true}, 1, ort.All},
		{shape{widths: []int{4, 8, 8, 2}, act: "Gelu, written out"}, ways{bits: 4, weightOnly: true}, 1, ort.All},
		{shape{widths: []int{4, 8, 8, 2}, act: "Elu"}, ways{bits: 4, act: 8}, 1, ort.All},
		{shape{widths: []int{4, 8, 8, 2}, act: "Softplus"}, ways{bits: 4, act: 8}, 0, ort.All},
		{shape{widths: []int{4, 8, 8, 2}, act: "HardSwish"}, ways{bits: 4, weightOnly: true}, 1, ort.All},
		{shape{widths: []int{4, 8, 8, 2}, act: "HardSigmoid"}, ways{bits: 8, act: 8, grid: true}, 1, ort.All},
	} {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		name := fmt.Sprintf("%d: %+v %+v", i, c.net, c.ways)
		f := net(rng, c.net)
		g := quantized(t, f, c.ways)
		against := []*graph.Model{g}
		if i%6 == 0 {
			against = append(against, f) // a float model against itself, too
		}
		for _, m := range against {
			o := o
			o.Level = c.level
			p := opened(t, f, m, c.target)
			if err := p.k.Check(); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			dim := c.net.widths[0]
			points, half := normal(rng, n*dim, 1.3), make([]float32, n*dim)
			for i := range half {
				half[i] = float32(math.Pow(10, -rng.Float64()*3)) * float32(rng.IntN(2)) * float32(1-i/dim%2*(i/dim/2%2))
			}
			proofs, err := p.k.Prove(t.Context(), points, half, n)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			proved, _, _ := holds(t, name, proofs, p.attack(t, points, half, n, 60, rng))
			certified += proved
		}
	}
	return certified
}

// Activation functions that fall and rise, behind quantizers: two models are apart by more than float rounding there.
func TestQuantizedSums(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	const n, dim = 60, 2
	for i, act := range []string{"Gelu", "Silu", "HardSwish"} {
		for seed := range uint64(6) {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			f := net(rng, shape{widths: []int{dim, 3, 1}, act: act})
			p := opened(t, f, quantized(t, f, ways{bits: 8, weightOnly: true, sums: true}), 1)
			points, half := normal(rng, n*dim, 0.6), make([]float32, n*dim)
			for i := range half {
				half[i] = float32(0.001 + 0.1*rng.Float64()*rng.Float64())
			}
			proofs, err := p.k.Prove(t.Context(), points, half, n)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", act, seed, err)
			}
			holds(t, fmt.Sprintf("%s, seed %d", act, seed), proofs, p.attack(t, points, half, n, 60, rng))
		}
	}
}

// Where all codes are 0 the margin is 0, which is no approval, and not an error of the machine.
func TestNothingLeft(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	const n, dim = 100, 2
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := net(rng, shape{widths: []int{dim, 4, 1}, act: "Relu"})
		for _, b := range f.Graph.Inits {
			if b.Name == "b2" {
				clear(b.Raw)
			}
		}
		p := opened(t, f, quantized(t, f, ways{bits: 4, act: 4}), 1)
		points, half := normal(rng, n*dim, 3), slices.Repeat([]float32{0.2}, n*dim)
		proofs, err := p.k.Prove(t.Context(), points, half, n)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		holds(t, fmt.Sprint("seed ", seed), proofs, p.attack(t, points, half, n, 20, rng))
	}
}

// Sums that saturate on this processor are not those that are bounded.
func TestSaturating(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	rng := rand.New(rand.NewPCG(1, 1))
	f := net(rng, shape{widths: []int{4, 8, 1}, act: "Relu"})
	for _, full := range []bool{false, true} {
		err := opened(t, f, quantized(t, f, ways{bits: 8, act: 8, full: full}), 1).k.Check()
		if refused := err != nil && strings.Contains(err.Error(), "--full-range"); refused != (full && ort.Saturates()) {
			t.Errorf("full range %v: %v", full, err)
		}
	}
}

// Exactly at the point, a proof is as good as a run of the model.
func TestPoint(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	f := net(rng, shape{widths: []int{20, 64, 32, 2}, act: "Relu"})
	g := quantized(t, f, ways{bits: 4, act: 8, channels: true, grid: true})
	p := opened(t, f, g, 1)
	const n = 200
	points := normal(rng, n*20, 1)
	proofs := must.Get(p.k.Prove(t.Context(), points, make([]float32, n*20), n))(t)
	// Where a number lies between two codes to within float rounding, both are allowed for: rarely.
	near := 0
	for i, a := range p.attack(t, points, make([]float32, n*20), n, 1, rng) {
		if a.lower < float64(proofs[i].Lower) || a.apart > float64(proofs[i].Apart) {
			t.Errorf("row %d: %+v, proved %+v", i, a, proofs[i])
		}
		if a.lower-float64(proofs[i].Lower) < 1e-4 && float64(proofs[i].Apart)-a.apart < 6e-3 {
			near++
		}
	}
	if near < n*9/10 {
		t.Errorf("only %d of %d proofs at points are near to what the model computes", near, n)
	}
}
