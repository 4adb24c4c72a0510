package gate

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/must"
	"cfq/internal/statistics"
)

func ptr(x float64) *float64 { return &x }

var noon = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a day of the tests

// broken is a result in which k of n promises break at margin 0.1; as many people of as many can be helped.
func broken(k, n int) *eval.Result {
	share := eval.NewRate(k, n, 0.95).AsValue()
	return &eval.Result{
		Settings: eval.Settings{Margins: []float64{0.1}, Confidence: 0.95}, Values: eval.Values{},
		Margins: []eval.AtMargin{{Margin: 0.1, Values: eval.Values{"vd": share, "frr": share}}},
	}
}

func single(t testing.TB, g Gate, r *eval.Result) Finding {
	t.Helper()
	must.Do(t, g.Check())
	report := Judge(&g, r, nil)
	must.Same(t, 1, len(report.Findings))
	return report.Findings[0]
}

// gateOf has the checks, as text.
func gateOf(t testing.TB, checks ...string) *Gate {
	t.Helper()
	g := &Gate{}
	for _, text := range checks {
		g.Checks = append(g.Checks, must.Get(ParseCheck(text))(t))
	}
	return g
}

func maxVD(limit float64) []Check { return []Check{{Metric: "vd", Max: &limit}} }

func TestShareSentences(t *testing.T) {
	const open = "; with this share no number of people is enough"
	for _, c := range []struct {
		check string
		k, n  int
		want  Verdict
		need  int
		why   string // after the name of the metric
	}{
		{"vd<=0.02", 0, 149, Pass, 0, "none of 149; at most 1.991 % with confidence 95 %, within the limit of 2 %"},
		{"vd<=0.02", 0, 148, Inconclusive, 149, "none of 148; at most 2.1 % with confidence 95 %, above the limit of 2 %; " +
			"149 people are needed if the share stays"},
		{"vd<=0.02", 0, 120, Inconclusive, 149, "none of 120; at most 2.5 % with confidence 95 %, above the limit of 2 %; " +
			"149 people are needed if the share stays"},
		{"vd<=0.01", 0, 120, Inconclusive, 299, "none of 120; at most 2.5 % with confidence 95 %, above the limit of 1 %; " +
			"299 people are needed if the share stays"},
		{"vd<=0.02", 12, 640, Inconclusive, 33571, "12 of 640 (1.9 %); at most 3.1 % with confidence 95 %, above the " +
			"limit of 2 %; 33571 people are needed if the share stays"},
		{"vd<=0.02", 14, 640, Inconclusive, 0, "14 of 640 (2.2 %); at most 3.4 % with confidence 95 %, above the limit of " +
			"2 %" + open},
		{"vd<=0.02", 40, 640, Fail, 0, "40 of 640 (6.2 %); at least 4.7 % with confidence 95 %, above the limit of 2 %"},
		{"frr>=0.9", 100, 100, Pass, 0, "100 of 100 (100 %); at least 97 % with confidence 95 %, within the limit of 90 %"},
		{"frr>=0.9", 20, 20, Inconclusive, 29, "20 of 20 (100 %); at least 86 % with confidence 95 %, below the limit of " +
			"90 %; 29 people are needed if the share stays"},
		{"frr>=0.9", 10, 100, Fail, 0, "10 of 100 (10 %); at most 16.4 % with confidence 95 %, below the limit of 90 %"},
		{"vd<=0", 0, 100000, Inconclusive, 0, "none of 100000; at most 0.003 % with confidence 95 %, above the limit of " +
			"0 %" + open},
		{"vd<=0.5", 0, 0, Inconclusive, 0, "there are no people to measure it on"},
	} {
		f := single(t, *gateOf(t, c.check), broken(c.k, c.n))
		if m := metrics.Must(f.Metric); f.Verdict != c.want || f.Need != c.need || f.Why != m.Name+": "+c.why {
			t.Errorf("%s, %d of %d: %s, need %d, %s\nwant %s, need %d, %s", c.check, c.k, c.n, f.Verdict, f.Need, f.Why,
				c.want, c.need, c.why)
		}
	}
}

