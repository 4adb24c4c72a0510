package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/report"
	"cfq/onnxio/classifier"
	"cfq/onnxio/ort"
	"cfq/quant"
	"cfq/sensitivity"
)

// document adds to a result where it came from and, with details, the layers of the quantized model.
func (d *field) document(ctx context.Context, r *eval.Result, n *neighbourhood, details bool) (*report.Document, error) {
	files, err := d.inputs()
	if err != nil {
		return nil, err
	}
	models := d.weighed()
	doc := &report.Document{
		Title: fmt.Sprintf("%s against %s", models[1].Name, models[0].Name), Tool: "cfq " + release(),
		Full: models[0], Quantized: models[1],
		Data: files[0], Task: files[1], Promises: files[2], Overrides: files[3], Recipe: recipe(d.files[1]), Result: r,
		Broken: d.broken(r), Warnings: slices.Concat(d.warnings, n.warnings),
	}
	if d.given != nil {
		doc.Warnings = append(doc.Warnings, unused(d.f.promises, d.given)...)
	}
	if d.f.records {
		doc.Records = r.Records
	}
	if details {
		doc.Layers, err = d.layers(ctx, r)
	}
	return doc, err
}

// inputs are the data, the task, the promises and the overrides; those that there are none of are empty.
func (d *field) inputs() (files [4]report.File, err error) {
	for i, path := range []string{d.f.data, d.f.task, d.f.promises, d.f.overrides} {
		if files[i], err = source(path); err != nil {
			return files, err
		}
	}
	return files, nil
}

func source(path string) (report.File, error) {
	if path == "" {
		return report.File{}, nil
	}
	size, sum, err := fileHash(path)
	if err != nil {
		return report.File{}, fmt.Errorf("hashing: %w", err)
	}
	return report.File{Name: filepath.Base(path), SHA256: sum, Bytes: size}, nil
}

// weighed are the models as reports name them.
func (d *field) weighed() []report.Model {
	var models []report.Model
	for i, file := range d.sources {
		models = append(models, report.Model{File: file, WeightBits: weightBits(d.files[i])})
	}
	return models
}

// broken lists the people whose promise breaks at the headline margin, and what would have held.
func (d *field) broken(r *eval.Result) []report.Broken {
	h := r.Headline()
	var list []report.Broken
	for i := range r.Records {
		p := &r.Records[i]
		if h < 0 || !p.Evaluated || !p.Steps[h].Full.Broken() {
			continue
		}
		s := &p.Steps[h].Full
		b := report.Broken{
			Row: p.Row, Line: p.Line, Margin: r.Settings.Margins[h], Own: s.Own, Other: s.Other, Cost: s.Cost,
			Action: d.words(p.Row, s.Point),
		}
		if d.people.Rows != nil {
			b.Row = d.people.Rows[p.Row]
		}
		b.Repair, b.RepairCost = d.repair(r, p, h)
		list = append(list, b)
	}
	return list
}

// repair says what would have held for a person whose promise breaks at the h-th margin: recourse with the smallest
// larger margin that both models accept, or the quantized model's own.
func (d *field) repair(r *eval.Result, p *eval.Record, h int) (what string, cost eval.Float) {
	if !r.Settings.Issued {
		for i := h + 1; i < len(p.Steps); i++ {
			if s := &p.Steps[i].Full; s.Made() && !s.Broken() {
				return fmt.Sprintf("demand a margin of %g: %s", r.Settings.Margins[i], strings.Join(d.words(p.Row, s.Point), ", ")), s.Cost
			}
		}
	}
	s := &p.Steps[h].Quant
	switch {
	case !s.Made():
		return "", eval.Float(math.NaN())
	case s.Broken():
		return "what the quantized model asks for, which the original would not keep: " + strings.Join(d.words(p.Row, s.Point), ", "), s.Cost
	}
	return "what the quantized model asks for, which the original keeps: " + strings.Join(d.words(p.Row, s.Point), ", "), s.Cost
}

// words says what a point changes for the person at a position.
func (d *field) words(person int, point []float32) []string {
	var out []string
	dim := d.people.Dim
	for _, c := range d.set.Person(person).Changes(d.people.X[person*dim:(person+1)*dim], point) {
		out = append(out, fmt.Sprintf("%s %s -> %s", c.Feature, c.From, c.To))
	}
	return out
}

// layers lists the layers of the quantized model, with the sensitivity of each of them at the recourse points.
func (d *field) layers(ctx context.Context, r *eval.Result) ([]report.Layer, error) {
	found, err := findLayers(d.files[1])
	if err != nil {
		return nil, nil //nolint:nilerr // a model whose layers are not understood has none to show
	}
	data, err := os.ReadFile(d.paths[1])
	if err != nil {
		return nil, err
	}
	if o, err := ort.Optimized(data, d.e.engine()); err == nil {
		setKernels(found, o.Graph)
	}
	scores, err := d.sensitivities(ctx, r)
	if err != nil {
		d.e.msg.Note("the sensitivity of the layers is not shown: %v", err)
	}
	var layers []report.Layer
	for _, l := range found {
		x := report.Layer{
			Node: l.Node, Weights: l.Params(), Bits: l.Bits, Bytes: l.Stored, Kernel: l.Kernel,
			Sensitivity: eval.Float(math.NaN()),
		}
		if v, ok := scores[l.Node]; ok {
			x.Sensitivity = eval.Float(v)
		}
		layers = append(layers, x)
	}
	return layers, ctx.Err()
}

// sensitivities returns the paper's counterfactual sensitivity (eq. cfptq_sensitivity) of each layer of the
// original, by the name of its node, at the recourse points of the headline margin; empty without any.
func (d *field) sensitivities(ctx context.Context, r *eval.Result) (_ map[string]float64, err error) {
	h := r.Headline()
	var points []float32
	for i := range r.Records {
		if p := &r.Records[i]; h >= 0 && p.Evaluated && p.Steps[h].Full.Made() {
			points = append(points, p.Steps[h].Full.Point...)
		}
	}
	out := map[string]float64{}
	if len(points) == 0 {
		return out, nil
	}
	m, err := d.models[0].Canonical()
	if err != nil {
		return nil, err
	}
	layers, err := quant.FindLayers(m.Graph())
	if err != nil {
		return nil, err
	}
	c, err := classifier.New(m, classifier.Options{Target: &d.task.Target.Index, Workers: d.e.workers, Through: quant.StraightThrough})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	scores, err := sensitivity.Gradient(ctx, c, layers, points, nil)
	if err != nil {
		return nil, err
	}
	for i := range layers {
		out[layers[i].Node] = scores[i]
	}
	return out, nil
}
