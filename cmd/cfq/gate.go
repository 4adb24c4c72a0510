package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"cfq/eval"
	"cfq/eval/gate"
	"cfq/eval/metrics"
	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/config"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/internal/tempfile"
	"cfq/recourse"
	"cfq/task"
)

type gateFlags struct {
	evaluationFlags
	file           string
	checks         []string
	limits         [4]string // of shorthands, as checks; "" for those not given
	own            gate.Gate // what flags say of it
	scores         string
	looks          looksFlags
	previous       string
	record         string
	onInconclusive string
	notes          []string // of the gate's report
}

func (f *gateFlags) variables() variables {
	f.own.MaxUnreadable = new(eval.MuchUnreadable)
	v := f.evaluationFlags.variables().with(f.looks.variables()).with(variables{
		"check": repeated{&f.checks}, "one-sided": &f.own.OneSided, "no-labels": &f.own.NoLabels, "gate": &f.file,
		"max-unreadable": f.own.MaxUnreadable, "margin": &f.own.Margin, "unverified-encoding": &f.own.UnverifiedEncoding,
		"scores": &f.scores, "previous": &f.previous, "looks": &f.own.Looks,
		"on-inconclusive":    cli.Choice(&f.onInconclusive, []string{"report", "fail", "pass"}),
		"calibration-record": &f.record, "records": repeated{&f.tables},
	})
	for i, short := range [4][2]string{
		{"max-vd", "vd<="}, {"max-rvd", "rvd<="}, {"max-crg", "crg.median<="}, {"max-accuracy-drop", "accuracy_drop<="},
	} {
		v[short[0]] = func(text string) error {
			f.limits[i] = short[1] + text
			_, err := gate.ParseCheck(f.limits[i])
			return errors.Unwrap(err) // the flag stands for the check
		}
	}
	return v
}

func (f *gateFlags) run(ctx context.Context, e *env, args []string) error {
	given := func(flag string) bool { return len(f.tables) > 0 && e.given(flag) }
	err := cmp.Or(
		refuseFlags(given, "FLAG has no effect on --records: it is settled when they are made; cfq eval takes it",
			"sample", "seed", "restarts", "perturbation", "transfer"),
		refuseFlags(given, "FLAG are of rows of --data, which --records replaces: `cfq task check` compares them", "scores"))
	if err != nil {
		return err
	}
	if err := f.dropReports(args); err != nil {
		return err
	}
	g, err := f.gate(e.flags)
	if err != nil {
		return err
	}
	var judged *report.Document
	work := func(d *evaluation) (_ *report.Document, err error) {
		judged, err = f.judge(ctx, d, g)
		return judged, err
	}
	if err := evaluate(ctx, e, &f.evaluationFlags, args, report.Views(), work); err != nil {
		f.looks.record(e, nil)
		return err
	}
	f.looks.record(e, judged.Gate)
	return f.verdict(e, judged.Gate)
}

// dropReports removes the reports that this run replaces: what an earlier run wrote must not stand next to one that
// fails.
func (f *gateFlags) dropReports(args []string) error {
	inputs, reports := append(f.inputs(args), f.file, f.previous, f.record, f.scores), f.outputs()
	if err := cli.Distinct(inputs, append(reports, f.looks.file(args[1])...)); err != nil || !f.overwrite {
		return err
	}
	for _, path := range reports {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			if err := os.Remove(path); err != nil {
				return cli.WithCode(err, cli.Unusable)
			}
		}
	}
	return nil
}

