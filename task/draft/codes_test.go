package draft

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

func profileOf(n int, value func() float64) *profile {
	c := newColumn("x")
	for range n {
		c.add(task.Decimal(value()))
	}
	return look(&c)
}

func honest(rng *rand.Rand) map[string]func() float64 {
	mean, sd := rng.Float64()*40, 0.5+rng.Float64()*20
	normal := func() float64 { return mean + sd*rng.NormFloat64() }
	skewed := func() float64 { return math.Exp(1 + 1.5*rng.NormFloat64()) }
	width := 2 + rng.IntN(60)
	pick := func(v ...float64) func() float64 { return func() float64 { return v[rng.IntN(len(v))] } }
	poisson := func() (k float64) {
		for p := rng.Float64(); p > math.Exp(-mean/8); p *= rng.Float64() {
			k++
		}
		return k
	}
	return map[string]func() float64{
		"normal":         normal,
		"normal, whole":  func() float64 { return math.Round(normal()) },
		"narrow, whole":  func() float64 { return math.Round(mean/10 + (0.5+sd/10)*rng.NormFloat64()) },
		"amounts":        func() float64 { return math.Round(1000 * skewed()) },
		"round amounts":  func() float64 { return 500 * math.Round(3*skewed()) },
		"heavy tails":    func() float64 { return math.Round(10 * rng.NormFloat64() / (0.05 + rng.Float64())) },
		"uniform":        func() float64 { return float64(rng.IntN(width)) },
		"both sides":     func() float64 { return float64(rng.IntN(width) - width/2) },
		"poisson":        poisson,
		"difference":     func() float64 { return poisson() - poisson() },
		"geometric":      func() float64 { return math.Floor(rng.ExpFloat64() * sd / 4) },
		"mostly zero":    func() float64 { return math.Round(max(0, rng.Float64()-0.8) * 100 * skewed()) },
		"scale":          pick(1, 2, 3, 4, 5),
		"signed scale":   pick(-2, -1, 0, 1, 2),
		"even scale":     pick(-4, -2, 0, 2, 4),
		"trend":          pick(-1, 0, 1),
		"prices":         pick(9, 19, 29, 49, 99, 199, 499, 999),
		"few prices":     pick(9, 19, 29, 99),
		"limits":         pick(500, 1000, 2000, 5000, 10000, 50000),
		"percent":        func() float64 { return math.Round(100 * rng.Float64()) },
		"ages, capped":   func() float64 { return math.Round(min(90, max(18, 45+20*rng.NormFloat64()))) },
		"hours, to 99":   func() float64 { return math.Round(min(99, max(1, 40+15*rng.NormFloat64()))) },
		"share":          rng.Float64,
		"centred":        func() float64 { return task.Rounded(rng.NormFloat64(), 4) },
		"balance":        func() float64 { return math.Round(200*skewed() - 900) },
		"months overdue": pick(-2, -1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8),
	}
}

func TestNoCodesInHonestData(t *testing.T) {
	t.Parallel()
	tried, wrong := 0, map[string]int{}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 11))
		for _, n := range []int{40, 250, 2000} {
			if n == 2000 && seed%4 > 0 {
				continue
			}
			columns := honest(rng)
			for _, name := range slices.Sorted(maps.Keys(columns)) {
				p := profileOf(n, columns[name])
				if tried++; len(p.points) > 1 && p.codes() != nil {
					wrong[name]++
					t.Logf("%s, %d rows, seed %d: %v of %v", name, n, seed, p.codes(), p.points)
				}
			}
		}
	}
	if len(wrong) > 0 {
		t.Errorf("codes in %v of %d columns", wrong, tried)
	}
}

