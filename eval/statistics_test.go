package eval

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s: %v, want %v (within %v)", what, got, want, tol)
	}
}

func TestMeanAsPublished(t *testing.T) {
	t.Parallel()
	// Student (1908), The Probable Error of a Mean: hours of sleep gained by ten patients with one drug more
	// than with the other. R's t.test of the same differences gives the interval.
	sleep := []float64{1.2, 2.4, 1.3, 1.3, 0, 1, 1.8, 0.8, 4.6, 1.4}
	e := meanOf(sleep, 0.95)
	near(t, "mean", float64(e.Value), 1.58, 1e-12)
	near(t, "low", float64(e.Lo), 0.7001142, 5e-8)
	near(t, "high", float64(e.Hi), 2.4598858, 5e-8)
	must.Same(t, 10, e.N)
}

func TestRMSByHand(t *testing.T) {
	t.Parallel()
	// Squares 1, 4, 4, 1: mean 2.5, standard error sqrt(9/3/4); t of 3 degrees is 3.182446. The lower end of the
	// mean square is below 0.
	e := rmsOf([]float64{1, -2, 2, -1}, 0.95)
	near(t, "rms", float64(e.Value), math.Sqrt(2.5), 1e-12)
	near(t, "low", float64(e.Lo), 0, 0)
	near(t, "high", float64(e.Hi), math.Sqrt(2.5+3.182446*math.Sqrt(0.75)), 1e-6)
}

func TestEstimatesOfLittle(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	open := func(e Value) bool { return math.IsInf(float64(e.Lo), -1) && math.IsInf(float64(e.Hi), 1) }
	for _, c := range []struct {
		name  string
		e     Value
		n     int
		value float64
	}{
		{"mean of nobody", meanOf(nil, 0.95), 0, nan},
		{"mean of one", meanOf([]float64{3}, 0.95), 1, 3},
		{"mean with an undefined number", meanOf([]float64{3, nan, 3}, 0.95), 3, nan},
		{"mean with an infinite number", meanOf([]float64{3, inf, 3}, 0.95), 3, inf},
		{"rms of nobody", rmsOf(nil, 0.95), 0, nan},
		{"ratio of nobody", ratioOf(nil, nil, 0.95), 0, nan},
		{"median of nobody", quantileOf(nil, 0.5, 0.95), 0, nan},
		{"median of five", quantileOf([]float64{5, 1, 2, 3, 4}, 0.5, 0.95), 5, 3},
		{"quantile with an undefined number", quantileOf([]float64{1, 1, 1, 1, 1, 1, 1, 1, nan}, 0.5, 0.95), 9, nan},
		{"difference of nobody", dropOf(0, 0, 0, 0.95), 0, nan},
	} {
		if same := float64(c.e.Value) == c.value || math.IsNaN(c.value) && math.IsNaN(float64(c.e.Value)); !same ||
			c.e.N != c.n || !open(c.e) {
			t.Errorf("%s: %+v", c.name, c.e)
		}
	}
	if e := quantileOf([]float64{1, 7, 3}, 1, 0.95); e.Value != 7 || e.Lo != 7 || !math.IsInf(float64(e.Hi), 1) {
		t.Errorf("largest: %+v", e)
	}
}

func TestDropByHand(t *testing.T) {
	t.Parallel()
	// Nobody counts in one alone: either share is 0, of which the exact bound at 1 - 0.05/4 is 1 - 0.0125^(1/n).
	e := dropOf(0, 0, 100, 0.95)
	bound := 1 - math.Pow(0.0125, 0.01)
	near(t, "low", float64(e.Lo), -bound, 1e-9)
	near(t, "high", float64(e.Hi), bound, 1e-9)
	e, back := dropOf(9, 2, 200, 0.9), dropOf(2, 9, 200, 0.9)
	near(t, "value", float64(e.Value), 7./200, 1e-12)
	if e.Lo != -back.Hi || e.Hi != -back.Lo {
		t.Errorf("%+v, turned round %+v", e, back)
	}
}

func TestIntervalsAreMonotone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(rapid.Float64Range(-3, 9), 2, 60).Draw(t, "xs")
		as := make([]float64, len(xs))
		for i := range as {
			as[i] = 1 + math.Abs(xs[i]-float64(i%3))
		}
		lower := rapid.Float64Range(0.5, 0.98).Draw(t, "confidence")
		higher := rapid.Float64Range(lower, 0.999).Draw(t, "higher confidence")
		n := len(xs)
		b := rapid.IntRange(0, n).Draw(t, "b")
		c := rapid.IntRange(0, n-b).Draw(t, "c")
		q := rapid.SampledFrom([]float64{0.05, 0.5, 0.95}).Draw(t, "q")
		for name, f := range map[string]func(float64) Value{
			"mean":     func(conf float64) Value { return meanOf(xs, conf) },
			"rms":      func(conf float64) Value { return rmsOf(xs, conf) },
			"ratio":    func(conf float64) Value { return ratioOf(as, xs, conf) },
			"quantile": func(conf float64) Value { return quantileOf(xs, q, conf) },
			"drop":     func(conf float64) Value { return dropOf(b, c, n, conf) },
		} {
			narrow, wide := f(lower), f(higher)
			if !(wide.Lo <= narrow.Lo && narrow.Lo <= narrow.Value && narrow.Value <= narrow.Hi && narrow.Hi <= wide.Hi) {
				t.Fatalf("%s at %v: %+v, at %v: %+v", name, lower, narrow, higher, wide)
			}
		}
		if more := dropOf(2*b, 2*c, 2*n, lower); more.Hi-more.Lo > dropOf(b, c, n, lower).Hi-dropOf(b, c, n, lower).Lo {
			t.Fatalf("twice the people say less: %+v", more)
		}
	})
}

func TestPace(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	var full, quant []float64
	for range 51 {
		full, quant = append(full, 0.004+1e-4*rng.Float64()), append(quant, 0.002+1e-4*rng.Float64())
	}
	quant[7] = 3 // the machine was busy
	var p, few Pace
	p.Set(256, full, quant, 0.95)
	near(t, "throughput", float64(p.Throughput.Value)*float64(p.Quant.Value), 256, 1e-9)
	near(t, "low", float64(p.Throughput.Lo)*float64(p.Quant.Hi), 256, 1e-9)
	near(t, "high", float64(p.Throughput.Hi)*float64(p.Quant.Lo), 256, 1e-9)
	if p.Throughput.N != 51 || p.Full.Value < 0.004 || p.Quant.Value > 0.0021 {
		t.Errorf("%+v", p)
	}
	few.Set(256, full[:3], quant[:3], 0.95)
	if p := few.Throughput; p.Lo != 0 || p.Hi.Defined() || !p.Value.Defined() {
		t.Errorf("of three runs: %+v", p)
	}
}

// An original that is below the base rate by chance leaves no gate open.
func TestBelowBaseRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		right [2]int // of 200 and 100 people with either outcome
		want  float64
	}{
		{[2]int{190, 20}, 0},
		{[2]int{190, 5}, 0},
		{[2]int{180, 5}, 0.05},
		{[2]int{0, 100}, 1.0 / 3},
		{[2]int{0, 0}, 2.0 / 3},
	} {
		for bad, good := range []int{1, 0} {
			a := accumulator{n: 300, byOutcome: make([]accumulator, 2)}
			a.byOutcome[bad] = accumulator{n: 200, above: c.right[0]}
			a.byOutcome[good] = accumulator{n: 100, above: c.right[1]}
			near(t, "below base rate", float64(belowBaseRate().of(&a, 0.95).Value), c.want, 1e-9)
		}
	}
}
