package gate

import (
	"math"
	"slices"
	"testing"

	"cfq/eval"
)

func TestShown(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, c := range []struct {
		metric, limit       string
		value, lower, upper eval.Float
		want                Shown
		from, to            float64
	}{
		{"vd", "<= 0.02", 36. / 373, 0.07249, 0.1255, Shown{"9.7 %", "7.2 to 12.6 %", "<= 2 %"}, -inf, 0.02},
		{"vd", "<= 0.02", 0, 0, 0.0200001, Shown{"0 %", "0 to 2.1 %", "<= 2 %"}, -inf, 0.02},
		{"frr", ">= 0.9", 0.5, 0.4, 0.6, Shown{"50 %", "40 to 60 %", ">= 90 %"}, 0.9, inf},
		{"crg.median", "|value| <= 0.05", 0.007423, 0, 0.01335, Shown{"0.74 %", "0 to 1.4 %", "|value| <= 5 %"}, -.05, .05},
		{"vd", "gap <= 0.05", 0.041, 0, 0.1326, Shown{"4.1 pp", "0 to 13.3 pp", "gap <= 5 pp"}, -inf, 0.05},
		{"vd", "increase <= 0.01", 0.001, -0.01, 0.02, Shown{"0.1 pp", "-1 to 2 pp", "increase <= 1 pp"}, -inf, 0.01},
		{"accuracy_drop", "<= 0.01", 0.001, -0.006587, 0.0085, Shown{"0.1 pp", "-0.66 to 0.85 pp", "<= 1 pp"}, -inf, 0.01},
		{"bytes", "<= 9000", 4639, 4639, 4639, Shown{"4639 bytes", "exact", "<= 9000 bytes"}, -inf, 9000},
		{"tau01", "<= 0.1", 0.03, undefined(), 0.04, Shown{"0.03 logits", "<= 0.04 logits", "<= 0.1 logits"}, -inf, 0.1},
		{"vd", "<= 0.02", undefined(), undefined(), undefined(), Shown{"", "", "<= 2 %"}, -inf, 0.02},
	} {
		f := Finding{
			Metric: c.metric, Limit: c.limit, Bounded: Bounded{Value: c.value, Lower: c.lower, Upper: c.upper},
		}
		from, to, ok := f.Allowed()
		if got := f.Shown(); got != c.want || from != c.from || to != c.to || !ok {
			t.Errorf("%s %s: %+v from %v to %v", c.metric, c.limit, got, from, to)
		}
	}
	f := Finding{Metric: "outputs", Limit: "finite"}
	if _, _, ok := f.Allowed(); ok || f.Shown() != (Shown{Limit: "finite"}) {
		t.Errorf("%+v", f.Shown())
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	damaged := broken(0, 1000)
	damaged.Population.UnreadableRows = eval.Tally{Value: 0.1, Num: 100, Den: 1000}
	sample := broken(0, 100)
	sample.Settings.Sample, sample.Population.Evaluated, sample.Population.Refused = 100, 100, 900
	distant := broken(0, 1000)
	distant.Margins[0].Values["pixel_distance_p95"] = eval.Estimate{Value: 91, N: 1000, Lo: 90, Hi: 92}.AsValue()
	for _, c := range []struct {
		check string
		r     *eval.Result
		want  []string
	}{
		{"pixel_distance_p95<=80", distant, []string{
			"Give the task a smaller latent.pixels, or train the decoder for longer; no quantized model changes it: " +
				"pixel_distance_p95<=80.",
		}},
		{"vd<=0.02", damaged, []string{"Mend the data: unreadable_rows<=0.01."}},
		{"vd<=0.02", broken(0, 1000), nil},
		{"vd<=0.02", broken(0, 100), []string{"Bring more people that the model was not judged on: 149 for vd<=0.02."}},
		{"vd<=0.02", sample, []string{
			"Judge all refused people, without --sample, or bring more people that the model was not judged on: 149 for " +
				"vd<=0.02.",
		}},
		{"vd<=0.02", broken(100, 1000), []string{
			"Quantize again with --target-vd 0.02, or with a larger --budget: vd<=0.02.",
		}},
		{"vd<=0.02:warning", broken(100, 1000), nil},
		{"vd@0.3<=0.02", broken(0, 1000), []string{"Margin 0.3 was not evaluated: vd@0.3<=0.02."}},
		{"bytes<=100", broken(0, 1000), []string{"The files were not measured: bytes<=100."}},
	} {
		if got := Judge(gateOf(t, c.check), c.r, nil).Next; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", c.check, got)
		}
	}
}
