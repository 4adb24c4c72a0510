package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"golang.org/x/tools/txtar"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/config"
	"cfq/internal/message"

	"cfq/internal/must"
)

func exampleGate() *Gate {
	return &Gate{
		Confidence: 0.95, Margin: 0.1,
		Checks: []Check{
			{Metric: "vd", Max: ptr(0.02)},
			{Metric: "rvd", Max: ptr(0.03)},
			{Metric: "crg.median", AbsMax: ptr(0.05)},
			{Name: "fair", Metric: "vd", By: "sex", Max: ptr(0.05), MaxGap: ptr(0.05)},
			{Metric: "vd", Margin: ptr(0.25), MaxIncrease: ptr(0.01)},
			{Metric: "accuracy_drop", Max: ptr(0.01), Severity: Warns},
		},
	}
}

func fromPage(language string) string {
	data, err := os.ReadFile("../../docs/pipeline.md")
	if err != nil {
		panic(err)
	}
	page := strings.ReplaceAll(string(data), "\r\n", "\n")
	_, section, _ := strings.Cut(page, "## The gate file\n")
	_, block, _ := strings.Cut(section, "```"+language+"\n")
	block, _, _ = strings.Cut(block, "\n```")
	return block
}

func TestParse(t *testing.T) {
	example := fromPage("yaml")
	asJSON := must.Get(yaml.YAMLToJSON([]byte(example)))(t)
	var tabs bytes.Buffer
	must.Do(t, json.Indent(&tabs, asJSON, "", "\t"))
	for name, text := range map[string]string{
		"example": example, "json": string(asJSON), "json with tabs": tabs.String(), "crlf": strings.ReplaceAll(example,
			"\n", "\r\n"), "byte order mark": "\xef\xbb\xbf" + example,
	} {
		t.Log(name)
		must.Same(t, exampleGate(), must.Get(Parse("gate file", []byte(text)))(t))
	}
	path := filepath.Join(t.TempDir(), "g.yaml")
	must.Do(t, os.WriteFile(path, []byte("version: 1\nchecks: [{metric: vdd, max: 1}]\n"), 0o600))
	_, err := Load(path)
	must.Fail(t, err, path+`:2:19: unknown metric "vdd"; did you mean "vd"?`)
	if _, err = Load(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestLimitsInPerCent(t *testing.T) {
	text := "approver: A\nintended_use: loans\n" + check("{metric: vd, max: 2%, max_gap: '0.5 %', by: sex}")
	g := must.Get(Parse("gate.yaml", []byte(text)))(t)
	must.Same(t, &Gate{Release: Release{Approver: "A", IntendedUse: "loans"}, Checks: []Check{
		{Metric: "vd", By: "sex", Max: ptr(0.02), MaxGap: ptr(0.005)},
	}}, g)
}

func TestTransferChecks(t *testing.T) {
	g := must.Get(Parse("gate.yaml", []byte("transfer: {factor: 1.5}\n"+check("{metric: rtransfer, min: 0.9}"))))(t)
	must.Same(t, 1.5, g.Factor)
	must.Same(t, true, g.Needs(false).Requires[metrics.Mirrored])
	r := broken(0, 100)
	must.Has(t, single(t, *g, r).Why, "nothing was proved: --transfer asks for it")
	r.Settings.NoProof = "node x is neither affine nor Relu"
	f := single(t, *g, r)
	must.Same(t, Inconclusive, f.Verdict)
	must.Has(t, f.Why, "no proof: node x is neither affine nor Relu")
	r.Margins[0].Values["rtransfer"] = eval.NewRate(99, 100, 0.95).AsValue()
	must.Same(t, Pass, single(t, *g, r).Verdict)
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "the gate file is empty; it needs version and checks"},
		{"vd", `1:1: the gate file must be a mapping of keys to values, not "vd"`},
		{"checks: [{metric: vd, max: 0.1}]", `1:1: missing key "version": write version: 1`},
		{"version: 2\nchecks: [{metric: vd, max: 0.1}]", "1:10: unsupported version 2: want 1"},
		{"version: 1", "1:1: no checks: a gate without checks would pass every model"},
		{"version: 1\nchecks: 5", `2:9: this must be a list, not "5"`},
		{top("chekcs: []"), `2:1: the gate file has no key "chekcs"; did you mean "checks"?`},
		{top("confidence: 0"), "2:13: this must be at least 0.5 and less than 1, not 0"},
		{top("margin: 0"), "2:9: this must be above 0, not 0"},
		{top("min_people: 0"), "2:13: this must be a whole number, 1 or more"},
		{top("transfer: {factor: 0.5}"), "2:20: this must be 1 or more, not 0.5"},
		{top("transfer: 1.5"), "2:11: transfer must be a mapping of keys to values, not \"1.5\""},
		{top("version: 1"), "2:1: "},
		{check("metric: vd"), "3:5: missing limit: set max, min, abs_max, max_increase, or max_gap with by"},
		{check("max: 0.1"), "3:5: missing metric: want one such as vd"},
		{check("metric: [vd]\n    max: 0.1"), "3:13: this must be a text, not a list"},
		{check("metric: vd\n    max: 0.1\n    max: 0.2"), "5:5: "},
		{check("metric: bytes\n    max: 2%"), `4:10: invalid limit "2%" for bytes: want a number of unit "bytes"`},
		{check("metric: vd\n    margin: 2%"), `4:13: this must be a finite number, not "2%"`},
		{check("metric: vd\n    max: 100%"), "4:10: the limit 1 cannot fail: vd is always 1 or less"},
		{check("metric: vd\n    max: \"0.1\""), `4:10: this must be a finite number, not "0.1"`},
		{check("metric: crg.median\n    max: .inf"), `4:10: this must be a finite number, not ".inf"`},
		{check("metric: vd\n    max:"), "4:"},
		{check("metric: tau01\n    margin: 0.1\n    max: 0.1"), "4:13: tau01 has no required margin"},
		{check("metric: vd\n    severity: warn\n    max: 0.1"), `4:15: "warn" is not known here; one of: error, warning`},
		{check("metric: vd\n    max_gap: 0.1"), "4:14: max_gap compares groups: set by, for example by: sex"},
		{check("metric: vd\n    by: sex\n    max_increase: 0.1"), "5:19: max_increase is about all people"},
		{check("metric: frr\n    max: 0.1\n    min: 0.2"), "5:10: min 0.2 is above max 0.1"},
		{
			check("name: a\n    metric: vd\n    max: 0.1\n  - name: a\n    metric: rvd\n    max: 0.1"),
			`6:11: duplicate check "a": give one of them another name`,
		},
		{
			check("metric: vd\n    max: 0.1\n  - metric: vd\n    max: 0.1"),
			`5:5: duplicate check "vd<=0.1": give one of them another name`,
		},
		{check("name: \"\"\n    metric: vd\n    max: 0.1"), "3:11: this must be a text that is not empty"},
		{check("<<: {metric: vd}\n    max: 0.1"), "3:5: a key must be plain text; merge keys (<<)"},
	} {
		g, err := Parse("gate file", []byte(c.text))
		var list config.Errors
		if g != nil || !errors.As(err, &list) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %+v\n%v\nwant %s", message.Clip(c.text), g, err, c.want)
		}
	}
}

