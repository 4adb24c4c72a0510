package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"cfq/eval"
	"cfq/eval/footprint"
	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/onnxio/classifier"
	"cfq/onnxio/ort"
	"cfq/recourse"
	"cfq/task"
	"cfq/task/draft"
)

type evalFlags struct {
	evaluationFlags
	noise   int
	latency bool
	stream  streamFlags
	resume  bool
	stress  []string
}

func (f *evalFlags) variables() variables {
	f.noise = noisePeople
	return f.evaluationFlags.variables().with(f.stream.variables()).with(variables{
		"stress": repeated{&f.stress}, "noise": &f.noise, "latency": &f.latency, "resume": &f.resume,
	})
}

func (f *evalFlags) run(ctx context.Context, e *env, args []string) error {
	err := cmp.Or(f.stream.check(e.given, args, "data", "rows", "promises", "overrides", "sample", "by", "min-group",
		"stress", "noise", "latency", "records", "resume", "report", "overwrite", "json", "perturbation", "transfer"),
		arguments("eval", args, "FULL", "QUANTIZED"))
	if err != nil {
		return err
	}
	list := make([]eval.Stress, len(f.stress))
	for i, spec := range f.stress {
		if list[i], err = eval.ParseStress(spec); err != nil {
			return cli.Usagef(cli.HintValue, "--stress %w", err)
		}
	}
	if e.given("records") && f.records == "" {
		return cli.Usagef(cli.HintValue, "--records names no file: want people.parquet, say, or records/")
	}
	f.piped = f.stream.format != ""
	kept, err := f.checkRecords(f.resume)
	if err != nil {
		return err
	}
	work := func(d *evaluation) (*report.Document, error) {
		if f.piped {
			return nil, d.answerStream(ctx, &f.stream, f.marginsOf(curve(d.task)...))
		}
		if d.out = kept; kept != nil {
			kept.Task, kept.Made = d.task, d.madeWith
		}
		d.known.problem = d.known.read()
		for i := range list {
			if err := list[i].Check(d.task, nil, f.promises != ""); err != nil {
				return nil, cli.WithCode(fmt.Errorf("--stress %w", err), cli.Unusable)
			}
		}
		o := d.options()
		o.Margins, o.Noise = f.marginsOf(curve(d.task)...), f.noise
		o.Factor = f.transfer
		if e.given("perturbation") {
			d.perturb(&o)
		}
		return f.measure(ctx, d, o, list)
	}
	return evaluate(ctx, e, &f.evaluationFlags, args, report.EvaluationViews(), work)
}

// marginsOf are the required margins: those of the flag, else the others.
func (f *evaluationFlags) marginsOf(others ...float64) []float64 {
	list := slices.Clone(f.margins)
	if len(list) == 0 {
		list = others
	}
	if f.promises != "" { // however small a promise's margin is, it is judged
		list = append(list, 0)
	}
	return list
}

func (f *evalFlags) measure(
	ctx context.Context, d *evaluation, o eval.Options, list []eval.Stress,
) (*report.Document, error) {
	r, err := d.measure(ctx, o, list, f.latency)
	if err != nil {
		return nil, err
	}
	rows := d.known
	if rows.problem != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("calibration rows among the people cannot be recognised: %v",
			rows.problem))
	}
	equal, err := rows.count(r)
	if err != nil {
		r.Warnings = append(r.Warnings, err.Error())
	} else if equal > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of the %d people are equal to a row that the quantized model was "+
			"calibrated on: what it keeps for them says little about others", equal, r.Population.Read))
	}
	known, path, err := recordedEvidence(d.f.task, d.opened, d.sources[0].SHA256)
	if err != nil {
		return nil, err
	}
	// What is known of another model or encoding, or against this one, may be a mistake.
	if says := d.encoding(known, r); r.Population.Encoding != draft.Verified && known.Other != "" ||
		r.Population.Encoding == draft.Contradicted {
		r.Warnings = append(r.Warnings, says)
	}
	doc, err := d.document(ctx, r)
	if err == nil {
		doc.EncodingRecord, err = source(path)
	}
	return doc, err
}

