package task

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// feature decodes one feature; checkFeature then checks it.
func (d *decoder) feature(n ast.Node, f *Feature) mapping {
	var b percents
	m := d.mapping(n, "a feature", d.featureKeys(f, &b))
	d.settle(f, &b, m)
	if f.Column == "" {
		f.Column = f.Name
	}
	f.Width = 1
	switch {
	case f.Kind == OneHot:
		f.Width = len(f.Values)
	case f.Kind == Thermometer:
		f.Width = max(f.places()-1, 0)
	}
	return m
}

// checkFeature reports what is impossible within one feature and fills in Levels.
func (d *decoder) checkFeature(f *Feature, m mapping) {
	if m.Has("name") && strings.TrimSpace(f.Name) == "" {
		d.errorf(m.Place("name"), "the name is empty")
	}
	if f.Kind == "" {
		return
	}
	if m.Has("mean") != m.Has("std") && f.Kind.IsNumber() {
		d.errorf(m.Node, "feature %q: mean and std belong together; give both, or neither for an input that is not standardised", f.Name)
	}
	d.checkAction(f, m)
	switch f.Kind {
	case Binary:
		d.checkBinary(f, m)
	case OneHot:
		d.checkOneHot(f, m)
	case Ordinal:
		d.checkOrdinal(f, m)
	case Thermometer:
		d.checkThermometer(f, m)
	}
	d.checkStatistics(f, m)
}

// checkAction reports what is wrong with the keys that are given, whatever the kind, or for it.
func (d *decoder) checkAction(f *Feature, m mapping) {
	d.checkApplies(f, m)
	if f.Std <= 0 {
		d.errorf(m.Place("std"), "feature %q: std must be above 0", f.Name)
	}
	if m.Has("step") && f.Step <= 0 {
		d.errorf(m.Place("step"), "feature %q: step must be above 0; leave it out to allow any change", f.Name)
	}
	if f.Weight <= 0 {
		d.errorf(m.Place("weight"), "feature %q: weight must be above 0; actionable: false forbids a change", f.Name)
	}
	if m.Has("switch_cost") && f.SwitchCost <= 0 {
		d.errorf(m.Place("switch_cost"), "feature %q: switch_cost must be above 0; actionable: false forbids a change", f.Name)
	}
	for _, b := range []struct {
		key   string
		bound float64
	}{{"max_increase", f.MaxIncrease}, {"max_decrease", f.MaxDecrease}, {"max_change", f.MaxChange}} {
		if b.bound < 0 {
			d.errorf(m.Place(b.key), "feature %q: %s is a size and must be 0 or more", f.Name, b.key)
		}
	}
}

// checkApplies reports keys that mean nothing for the kind of the feature.
func (d *decoder) checkApplies(f *Feature, m mapping) {
	var some []string // keys that mean something for some kinds only
	for _, k := range allKinds() {
		some = append(some, applies(k)...)
	}
	slices.Sort(some)
	for _, key := range slices.Compact(some) {
		if m.Has(key) && !slices.Contains(applies(f.Kind), key) {
			d.errorf(m.Place(key), "feature %q: %q means nothing for kind %s; remove it", f.Name, key, f.Kind)
		}
	}
	if f.Kind != OneHot || f.Ordered {
		return
	}
	for _, key := range []string{"max_increase", "max_decrease", "max_change"} {
		if m.Has(key) {
			d.errorf(m.Place(key), "feature %q: %q needs values that stand in an order; say so with ordered: true, or remove it", f.Name, key)
		}
	}
	if f.Direction != Any {
		d.errorf(m.Place("direction"), "feature %q: a direction needs values that stand in an order; say so with ordered: true, or remove it", f.Name)
	}
}

func (d *decoder) checkBinary(f *Feature, m mapping) {
	if !m.Has("one") {
		d.errorf(m.Node, "feature %q: a binary feature needs the key \"one\", the value that becomes 1", f.Name)
	}
	if m.Has("zero") && f.Zero == f.One {
		d.errorf(m.Place("zero"), "feature %q: zero and one are the same value", f.Name)
	}
	if f.Shares != nil && len(f.Shares) != 1 {
		d.errorf(m.Place("shares"), "feature %q: a binary feature has one share, that of %q", f.Name, f.One)
	}
}