// top is a gate file with one good check and another line before it.
func top(line string) string { return "version: 1\n" + line + "\nchecks: [{metric: vd, max: 0.1}]" }

func check(text string) string { return "version: 1\nchecks:\n  - " + text + "\n" }

func TestAllMistakes(t *testing.T) {
	_, err := Parse("gate file", []byte(`version: 3
confidence: 2
checks:
  - {metric: vd, maxx: 0.1}
  - {metric: vdd, max: 0.1, margin: -1}
  - {metric: frr, max: 7, min: x}
colour: red
`))
	want := []string{
		"1:10: unsupported version 3: want 1",
		"2:13: this must be at least 0.5 and less than 1, not 2",
		`4:18: a check has no key "maxx"; did you mean "max"?`,
		`5:14: unknown metric "vdd"; did you mean "vd"?`,
		"5:37: invalid margin -1: want a number, 0 or more",
		"6:24: invalid limit 7 for frr: want a share from 0 to 1; for 7 % write 0.07",
		"6:24: higher is better for frr: use min",
		`6:32: this must be a finite number, not "x"`,
		`7:1: the gate file has no key "colour"; one of: version, confidence, margin, min_people, looks, transfer, ` +
			`one_sided, max_unreadable, labels, calibration_record, encoding, intended_use, approver, checks`,
	}
	var list config.Errors
	if !errors.As(err, &list) {
		t.Fatal(err)
	}
	for i, e := range list {
		if i >= len(want) || !strings.HasPrefix(e.Error(), "gate file:"+want[i]) {
			t.Errorf("mistake %d is %v", i, e)
		}
	}
	must.Same(t, len(want), len(list))
}