func atMostOf(k, n int, p float64) float64 {
	var sum float64
	scale := float64(n) * math.Log1p(-p) // of the term, so that it does not vanish
	term := 1.0
	for i := 0; i <= k; i++ {
		if i > 0 {
			term *= float64(n-i+1) / float64(i) * p / (1 - p)
		}
		if term > 1e100 {
			sum, term, scale = sum*1e-100, term*1e-100, scale+100*math.Ln10
		}
		sum += term
	}
	return sum * math.Exp(scale)
}

// The verdict on every count of every small n is what the definition of the exact bounds says: the upper one is within
// the limit when so few are improbable at the limit, the lower one beyond it when so many are.
func TestSmallNumbers(t *testing.T) {
	t.Parallel()
	const slack = 1e-9
	for n := 1; n <= 17; n += 1 + n/4 {
		for k := 0; k <= n; k++ {
			for _, limit := range []float64{0.01, 0.05, 0.3, 0.9} {
				few, many := atMostOf(k, n, limit), 1-atMostOf(k-1, n, limit)
				for _, confidence := range []float64{0.9, 0.95, 0.99} {
					alpha := 1 - confidence
					if math.Abs(few-alpha) < slack || math.Abs(many-alpha) < slack {
						continue
					}
					want := Inconclusive
					if few < alpha {
						want = Pass
					} else if many < alpha {
						want = Fail
					}
					g := Gate{Confidence: confidence, Checks: maxVD(limit)}
					if f := Judge(&g, broken(k, n), nil).Findings[0]; f.Verdict != want {
						t.Fatalf("%d of %d, limit %v, confidence %v: %s, want %s", k, n, limit, confidence, f.Verdict, want)
					}
					mirror := Gate{Confidence: confidence, Checks: []Check{{Metric: "vd", Min: ptr(1 - limit)}}}
					if f := Judge(&mirror, broken(n-k, n), nil).Findings[0]; f.Verdict != want {
						t.Fatalf("%d of %d, at least %v, confidence %v: %s, want %s", n-k, n, 1-limit, confidence, f.Verdict, want)
					}
				}
			}
		}
	}
}

func TestNeed(t *testing.T) {
	const most = 2000
	asked := 0
	for n := 1; n <= 20; n++ {
		for k := 0; k <= n; k++ {
			for _, limit := range []float64{0.05, 0.1, 0.2, 0.4} {
				if f := single(t, Gate{Checks: maxVD(limit)}, broken(k, n)); f.Verdict != Inconclusive {
					continue
				}
				want := 0
				for m := n + 1; float64(k)/float64(n) < limit && want == 0 && m <= most; m++ {
					if atMostOf(int(math.Round(float64(k)/float64(n)*float64(m))), m, limit) <= 0.05 {
						want = m
					}
				}
				for _, side := range []limitSide{atMost, atLeast} {
					got := limit2(side, limit).need(count(side, k, n), n, 0.95)
					if got != want && (want > 0 || got <= most || float64(k) >= limit*float64(n)) {
						t.Fatalf("%v, %d of %d: %d people, want %d", limit2(side, limit), count(side, k, n), n, got, want)
					}
				}
				asked++
			}
		}
	}
	if asked < 300 {
		t.Errorf("only %d cases", asked)
	}
}

func limit2(s limitSide, x float64) limit {
	if s == atLeast {
		x = 1 - x
	}
	return limit{s, x}
}

func count(s limitSide, k, n int) int {
	if s == atLeast {
		return n - k
	}
	return k
}

