package task

import (
	"maps"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// actionabilities are what MACE calls directions.
func actionabilities() []string {
	return []string{"any", "none", "same-or-increase", "same-or-decrease"}
}

func (d *decoder) stepDirection(n ast.Node, f *Feature, m mapping) {
	v, ok := d.float(n)
	if !ok {
		return
	}
	switch v {
	case 1:
		f.Direction = Increase
	case -1:
		f.Direction = Decrease
	case 0:
		return
	default:
		d.errorf(n, "step_direction is 1 (increase), -1 (decrease) or 0 (both), not %v", v)
		return
	}
	m.At["direction"] = n
}

func (d *decoder) stepType(n ast.Node) {
	switch s, ok := d.Text(n); {
	case !ok || s == "absolute":
	case s == "relative":
		d.errorf(n, "steps are in raw units here: multiply step_size by the distance of the bounds and write step_type: absolute")
	default:
		d.errorf(n, "step_type is absolute, not %q", s)
	}
}

func (d *decoder) actionability(n ast.Node, f *Feature, m mapping) {
	i := d.oneOf(n, actionabilities())
	switch i {
	case 1:
		f.Actionable = false
		m.At["actionable"] = n
	case 2, 3:
		f.Direction = []Direction{Increase, Decrease}[i-2]
		m.At["direction"] = n
	}
}

// permit reads DiCE's permitted_range of one feature.
func (d *decoder) permit(n ast.Node, f *Feature, b *percents, m mapping) {
	switch f.Kind {
	case OneHot:
		var values []string
		d.texts(&values).Read(n)
		f.Transitions = map[string][]string{}
		for _, v := range f.Values {
			f.Transitions[v] = values
		}
		m.At["transitions"] = n
	case Numeric, Ordinal:
		d.span(&f.Bounds, b).Read(n)
		m.At["bounds"] = n
	case Binary, Thermometer:
		d.errorf(n, "feature %q: permitted_range means nothing for kind %s; give a direction or actionable: false", f.Name, f.Kind)
	}
}

// permitAll reads DiCE's permitted_range of several features.
func (d *decoder) permitAll(n ast.Node, t *Task, p *parts) {
	node, ok := n.(*ast.MappingNode)
	if !ok {
		d.errorf(n, "permitted_range must map features to [lo, hi], as {age: [18, 65]}, not %s", d.describe(n))
		return
	}
	for _, kv := range node.Values {
		name, ok := d.Key(kv.Key)
		if !ok {
			continue
		}
		i := d.featureNamed(kv.Key, name, t)
		if i < 0 {
			continue
		}
		f, m := &t.Features[i], p.features[i]
		if m.Has("bounds") || m.Has("transitions") {
			d.errorf(kv.Key, "permitted_range of %q stands beside the feature's own limits; keep one of the two", name)
			continue
		}
		var b percents
		d.permit(kv.Value, f, &b, m)
		d.settle(f, &b, m)
	}
}

// vary reads DiCE's features_to_vary.
func (d *decoder) vary(n ast.Node, t *Task, p *parts) {
	if s, ok := n.(*ast.StringNode); ok && s.Value == "all" {
		return
	}
	listed := d.featureList(n, t)
	for i := range t.Features {
		f, m := &t.Features[i], p.features[i]
		at, in := listed[i]
		switch said := m.Has("actionable"); {
		case in && said && !f.Actionable:
			d.errorf(at, "features_to_vary lists %q, which says itself that it is not actionable; keep one of the two", f.Name)
		case in:
			m.At["actionable"] = at
		case said && f.Actionable:
			d.errorf(m.Place("actionable"), "feature %q says that it is actionable, and features_to_vary does not list it; keep one of the two", f.Name)
		default:
			f.Actionable = false
		}
	}
}

// immutable reads what CARLA and alibi list as never changing.
func (d *decoder) immutable(n ast.Node, t *Task, p *parts) {
	listed := d.featureList(n, t)
	for i := range t.Features {
		at, in := listed[i]
		if !in {
			continue
		}
		f, m := &t.Features[i], p.features[i]
		if m.Has("actionable") && f.Actionable || m.Has("mutable") && f.Mutable {
			d.errorf(at, "%q is listed as immutable, and is actionable or mutable elsewhere in this file; keep one of the two", f.Name)
			continue
		}
		f.Actionable, f.Mutable = false, false
		m.At["mutable"] = at
	}
}

// featureList reads a list of features: their indices, with their places.
func (d *decoder) featureList(n ast.Node, t *Task) map[int]ast.Node {
	nodes := []ast.Node{n}
	if seq, ok := n.(*ast.SequenceNode); ok {
		nodes = seq.Values
	}
	listed := map[int]ast.Node{}
	for _, v := range nodes {
		name, ok := d.Text(v)
		if !ok {
			continue
		}
		i := d.featureNamed(v, name, t)
		if _, twice := listed[i]; twice && i >= 0 {
			d.errorf(v, "%q is listed twice", name)
		}
		if i >= 0 {
			listed[i] = v
		}
	}
	return listed
}

// featureNamed returns the index of a feature, -1 and a mistake at n when there is none of that name.
func (d *decoder) featureNamed(n ast.Node, name string, t *Task) int {
	i := slices.IndexFunc(t.Features, func(f Feature) bool { return f.Name == name })
	if i < 0 {
		d.errorf(n, "there is no feature %q%s", name, didYouMean(name, featureNames(t.Features)))
	}
	return i
}

func featureNames(features []Feature) []string {
	names := make([]string, len(features))
	for i := range features {
		names[i] = features[i].Name
	}
	return names
}