func TestCheckOfGate(t *testing.T) {
	g := exampleGate()
	must.Do(t, g.Check())
	g.Checks[0].Metric, g.MinPeople = "vdd", -1
	err := g.Check()
	must.Fail(t, err, `check 1 ("vdd<=0.02"), metric: unknown metric "vdd"`)
	must.Fail(t, err, "gate, min_people: invalid number of people -1")
}

// What the decoder accepts and refuses is kept in testdata/schema.txtar, from which internal/tools/command takes it to
// hold it against the JSON Schema; UPDATE=1 writes it anew.
func TestForm(t *testing.T) {
	ar := &txtar.Archive{}
	for i, text := range []string{
		fromPage("yaml"),
		check("metric: vd\n    max: 0.1"),
		"version: 1\nchecks: []",
		"checks: [{metric: vd, max: 0.1}]",
		check("metric: vd"),
		check("metric: vdd\n    max: 0.1"),
		check("metric: vd\n    mx: 0.1"),
		check("metric: vd\n    max: \"0.1\""),
		check("metric: vd\n    margin: -0.1\n    max: 0.1"),
		check("metric: vd\n    severity: warn\n    max: 0.1"),
		check("metric: vd\n    max_gap: 0.1"),
	} {
		name := fmt.Sprint("bad ", i-1)
		if i < 2 {
			name = fmt.Sprint("good ", i+1)
		}
		if _, err := Parse("gate file", []byte(text)); (err == nil) != (i < 2) {
			t.Errorf("%s: read with %v", text, err)
		}
		ar.Files = append(ar.Files, txtar.File{Name: name, Data: []byte(strings.TrimSuffix(text, "\n") + "\n")})
	}
	path := filepath.Join("testdata", "schema.txtar")
	if os.Getenv("UPDATE") == "1" {
		must.Do(t, os.WriteFile(path, txtar.Format(ar), 0o644))
	}
	must.Same(t, string(must.Get(os.ReadFile(path))(t)), string(txtar.Format(ar)))
}

func TestPage(t *testing.T) {
	lines := strings.Split(fromPage("text"), "\n")
	for _, line := range lines {
		text, _, _ := strings.Cut(line, " ")
		c := must.Get(ParseCheck(text))(t)
		must.Same(t, text, c.String())
	}
	if len(lines) < 6 {
		t.Errorf("%d lines", len(lines))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(fromPage("yaml")))
	f.Add([]byte(check("metric: crg.median\n    margin: 0\n    abs_max: 1e-2\n    by: sex * race")))
	f.Add([]byte(`{"version": 1, "checks": [{"metric": "bytes", "max": 1E5, "severity": "warning"}]}`))
	f.Add([]byte("version: 1\nchecks: [{metric: .nan, max: .inf, by: *x}]\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := Parse("gate file", data)
		if err != nil {
			var list config.Errors
			if !errors.As(err, &list) || len(list) == 0 {
				t.Fatalf("not a list of mistakes: %v", err)
			}
			return
		}
		must.Do(t, g.Check())
		for i := range g.Checks {
			c := g.Checks[i]
			if len(c.limits()) != 1 {
				continue
			}
			again := must.Get(ParseCheck(c.String()))(t)
			again.Name = c.Name
			if c.Severity == Blocks {
				c.Severity = ""
			}
			must.Same(t, c, again)
		}
		Judge(g, &eval.Result{}, &eval.Result{})
	})
}
