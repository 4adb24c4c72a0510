package eval

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse"
)

func TestGap(t *testing.T) {
	t.Parallel()
	of := func(v Values, form string) float64 { return float64(v.Of("crg." + form).Value) }
	g := gap([]float64{1, 2, 4}, []float64{2, 2, 1}, 0.95)
	near(t, "mean", of(g, "mean"), (1+0-0.75)/3, 1e-8)
	near(t, "ratio of sums", of(g, "ratio_of_sums"), (5.0-7)/7, 1e-12)
	near(t, "median", of(g, "median"), 0, 1e-12)
	// One person with a tiny cost carries the mean away, and nothing else.
	g = gap([]float64{1, 1, 1e-6}, []float64{1, 1, 1}, 0.95)
	if of(g, "mean") < 1e5 || of(g, "median") != 0 || math.Abs(of(g, "ratio_of_sums")-0.5) > 1e-5 {
		t.Errorf("tiny cost: %+v", g)
	}
	if g = gap(nil, nil, 0.95); len(g) != 0 && g.Of("crg.n").N != 0 {
		t.Errorf("nobody: %+v", g)
	}
}

func TestSimilarity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b         []float32
		sim, overlap float64
	}{
		{[]float32{1, 0, 0}, []float32{2, 0, 0}, 1, 1},
		{[]float32{1, 0, 0}, []float32{-1, 0, 0}, -1, 1},
		{[]float32{1, 0, 0}, []float32{0, 1, 0}, 0, 0},
		{[]float32{3, 4, 0}, []float32{3, 0, 4}, 9.0 / 25, 1.0 / 3},
		{[]float32{3, 4, 1e-7}, []float32{3, 4, 0}, 1, 1}, // below supportTau
		{[]float32{0, 0, 0}, []float32{0, 0, 0}, 0, 0},
	} {
		near(t, "DirSim", dirSim(c.a, c.b), c.sim, 1e-6)
		near(t, "ActOverlap", actOverlap(c.a, c.b), c.overlap, 1e-6)
	}
}

func TestMarginError(t *testing.T) {
	t.Parallel()
	e := make([]float64, 200) // -1, 2, -3, ... 200
	for i := range e {
		e[i] = float64(i+1) * math.Pow(-1, float64(i+1))
	}
	m := errorsOf(e, 0.95)
	near(t, "mean", float64(m.Estimate("margin_error.mean").Value), 0.5, 1e-12)
	near(t, "rms", float64(m.Estimate("margin_error.rms").Value), math.Sqrt(201.0*401/6), 1e-9)
	near(t, "p99", float64(m.Estimate("margin_error.p99").Value), 198, 0)
	near(t, "max", float64(m.Estimate("margin_error.max").Value), 200, 0)
}

// tau01 is held against its definition: the predicted curve of VD over t, walked on a fine grid.
func TestTauIsTheFirstGoodMargin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		margins := []float64{0, 0.1, 0.25, 0.5}[:rapid.IntRange(1, 4).Draw(t, "margins")]
		n := rapid.IntRange(1, 250).Draw(t, "people")
		lenient := rapid.Float64Range(-0.6, 0.3).Draw(t, "mean error")
		errs := rapid.SliceOfN(rapid.Float64Range(-0.3, 0.3), n, n).Draw(t, "errors")
		promises := make([][]Promise, len(margins))
		for i, s := range margins {
			for _, e := range errs {
				own := s + 1e-3
				promises[i] = append(promises[i], Promise{
					Status: recourse.Found, Own: Float(own),
					Other: Float(own + lenient + e*(1+s)),
				})
			}
		}
		got := tau01(margins, promises, 0.95)
		tau, last := float64(got.Value), margins[len(margins)-1]
		if got.Extrapolated != (tau > last) {
			t.Fatalf("%+v", got)
		}
		good := func(x float64) bool {
			ok := predictedVD(margins, promises, x) <= tauShare
			for _, s := range margins {
				ok = ok && (s < x || predictedVD(margins, promises, s) <= tauShare)
			}
			return ok
		}
		if tau > 0 && !good(tau) && !good(tau+1e-9) {
			t.Fatalf("tau01 = %v is not enough", tau)
		}
		for x := 0.0; x < tau-1e-9; x += 1e-3 {
			if good(x) {
				t.Fatalf("tau01 = %v, but %v is enough", tau, x)
			}
		}
	})
}

// predictedVD is the share that breaks when the points solved at the largest
// margin <= t are moved on to t with their error unchanged.
func predictedVD(margins []float64, promises [][]Promise, t float64) float64 {
	i := 0
	for k, s := range margins {
		if s <= t {
			i = k
		}
	}
	broken := 0
	for _, p := range promises[i] {
		e := p.Other - p.Own
		if max(float64(p.Own), t)+float64(e) <= 0 {
			broken++
		}
	}
	return float64(broken) / float64(len(promises[i]))
}

