package gate

import (
	"github.com/goccy/go-yaml/ast"
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
	check := func(n ast.Node) {
		var c Check
		p.checks = append(p.checks, d.mapping(n, "a check", d.checkKeys(&c)))
		c.By = grouping(c.By)
		g.Checks = append(g.Checks, c)
	}
	waiver := func(n ast.Node) {
		var w Waiver
		p.waivers = append(p.waivers, d.mapping(n, "a waiver", d.waiverKeys(&w)))
		g.Waivers = append(g.Waivers, w)
	}
	return []key{
		{"version", d.count(&p.version).with("enum", []int{1}), required, "version of the format; 1 is the only one"},
		{
			"confidence", d.numberOf(&g.Confidence).with("minimum", 0.5).with("exclusiveMaximum", 1), "`0.95`",
			"of each verdict, 0.5 or more and below 1",
		},
		{"margin", d.numberOf(&g.Margin).with("exclusiveMinimum", 0), "`0.1`", "required margin, in logits, of checks that name none"},
		{
			"min_people", d.count(&g.MinPeople), "`30`",
			"people without whom nothing is said of a mean, a median or another estimate; shares have exact bounds instead",
		},
		{
			"checks",
			value{func(n ast.Node) { d.list(n, check) }, func() schema { return someOf(checkForm()) }},
			required, "list of checks, see below",
		},
		{
			"waivers",
			value{func(n ast.Node) { d.list(n, waiver) }, func() schema { return listOf(object((&decoder{}).waiverKeys(&Waiver{}))) }},
			"none", "list of checks that need not pass for some time, see below",
		},
	}
}

func (d *decoder) checkKeys(c *Check) []key {
	return []key{
		{"name", d.textOf(&c.Name), "the check as `--check` writes it", "what findings and waivers call the check; no two have the same"},
		{"metric", d.textOf(&c.Metric).with("enum", metricIDs()), required, "what is measured, one of the metrics below"},
		{"margin", d.maybe(&c.Margin).with("minimum", 0), "that of the gate", "required margin in logits, for the metrics that have one"},
		{
			"severity", d.severity(&c.Severity), "`error`",
			"`error`: the gate does not pass unless the check does; `warning`: it is reported",
		},
		{"max", d.maybe(&c.Max), "no limit", "the metric is at most this; a share is a number from 0 to 1, here and in all limits"},
		{"min", d.maybe(&c.Min), "no limit", "the metric is at least this"},
		{"abs_max", d.maybe(&c.AbsMax).with("minimum", 0), "no limit", "the metric is at most this far from 0, on either side"},
		{
			"max_increase", d.maybe(&c.MaxIncrease), "no limit",
			"the metric is at most this much above that of the earlier report (`--previous`); in a share's own unit, so that 0.01 is one percentage point",
		},
		{
			"by", d.textOf(&c.By), "everybody together",
			"attribute such as `sex`, or several joined by `*`: `max`, `min` and `abs_max` hold for each group of people by itself",
		},
		{"max_gap", d.maybe(&c.MaxGap).with("minimum", 0), "no limit", "with `by`: no two groups that are not small differ by more than this"},
	}
}

func (d *decoder) waiverKeys(w *Waiver) []key {
	return []key{
		{"check", d.textOf(&w.Check), required, "name of a check; of a check by groups, `NAME [GROUP]` waives one group"},
		{"until", d.date(&w.Until), required, "the last day, as `2026-12-31`; it ends at midnight UTC"},
		{"reason", d.textOf(&w.Reason), required, "why; reports print it"},
		{"owner", d.textOf(&w.Owner), "nobody is named", "who answers for it"},
	}
}
