package gate

import (
	"math"
	"testing"

	"cfq/eval"
	"cfq/internal/must"
)

func TestParseCheck(t *testing.T) {
	for text, want := range map[string]Check{
		"vd<=0.02":                       {Metric: "vd", Max: ptr(0.02)},
		" vd <= 2e-2 ":                   {Metric: "vd", Max: ptr(0.02)},
		"vd<=2%":                         {Metric: "vd", Max: ptr(0.02)},
		"vd <= 0.5 %:warning":            {Metric: "vd", Max: ptr(0.005), Severity: Warns},
		"|crg.median|<=5%":               {Metric: "crg.median", AbsMax: ptr(0.05)},
		"frr>=0.9":                       {Metric: "frr", Min: ptr(0.9)},
		"vd[sex]<=0.05":                  {Metric: "vd", By: "sex", Max: ptr(0.05)},
		"vd@0.25[sex * race] <= 0.05":    {Metric: "vd", Margin: ptr(0.25), By: "sex*race", Max: ptr(0.05)},
		"crg.median@0.25<=0.1:warning":   {Metric: "crg.median", Margin: ptr(0.25), Max: ptr(0.1), Severity: Warns},
		"crg.median<=-0.1 : error":       {Metric: "crg.median", Max: ptr(-0.1)},
		"|crg.median|<=0.1":              {Metric: "crg.median", AbsMax: ptr(0.1)},
		"|crg.median@0[sex]|<=0.1":       {Metric: "crg.median", Margin: ptr(0), By: "sex", AbsMax: ptr(0.1)},
		"gap(vd[sex])<=0.05":             {Metric: "vd", By: "sex", MaxGap: ptr(0.05)},
		"increase(vd)<=0.01":             {Metric: "vd", MaxIncrease: ptr(0.01)},
		"increase(bytes)<=-100":          {Metric: "bytes", MaxIncrease: ptr(-100)},
		"vd[marital-status (a<=b)]<=0.1": {Metric: "vd", By: "marital-status (a<=b)", Max: ptr(0.1)},
		"bytes<=1000000":                 {Metric: "bytes", Max: ptr(1e6)},
	} {
		c := must.Get(ParseCheck(text))(t)
		must.Same(t, want, c)
		must.Same(t, c, must.Get(ParseCheck(c.String()))(t))
	}
	for _, text := range []string{
		"vd<=0.02", "crg.median@0.25<=0.1:warning", "|crg.median|<=0.1", "gap(vd[sex])<=0.05",
		"increase(vd)<=0.01", "frr@0.5[sex*race]>=0.25", "bytes<=1000000",
	} {
		c := must.Get(ParseCheck(text))(t)
		must.Same(t, text, c.String())
	}
}

func TestParseCheckErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "missing limit: write it as vd<=0.02",
		"vd":                           "missing limit",
		"vd<0.02":                      `unsupported operator "<": use <= or >=`,
		"vd=0.02":                      `unsupported operator "=": use <= or >=`,
		"<=0.02":                       "missing metric",
		"vd<=":                         `invalid limit "": want a number`,
		"vd<=x%":                       `invalid limit "x%": want a number`,
		"vd<=200%":                     "invalid limit 2 for vd",
		"bytes<=20%":                   `invalid limit "20%" for bytes: want a number of unit "bytes"`,
		"vd@10%<=0.02":                 `invalid margin "10%": want a number`,
		"vd<=1":                        "the limit 1 cannot fail: vd is always 1 or less",
		"vd<=100%":                     "the limit 1 cannot fail",
		"vd[sex]<=1":                   "the limit 1 cannot fail",
		"frr>=0":                       "the limit 0 cannot fail: frr is always 0 or more",
		"increase(vd)<=1":              "the limit 1 cannot fail: two values of vd differ by 1 at most",
		"gap(vd[sex])<=1":              "the limit 1 cannot fail",
		"accuracy_drop<=1":             "the limit 1 cannot fail",
		"|accuracy_drop|<=1":           "the limit 1 cannot fail",
		"dir_sim>=-1":                  "the limit -1 cannot fail",
		"act_overlap>=0":               "the limit 0 cannot fail",
		"crg.mean>=-1":                 "the limit -1 cannot fail",
		"vd<=2":                        "for 2 % write 0.02",
		"vd<=200":                      "want a number from 0 to 1",
		"vd<=-0.1":                     "want a number from 0 to 1",
		"vd<=NaN":                      `invalid limit "NaN": want a number`,
		"vd<=inf":                      `invalid limit "inf": want a number`,
		"vd<=1e999":                    `want a number`,
		"vd<=0x1p-4":                   `want a number`,
		"vd@x<=0.02":                   `invalid margin "x": want a number`,
		"vd@-0.1<=0.02":                "invalid margin -0.1",
		"vd[<=0.02":                    "missing ] in",
		"vd[]<=0.02":                   "empty brackets",
		"vd[sex*]<=0.02":               "invalid grouping",
		"vdd<=0.02":                    `unknown metric "vdd"; did you mean "vd"?`,
		"crg<=0.1":                     `did you mean "crg.median"?`,
		"rms<=0.1":                     `did you mean "margin_error.p95"?`,
		"margins[].vd<=0.02":           "missing ] in",
		"decisions.lost<=0.02":         `did you mean "lost"?`,
		"footprint.quant.bytes<=10":    `did you mean "bytes"?`,
		"tau01@0.1<=0.3":               "tau01 has no required margin",
		"bytes[sex]<=1000":             "bytes does not depend on people",
		"timing.batch_1.quant[sex]<=1": "does not depend on people",
		"|vd|<=0.1":                    "a share and never negative: use max",
		"|crg.median|>=0.1":            `unsupported operator ">=" for abs_max`,
		"|crg.median|<=-0.1":           "a number that is never negative",
		"gap(vd)<=0.1":                 "max_gap compares groups: set by",
		"gap(vd[sex])>=0.1":            `unsupported operator ">=" for max_gap: use <=`,
		"increase(vd[sex])<=0.1":       "max_increase is about all people",
		"accuracy_drop<=2":             "for 2 % write 0.02",
		"vd<=0.02:":                    "missing severity after the colon",
		"vd<=0.02:warn":                `invalid severity "warn": want error or warning`,
		"vd<=0.02:warnin":              `want error or warning`,
	} {
		must.Fail(t, must.Err(ParseCheck(text)), want)
	}
}

func FuzzParseCheck(f *testing.F) {
	for _, s := range []string{
		"vd<=0.02", "frr@0.25>=0.9:error", "|crg.median@1e-1[sex]|<=.1:warning",
		"gap(vd[a*b])<=0.05", "increase(bytes)<=-1E3", "vd[a]b]<=0.1", "||<=", "gap(]@[)<=0", "vd[ ]<=0", "vd[\n]<=0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCheck(text)
		if err != nil {
			return
		}
		must.Same(t, c, must.Get(ParseCheck(c.String()))(t))
		g := &Gate{Checks: []Check{c}}
		must.Do(t, g.Check())
		if r := Judge(g, &eval.Result{}, nil); r.Verdict == Pass && c.Severity != Warns {
			t.Fatalf("%q passes", text)
		}
	})
}

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
	unproved, refuted := broken(0, 1000), broken(0, 1000)
	unproved.Settings.Factor, unproved.Settings.NoProof = 1.5, "the original has convolutions"
	refuted.Margins[0].Margin, refuted.Settings.Margins, refuted.Settings.Factor = 0, []float64{0}, 1.5
	refuted.Margins[0].Values["transfer"] = eval.NewRate(10, 1000, 0.95).AsValue()
	for _, c := range []struct {
		check string
		r     *eval.Result
		want  []string
	}{
		{"pixel_distance_p95<=80", distant, []string{
			"Give the task a smaller latent.pixels, or train the decoder for longer; no quantized model changes it: " +
				"pixel_distance_p95<=80.",
		}},
		{"transfer@0.1>=0.5", unproved, []string{
			"Leave the check out, or judge a model that has a proof (docs/verdicts.md, Transfer certificates): " +
				"transfer@0.1>=0.5.",
		}},
		{"transfer@0>=0.5", refuted, []string{
			"Check it at a larger margin, as in transfer@0.1: at 0, changes end on the decision boundary: transfer@0>=0.5.",
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
		must.Same(t, c.want, Judge(gateOf(t, c.check), c.r, nil).Next)
	}
}