func (d *evaluation) measure(
	ctx context.Context, o eval.Options, stress []eval.Stress, latency bool,
) (r *eval.Result, err error) {
	all, err := d.results(ctx, o, true)
	if err != nil {
		return nil, err
	}
	r = all[0]
	if len(stress) > 0 {
		if err := d.stress(ctx, o, r, stress); err != nil {
			return nil, err
		}
	}
	if r.Batches, err = eval.Rerun(ctx, d.models[0], d.models[1], r); err != nil {
		return nil, err
	}
	if r.Batches.Differ > 0 {
		r.Warnings = append(r.Warnings, r.Batches.String())
	}
	if err := d.weigh(ctx, r, 1, latency); err != nil {
		return nil, err
	}
	r.SensitivityToCopies, err = r.Alternatives(d.f.groupBy()) // with all that is known of r
	return r, err
}

func (d *evaluation) stress(ctx context.Context, o eval.Options, r *eval.Result, list []eval.Stress) error {
	b, err := r.Records.Batch()
	if err != nil {
		return err
	}
	o.Noise, o.Perturb, o.Factor = 0, nil, 0
	for i := range list {
		if err := list[i].Check(d.task, b.People, b.Promises != nil); err != nil {
			return cli.WithCode(fmt.Errorf("--stress %w", err), cli.Unusable)
		}
	}
	b.Set = d.allowed.set.Select(b.People.Rows)
	return r.Stress(ctx, d.models[0], d.quantized(1, o), b, list, o)
}

// quantized returns the i-th model. One without gradients gets the original's, to search its own recourse by.
func (d *evaluation) quantized(i int, o eval.Options) recourse.Model {
	m := d.models[i]
	err := m.Differentiable()
	if err == nil || o.OneSided {
		return m
	}
	d.warn("%s: its own recourse (RVD, CRG) is searched along the gradients of the original: %v", d.paths[i], err)
	return classifier.Along{Model: m, Of: d.models[0]}
}

const ballSamples = 64

// perturb has the logit perturbation measured.
func (d *evaluation) perturb(o *eval.Options) {
	o.Radius = d.f.perturbation
	o.Perturb = eval.PerturbationBetween(d.models[0], d.models[1], o.Radius, ballSamples, o.Seed)
}

const timedRows = 8192

func (d *evaluation) weigh(ctx context.Context, r *eval.Result, i int, latency bool) (err error) {
	full, quant := d.sources[0].Bytes, d.sources[i].Bytes
	if r.Footprint, err = footprint.Measure(d.files[0], d.files[i], full, quant); err != nil {
		d.e.msg.Note("bits and bit operations are not known: %v", err)
		r.Footprint = &eval.Footprint{Full: eval.Weight{Bytes: full}, Quant: eval.Weight{Bytes: quant}}
	}
	if n := r.Footprint.Saturating; n > 0 {
		this, other := "has", "without it"
		if ort.Saturates() {
			this, other = "does not have", "that have it"
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s of integers with 8-bit weights beyond 64: their sums saturate on "+
			"x64 processors without VNNI, which this one %s, so the numbers here do not hold for those %s",
			message.Count(n, "layer"), this, other))
	}
	if !latency {
		return ctx.Err()
	}
	d.e.progress()(eval.Event{Stage: "taking the time"})
	var x []float32
	for of, err := range r.Records.All() {
		if err != nil {
			return err
		}
		if x = append(x, of.X...); of.Person+1 == timedRows {
			break
		}
	}
	rows, err := d.models[0].Inputs(ctx, x)
	if err != nil {
		return err
	}
	r.Timing, err = footprint.Time(ctx, d.files[0], d.files[i], rows,
		footprint.TimeOptions{Engine: d.e.engine(), Confidence: d.f.confidence})
	return err
}

func curve(t *task.Task) []float64 { return []float64{0, 0.1, 0.25, 0.5, t.Target.Margin} }
