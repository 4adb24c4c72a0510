package gate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/eval"
)

func TestParseCheck(t *testing.T) {
	for text, want := range map[string]Check{
		"vd<=0.02":                       {Metric: "vd", Max: ptr(0.02)},
		" vd <= 2e-2 ":                   {Metric: "vd", Max: ptr(0.02)},
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
		c, err := ParseCheck(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if d := cmp.Diff(want, c); d != "" {
			t.Errorf("%s: %s", text, d)
		}
		again, err := ParseCheck(c.String())
		if err != nil || cmp.Diff(c, again) != "" {
			t.Errorf("%s: %s reads as another check: %v", text, c.String(), err)
		}
	}
	for _, text := range []string{"vd<=0.02", "crg.median@0.25<=0.1:warning", "|crg.median|<=0.1", "gap(vd[sex])<=0.05", "increase(vd)<=0.01", "frr@0.5[sex*race]>=0.25", "bytes<=1000000"} {
		if c, err := ParseCheck(text); err != nil || c.String() != text {
			t.Errorf("%s is written %s (%v)", text, c.String(), err)
		}
	}
}

func TestParseCheckErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "it needs a limit, as in vd<=0.02",
		"vd":                           "it needs a limit",
		"vd<0.02":                      `"<" is no comparison here; use <= or >=`,
		"vd=0.02":                      `"=" is no comparison here`,
		"<=0.02":                       "a check needs a metric",
		"vd<=":                         `the limit "" is not a number`,
		"vd<=2%":                       `the limit "2%" must be a number: write 0.02`,
		"vd<=2":                        "for 2 % write 0.02",
		"vd<=200":                      "it must lie between 0 and 1",
		"vd<=-0.1":                     "it must lie between 0 and 1",
		"vd<=NaN":                      `the limit "NaN" is not a number`,
		"vd<=inf":                      `the limit "inf" is not a number`,
		"vd<=1e999":                    `is not a number`,
		"vd<=0x1p-4":                   `is not a number`,
		"vd@x<=0.02":                   `the margin "x" is not a number`,
		"vd@-0.1<=0.02":                "a margin of -0.1",
		"vd[<=0.02":                    "is not closed",
		"vd[]<=0.02":                   "nothing stands in the brackets",
		"vd[sex*]<=0.02":               "is no grouping",
		"vdd<=0.02":                    `there is no metric "vdd"; did you mean "vd"?`,
		"crg<=0.1":                     `did you mean "crg.mean"?`,
		"rms<=0.1":                     `did you mean "margin_error.rms"?`,
		"margins[].vd<=0.02":           "is not closed",
		"decisions.lost<=0.02":         `did you mean "lost"?`,
		"footprint.quant.bytes<=10":    `did you mean "bytes"?`,
		"tau01@0.1<=0.3":               "tau01 has no required margin",
		"bytes[sex]<=1000":             "bytes is the same for all people",
		"timing.batch_1.quant[sex]<=1": "the same for all people",
		"|vd|<=0.1":                    "a share, which is never below 0: use max",
		"|crg.median|>=0.1":            "abs_max is bounded from above only",
		"|crg.median|<=-0.1":           "what is never below 0",
		"gap(vd)<=0.1":                 "max_gap is about groups: it needs by",
		"gap(vd[sex])>=0.1":            "bounded from above only",
		"increase(vd[sex])<=0.1":       "max_increase is about all people",
		"accuracy_drop<=2":             "for 2 % write 0.02",
		"vd<=0.02:":                    "nothing stands behind the colon",
		"vd<=0.02:warn":                `"warn" is no severity`,
		"vd<=0.02:warnin":              `did you mean "warning"?`,
	} {
		c, err := ParseCheck(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, c, err, want)
		}
	}
}

func FuzzParseCheck(f *testing.F) {
	for _, s := range []string{"vd<=0.02", "frr@0.25>=0.9:error", "|crg.median@1e-1[sex]|<=.1:warning", "gap(vd[a*b])<=0.05", "increase(bytes)<=-1E3", "vd[a]b]<=0.1", "||<=", "gap(]@[)<=0", "vd[ ]<=0", "vd[\n]<=0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCheck(text)
		if err != nil {
			return
		}
		again, err := ParseCheck(c.String())
		if err != nil {
			t.Fatalf("%q is written %q: %v", text, c.String(), err)
		}
		if d := cmp.Diff(c, again); d != "" {
			t.Fatalf("%q is written %q: %s", text, c.String(), d)
		}
		g := &Gate{Checks: []Check{c}}
		if err := g.Check(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if r := Judge(g, &eval.Result{}, nil, noon); r.Verdict == Pass && c.Severity != Warns {
			t.Fatalf("%q passes", text)
		}
	})
}