func (f *gateFlags) judge(ctx context.Context, d *evaluation, g *gate.Gate) (*report.Document, error) {
	rows := d.known
	rows.path, rows.required = f.record, g.NeedsRecord
	if err := rows.read(); err != nil {
		return nil, err
	}
	if err := rows.checkHeldOut(); err != nil {
		return nil, err
	}
	if d.same {
		return nil, cli.Usagef("give the original first and the quantized model second", "%s and %s have the same content",
			d.paths[0], d.paths[1])
	}
	if err := d.files[0].SameKind(d.files[1]); err != nil {
		return nil, unusableModel(d.paths[1], err)
	}
	known, recorded, err := recordedEvidence(f.task, d.opened, d.sources[0].SHA256)
	if err == nil && f.scores != "" {
		recorded, err = f.scores, d.scored(ctx, f.scores, &known)
	}
	if err != nil {
		return nil, err
	}
	needs := g.Needs(f.promises != "")
	if len(f.tables) > 0 {
		o := d.options()
		if needs.Requires[metrics.Noise] {
			o.Noise = noisePeople
		}
		if err := d.readRecords(ctx, f.tables, o); err != nil {
			return nil, err
		}
	}
	if t := d.tabled; t != nil && f.transfer != 0 && t.settings.Factor != f.transfer {
		return nil, cli.Usagef("make the records with cfq eval --transfer, or take the factor out of the gate file",
			"records in %s: their transfer certificates have the factor %v, and the gate file's is %v",
			message.List(f.tables, 3), t.settings.Factor, f.transfer)
	}
	previous, before, err := f.earlier(d)
	if err != nil {
		return nil, err
	}
	if g, err = f.looks.plan(d, g); err != nil {
		return nil, err
	}
	if f.confidence = g.Needs(f.promises != "").Confidence; d.tabled != nil {
		d.tabled.settings.Confidence, d.tabled.o.Confidence = f.confidence, f.confidence
	}
	r, broken, err := d.measureFor(ctx, needs, d.e.given("perturbation"))
	if err != nil {
		return nil, err
	}
	if err := d.checkPromiseSource(); err != nil {
		return nil, err
	}
	if _, err := rows.count(r); err != nil {
		return nil, err
	}
	doc, err := d.document(ctx, r)
	if err != nil {
		return nil, err
	}
	doc.Previous = previous
	encoded := d.encoding(known, r)
	if doc.EncodingRecord, err = source(recorded); err != nil {
		return nil, err
	}
	if doc.GateFile, err = source(f.file); err == nil {
		doc.CalibrationRecord, err = source(rows.found)
	}
	if doc.Gate = gate.Judge(g, r, before); broken != nil {
		doc.Gate = gate.Refuse(g, r, broken)
	}
	doc.Gate.Notes = slices.Concat([]string{encoded}, doc.Gate.Notes, f.notes, f.looks.notes, rows.notes)
	return doc, err
}

// measureFor measures what a gate needs. A quantized model that gives no numbers is no error of the command: it is
// returned with a result of nobody.
func (d *evaluation) measureFor(
	ctx context.Context, needs gate.Needs, perturbation bool,
) (_ *eval.Result, broken *eval.UndefinedError, err error) {
	o := d.options()
	o.Margins, o.OneSided = needs.Margins, !needs.Requires[metrics.Mirrored]
	if needs.Curve { // tau01 rests on all margins
		o.Margins = append(curve(d.task), o.Margins...)
	}
	if d.f.promises == "" && len(needs.Margins) > 0 { // the headline says what becomes of promises without a margin
		o.Margins = append([]float64{0}, o.Margins...)
	}
	if needs.Requires[metrics.Noise] {
		o.Noise = noisePeople
	}
	if needs.Requires[metrics.Transfer] || d.e.given("transfer") {
		o.Factor = d.f.transfer
	}
	if needs.Requires[metrics.Perturbation] || perturbation {
		d.perturb(&o)
	}
	r, err := d.measure(ctx, o, nil, needs.Requires[metrics.Timing])
	if !errors.As(err, &broken) || !broken.Quantized() {
		return r, nil, err
	}
	// Who the people are is known all the same.
	if err := d.source(ctx, func(*eval.Batch) error { return nil }); err != nil {
		return nil, nil, err
	}
	nobody := &eval.Batch{People: &task.People{Subgroups: d.task.Attributes()}, Set: d.allowed.set.Select(nil)}
	empty, settings, err := eval.Measure(ctx, d.models[0], []recourse.Model{d.models[1]}, nobody.Source(), o)
	if err != nil {
		return nil, nil, err
	}
	d.tabled = &measured{empty, settings, eval.DataFile{Rows: d.total.Total, Unreadable: d.total.Failed}, o}
	all, err := d.results(ctx, o, true)
	if err != nil {
		return nil, nil, err
	}
	all[0].Warnings = []string{}
	return all[0], broken, nil
}

