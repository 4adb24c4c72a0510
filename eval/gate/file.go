package gate

import (
	"math"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"cfq/internal/config"
	"cfq/internal/message"
)

// Load reads a gate file in YAML or JSON. Mistakes in it are returned as Errors.
func Load(path string) (*Gate, error) {
	data, err := config.Content("gate file", path)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// Parse reads a gate file's content. All mistakes are returned as Errors, including those that Gate.Check finds.
func Parse(data []byte) (*Gate, error) { return parse("gate file", data) }

func parse(name string, data []byte) (*Gate, error) {
	d := newDecoder(name)
	var g *Gate
	if root := d.Document(data, "version and checks"); root != nil {
		g = d.gate(root)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return g, nil
}

// gate decodes and checks the whole file.
func (d *decoder) gate(root ast.Node) *Gate {
	g := &Gate{}
	var p parts
	p.top = d.Mapping(root, "the gate file", d.gateKeys(g, &p))
	if !p.top.Has("version") {
		d.Errorf(p.top.Node, "missing key %q: write version: 1", "version")
	} else if !p.top.Bad["version"] && p.version != 1 {
		d.Errorf(p.top.Place("version"), "unsupported version %d: want 1", p.version)
	}
	for _, k := range []struct {
		name string
		zero bool
	}{{"confidence", g.Confidence == 0}, {"margin", g.Margin == 0}} { // in a Gate, 0 stands for the default
		if k.zero && p.top.Has(k.name) && !p.top.Bad[k.name] {
			d.Errorf(p.top.Place(k.name), "invalid %s 0: want more than 0, or leave it out for the default", k.name)
		}
	}
	for _, x := range g.problems() {
		m := p.top
		switch x.list {
		case checkList:
			m = p.checks[x.at]
		case waiverList:
			m = p.waivers[x.at]
		}
		if m.Bad[x.key] || x.key == "" && len(m.Bad) > 0 { // reported already, or a consequence of that
			continue
		}
		d.Errorf(m.Place(x.key), "%s", x.text)
	}
	return g
}

// A gate file is read by keys; package config says what these are.
type (
	key     = config.Key
	value   = config.Value
	mapping = config.Mapping
	schema  = config.Schema
)

const required = config.Required

// Error is one mistake in a gate file.
type Error = config.Error

// Errors are all mistakes of one gate file in the order of their places.
type Errors = config.Errors

// decoder walks a parsed gate file and collects mistakes.
type decoder struct{ config.Decoder }

func newDecoder(file string) *decoder {
	return &decoder{config.Decoder{File: file, Kind: "gate file"}}
}

// number reads a finite number.
func (d *decoder) number(n ast.Node) (float64, bool) {
	switch v := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		if x, err := decimal(strings.ReplaceAll(config.ScalarText(n), "_", "")); err == nil {
			return x, true
		}
	case *ast.StringNode: // YAML 1.2 needs a dot in 1e5, JSON does not
		if x, err := decimal(v.Value); err == nil && v.Token.Type == token.StringType {
			return x, true
		}
		if _, err := parseNumber("value", v.Value); strings.HasSuffix(strings.TrimSpace(v.Value), "%") && err != nil {
			d.Errorf(n, "%v", err)
			return 0, false
		}
	}
	d.Errorf(n, "invalid value: want a finite number, not %s", d.Describe(n))
	return 0, false
}

// The values of keys.

func (d *decoder) textOf(dst *string) value {
	return value{Read: func(n ast.Node) {
		s, ok := d.Text(n)
		if s = strings.TrimSpace(s); ok && s == "" {
			d.Errorf(n, "invalid value: want a text that is not empty")
		}
		*dst = s
	}, Form: textForm}
}

func (d *decoder) numberOf(dst *float64) value {
	return value{Read: func(n ast.Node) { *dst, _ = d.number(n) }, Form: config.NumberForm}
}

func (d *decoder) maybe(dst **float64) value {
	return value{Read: func(n ast.Node) {
		if x, ok := d.number(n); ok {
			*dst = &x
		}
	}, Form: config.NumberForm}
}

// count stores a whole number, 1 or more.
func (d *decoder) count(dst *int) value {
	return value{Read: func(n ast.Node) {
		x, ok := d.number(n)
		switch {
		case !ok:
		case x != math.Trunc(x) || x < 1 || x > math.MaxInt32:
			d.Errorf(n, "invalid value: want a whole number, 1 or more")
		default:
			*dst = int(x)
		}
	}, Form: countForm}
}

// severity stores one of the severities. Another word is a problem of the check.
func (d *decoder) severity(dst *Severity) value {
	return value{Read: func(n ast.Node) {
		s, _ := d.Text(n)
		*dst = Severity(s)
	}, Form: func() schema { return schema{"enum": severities()} }}
}

func (d *decoder) date(dst *time.Time) value {
	return value{Read: func(n ast.Node) {
		s, ok := d.Text(n)
		if !ok {
			return
		}
		t, err := time.Parse(dateLayout, strings.TrimSpace(s))
		if err != nil {
			d.Errorf(n, "invalid day %s: write it as 2026-12-31", message.Quote(s))
			return
		}
		*dst = t
	}, Form: func() schema { return schema{"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"} }}
}

// The keys of a gate file are declared once, in one list for each mapping: the decoder reads by them, Markdown prints
// them and Schema translates them, so the page and the schema cannot differ from what is read.

// parts are the places of the parts of a gate file, for what is checked once all of it is read.
type parts struct {
	top             mapping
	version         int
	checks, waivers []mapping
}

func (d *decoder) gateKeys(g *Gate, p *parts) []key {
	check := func(_ int, n ast.Node) {
		var c Check
		p.checks = append(p.checks, d.Mapping(n, "a check", d.checkKeys(&c)))
		c.By = grouping(c.By)
		g.Checks = append(g.Checks, c)
	}
	waiver := func(_ int, n ast.Node) {
		var w Waiver
		p.waivers = append(p.waivers, d.Mapping(n, "a waiver", d.waiverKeys(&w)))
		g.Waivers = append(g.Waivers, w)
	}
	waiverForm := func() schema { return config.Object(newDecoder("").waiverKeys(&Waiver{})) }
	return []key{
		{
			Name: "version", Value: d.count(&p.version).With("enum", []int{1}), Fallback: required,
			Doc: "version of the format: 1",
		},
		{
			Name: "confidence", Value: d.numberOf(&g.Confidence).With("minimum", 0.5).With("exclusiveMaximum", 1),
			Fallback: "`0.95`", Doc: "of each verdict, at least 0.5 and less than 1",
		},
		{
			Name: "margin", Value: d.numberOf(&g.Margin).With("exclusiveMinimum", 0), Fallback: "`0.1`",
			Doc: "required margin, in logits, of checks that set none",
		},
		{
			Name: "min_people", Value: d.count(&g.MinPeople), Fallback: "`30`",
			Doc: "people needed for a verdict on an estimate (mean, median, ...); shares have exact bounds instead",
		},
		{
			Name: "checks",
			Value: value{
				Read: func(n ast.Node) { d.List(n, "this", check) },
				Form: func() schema { return someOf(checkForm) },
			},
			Fallback: required, Doc: "list of checks",
		},
		{
			Name:     "waivers",
			Value:    value{Read: func(n ast.Node) { d.List(n, "this", waiver) }, Form: config.ListOf(waiverForm)},
			Fallback: "none", Doc: "list of checks that may fail for some time",
		},
	}
}

func (d *decoder) checkKeys(c *Check) []key {
	const none = "no limit"
	return []key{
		{
			Name: "name", Value: d.textOf(&c.Name), Fallback: "the check as text",
			Doc: "unique name in findings and waivers",
		},
		{
			Name: "metric", Value: d.textOf(&c.Metric).With("enum", metricIDs()), Fallback: required,
			Doc: "see [metrics](metrics.md)",
		},
		{
			Name: "margin", Value: d.maybe(&c.Margin).With("minimum", 0), Fallback: "the gate's",
			Doc: "required margin in logits, for metrics that have one",
		},
		{
			Name: "severity", Value: d.severity(&c.Severity), Fallback: "`error`",
			Doc: "`error`: the gate passes only if the check does; `warning`: the check is only reported",
		},
		{
			Name: "max", Value: d.maybe(&c.Max), Fallback: none,
			Doc: "largest value of the metric; shares are numbers from 0 to 1 in all limits",
		},
		{Name: "min", Value: d.maybe(&c.Min), Fallback: none, Doc: "smallest value of the metric"},
		{
			Name: "abs_max", Value: d.maybe(&c.AbsMax).With("minimum", 0), Fallback: none,
			Doc: "largest absolute value of the metric",
		},
		{
			Name: "max_increase", Value: d.maybe(&c.MaxIncrease), Fallback: none,
			Doc: "largest increase over an earlier report (`--previous`); of a share, 0.01 is one percentage point",
		},
		{
			Name: "by", Value: d.textOf(&c.By), Fallback: "all people together",
			Doc: "attribute such as `sex`, or several joined by `*`: `max`, `min` and `abs_max` apply to each group",
		},
		{
			Name: "max_gap", Value: d.maybe(&c.MaxGap).With("minimum", 0), Fallback: none,
			Doc: "with `by`: largest difference between two groups; small groups are left out",
		},
	}
}

func (d *decoder) waiverKeys(w *Waiver) []key {
	return []key{
		{
			Name: "check", Value: d.textOf(&w.Check), Fallback: required,
			Doc: "name of a check; `NAME [GROUP]` waives one group of a check by groups",
		},
		{
			Name: "until", Value: d.date(&w.Until), Fallback: required,
			Doc: "the last day, as `2026-12-31`; ends at midnight UTC",
		},
		{Name: "reason", Value: d.textOf(&w.Reason), Fallback: required, Doc: "printed in reports"},
		{Name: "owner", Value: d.textOf(&w.Owner), Fallback: "none", Doc: "who is responsible"},
	}
}

// Keys lists the keys of a gate file, of its checks and of its waivers, for the reference page.
func Keys() (file, check, waiver []config.Key) {
	d := newDecoder("")
	return d.gateKeys(&Gate{}, &parts{}), d.checkKeys(&Check{}), d.waiverKeys(&Waiver{})
}

// Schema returns the JSON Schema (draft 2020-12) of the gate file, for editors. A file that it accepts may still have
// mistakes, such as a waiver of an unknown check.
func Schema() []byte {
	return config.Object(newDecoder("").gateKeys(&Gate{}, &parts{})).Document("gate", "cfq gate file")
}

// checkForm is a check: one with a limit.
func checkForm() schema {
	s := config.Object(newDecoder("").checkKeys(&Check{}))
	var limits []schema
	for side := atMost; side <= gap; side++ {
		limits = append(limits, schema{"required": []string{side.text().key}})
	}
	s["anyOf"] = limits
	s["dependentRequired"] = schema{"max_gap": []string{"by"}}
	return s
}

func textForm() schema  { return schema{"type": "string", "minLength": 1} }
func countForm() schema { return schema{"type": "integer", "minimum": 1} }

// someOf is a list that is not empty.
func someOf(item func() schema) schema {
	s := config.ListOf(item)()
	s["minItems"] = 1
	return s
}
