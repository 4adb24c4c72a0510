package gate

import (
	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
)

// The functions here declare the keys of a gate file, one list for each mapping. The decoder reads by them, Markdown prints them and
// Schema translates them, so that neither the reference page nor the schema can differ from what is read.

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
	return []key{
		{Name: "version", Value: d.count(&p.version).With("enum", []int{1}), Fallback: required, Doc: "version of the format; 1 is the only one"},
		{
			Name: "confidence", Value: d.numberOf(&g.Confidence).With("minimum", 0.5).With("exclusiveMaximum", 1), Fallback: "`0.95`",
			Doc: "of each verdict, 0.5 or more and below 1",
		},
		{Name: "margin", Value: d.numberOf(&g.Margin).With("exclusiveMinimum", 0), Fallback: "`0.1`", Doc: "required margin, in logits, of checks that name none"},
		{
			Name: "min_people", Value: d.count(&g.MinPeople), Fallback: "`30`",
			Doc: "people without whom nothing is said of a mean, a median or another estimate; shares have exact bounds instead",
		},
		{
			Name:     "checks",
			Value:    value{Read: func(n ast.Node) { d.List(n, "this", check) }, Form: func() schema { return someOf(checkForm) }},
			Fallback: required, Doc: "list of checks, see below",
		},
		{
			Name:     "waivers",
			Value:    value{Read: func(n ast.Node) { d.List(n, "this", waiver) }, Form: config.ListOf(func() schema { return config.Object(newDecoder("").waiverKeys(&Waiver{})) })},
			Fallback: "none", Doc: "list of checks that need not pass for some time, see below",
		},
	}
}

func (d *decoder) checkKeys(c *Check) []key {
	return []key{
		{Name: "name", Value: d.textOf(&c.Name), Fallback: "the check as `--check` writes it", Doc: "what findings and waivers call the check; no two have the same"},
		{Name: "metric", Value: d.textOf(&c.Metric).With("enum", metricIDs()), Fallback: required, Doc: "what is measured, one of the metrics below"},
		{Name: "margin", Value: d.maybe(&c.Margin).With("minimum", 0), Fallback: "that of the gate", Doc: "required margin in logits, for the metrics that have one"},
		{
			Name: "severity", Value: d.severity(&c.Severity), Fallback: "`error`",
			Doc: "`error`: the gate does not pass unless the check does; `warning`: it is reported",
		},
		{Name: "max", Value: d.maybe(&c.Max), Fallback: "no limit", Doc: "the metric is at most this; a share is a number from 0 to 1, here and in all limits"},
		{Name: "min", Value: d.maybe(&c.Min), Fallback: "no limit", Doc: "the metric is at least this"},
		{Name: "abs_max", Value: d.maybe(&c.AbsMax).With("minimum", 0), Fallback: "no limit", Doc: "the metric is at most this far from 0, on either side"},
		{
			Name: "max_increase", Value: d.maybe(&c.MaxIncrease), Fallback: "no limit",
			Doc: "the metric is at most this much above that of the earlier report (`--previous`); in a share's own unit, so that 0.01 is one percentage point",
		},
		{
			Name: "by", Value: d.textOf(&c.By), Fallback: "everybody together",
			Doc: "attribute such as `sex`, or several joined by `*`: `max`, `min` and `abs_max` hold for each group of people by itself",
		},
		{Name: "max_gap", Value: d.maybe(&c.MaxGap).With("minimum", 0), Fallback: "no limit", Doc: "with `by`: no two groups that are not small differ by more than this"},
	}
}

func (d *decoder) waiverKeys(w *Waiver) []key {
	return []key{
		{Name: "check", Value: d.textOf(&w.Check), Fallback: required, Doc: "name of a check; of a check by groups, `NAME [GROUP]` waives one group"},
		{Name: "until", Value: d.date(&w.Until), Fallback: required, Doc: "the last day, as `2026-12-31`; it ends at midnight UTC"},
		{Name: "reason", Value: d.textOf(&w.Reason), Fallback: required, Doc: "why; reports print it"},
		{Name: "owner", Value: d.textOf(&w.Owner), Fallback: "nobody is named", Doc: "who answers for it"},
	}
}