func TestTauWithoutPromises(t *testing.T) {
	t.Parallel()
	if tau := tau01([]float64{0, 0.1}, make([][]Promise, 2), 0.95); tau.Value.Defined() || tau.N != 0 || tau.Extrapolated {
		t.Errorf("%+v", tau)
	}
	held := []Promise{{Status: recourse.Found, Own: 0.1, Other: 0.05}}
	for _, c := range []struct {
		margins []float64
		made    [][]Promise
		atMost  bool
	}{
		{[]float64{0.1}, [][]Promise{held}, true},
		{[]float64{0.1, 0.2}, [][]Promise{held, held}, true},
		{[]float64{0}, [][]Promise{held}, false},
	} {
		if tau := tau01(c.margins, c.made, 0.95); float64(tau.Value) != c.margins[0] || tau.AtMost != c.atMost {
			t.Errorf("%v: %+v", c.margins, tau)
		}
	}
	if tau := tau01([]float64{0, 0.1}, [][]Promise{nil, held}, 0.95); !tau.AtMost || tau.Value != 0.1 || tau.From != 0.1 {
		t.Errorf("promises at 0.1 only: %+v", tau)
	}
}

func TestUndefinedIsNull(t *testing.T) {
	t.Parallel()
	data := must.Get(json.Marshal([]Float{1.5, undefined(), Float(math.Inf(1))}))(t)
	must.Same(t, "[1.5,null,null]", string(data))
	var back []Float
	if err := json.Unmarshal(data, &back); err != nil || back[0] != 1.5 || back[1].Defined() {
		t.Errorf("%v, %v", back, err)
	}
	if r := NewRate(0, 0, 0.95); r.Value.Defined() || r.Lo != 0 || r.Hi != 1 {
		t.Errorf("rate of nobody: %+v", r)
	}
}

func logit(p float64) Float { return Float(math.Log(p / (1 - p))) }

func labelled(p []float64, outcomes []int8) (records []Record) {
	for i := range p {
		m := logit(p[i])
		records = append(records, Record{Full: m, Quant: m / 2, Label: outcomes[i]})
	}
	return records
}

// The example of scikit-learn's documentation of roc_auc_score, with a person whose outcome nobody knows.
func TestScores(t *testing.T) {
	t.Parallel()
	records := labelled([]float64{0.1, 0.4, 0.35, 0.8, 0.9}, []int8{0, 0, 1, 1, -1})
	s := Settings{Margins: []float64{0}, Confidence: 0.95}
	r := summarize(t, records, s, DataFile{})
	near(t, "AUC", float64(r.Estimate("auc_full").Value), 0.75, 1e-12)
	near(t, "AUC of half the margins", float64(r.Estimate("auc_quant").Value), 0.75, 1e-12)
	near(t, "FPR", float64(r.Rate("fpr_full").Value), 0, 0)
	near(t, "FNR", float64(r.Rate("fnr_full").Value), 0.5, 0)
	if r.Estimate("auc_full").N != 4 || r.Rate("fnr_full").Den != 2 {
		t.Errorf("counts: %+v, %+v", r.Estimate("auc_full"), r.Rate("fnr_full"))
	}
	one := summarize(t, labelled([]float64{0.3, 0.6}, []int8{1, 1}), s, DataFile{})
	if one.Estimate("auc_full").Value.Defined() {
		t.Errorf("one outcome only: %+v", one.Values)
	}
}

func TestAUCByPairs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(d *rapid.T) {
		some := rapid.SliceOfN(rapid.Map(rapid.IntRange(-4, 4), func(v int) float64 { return float64(v) / 2 }), 2, 12)
		good, bad := some.Draw(d, "good"), some.Draw(d, "bad")
		slices.Sort(good)
		slices.Sort(bad)
		kernel := func(x, y float64) float64 {
			switch {
			case x > y:
				return 1
			case x == y:
				return 0.5
			}
			return 0
		}
		rows, columns := make([]float64, len(good)), make([]float64, len(bad))
		var area float64
		for i, x := range good {
			for j, y := range bad {
				k := kernel(x, y)
				area += k / float64(len(good)*len(bad))
				rows[i] += k / float64(len(bad))
				columns[j] += k / float64(len(good))
			}
		}
		variance := func(v []float64) (s float64) {
			for _, x := range v {
				s += (x - area) * (x - area) / float64(len(v)-1) / float64(len(v))
			}
			return s
		}
		e := aucOf(rank(good), rank(bad), 0.95)
		near(t, "area", float64(e.Value), area, 1e-12)
		half := 1.959963984540054 * math.Sqrt(variance(rows)+variance(columns))
		near(t, "lower end", float64(e.Lo), max(0, area-half), 1e-9)
		near(t, "upper end", float64(e.Hi), min(1, area+half), 1e-9)
	})
}