func (f *gateFlags) gate(fs *pflag.FlagSet) (*gate.Gate, error) {
	g := &gate.Gate{}
	if f.file != "" {
		if err := cli.Input("gate file", f.file); err != nil {
			return nil, err
		}
		var err error
		if g, err = gate.Load(f.file); err != nil {
			return nil, cli.Wrap(err, "docs/pipeline.md lists the keys")
		}
	}
	settle(f, fs, "confidence", &g.Confidence, f.confidence)
	settle(f, fs, "margin", &g.Margin, f.own.Margin)
	settle(f, fs, "transfer", &g.Factor, f.transfer)
	settle(f, fs, "max-unreadable", &g.MaxUnreadable, f.own.MaxUnreadable)
	f.transfer = g.Factor
	given := lists.Filter(f.limits[:], func(text string) bool { return text != "" })
	var errs []error
	for _, text := range append(given, f.checks...) {
		c, err := gate.ParseCheck(text)
		if err != nil {
			errs = append(errs, err)
		}
		g.Checks = append(g.Checks, c)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, cli.Wrap(err, "for example --check 'vd@0.25[sex]<=0.05'; `cfq explain metrics` lists the metrics")
	}
	if len(g.Checks) == 0 {
		return nil, cli.Usagef("start with --max-vd 0.02 --max-rvd 0.02; --gate FILE reads more checks", "no checks")
	}
	settle(f, fs, "looks", &g.Looks, f.own.Looks)
	switch {
	case f.looks.path != noLooks && g.Looks == 0:
		g.Looks = gate.OpenLooks
	case f.looks.path == noLooks:
		f.notes = append(f.notes, "--looks-file none: whether this model was judged before was not checked")
	}
	g.OneSided, g.NoLabels = g.OneSided || f.own.OneSided, g.NoLabels || f.own.NoLabels
	g.UnverifiedEncoding = g.UnverifiedEncoding || f.own.UnverifiedEncoding
	g.Reverse(f.promises != "")
	if err := g.Check(); err != nil {
		return nil, cli.WithCode(err, cli.Unusable)
	}
	needs := g.Needs(f.promises != "")
	if f.without() && len(needs.By) > 0 {
		f.by = nil
	}
	for _, by := range needs.By {
		if !slices.Contains(f.by, by) {
			f.by = append(f.by, by)
		}
	}
	f.confidence = needs.Confidence
	if needs.Requires[metrics.Transfer] && g.Factor == 0 && len(f.tables) == 0 {
		return nil, cli.Usagef("--transfer 1.5, or transfer: {factor: 1.5} in the gate file, is about all changes that cost "+
			"up to 1.5 times the cheapest one", "missing --transfer: a check of transfer certificates needs the factor")
	}
	if f.previous == "" && needs.Previous {
		return nil, cli.Usagef("for example --previous report.json, written by --report json:report.json",
			"missing --previous: a check of an increase compares with an earlier report")
	}
	return g, nil
}

// settle gives a key of the gate file its value: the command line's, else the file's if it is set there, else that of
// the environment or the default.
func settle[T comparable](f *gateFlags, fs *pflag.FlagSet, name string, key *T, value T) {
	if fs.Changed(name) || *key == *new(T) {
		*key = value
	} else if ignored := cli.Outranked(fs, name); ignored != "" {
		f.notes = append(f.notes, fmt.Sprintf("%s is not used: %s sets %s: %v", ignored, f.file, name,
			reflect.Indirect(reflect.ValueOf(*key))))
	}
}

// earlier reads the report of --previous, which must be about the same original and the same changes that people can
// make: an increase over another model's number says nothing.
func (f *gateFlags) earlier(d *evaluation) (file report.File, r *eval.Result, err error) {
	if f.previous == "" {
		return file, nil, nil
	}
	if err := cli.Input("report", f.previous); err != nil {
		return file, nil, err
	}
	if file, err = source(f.previous); err != nil {
		return file, nil, err
	}
	doc, err := config.Parsed("report", f.previous, report.ReadJSON)
	if err != nil {
		return file, nil, cli.Wrap(err, "cfq eval --report json:FILE writes one")
	}
	for _, x := range []struct {
		what         string
		now, earlier report.File
	}{
		{"original", d.sources[0], doc.Full.File},
		{"task file", d.inputs.Task, doc.Task},
		{"overrides file", d.inputs.Overrides, doc.Overrides},
	} {
		if x.now.SHA256 != x.earlier.SHA256 {
			return file, nil, cli.Wrap(fmt.Errorf("report %s: its %s is %s, and this gate's is %s", f.previous, x.what,
				identified(x.earlier), identified(x.now)), "--previous takes a report on the same original, task and overrides")
		}
	}
	if d.inputs.Data.SHA256 != doc.Data.SHA256 {
		f.notes = append(f.notes, fmt.Sprintf("%s is about other people: %s", file.Name, identified(doc.Data)))
	}
	return file, doc.Result, nil
}

func identified(f report.File) string {
	if f.Name == "" {
		return "none"
	}
	return fmt.Sprintf("%s (%.12s)", f.Name, f.SHA256)
}

func (f *gateFlags) verdict(e *env, r *gate.Report) error {
	var which []string
	for i := range r.Findings {
		if x := &r.Findings[i]; !x.OK() && x.Verdict == r.Verdict {
			name := x.Check
			if x.Group != "" {
				name += " of " + x.Group
			}
			which = append(which, name)
		}
	}
	err, hint := fmt.Errorf("%s: %s", r.Verdict, strings.Join(which, ", ")), strings.Join(r.Next, " ")
	switch {
	case r.Verdict == gate.Pass:
		return nil
	case r.Verdict == gate.Fail:
		return cli.WithCode(cli.Wrap(err,
			"do not ship this model: quantize with a larger --budget or with --target-vd, and judge that"), cli.Missed)
	case f.onInconclusive == "pass":
		e.msg.Warn("%v; --on-inconclusive pass lets it through", err)
		return nil
	case f.onInconclusive == "fail":
		return cli.WithCode(cli.Wrap(fmt.Errorf("%w; --on-inconclusive fail makes it one", err), hint), cli.Missed)
	}
	return cli.WithCode(cli.Wrap(err, hint), cli.Inconclusive)
}

