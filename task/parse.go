package task

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
)

// Load reads a task file in YAML or JSON. Mistakes in it are returned as Errors.
func Load(path string) (*Task, error) {
	data, err := config.Content("task file", path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads a task file's content; name is the file name in messages. Mistakes are returned as Errors: all of them, not the first.
func Parse(name string, data []byte) (*Task, error) {
	d := newDecoder(name)
	var t *Task
	if root := d.Document(data, "version, data and features"); root != nil {
		t = d.task(root)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// task decodes and checks the whole file.
func (d *decoder) task(root ast.Node) *Task {
	t := &Task{
		Data:   Data{Delimiter: ','},
		Target: Target{Class: "favourable", Index: 1},
		Cost:   Cost{Norm: L1, L1Ratio: 0.5, Weights: InverseStd, Eps: 1e-3, Switches: Once},
	}
	var p parts
	top := d.mapping(root, "the task file", d.taskKeys(t, &p))
	if top.Has("version") && t.Version != 1 {
		d.errorf(top.Place("version"), "this task file has version %d; the version known here is 1", t.Version)
	}
	if top.Has("features") && len(t.Features) == 0 {
		d.errorf(top.Place("features"), "the list of features is empty; name each input of the model")
	}
	known := len(t.Features) > 0
	for i := range t.Features {
		d.checkMutable(&t.Features[i], p.features[i])
		d.checkFeature(&t.Features[i], p.features[i])
		known = known && t.Features[i].Kind != "" && t.Features[i].Width > 0
	}
	d.checkNames(t, p.data, p.features)
	if known { // what refers to features that are no features would be reported twice
		d.links(p.links, t, p.features)
		d.rules(p.conditions, t)
		t.settleMutable(p.features)
		d.checkCost(t, p.cost, p.features)
	}
	offset := 0
	for i := range t.Features {
		t.Features[i].Offset = offset
		offset += t.Features[i].Width
	}
	return t
}

// checkMutable makes what is not mutable not actionable.
func (d *decoder) checkMutable(f *Feature, m mapping) {
	if !m.Has("mutable") || f.Mutable {
		return
	}
	if m.Has("actionable") && f.Actionable {
		d.errorf(m.Place("mutable"), "feature %q: it is actionable and never changes (mutable: false); keep one of the two", f.Name)
	}
	f.Actionable = false
}

// settleMutable fills in Mutable where the file does not say.
func (t *Task) settleMutable(features []mapping) {
	for i := range t.Features {
		if f := &t.Features[i]; !features[i].Has("mutable") {
			f.Mutable = f.Actionable || t.Drags(f.Name)
		}
	}
}

// Drags says whether a link drags the feature along.
func (t *Task) Drags(name string) bool {
	return slices.ContainsFunc(t.Links, func(l Link) bool { return l.To == name })
}

func (d *decoder) data(n ast.Node, t *Data) mapping {
	m := d.mapping(n, "data", d.dataKeys(t))
	if t.Comment == t.Delimiter {
		d.errorf(m.Place("comment"), "comment and delimiter must differ")
	}
	return m
}

func (d *decoder) condition(n ast.Node, c *Condition) {
	m := d.mapping(n, "a filter", d.filterKeys(c))
	switch {
	case !m.Has("column"):
	case !m.Has("min") && !m.Has("max") && !m.Has("not"):
		d.errorf(m.Node, "a filter needs a condition: min, max or not")
	case c.Min > c.Max:
		d.errorf(m.Place("min"), "no value lies between min %v and max %v", c.Min, c.Max)
	}
}

func (d *decoder) target(n ast.Node, t *Target) {
	m := d.mapping(n, "target", d.targetKeys(t))
	if t.Margin < 0 {
		d.errorf(m.Place("margin"), "the margin must be 0 or more: recourse is a point on the favourable side")
	}
}