func TestManyPeople(t *testing.T) {
	for _, c := range []struct {
		k, n int
		p    float64
	}{{1900, 100000, 0.02}, {19700, 1000000, 0.02}, {499000, 1000000, 0.5}, {80, 100000, 0.001}} {
		want := atMostOf(c.k, c.n, c.p)
		must.Near(t, want, tail(float64(c.k), c.n, c.p), 1e-5*want)
		must.Near(t, 1-want, (limit{atMost, c.p}).pValue(c.k+1, c.n), 1e-5)
	}
	// A need can be held against the bound itself; beyond a million it is a round number, and beyond all reason none.
	for _, share := range []float64{0.015, 0.019, 0.0195, 0.0197, 0.0199, 0.01995} {
		need := needOf(share, 1, 0.02, 0.05)
		want := math.Pow(1.6449/(0.02-share), 2) * 0.02 * 0.98
		must.Near(must.In(t, share), want, float64(need), 0.1*want)
		if k := int(math.Round(share * float64(need))); need < maxNeed/2 &&
			statistics.ClopperPearsonUpper(k, need, 0.95) > 0.02 {
			t.Errorf("%d of %d do not show it", k, need)
		}
	}
	must.Same(t, 0, needOf(0.019999, 1, 0.02, 0.05))
}

func TestSentenceIsNotTheLimit(t *testing.T) {
	for n := 100; n < 3000; n += 101 {
		for k := range 40 {
			f := single(t, Gate{Checks: maxVD(0.02)}, broken(k, n))
			for _, part := range strings.Split(f.Why, ",") {
				if strings.Contains(part, "at most 2 %") || strings.Contains(part, "at least 2 %") {
					t.Fatalf("%d of %d: %s", k, n, f.Why)
				}
			}
			if strings.Contains(f.Why, "e-") || strings.Contains(f.Why, "NaN") ||
				strings.Contains(f.Why, fmt.Sprint(math.Inf(1))) {
				t.Fatal(f.Why)
			}
		}
	}
}

// TestNeedAbout holds the rough number against intervals that are halved by four times as many people.
func TestNeedAbout(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		l             limit
		x, lo, hi     float64
		n, want, most int
	}{
		{limit{atMost, 0.03}, 0.02, 0, 0.04, 100, 400, 410},
		{limit{atMost, 0.03}, 0.025, 0.02, 0.0301, 1000, 1050, 1100},
		{limit{atLeast, 0.9}, 0.95, 0.85, 1.05, 50, 200, 210},
		{limit{within, 0.1}, 0.05, -0.15, 0.25, 60, 960, 970}, // the nearer limit decides
		{limit{within, 0.1}, -0.05, -0.25, 0.15, 60, 960, 970},
		{limit{atMost, 0.03}, 0.03, 0, 0.06, 100, 0, 0},
		{limit{atMost, 0.03}, 0.02, 0, inf, 100, 0, 0},
	} {
		v := eval.Value{Estimate: eval.Estimate{Value: eval.Float(c.x), N: c.n}}
		if got := c.l.needAbout(v, c.lo, c.hi); got < c.want || got > c.most {
			t.Errorf("%v, %v in [%v, %v] of %d: %d, want about %d", c.l, c.x, c.lo, c.hi, c.n, got, c.want)
		}
	}
}

// TestNeedBounds: so many people give a quantile the end that a limit asks for, and one fewer does not.
func TestNeedBounds(t *testing.T) {
	for id, q := range map[string]float64{
		"margin_error.p99": .99, "crg.median": .5, "margins_quant.p05": .05, "crg.mean": 0,
	} {
		for _, l := range []limit{{atMost, 1}, {atLeast, 1}, {within, 1}} {
			s := &limitTest{Metric: &metrics.Metric{ID: id}, limit: l}
			v := eval.Value{Estimate: eval.Estimate{Lo: eval.Float(math.Inf(-1)), Hi: eval.Float(math.Inf(1))}}
			n := s.needBounds(v, 0.95)
			enough := func(n int) bool {
				lo, hi := statistics.OrderRanks(n, q, 0.025)
				return (l.side == atMost || lo > 0) && (l.side == atLeast || hi <= n)
			}
			if q > 0 && (!enough(n) || enough(n-1)) || q == 0 && n != 0 {
				t.Errorf("%s, %v: %d", id, l, n)
			}
		}
	}
}
