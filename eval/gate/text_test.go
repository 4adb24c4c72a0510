package gate

import (
	"strings"
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
		if c, err := ParseCheck(text); err != nil || c.String() != text {
			t.Errorf("%s is written %s (%v)", text, c.String(), err)
		}
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
		if c, err := ParseCheck(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, c, err, want)
		}
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
