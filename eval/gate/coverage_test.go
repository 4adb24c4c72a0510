package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/must"
	"cfq/recourse"
)

// mostFalse is the largest share of false passes at the limit that a metric may have in a gate, at 95 % confidence.
const mostFalse = 0.06

// dropped is the share of people whom only the original decides correctly.
const dropped = 0.02

// tail is a distribution of sizes with a heavy tail, scaled so that 1 % are above 0.3.
type tailed struct {
	name      string
	quantile  func(p float64) float64
	mean, rms float64
}

func tails() []tailed {
	lognormal := func(sigma float64) tailed {
		d := distuv.LogNormal{Sigma: sigma}
		return tailed{fmt.Sprintf("lognormal %v", sigma), d.Quantile, d.Mean(), math.Sqrt(d.Variance() + d.Mean()*d.Mean())}
	}
	pareto := distuv.Pareto{Xm: 1, Alpha: 2.5}
	const rare = 0.008
	out := []tailed{
		lognormal(1), lognormal(1.5),
		{"Pareto 2.5", pareto.Quantile, pareto.Mean(), math.Sqrt(pareto.Variance() + pareto.Mean()*pareto.Mean())},
		{"one in 125", func(p float64) float64 {
			if p > 1-rare {
				return 100
			}
			return p / (1 - rare)
		}, (1-rare)/2 + rare*100, math.Sqrt((1-rare)/3 + rare*1e4)},
	}
	for i := range out {
		d := out[i]
		by := 0.3 / d.quantile(0.99)
		out[i].quantile = func(p float64) float64 { return by * d.quantile(p) }
		out[i].mean, out[i].rms = by*d.mean, by*d.rms
	}
	return out
}

func (d *tailed) draw(rng *rand.Rand, n int, margins []float64) []eval.Record {
	records := make([]eval.Record, n, 2*n)
	for i := range n {
		e := d.quantile(rng.Float64())
		r := &records[i]
		*r = eval.Record{Person: i, Row: i, Label: -1, Full: -1, Quant: -1, Evaluated: true}
		cost := math.Exp(rng.NormFloat64())
		for _, t := range margins {
			p := eval.Promise{Status: recourse.Found, Cost: eval.Float(cost), Own: eval.Float(t), Other: eval.Float(t - e)}
			s := eval.Step{
				Full: p, Quant: p, DirSim: eval.Float(1 / (1 + e)), Overlap: eval.Float(1 / (1 + e)),
				Pixels:    eval.Float(e),
				Perturbed: slices.Repeat([]eval.Float{eval.Float(e)}, 3),
				Transfer:  &eval.Transfer{Upper: eval.Float(e)}, Back: &eval.Transfer{Upper: eval.Float(e)},
			}
			s.Quant.Cost = eval.Float(cost * (1 + e))
			r.Steps = append(r.Steps, s)
		}
	}
	for i := range n { // others, who are not evaluated: f decides 90 % of 80 % right, 40 % of the rest, so 80 % of all
		o := eval.Record{Person: n + i, Row: n + i, Full: -1, Quant: -1}
		right := 0.4
		if rng.Float64() < 0.8 {
			o.Label, right = 1, 0.9
		}
		if correct := rng.Float64() < right; correct == (o.Label == 1) {
			o.Full, o.Quant = 1, 1
		}
		if (o.Full > 0) == (o.Label == 1) && rng.Float64() < dropped/0.8 {
			o.Quant = -o.Quant
		}
		records = append(records, o)
	}
	return records
}

func (d *tailed) atTruth(t float64) map[string]limit {
	const steps = 200000
	similar := 0.0
	for i := range steps {
		similar += 1 / (1 + d.quantile((float64(i)+0.5)/steps)) / steps
	}
	most := func(x float64) limit { return limit{atMost, x*(1-1e-9) - 1e-12} }
	least := func(x float64) limit { return limit{atLeast, x + 1e-9*math.Abs(x) + 1e-12} }
	mean, median, p95, p99 := most(d.mean), most(d.quantile(0.5)), most(d.quantile(0.95)), most(d.quantile(0.99))
	return map[string]limit{
		"tau01": p99, "rtau01": p99, "accuracy_drop": most(dropped), "balanced_accuracy": least((0.9 + 0.4) / 2),
		"crg.mean": mean, "crg.ratio_of_sums": mean, "crg.median": median, "crg.p95": p95,
		"crg.abs_mean": mean, "crg.abs_median": median, "crg.abs_p95": p95,
		"crg_noise.abs_mean": mean, "crg_both.mean": mean,
		"pixel_distance": mean, "pixel_distance_p95": p95, "dir_sim": least(similar), "act_overlap": least(similar),
		"dir_sim_p05": least(1 / (1 + d.quantile(0.95))), "act_overlap_p05": least(1 / (1 + d.quantile(0.95))),
		"margin_error.mean": {within, mean.x}, "margin_error.rms": most(d.rms), "margin_error.p95": p95,
		"margin_error.p99": p99, "margin_error.max": most(d.quantile(1 - 1e-9)),
		"margins_full.median": most(t), "margins_quant.median": least(t - d.quantile(0.5)),
		"margins_quant.p05":      least(t - d.quantile(0.95)),
		"perturbation.point.p95": p95, "perturbation.ball.p95": p95, "perturbation.first_order.p95": p95,
		"transfer_d.p95": p95, "rtransfer_d.p95": p95,
	}
}

