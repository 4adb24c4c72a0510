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

// Load reads a gate file in YAML or JSON. Mistakes in it are returned as [config.Errors].
func Load(path string) (*Gate, error) {
	data, err := config.Content("gate file", path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads the content of a gate file, which has the name in messages. All mistakes are returned as [config.Errors],
// including those that Gate.Check finds.
func Parse(name string, data []byte) (*Gate, error) {
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

func (d *decoder) textOf(dst *string) config.Value {
	return config.Value{Read: func(n ast.Node) {
		s, ok := d.Text(n)
		if s = strings.TrimSpace(s); ok && s == "" {
			d.Errorf(n, "invalid value: want a text that is not empty")
		}
		*dst = s
	}, Form: textForm}
}

func (d *decoder) numberOf(dst *float64) config.Value {
	return config.Value{Read: func(n ast.Node) { *dst, _ = d.number(n) }, Form: config.NumberForm}
}

func (d *decoder) maybe(dst **float64) config.Value {
	return config.Value{Read: func(n ast.Node) {
		if x, ok := d.number(n); ok {
			*dst = &x
		}
	}, Form: config.NumberForm}
}

// count stores a whole number, 1 or more.
func (d *decoder) count(dst *int) config.Value {
	return config.Value{Read: func(n ast.Node) {
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
func (d *decoder) severity(dst *Severity) config.Value {
	return config.Value{Read: func(n ast.Node) {
		s, _ := d.Text(n)
		*dst = Severity(s)
	}, Form: func() config.Schema { return config.Schema{"enum": severities()} }}
}

func (d *decoder) date(dst *time.Time) config.Value {
	return config.Value{Read: func(n ast.Node) {
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
	}, Form: func() config.Schema {
		return config.Schema{"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
	}}
}

// The keys of a gate file are declared once, in one list for each mapping: the decoder reads by them, the reference
// page prints them and Schema translates them, so the page and the schema cannot differ from what is read.

// parts are the places of the parts of a gate file, for what is checked once all of it is read.
type parts struct {
	top             config.Mapping
	version         int
	checks, waivers []config.Mapping
}

func newKey(name string, v config.Value, fallback, doc string) config.Key {
	return config.Key{Name: name, Value: v, Fallback: fallback, Doc: doc}
}

func (d *decoder) gateKeys(g *Gate, p *parts) []config.Key {
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
	waiverForm := func() config.Schema { return config.Object(newDecoder("").waiverKeys(&Waiver{})) }
	return []config.Key{
		newKey("version", d.count(&p.version).With("enum", []int{1}), config.Required, "version of the format: 1"),
		newKey("confidence", d.numberOf(&g.Confidence).With("minimum", 0.5).With("exclusiveMaximum", 1), "`0.95`",
			"of each verdict, at least 0.5 and less than 1"),
		newKey("margin", d.numberOf(&g.Margin).With("exclusiveMinimum", 0), "`0.1`",
			"required margin, in logits, of checks that set none"),
		newKey("min_people", d.count(&g.MinPeople), "`30`",
			"people needed for a verdict on an estimate (mean, median, ...); shares have exact bounds instead"),
		newKey("checks", config.Value{
			Read: func(n ast.Node) { d.List(n, "this", check) }, Form: config.ListOf(checkForm),
		}.With("minItems", 1), config.Required, "list of checks"),
		newKey("waivers", config.Value{
			Read: func(n ast.Node) { d.List(n, "this", waiver) }, Form: config.ListOf(waiverForm),
		}, "none", "list of checks that may fail for some time"),
	}
}

func (d *decoder) checkKeys(c *Check) []config.Key {
	const none = "no limit"
	return []config.Key{
		newKey("name", d.textOf(&c.Name), "the check as text", "unique name in findings and waivers"),
		newKey("metric", d.textOf(&c.Metric).With("enum", metricIDs()), config.Required, "see [metrics](metrics.md)"),
		newKey("margin", d.maybe(&c.Margin).With("minimum", 0), "the gate's",
			"required margin in logits, for metrics that have one"),
		newKey("severity", d.severity(&c.Severity), "`error`",
			"`error`: the gate passes only if the check does; `warning`: the check is only reported"),
		newKey("max", d.maybe(&c.Max), none,
			"largest value of the metric; shares are numbers from 0 to 1 in all limits"),
		newKey("min", d.maybe(&c.Min), none, "smallest value of the metric"),
		newKey("abs_max", d.maybe(&c.AbsMax).With("minimum", 0), none, "largest absolute value of the metric"),
		newKey("max_increase", d.maybe(&c.MaxIncrease), none,
			"largest increase over an earlier report (`--previous`); of a share, 0.01 is one percentage point"),
		newKey("by", d.textOf(&c.By), "all people together",
			"attribute such as `sex`, or several joined by `*`: `max`, `min` and `abs_max` apply to each group"),
		newKey("max_gap", d.maybe(&c.MaxGap).With("minimum", 0), none,
			"with `by`: largest difference between two groups; small groups are left out"),
	}
}

func (d *decoder) waiverKeys(w *Waiver) []config.Key {
	return []config.Key{
		newKey("check", d.textOf(&w.Check), config.Required,
			"name of a check; `NAME [GROUP]` waives one group of a check by groups"),
		newKey("until", d.date(&w.Until), config.Required, "the last day, as `2026-12-31`; ends at midnight UTC"),
		newKey("reason", d.textOf(&w.Reason), config.Required, "printed in reports"),
		newKey("owner", d.textOf(&w.Owner), "none", "who is responsible"),
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
func checkForm() config.Schema {
	s := config.Object(newDecoder("").checkKeys(&Check{}))
	var limits []config.Schema
	for side := atMost; side <= gap; side++ {
		limits = append(limits, config.Schema{"required": []string{side.text().key}})
	}
	s["anyOf"] = limits
	s["dependentRequired"] = config.Schema{"max_gap": []string{"by"}}
	return s
}

func textForm() config.Schema  { return config.Schema{"type": "string", "minLength": 1} }
func countForm() config.Schema { return config.Schema{"type": "integer", "minimum": 1} }
