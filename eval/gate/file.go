package gate

import (
	_ "embed" // the keys
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
)

// Load reads a gate file in YAML or JSON. Mistakes in it are returned as [config.Errors].
func Load(path string) (*Gate, error) { return config.Load("gate file", path, Parse) }

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

// only is a key that has one value.
func (d *gateDecoder) only(dst *bool, word string) config.Value {
	return config.As(dst, config.Type("string"), func(n ast.Node) (bool, bool) {
		s, ok := d.ReadText(n)
		if ok && s != word {
			d.Errorf(n, "invalid value %q: want %s", s, word)
		}
		return true, ok && s == word
	}).With("enum", []string{word})
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

// transfer is a mapping of a factor.
func (d *gateDecoder) transfer(factor *float64) config.Value {
	keys := []config.Key{{
		Name: "factor", Doc: "1 or more: changes cost up to so many times the cheapest one",
		Value: d.Within(factor, "1 or more", 1, math.MaxFloat64).With("minimum", 1),
	}}
	return config.Value{
		Read: func(n ast.Node) { d.Mapping(n, "transfer", keys) },
		Form: func() config.Schema { return config.Object(keys) },
	}
}

// The keys of a gate file are declared once, in one list for each mapping: the decoder reads by them, the reference
// page prints them and Schema translates them, so the page and the schema cannot differ from what is read.

type filePlaces struct {
	top     config.Mapping
	version int
	checks  []config.Mapping
}

//go:embed keys.txt
var reference string

// referenced adds to keys what the reference says of them: a section, a key, what holds without it, and what it is.
func referenced(section string, keys []config.Key) []config.Key {
	for line := range strings.Lines(reference) {
		cells := strings.Split(strings.TrimSpace(line), "\t")
		if i := slices.IndexFunc(keys, func(k config.Key) bool { return cells[0] == section && cells[1] == k.Name }); i >= 0 {
			keys[i].Fallback, keys[i].Doc = cells[2], cells[3]
		}
	}
	return keys
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
	return referenced("gate", []config.Key{
		{Name: "version", Value: d.Count(&p.version, 1).With("enum", []int{1})},
		{Name: "confidence", Value: confidence},
		{Name: "margin", Value: d.Above0(&g.Margin)},
		{Name: "min_people", Value: d.Count(&g.MinPeople, 1)},
		{Name: "looks", Value: d.Count(&g.Looks, 1)},
		{Name: "transfer", Value: d.transfer(&g.Factor)},
		{Name: "one_sided", Value: d.Flag(&g.OneSided)},
		{Name: "max_unreadable", Value: d.limit(&g.MaxUnreadable).With("minimum", 0).With("maximum", 1)},
		{Name: "labels", Value: d.only(&g.NoLabels, "none")},
		{Name: "calibration_record", Value: d.only(&g.NeedsRecord, "required")},
		{Name: "encoding", Value: d.only(&g.UnverifiedEncoding, "unverified")},
		{Name: "intended_use", Value: d.text(&g.IntendedUse)},
		{Name: "approver", Value: d.text(&g.Approver)},
		{Name: "checks", Value: config.Value{
			Read: func(n ast.Node) { d.List(n, "this", check) }, Form: config.ListOf(checkForm),
		}.With("minItems", 1)},
	})
}

func (d *gateDecoder) checkKeys(c *Check) []config.Key {
	return referenced("check", []config.Key{
		{Name: "name", Value: d.text(&c.Name)},
		{Name: "metric", Value: d.text(&c.Metric).With("enum", metricIDs())},
		{Name: "margin", Value: d.number(&c.Margin).With("minimum", 0)},
		{Name: "severity", Value: config.Word(&d.Decoder, &c.Severity, Blocks, Warns)},
		{Name: "max", Value: d.limit(&c.Max)},
		{Name: "min", Value: d.limit(&c.Min)},
		{Name: "abs_max", Value: d.limit(&c.AbsMax).With("minimum", 0)},
		{Name: "max_increase", Value: d.limit(&c.MaxIncrease)},
		{Name: "by", Value: d.text(&c.By)},
		{Name: "max_gap", Value: d.limit(&c.MaxGap).With("minimum", 0)},
	})
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
