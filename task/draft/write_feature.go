package draft

import (
	"fmt"
	"math"
	"strings"

	"cfq/task"
)

// writeFeature writes one feature with what is to be said about it.
func (p *plan) writeFeature(w *writer, f *feature) {
	for _, c := range p.remarks(f) {
		w.comment("  ", c)
	}
	keys := []string{"name: " + scalar(f.Name)}
	if f.Column != f.Name && !p.encoded {
		keys = append(keys, "column: "+scalar(f.Column))
	}
	keys = append(keys, "kind: "+string(f.Kind))
	if f.Kind == task.Binary {
		keys = append(keys, "one: "+scalar(f.One))
		if f.Zero != "" {
			keys = append(keys, "zero: "+scalar(f.Zero))
		}
		keys = append(keys, "shares: "+task.Decimal(f.Shares[0]))
	}
	if f.Kind.IsNumber() {
		if p.chosen.scaling != raw {
			keys = append(keys, "mean: "+task.Decimal(f.Mean), "std: "+task.Decimal(f.Std))
		}
		if f.Values == nil {
			keys = append(keys, fmt.Sprintf("bounds: [%s, %s]", task.Decimal(f.Bounds[0]), task.Decimal(f.Bounds[1])))
			if f.Step > 0 {
				keys = append(keys, "step: "+task.Decimal(f.Step))
			}
		}
		keys = append(keys, "mad: "+task.Decimal(f.MAD))
	}
	if !f.Actionable {
		keys = append(keys, "actionable: false")
		if f.from.protect != "" && p.groupable(f) {
			keys = append(keys, "subgroup: true")
		}
	}
	if f.Weight != 1 && f.Weight > 0 {
		keys = append(keys, "weight: "+task.Decimal(f.Weight))
	}
	const lead, next = "  - {", "     "
	rest := p.lists(f)
	text := wrap(lead, keys, "", next)
	for _, r := range rest {
		text += ",\n" + r
	}
	w.line("%s}", text)
}

// lists are the keys of a feature that stand on lines of their own.
func (p *plan) lists(f *feature) []string {
	const next = "     "
	var out []string
	add := func(key string, items []string) {
		lead := next + key + ": ["
		out = append(out, wrap(lead, items, "]", strings.Repeat(" ", len(lead))))
	}
	if f.Values != nil {
		add("values", texts(f.Values))
	}
	if f.Kind == task.OneHot {
		add("shares", decimals(f.Shares))
	}
	if f.Kind.IsNumber() && f.Quantiles != nil {
		add("quantiles", decimals(f.Quantiles))
	}
	return out
}

// groupable says whether results can be reported by the values of a feature.
func (p *plan) groupable(f *feature) bool {
	const most = 10
	return (f.Kind == task.Binary && f.ofSet == "" && f.from.group == "") || (f.Kind == task.OneHot && f.Width <= most)
}

// remarks are the comments on a feature: what was guessed, and what to look at.
func (p *plan) remarks(f *feature) []string {
	s := f.from
	var out []string
	if s.protect != "" {
		out = append(out, fmt.Sprintf("A guess: nobody can be asked to change this (%s).", s.protect))
	}
	if f.ofSet != "" {
		out = append(out, fmt.Sprintf("One of the values of %s, the first of which has no input. One alone cannot be changed.", legible(f.ofSet)))
	}
	if s.group != "" && f.Kind != task.OneHot {
		out = append(out, fmt.Sprintf("One of the columns of %s, of which each row has one. One alone cannot be changed.", legible(s.group)))
	}
	if f.Kind == task.Numeric {
		if _, _, all := s.bounds(); all {
			out = append(out, "The 1st and the 99th percentile are the same, so the bounds are the whole range.")
		}
		if f.Step == 0 {
			out = append(out, "No step: the values have many places.")
		}
		if f.Step > 1 {
			out = append(out, fmt.Sprintf("All values are %s apart, or a multiple of it.", task.Decimal(f.Step)))
		}
	}
	if s.class == category && p.chosen.orders[s.name] != nil {
		out = append(out, "The order of the values is the one by which the model decides best, not that of the alphabet.")
	}
	if p.chosen.flipped[s.name] && f.Kind == task.Binary {
		out = append(out, "Which value is 1 is so that the model decides best; the alphabet has it the other way round.")
	}
	if f.Kind == task.Ordinal && f.Values == nil {
		out = append(out, "Few whole numbers: the bounds are all that occur.")
	}
	if f.Kind.IsNumber() && p.chosen.scaling != raw {
		mean, std := s.moments()
		if lo, hi := s.points[0], s.points[len(s.points)-1]; std > 0 && (hi-mean > 20*std || mean-lo > 20*std) {
			far := hi
			if mean-lo > hi-mean {
				far = lo
			}
			out = append(out, fmt.Sprintf("Somebody is %.0f standard deviations away, at %s: is that a person or a mark for something else?", math.Abs(far-mean)/std, task.Decimal(far)))
		}
	}
	return out
}
