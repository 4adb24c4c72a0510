package task

import (
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// checkNames reports names that occur twice or that refer to nothing.
func (d *decoder) checkNames(t *Task, data mapping, features []mapping) {
	seen := map[string]bool{}
	for i := range t.Features {
		f, m := &t.Features[i], features[i]
		if f.Name != "" && seen[f.Name] {
			d.errorf(m.Place("name"), "a feature named %q is listed above; names must differ (use column to read a column twice)", f.Name)
		}
		seen[f.Name] = true
		if f.Column == "" {
			continue
		}
		at := m.Place("name")
		if m.Has("column") {
			at = m.Place("column")
		}
		switch {
		case f.Column == t.Data.Label:
			d.errorf(at, "feature %q reads the label column: the model would be given the outcome", f.Name)
		case slices.Index(t.Data.Drop, f.Column) >= 0:
			d.errorf(at, "feature %q reads column %q, which data.drop excludes; remove one of the two", f.Name, f.Column)
		case len(t.Data.Columns) > 0 && !t.Encoded && slices.Index(t.Data.Columns, f.Column) < 0:
			d.errorf(at, "feature %q reads column %q, which data.columns does not list%s", f.Name, f.Column, didYouMean(f.Column, t.Data.Columns))
		}
		for _, v := range f.Values {
			if f.Kind == OneHot && slices.Index(t.Data.Missing, v) >= 0 {
				d.errorf(m.Place("values"), "feature %q: %q is both a value and a missing marker (data.missing)", f.Name, v)
			}
		}
	}
	if t.Data.Label != "" && !data.Has("favourable") {
		d.errorf(data.Place("label"), "data.label needs data.favourable, the label value that is the favourable outcome")
	}
	if data.Has("favourable") && !data.Has("label") {
		d.errorf(data.Place("favourable"), "data.favourable needs data.label, the column of the outcome")
	}
	if data.Has("favourable") && slices.Index(t.Data.Missing, t.Data.Favourable) >= 0 {
		d.errorf(data.Place("favourable"), "%q is both the favourable label and a missing marker (data.missing)", t.Data.Favourable)
	}
	d.checkColumns(t, data)
}

func (d *decoder) checkColumns(t *Task, data mapping) {
	cols := t.Data.Columns
	if len(cols) == 0 {
		return
	}
	seen := map[string]bool{}
	for _, c := range cols {
		if seen[c] {
			d.errorf(data.Place("columns"), "column %q is listed twice", c)
		}
		seen[c] = true
	}
	refer := func(key, column string) {
		if column != "" && slices.Index(cols, column) < 0 {
			d.errorf(data.Place(key), "data.%s names column %q, which data.columns does not list%s", key, column, didYouMean(column, cols))
		}
	}
	refer("label", t.Data.Label)
	for _, c := range t.Data.Drop {
		refer("drop", c)
	}
	for _, c := range t.Data.Subgroups {
		refer("subgroups", c)
	}
	for _, c := range t.Data.Filter {
		refer("filter", c.Column)
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
