package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio/ort"
	"cfq/ptq"
	"cfq/quant/qdq"
)

type reportFile[D any] struct {
	report.View[D]
	path string // "" for stdout
}

// reportFiles are the reports that the flags ask for, of which one goes to stdout: as text or JSON when none is said.
func reportFiles[D any](e *env, f *evaluationFlags, views []report.View[D]) (files []reportFile[D], err error) {
	known, specs := lists.Map(views, func(v report.View[D]) string { return v.Name }), slices.Clone(f.reports)
	if slices.IndexFunc(specs, func(spec string) bool { return !strings.Contains(spec, ":") }) < 0 {
		specs = append(specs, map[bool]string{false: "text", true: "json"}[e.json])
	}
	for _, spec := range specs {
		kind, path, ok := strings.Cut(spec, ":")
		i := slices.Index(known, kind)
		switch {
		case i < 0 && strings.HasSuffix(spec, ".html"):
			return nil, cli.Usagef(cli.HintValue, "--report %s: want the kind of report, too: html:%s", spec, spec)
		case i < 0:
			return nil, cli.Usagef(cli.HintValue, "--report %s: there is no report of the kind %q%s", spec, kind,
				message.DidYouMean(kind, known))
		case ok && path == "":
			return nil, cli.Usagef(cli.HintValue, "--report %s names no file; without the colon it goes to stdout", spec)
		case slices.ContainsFunc(files, func(x reportFile[D]) bool { return x.path == path }):
			return nil, cli.Usagef(cli.HintValue, "--report %s: another report goes to %s", spec, cmp.Or(path, "stdout"))
		}
		if path != "" {
			if err := cli.Output(path, f.overwrite); err != nil {
				return nil, err
			}
		}
		files = append(files, reportFile[D]{views[i], path})
	}
	return files, nil
}

// evaluate opens the files of an evaluation, has work make a document out of them, and writes the reports on that, the
// one on stdout last. Without a document there is none.
func evaluate[D any](
	ctx context.Context, e *env, f *evaluationFlags, models []string, views []report.View[D],
	work func(d *evaluation) (*D, error),
) (err error) {
	files, err := reportFiles(e, f, views)
	if err != nil {
		return err
	}
	d, err := f.open(ctx, e, models)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	d.detailed = slices.ContainsFunc(files, func(x reportFile[D]) bool {
		return slices.Contains([]string{"html", "json", "md"}, x.Name)
	})
	doc, err := work(d)
	if err != nil || doc == nil {
		return err
	}
	var stdout report.View[D]
	for _, x := range files {
		if x.path == "" {
			stdout = x.View
		} else if err := cli.Write(x.path, func(w io.Writer) error { return x.Write(w, doc) }); err != nil {
			return err
		}
	}
	return stdout.Write(e.stdout, doc)
}

func (d *evaluation) document(ctx context.Context, r *eval.Result) (_ *report.Document, err error) {
	models := d.origins()
	doc := &report.Document{
		Title: fmt.Sprintf("%s against %s", models[1].Name, models[0].Name), Run: d.e.run(), Inputs: d.inputs,
		Full: models[0], Quantized: models[1], Recipe: recipe(d.files[1].Graph()), Result: r, Warnings: d.warnings,
		Excluded: report.Exclusions(r),
		Details:  d.survey.Details(),
	}
	if !d.detailed {
		return doc, nil
	}
	doc.Layers, err = d.layers(ctx, r)
	return doc, err
}

// origins are the models that a report is about; the counts of files and the warnings are complete then.
func (d *evaluation) origins() (models []report.Model) {
	d.countEntries()
	for i, file := range d.sources {
		layers, _ := qdq.LayersOf(d.files[i]) // of a model whose layers are not understood, no bits are known
		models = append(models, report.Model{File: file, StoredBits: qdq.StoredBits(layers)})
	}
	if p := d.promise; p != nil {
		name := filepath.Base(d.f.promises)
		if p.Failed > 0 {
			d.warn("%d of %d rows of %s could not be read", p.Failed, p.Rows, name)
		}
		if p.Missing > 0 {
			d.warn("%s of %s to people who are not among those read", message.Count(p.Missing, "promise"), name)
		}
	}
	return models
}

// run is how the report is made. The commit tells builds between releases apart.
func (e *env) run() report.Run {
	lib, _ := ort.Find(e.lib) // which models were opened with
	b := buildVersion()
	tool := "cfq " + release()
	if b.Commit != "" {
		tool += fmt.Sprintf(", commit %.12s", b.Commit)
	}
	if b.Modified {
		tool += ", modified"
	}
	return report.Run{
		Tool: tool, Command: e.command, Runtime: fmt.Sprintf("ONNX Runtime %s, %s", lib.Version, b.Platform),
		CPU: ort.CPUFeatures(), Environment: cli.Environment(e.flags),
	}
}

// describe hashes the files that are read, once: data can be large.
func (d *evaluation) describe() error {
	for _, x := range []struct {
		to   *report.File
		path string
	}{
		{&d.inputs.Data, d.f.data},
		{&d.inputs.RowsFile, strings.TrimPrefix(d.f.rows, "!")},
		{&d.inputs.Task, d.f.task},
		{&d.inputs.Promises, d.f.promises},
		{&d.inputs.Overrides, d.f.overrides},
	} {
		var err error
		if *x.to, err = source(x.path); err != nil {
			return err
		}
	}
	return nil
}

func (d *evaluation) countEntries() {
	if p := d.total; d.f.rows != "" && p != nil { // a list with a row that the data does not have is an error
		d.inputs.RowsFile.Entries = p.Total - p.Filtered - p.Excluded
		if strings.HasPrefix(d.f.rows, "!") {
			d.inputs.RowsFile.Entries = p.Excluded
		}
		d.inputs.RowsFile.Used = d.inputs.RowsFile.Entries
	}
	if d.promise != nil {
		d.inputs.Promises.Entries, d.inputs.Promises.Used = d.promise.Rows, d.promise.Made
	}
	for _, o := range d.allowed.list {
		d.inputs.Overrides.Entries++
		if !d.allowed.unseen[o.Row] {
			d.inputs.Overrides.Used++
		}
	}
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

func (d *evaluation) layers(ctx context.Context, r *eval.Result) ([]report.Layer, error) {
	found, err := qdq.LayersOf(d.files[1])
	if err != nil {
		return nil, nil //nolint:nilerr // a model whose layers are not understood has none to show
	}
	data, err := os.ReadFile(d.paths[1])
	if err != nil {
		return nil, err
	}
	_ = addKernels(d.e, data, found) // without ONNX Runtime's word, kernels are not shown
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

const layerPeople = 8192

// sensitivities returns the paper's counterfactual sensitivity (eq. cfptq_sensitivity) of each layer of the
// original, by the name of its node, at the recourse points of the headline margin; empty without any.
func (d *evaluation) sensitivities(ctx context.Context, r *eval.Result) (map[string]float64, error) {
	h := r.Headline()
	drawn, err := r.Records.Draw(layerPeople, r.Settings.Seed, func(x *eval.Record) bool {
		return h >= 0 && x.Evaluated && x.Steps[h].Full.Exists()
	})
	if err != nil {
		return nil, err
	}
	points := lists.Join(drawn, func(x *eval.Record) []float32 { return x.Steps[h].Full.Point })
	if len(points) == 0 {
		return nil, nil
	}
	return ptq.GradientScores(ctx, d.models[0], d.task, points, d.e.workers)
}
