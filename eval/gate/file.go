package gate

import (
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
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

func (d *gateDecoder) gate(root ast.Node) *Gate {
	g := &Gate{}
	var p filePlaces
	p.top = d.Mapping(root, "the gate file", d.gateKeys(g, &p))
	if !p.top.Has("version") {
		d.Errorf(p.top.Node, "missing key %q: write version: 1", "version")
	} else if !p.top.Bad["version"] && p.version != 1 {
		d.Errorf(p.top.Place("version"), "unsupported version %d: want 1", p.version)
	}
	for _, x := range g.problems() {
		m := p.top
		if x.at >= 0 {
			m = p.checks[x.at]
		}
		if m.Bad[x.key] || x.key == "" && len(m.Bad) > 0 { // reported already, or a consequence of that
			continue
		}
		d.Errorf(m.Place(x.key), "%s", config.Clause(x.text))
	}
	return g
}

type gateDecoder struct {
	config.Decoder

	percents []ast.Node // limits in per cent of the check that is read
}

func newDecoder(file string) *gateDecoder {
	return &gateDecoder{Decoder: config.Decoder{File: file, Kind: "gate file"}}
}

func (d *gateDecoder) text(dst *string) config.Value {
	return config.As(dst, config.Type("string"), func(n ast.Node) (string, bool) {
		s, ok := d.ReadText(n)
		if s = strings.TrimSpace(s); ok && s == "" {
			d.Errorf(n, "this must be a text that is not empty")
		}
		return s, ok
	}).With("minLength", 1)
}

func (d *gateDecoder) number(dst **float64) config.Value {
	return config.As(dst, config.Type("number"), func(n ast.Node) (*float64, bool) {
		x, ok := d.ReadNumber(n)
		return &x, ok
	})
}

func (d *gateDecoder) limit(dst **float64) config.Value {
	return config.As(dst, config.Type("number"), func(n ast.Node) (*float64, bool) {
		if x, ok := percentage(config.ScalarText(n)); ok {
			d.percents = append(d.percents, n)
			return &x, true
		}
		x, ok := d.ReadNumber(n)
		return &x, ok
	}).With("type", []string{"number", "string"}).With("pattern", "^-?[0-9]*[.]?[0-9]+ ?%$")
}

// The keys of a gate file are declared once, in one list for each mapping: the decoder reads by them, the reference
// page prints them and Schema translates them, so the page and the schema cannot differ from what is read.

type filePlaces struct {
	top     config.Mapping
	version int
	checks  []config.Mapping
}

func newKey(name string, v config.Value, fallback, doc string) config.Key {
	return config.Key{Name: name, Value: v, Fallback: fallback, Doc: doc}
}

func (d *gateDecoder) gateKeys(g *Gate, p *filePlaces) []config.Key {
	check := func(_ int, n ast.Node) {
		var c Check
		p.checks = append(p.checks, d.Mapping(n, "a check", d.checkKeys(&c)))
		for _, n := range d.percents {
			if err := percentProblem(c.Metric, config.ScalarText(n)); err != nil {
				d.Errorf(n, "%s", config.Clause(err.Error()))
			}
		}
		d.percents = nil
		c.By = grouping(c.By)
		g.Checks = append(g.Checks, c)
	}
	confidence := d.Within(&g.Confidence, "at least 0.5 and less than 1", 0.5, math.Nextafter(1, 0)).
		With("minimum", 0.5).With("exclusiveMaximum", 1)
	return []config.Key{
		newKey("version", d.Count(&p.version, 1).With("enum", []int{1}), config.Required, "version of the format: 1"),
		newKey("confidence", confidence, "`0.95`",
			"of each verdict, at least 0.5 and less than 1"),
		newKey("margin", d.Above0(&g.Margin), "`0.1`",
			"required margin, in logits, of checks that set none"),
		newKey("min_people", d.Count(&g.MinPeople, 1), "`30`",
			"people needed for a verdict on an estimate (mean, median, ...); shares have exact bounds instead"),
		newKey("looks", d.Count(&g.Looks, 1), "`1`",
			"planned evaluations of one model: each verdict gets its part of the error that `confidence` leaves"),
		newKey("one_sided", d.Flag(&g.OneSided), "`false`",
			"`true`: a limit on VD adds none on RVD and gained approvals, as `--one-sided`"),
		newKey("max_unreadable", d.limit(&g.MaxUnreadable).With("minimum", 0).With("maximum", 1), "`0.01`",
			"largest share of rows that cannot be read or have no outcome, or the gate is INCONCLUSIVE"),
		newKey("calibration_record", config.As(&g.NeedsRecord, config.Type("string"), func(n ast.Node) (bool, bool) {
			s, ok := d.ReadText(n)
			if ok && s != "required" {
				d.Errorf(n, "invalid value %q: want required", s)
			}
			return true, ok && s == "required"
		}).With("enum", []string{"required"}), "optional",
			"`required`: without the record of the rows that the model was calibrated on there is no verdict"),
		newKey("verified_encoding", d.Flag(&g.NeedsEncoding), "`false`",
			"`true`: without scores of the model's owner that verify the encoding there is no verdict"),
		newKey("intended_use", d.text(&g.IntendedUse), "none", "what the model may be released for; the report repeats it"),
		newKey("approver", d.text(&g.Approver), "none", "who answers for the gate; the report repeats it"),
		newKey("checks", config.Value{
			Read: func(n ast.Node) { d.List(n, "this", check) }, Form: config.ListOf(checkForm),
		}.With("minItems", 1), config.Required, "list of checks"),
	}
}

func (d *gateDecoder) checkKeys(c *Check) []config.Key {
	const none = "no limit"
	return []config.Key{
		newKey("name", d.text(&c.Name), "the check as text", "unique name in findings"),
		newKey("metric", d.text(&c.Metric).With("enum", metricIDs()), config.Required, "see [metrics](metrics.md)"),
		newKey("margin", d.number(&c.Margin).With("minimum", 0), "the gate's",
			"required margin in logits, for metrics that have one"),
		newKey("severity", config.Word(&d.Decoder, &c.Severity, Blocks, Warns), "`error`",
			"`error`: the gate passes only if the check does; `warning`: the check is only reported"),
		newKey("max", d.limit(&c.Max), none,
			"largest value of the metric; shares are numbers from 0 to 1 in all limits, or per cent as in `2%`"),
		newKey("min", d.limit(&c.Min), none, "smallest value of the metric"),
		newKey("abs_max", d.limit(&c.AbsMax).With("minimum", 0), none, "largest absolute value of the metric"),
		newKey("max_increase", d.limit(&c.MaxIncrease), none,
			"largest increase over an earlier report (`--previous`); of a share, 0.01 is one percentage point"),
		newKey("by", d.text(&c.By), "all people together",
			"attribute such as `sex`, or several joined by `*`: `max`, `min` and `abs_max` apply to each group"),
		newKey("max_gap", d.limit(&c.MaxGap).With("minimum", 0), none,
			"with `by`: largest difference between two groups; small groups are left out"),
	}
}

// Keys lists the keys of a gate file and of its checks, for the reference page.
func Keys() (file, check []config.Key) {
	d := newDecoder("")
	return d.gateKeys(&Gate{}, &filePlaces{}), d.checkKeys(&Check{})
}

// Schema returns the JSON Schema (draft 2020-12) of the gate file, for editors. A file that it accepts may still have
// mistakes, such as two checks of one name.
func Schema() []byte {
	return config.Object(newDecoder("").gateKeys(&Gate{}, &filePlaces{})).Document("gate", "cfq gate file")
}

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