func (d *decoder) checkOneHot(f *Feature, m mapping) {
	if len(f.Values) == 0 {
		d.errorf(m.Place("values"), "feature %q: a one-hot feature needs its values, in the order of the model's inputs", f.Name)
		return
	}
	d.checkDistinct(f, m)
	sum := 0.0
	for _, s := range f.Shares {
		sum += s
	}
	if f.Shares != nil && len(f.Shares) != len(f.Values) {
		d.errorf(m.Place("shares"), "feature %q: %d shares for %d values", f.Name, len(f.Shares), len(f.Values))
	} else if sum > 1.01 { // shares may be rounded
		d.errorf(m.Place("shares"), "feature %q: the shares add up to %.6g, more than 1", f.Name, sum)
	}
	named := map[string]bool{}
	for _, from := range slices.Sorted(maps.Keys(f.Transitions)) {
		for _, v := range append([]string{from}, f.Transitions[from]...) {
			if slices.Index(f.Values, v) < 0 && !named[v] {
				named[v] = true
				d.errorf(m.Place("transitions"), "feature %q: transitions name %q, which is not among its values%s", f.Name, v, didYouMean(v, f.Values))
			}
		}
	}
}

func (d *decoder) checkOrdinal(f *Feature, m mapping) {
	if len(f.Values) == 0 {
		if m.Has("values") || !m.Has("bounds") || !m.Has("step") || math.IsInf(f.Bounds[0], 0) || math.IsInf(f.Bounds[1], 0) {
			d.errorf(m.Node, "feature %q: an ordinal feature needs its values, or bounds [lo, hi] and step", f.Name)
		}
		if m.Has("subgroup") && f.Subgroup {
			d.errorf(m.Place("subgroup"), "feature %q: an ordinal feature needs its values to name subgroups", f.Name)
		}
		return
	}
	d.checkDistinct(f, m)
	for _, v := range f.Values {
		x, ok := Number(v)
		if !ok {
			d.errorf(m.Place("values"), "feature %q: the values of an ordinal feature are numbers, and %q is none", f.Name, v)
			return
		}
		f.Levels = append(f.Levels, x)
	}
	slices.Sort(f.Levels)
	if len(slices.Compact(slices.Clone(f.Levels))) != len(f.Levels) {
		d.errorf(m.Place("values"), "feature %q: two of the values are the same number", f.Name)
	}
}

func (d *decoder) checkThermometer(f *Feature, m mapping) {
	switch {
	case f.Values != nil && f.Thresholds != nil:
		d.errorf(m.Place("thresholds"), "feature %q: a thermometer has values or thresholds, not both", f.Name)
		return
	case len(f.Thresholds) > 0:
		for i := 1; i < len(f.Thresholds); i++ {
			if f.Thresholds[i] <= f.Thresholds[i-1] {
				d.errorf(m.Place("thresholds"), "feature %q: thresholds ascend, and %v does not follow %v", f.Name, f.Thresholds[i], f.Thresholds[i-1])
			}
		}
	case len(f.Values) < 2:
		d.errorf(m.Node, "feature %q: a thermometer needs thresholds, or two values or more in ascending order, the first of which is all zeros", f.Name)
		return
	default:
		d.checkDistinct(f, m)
	}
	if f.Shares != nil && len(f.Shares) != f.Width {
		d.errorf(m.Place("shares"), "feature %q: %d shares, and %d values above the lowest; give the share of the rows that reach each", f.Name, len(f.Shares), f.Width)
	}
	if !slices.IsSortedFunc(f.Shares, func(a, b float64) int { return cmp.Compare(b, a) }) {
		d.errorf(m.Place("shares"), "feature %q: shares of a thermometer descend: who reaches a value has reached those before it", f.Name)
	}
}

func (d *decoder) checkDistinct(f *Feature, m mapping) {
	seen := map[string]bool{}
	for _, v := range f.Values {
		if seen[v] {
			d.errorf(m.Place("values"), "feature %q: the value %q is listed twice", f.Name, v)
		}
		if v == "" {
			d.errorf(m.Place("values"), "feature %q: a value is empty; an empty field is a missing value and encoded as all zeros", f.Name)
		}
		seen[v] = true
	}
}

// checkStatistics reports figures that no training rows can have.
func (d *decoder) checkStatistics(f *Feature, m mapping) {
	for _, s := range f.Shares {
		if s < 0 || s > 1 {
			d.errorf(m.Place("shares"), "feature %q: a share lies between 0 and 1, not at %v", f.Name, s)
		}
	}
	if f.MAD < 0 {
		d.errorf(m.Place("mad"), "feature %q: mad must be 0 or more", f.Name)
	}
	if m.Has("quantiles") && len(f.Quantiles) < 2 {
		d.errorf(m.Place("quantiles"), "feature %q: quantiles are two numbers or more, from the least value to the greatest", f.Name)
	}
	if !slices.IsSorted(f.Quantiles) {
		d.errorf(m.Place("quantiles"), "feature %q: quantiles ascend, from the least value to the greatest", f.Name)
	}
}