func TestCodes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	normal := func(mean, sd float64) func() float64 {
		return func() float64 { return math.Round(mean + sd*rng.NormFloat64()) }
	}
	count := func() float64 { return math.Floor(rng.ExpFloat64() * 3) }
	for _, c := range []struct {
		name  string
		value func() float64
		share float64
		codes []float64
	}{
		{"months, three codes", count, 0.06, []float64{-9, -8, -7}},
		{"a score far from zero", normal(72, 10), 0.05, []float64{-9}},
		{"most have none", func() float64 { return 1 + math.Floor(rng.ExpFloat64()*200) }, 0.8, []float64{-1}},
		{"minus one in counts", count, 0.05, []float64{-1}},
		{"household, 99", func() float64 { return float64(1 + rng.IntN(7)) }, 0.02, []float64{99}},
		{"age, 998 and 999", normal(45, 12), 0.02, []float64{998, 999}},
		{"amounts of both signs", normal(0, 50), 0.02, []float64{-999}},
		{"a share", rng.Float64, 0.03, []float64{-1}},
		{"a scale from one", func() float64 { return float64(1 + rng.IntN(5)) }, 0.05, []float64{-1}},
		{"age, 99", func() float64 { return min(90, max(18, normal(45, 12)())) }, 0.05, []float64{99}},
		{"a credit score", func() float64 { return min(850, max(300, normal(680, 70)())) }, 0.1, []float64{999}},
		{"gains", func() float64 { return max(0, math.Round(9000*rng.NormFloat64())) }, 0.01, []float64{99999}},
		{"counts, -1 and 999", func() float64 { return float64(rng.IntN(4)) }, 0.1, []float64{-1, 999}},
		{"age, -1 and 999", func() float64 { return min(90, max(18, normal(45, 12)())) }, 0.04, []float64{-1, 999}},
		{"months, -1 and 999", count, 0.04, []float64{-1, 999}},
		{"shares, -1 and 999", rng.Float64, 0.04, []float64{-1, 999}},
		{"household, 98 and 99", func() float64 { return float64(1 + rng.IntN(7)) }, 0.04, []float64{98, 99}},
		{"age, 98 and 99", func() float64 { return min(90, max(18, normal(45, 12)())) }, 0.06, []float64{98, 99}},
		{"age, 97 to 99", func() float64 { return min(85, max(18, normal(45, 12)())) }, 0.06, []float64{97, 98, 99}},
		{"years, 98 and 99", func() float64 { return math.Floor(rng.ExpFloat64() * 6) }, 0.06, []float64{98, 99}},
		{"amounts, -1 and 999", func() float64 { return math.Round(300 * rng.Float64()) }, 0.12, []float64{-1, 998, 999}},
		{"both ends", func() float64 { return float64(rng.IntN(12)) }, 0.1, []float64{-9, -8, 99}},
	} {
		p := profileOf(2000, func() float64 {
			if rng.Float64() < c.share {
				return c.codes[rng.IntN(len(c.codes))]
			}
			return c.value()
		})
		must.Same(must.In(t, c.name), c.codes, p.codes())
	}
}

// histories are 500 people with a count of months in which -9, -8 and -7 stand for no record, debt in whole units, and
// an outcome.
func histories() string {
	rng := rand.New(rand.NewPCG(7, 8))
	var b strings.Builder
	b.WriteString("months,debt,label\n")
	for i := range 500 {
		months := rng.IntN(9)
		if i%10 == 0 {
			months = -9 + i/10%3
		}
		fmt.Fprintf(&b, "%d,%d,%s\n", months, 100*rng.IntN(40), []string{"bad", "good"}[rng.IntN(2)])
	}
	return b.String()
}

func TestDraftKeepsCodesOutOfBounds(t *testing.T) {
	t.Parallel()
	d := draft(t, open(t, histories()), Options{Label: "label", Favourable: "good"})
	f := &d.Task.Features[0]
	must.Same(t, []float64{-9, -8, -7}, f.Number().Missing)
	if !f.Number().Ordinal || f.Bounds != [2]float64{0, 8} || f.Step != 1 || f.Number().Quantiles[0] != 0 {
		t.Errorf("%+v", f)
	}
	if all := strings.Join(strings.Fields(string(d.Text)), " "); !strings.Contains(all,
		`QUESTION: do these numbers mean "not known": -9, -8 or -7 in months (10.0 % of the rows)?`) {
		t.Error(all)
	}
	if d.Task.Features[1].Number().Missing != nil {
		t.Errorf("%+v", d.Task.Features[1])
	}
}