// falsePasses is how often each estimate passes a limit that its true value misses, for n people: the worst over the
// distributions.
func falsePasses(t *testing.T, n, runs int) map[string]float64 {
	t.Helper()
	margins := []float64{0.1}
	worst := map[string]float64{}
	for i, d := range tails() {
		g := &Gate{}
		for id, l := range d.atTruth(0.1) {
			if _, ok := metrics.By(id); ok {
				c := Check{Metric: id}
				c.put(l)
				g.Checks = append(g.Checks, c)
			}
		}
		rng := rand.New(rand.NewPCG(uint64(n), uint64(i)))
		settings := eval.Settings{Margins: margins, Confidence: g.Needs(false).Confidence}
		passes := map[string]int{}
		for range runs {
			r := summarize(t, d.draw(rng, n, margins), settings, eval.DataFile{})
			for _, f := range Judge(g, r, nil).Findings {
				if f.Verdict == Pass {
					passes[f.Metric]++
				}
			}
		}
		for _, c := range g.Checks {
			worst[c.Metric] = max(worst[c.Metric], float64(passes[c.Metric])/float64(runs))
		}
	}
	return worst
}

func TestEstimateErrorRates(t *testing.T) {
	t.Parallel()
	const runs = 40
	checkFalsePasses(t, falsePasses(t, 30, runs), 4*math.Sqrt(0.05*0.95/runs))
}

func checkFalsePasses(t *testing.T, at30 map[string]float64, slack float64) {
	t.Helper()
	for _, m := range metrics.All() {
		got, simulated := at30[m.ID]
		switch {
		case m.Kind != metrics.Estimate || m.Requires == metrics.Timing:
		case m.Instead == "" && !simulated:
			t.Errorf("%s is an estimate that is not simulated", m.ID)
		case m.Instead == "" && got > mostFalse+slack:
			t.Errorf("%s passes falsely in %.3f of samples, and may stand in a gate", m.ID, got)
		case m.Instead != "" && simulated && got <= mostFalse:
			t.Errorf("%s passes falsely in %.3f of samples, and may not stand in a gate", m.ID, got)
		case m.Instead != "":
			_, err := ParseCheck(m.ID + "<=0.1")
			if other, ok := metrics.By(m.Instead); !ok || other.Instead != "" || err == nil ||
				!strings.Contains(err.Error(), "use "+m.Instead) {
				t.Errorf("%s: %v", m.ID, err)
			}
		}
	}
}

func TestEstimateErrorRatesLong(t *testing.T) {
	t.Parallel()
	if os.Getenv("CFQ_LONG") != "1" {
		t.Skip("make long simulates this: it takes minutes")
	}
	sizes := []int{30, 100, 300, 1000}
	of := map[int]map[string]float64{}
	for _, n := range sizes {
		of[n] = falsePasses(t, n, 4000)
	}
	checkFalsePasses(t, of[sizes[0]], 0)
	var b strings.Builder
	b.WriteString("| metric | in a gate | 30 people | 100 | 300 | 1000 |\n|---|---|---|---|---|---|\n")
	for _, m := range metrics.All() {
		if _, ok := of[sizes[0]][m.ID]; !ok {
			continue
		}
		use := "yes"
		if m.Instead != "" {
			use = "`" + m.Instead + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s |", m.ID, use)
		for _, n := range sizes {
			fmt.Fprintf(&b, " %.1f |", 100*of[n][m.ID])
		}
		b.WriteString("\n")
	}
	documented(t, filepath.Join("..", "..", "docs", "verdicts.md"), b.String())
}

func documented(t *testing.T, path, table string) {
	t.Helper()
	page := must.Get(os.ReadFile(path))(t)
	before, rest, ok := strings.Cut(string(page), "<!-- coverage: begin -->\n")
	old, after, closed := strings.Cut(rest, "<!-- coverage: end -->")
	switch {
	case !ok || !closed:
		t.Fatalf("%s has no marks for the table", path)
	case old == table:
	case os.Getenv("UPDATE") == "1":
		page := before + "<!-- coverage: begin -->\n" + table + "<!-- coverage: end -->" + after
		must.Do(t, os.WriteFile(path, []byte(page), 0o644))
	default:
		t.Errorf("%s differs (UPDATE=1 writes it anew); the table is\n%s", path, table)
	}
}