const looksSuffix = ".looks"

const noLooks = "none"

type looksFlags struct {
	path  string // of the record; noLooks, or "" for the one next to the model
	again bool

	known       *gate.Looks // nil when nothing is recorded
	fingerprint string
	gate        *gate.Gate // of this look
	notes       []string   // for the report
}

func (f *looksFlags) variables() variables {
	return variables{"looks-file": &f.path, "again": &f.again}
}

func (f *looksFlags) file(model string) []string {
	switch f.path {
	case noLooks:
		return nil
	case "":
		return []string{model + looksSuffix}
	}
	return []string{f.path}
}

// plan returns the gate of this look, which is recorded from now on: others that begin meanwhile are further looks.
func (f *looksFlags) plan(d *evaluation, g *gate.Gate) (*gate.Gate, error) {
	if f.path == noLooks {
		return g, nil
	}
	model := d.sources[1].SHA256
	beside := f.path == ""
	f.path = f.file(d.paths[1])[0]
	defer tempfile.Lock(f.path)()
	known, err := gate.ReadLooks(f.path, model)
	if err != nil {
		return nil, cli.WithCode(fmt.Errorf("looks file %s: %w", f.path, err), cli.Unusable)
	}
	who := sha256.New()
	fmt.Fprintln(who, d.inputs.Data.SHA256, d.inputs.Promises.SHA256, strings.HasPrefix(d.f.rows, "!"),
		d.inputs.RowsFile.SHA256, d.f.sample)
	if d.f.sample > 0 {
		fmt.Fprintln(who, d.f.seed)
	}
	f.fingerprint = fmt.Sprintf("%x", who.Sum(nil))
	known.Drop(f.fingerprint)                                  // of a run that was killed
	if len(known.Looks) == 0 && !(beside && f.ofCopy(known)) { // the same note before and after a look that passes
		f.notes = append(f.notes, fmt.Sprintf("there is no earlier look in %s: this counts as the first look at the model",
			filepath.Base(f.path)))
	}
	look := known.Seen(f.fingerprint)
	if look != nil && !f.again {
		return nil, cli.Usagef("bring new people: they are another look; --again repeats the evaluation",
			"these people have judged %s already: %s", d.paths[1], look.Verdict)
	}
	g, err = known.Plan(g, f.fingerprint)
	if f.gate = g; err != nil {
		return nil, cli.Wrap(err, "quantize again, and judge that model; without --looks there is always another look")
	}
	if f.known = known; look != nil {
		f.notes = append(f.notes, fmt.Sprintf("--again: these people judged this model before, and the verdict was %s",
			look.Verdict))
		return g, nil
	}
	known.Add(g, f.fingerprint, gate.Running, time.Now())
	_ = f.write(known) // record says it
	return g, nil
}

func (f *looksFlags) ofCopy(known *gate.Looks) bool {
	dir := filepath.Dir(f.path)
	names, _ := fs.Glob(os.DirFS(dir), "*"+looksSuffix) // an error would be one of the pattern
	for _, name := range names {
		o, err := gate.ReadLooks(filepath.Join(dir, name), known.Model)
		if err != nil {
			continue
		}
		if o.Drop(f.fingerprint); len(o.Looks) > 0 {
			known.Merge(o)
			f.notes = append(f.notes, name+" is about the same model under another name: its looks count")
		}
	}
	return len(known.Looks) > 0
}

// record gives the look its verdict and date; without a report, there was none. When the file cannot be written, the
// verdict stands all the same.
func (f *looksFlags) record(e *env, r *gate.Report) {
	if f.known == nil {
		return
	}
	defer tempfile.Lock(f.path)()
	known, err := gate.ReadLooks(f.path, f.known.Model)
	if err == nil {
		known.Drop(f.fingerprint)
		if r != nil && (r.Verdict == gate.Pass || known.Seen(f.fingerprint) == nil && r.Looked(f.gate)) {
			known.Add(f.gate, f.fingerprint, r.Verdict, time.Now())
		}
		err = f.write(known)
	}
	switch {
	case err == nil || r == nil:
	case r.Verdict == gate.Pass:
		e.msg.Note("the date of the verdict was not recorded: %v", err)
	default:
		e.msg.Warn("the look was not recorded: %v", err)
	}
}

func (f *looksFlags) write(known *gate.Looks) error {
	if len(known.Looks)+len(known.Passed) == 0 {
		err := os.Remove(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return cli.Write(f.path, cli.Content(known.Encode()))
}