func TestCheckReportsCodesAndUnreachedValues(t *testing.T) {
	t.Parallel()
	const debt = "  - {name: debt, kind: numeric, bounds: [0, 3900], step: 100}\n"
	codes := `warning: months: -9, -8 or -7 looks like a code for "not known" (10.0 % of the rows)`
	for _, c := range []struct {
		features string
		want     []string
	}{
		{
			"  - {name: months, kind: ordinal, bounds: [-9, 8], step: 1}\n" + debt,
			[]string{codes + `, which actions lead from or to: write missing: [-9, -8, -7] and bounds within [0, 8], or`},
		},
		{"  - {name: months, kind: ordinal, bounds: [0, 8], step: 1, missing: [-9, -8, -7]}\n" + debt, nil},
		{"  - {name: months, kind: numeric, bounds: [-9, 8], step: 1, missing: []}\n" + debt, nil},
		{"  - {name: months, kind: numeric, actionable: false}\n" + debt, nil},
		{
			"  - {name: months, kind: numeric, bounds: [0, 8], step: 0.5, missing: [-9, -8, -7]}\n" + debt,
			[]string{"warning: months: every value is a whole number, and step 0.5 leads to others"},
		},
		{
			"  - {name: months, kind: numeric, bounds: [0, null], missing: [-9, -8, -7], max_decrease: 2}\n" + debt,
			[]string{
				"warning: months: an action may go up without limit, and the data run from 0 to 8: set bounds",
				"warning: months: every value is a whole number, and without a step an action may choose any: write step: 1",
			},
		},
		{
			"  - {name: debt, kind: numeric, step: 100, max_change: 500, direction: decrease}\n",
			[]string{"warning: debt: an action may go down to -500, and the data run from 0 to 3900: set bounds"},
		},
	} {
		findings(t, check(t, head+"features:\n"+c.features, histories(), nil), c.want)
	}
}

func TestMarkersAmongValues(t *testing.T) {
	t.Parallel()
	const home = "  - {name: home, kind: onehot, values: [rent, own, \"?\"]"
	const text = "version: 1\ndata: {label: label, favourable: good}\nfeatures:\n" + home + "}\n"
	warned := func(text string) string {
		var all []string
		for _, f := range check(t, text, twenty(), nil).Findings {
			all = append(all, f.Text)
		}
		return strings.Join(all, "; ")
	}
	must.Same(t, `? looks like "not known", and actions lead from and to it: write missing: ["?"], or `+
		"missing: [] if it is a value", warned(text))
	for _, more := range []string{
		`, missing: ["?"]}`, ", missing: []}", ", actionable: false}", ", transitions: {rent: [own]}}",
	} {
		if got := warned(strings.TrimSuffix(text, "}\n") + more + "\n"); strings.Contains(got, "not known") {
			t.Errorf("%s: %s", more, got)
		}
	}
	hot := func(d *Draft) *task.OneHot {
		e, _ := d.Task.Features[0].Encoding.(*task.OneHot)
		return e
	}
	d := draft(t, open(t, twenty()), Options{Label: "label", Favourable: "good", Encoding: encoding(t,
		`{"features": [{"column": "home", "kind": "onehot", "values": ["?", "own", "rent"]}]}`)})
	must.Same(t, []string{"?"}, hot(d).MissingValues)
	// A value that the encoding or the number of inputs says is one is not taken for a missing one, but elsewhere.
	data := strings.ReplaceAll(twenty(), ",4,", ",?,")
	for _, o := range []Options{
		{Encoding: encoding(t, `{"features": [{"column": "home", "kind": "binary", "one": "?"},
			{"column": "grade", "kind": "numeric"}]}`)},
		{Features: []string{"home", "grade"}, inputs: 4},
	} {
		o.Label, o.Favourable = "label", "good"
		d = draft(t, open(t, data), o)
		must.Same(t, []string{"?"}, d.Task.Data.Missing)
		p := must.Get(task.Read(t.Context(), write(t, "data.csv", data), d.Task, task.ReadOptions{}))(t)
		must.Same(t, 15, p.N)
		must.Same(t, []float32{0, 1}, []float32{p.X[0], p.X[2*p.Dim]})
	}
	if got := markers([]string{"?", "unknown"}); got != nil {
		t.Errorf("a category of nothing else: %q", got)
	}
}
