package task

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// feature decodes one feature; checkFeature then checks it.
func (d *decoder) feature(n ast.Node, f *Feature) mapping {
	m := d.mapping(n, "a feature", d.featureRules(f))
	if f.Column == "" {
		f.Column = f.Name
	}
	f.Width = 1
	if f.Kind == OneHot {
		f.Width = len(f.Values)
	}
	return m
}

// shares stores a list of shares, or the single one of a binary feature.
func (d *decoder) shares(dst *[]float64) set {
	return func(n ast.Node) {
		if _, ok := n.(*ast.SequenceNode); ok {
			d.numbers(dst)(n)
			return
		}
		*dst = []float64{0}
		d.number(&(*dst)[0])(n)
	}
}

// transitions stores the mapping of a value to those it may become.
func (d *decoder) transitions(dst *map[string][]string) set {
	return func(n ast.Node) {
		node, ok := n.(*ast.MappingNode)
		if !ok {
			d.errorf(n, "transitions must map a value to the values it may become, as {Private: [State-gov]}, not %s", describe(n))
			return
		}
		*dst = map[string][]string{}
		for _, kv := range node.Values {
			key, ok := d.key(kv.Key)
			if !ok {
				continue
			}
			if _, dup := (*dst)[key]; dup {
				d.errorf(kv.Key, "transitions from %q are given twice; keep one list", key)
			}
			var to []string
			if _, none := kv.Value.(*ast.NullNode); !none {
				d.texts(&to)(kv.Value)
			}
			(*dst)[key] = to
		}
	}
}

// applies lists, for each kind, the keys that mean something for it beyond those every feature has.
func applies(k Kind) []string {
	switch k {
	case Numeric:
		return []string{"mean", "std", "direction", "bounds", "step", "max_increase", "max_decrease", "max_change"}
	case Ordinal:
		return []string{"mean", "std", "values", "direction", "bounds", "step", "max_increase", "max_decrease", "max_change", "subgroup"}
	case Binary:
		return []string{"one", "zero", "shares", "direction", "subgroup"}
	default:
		return []string{"values", "shares", "transitions", "subgroup"}
	}
}

// checkFeature reports what is impossible within one feature and fills in Levels.
func (d *decoder) checkFeature(f *Feature, m mapping) {
	if m.has("name") && strings.TrimSpace(f.Name) == "" {
		d.errorf(m.place("name"), "the name is empty")
	}
	if f.Kind == "" {
		return
	}
	for _, key := range []string{
		"mean", "std", "one", "zero", "values", "shares", "direction", "bounds", "step",
		"max_increase", "max_decrease", "max_change", "transitions", "subgroup",
	} {
		if m.has(key) && !slices.Contains(applies(f.Kind), key) {
			d.errorf(m.place(key), "feature %q: %q means nothing for kind %s; remove it", f.Name, key, f.Kind)
		}
	}
	if m.has("mean") != m.has("std") && f.Kind != OneHot && f.Kind != Binary {
		d.errorf(m.node, "feature %q: mean and std belong together; give both, or neither for an input that is not standardised", f.Name)
	}
	if f.Std <= 0 {
		d.errorf(m.place("std"), "feature %q: std must be above 0", f.Name)
	}
	if m.has("step") && f.Step <= 0 {
		d.errorf(m.place("step"), "feature %q: step must be above 0; leave it out to allow any change", f.Name)
	}
	if f.Weight <= 0 {
		d.errorf(m.place("weight"), "feature %q: weight must be above 0; actionable: false forbids a change", f.Name)
	}
	for _, b := range []struct {
		key   string
		bound float64
	}{{"max_increase", f.MaxIncrease}, {"max_decrease", f.MaxDecrease}, {"max_change", f.MaxChange}} {
		if b.bound < 0 {
			d.errorf(m.place(b.key), "feature %q: %s is a size and must be 0 or more", f.Name, b.key)
		}
	}
	switch f.Kind {
	case Binary:
		d.checkBinary(f, m)
	case OneHot:
		d.checkOneHot(f, m)
	case Ordinal:
		d.checkOrdinal(f, m)
	}
	for _, s := range f.Shares {
		if s < 0 || s > 1 {
			d.errorf(m.place("shares"), "feature %q: a share lies between 0 and 1, not at %v", f.Name, s)
		}
	}
}

func (d *decoder) checkBinary(f *Feature, m mapping) {
	if !m.has("one") {
		d.errorf(m.node, "feature %q: a binary feature needs the key \"one\", the value that becomes 1", f.Name)
	}
	if m.has("zero") && f.Zero == f.One {
		d.errorf(m.place("zero"), "feature %q: zero and one are the same value", f.Name)
	}
	if f.Shares != nil && len(f.Shares) != 1 {
		d.errorf(m.place("shares"), "feature %q: a binary feature has one share, that of %q", f.Name, f.One)
	}
}

func (d *decoder) checkOneHot(f *Feature, m mapping) {
	if len(f.Values) == 0 {
		d.errorf(m.place("values"), "feature %q: a one-hot feature needs its values, in the order of the model's inputs", f.Name)
		return
	}
	d.checkDistinct(f, m)
	sum := 0.0
	for _, s := range f.Shares {
		sum += s
	}
	if f.Shares != nil && len(f.Shares) != len(f.Values) {
		d.errorf(m.place("shares"), "feature %q: %d shares for %d values", f.Name, len(f.Shares), len(f.Values))
	} else if sum > 1.01 { // shares may be rounded
		d.errorf(m.place("shares"), "feature %q: the shares add up to %.6g, more than 1", f.Name, sum)
	}
	for _, from := range slices.Sorted(maps.Keys(f.Transitions)) {
		for _, v := range append([]string{from}, f.Transitions[from]...) {
			if slices.Index(f.Values, v) < 0 {
				d.errorf(m.place("transitions"), "feature %q: transitions name %q, which is not among its values%s", f.Name, v, didYouMean(v, f.Values))
			}
		}
	}
}

func (d *decoder) checkOrdinal(f *Feature, m mapping) {
	if len(f.Values) == 0 {
		if m.has("values") || !m.has("bounds") || !m.has("step") || math.IsInf(f.Bounds[0], 0) || math.IsInf(f.Bounds[1], 0) {
			d.errorf(m.node, "feature %q: an ordinal feature needs its values, or bounds [lo, hi] and step", f.Name)
		}
		if m.has("subgroup") && f.Subgroup {
			d.errorf(m.place("subgroup"), "feature %q: an ordinal feature needs its values to name subgroups", f.Name)
		}
		return
	}
	d.checkDistinct(f, m)
	for _, v := range f.Values {
		x, ok := parseNumber(v)
		if !ok {
			d.errorf(m.place("values"), "feature %q: the values of an ordinal feature are numbers, and %q is none", f.Name, v)
			return
		}
		f.Levels = append(f.Levels, x)
	}
	slices.Sort(f.Levels)
	if len(slices.Compact(slices.Clone(f.Levels))) != len(f.Levels) {
		d.errorf(m.place("values"), "feature %q: two of the values are the same number", f.Name)
	}
}

func (d *decoder) checkDistinct(f *Feature, m mapping) {
	seen := map[string]bool{}
	for _, v := range f.Values {
		if seen[v] {
			d.errorf(m.place("values"), "feature %q: the value %q is listed twice", f.Name, v)
		}
		if v == "" {
			d.errorf(m.place("values"), "feature %q: a value is empty; an empty field is a missing value and encoded as all zeros", f.Name)
		}
		seen[v] = true
	}
}
