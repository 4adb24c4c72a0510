package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio/ort"
	"cfq/ptq"
	"cfq/ptq/record"
	"cfq/quant"
	"cfq/task"
	"cfq/task/draft"
)

func (f *quantizeFlags) run(ctx context.Context, e *env, args []string) error {
	if err := f.check(e, args); err != nil {
		return err
	}
	if f.plan != "" {
		return f.runPlan(ctx, e, args[0])
	}
	read := f.reading(&f.r, f.seed)
	read.Hash = f.r.Target != nil
	in, run, err := f.openRun(ctx, e, args[0], read)
	if err != nil {
		return err
	}
	if run.Origin, err = f.origin(args[0], in.people, read.Seed); err != nil {
		return err
	}
	run.Checkpoint = f.checkpoint
	known, _, err := recordedEvidence(f.task, in, run.Origin["model"])
	if err != nil {
		return err
	}
	if state, why := known.State(); state == draft.Verified && known.Scores != nil {
		e.msg.Note("The encoding is verified: %s.", why)
	} else if state != draft.Verified && known.Other != "" { // what is said of another model or encoding may be a mistake
		e.msg.Warn("The encoding is %s: %s.", state, why)
	}
	f.calibrating = in.people
	if f.r.Target != nil {
		return f.runTarget(ctx, e, args[0], in, run)
	}
	r, err := ptq.Quantize(ctx, in.files[0], in.task, in.people, f.r, run)
	if err != nil {
		if ctx.Err() != nil && exists(f.checkpoint) {
			e.msg.Note("the training is in %s; the same command goes on from there", f.checkpoint)
		}
		return advised(ctx, in.files[0], fmt.Errorf("model %s: %w", args[0], err))
	}
	if err := f.write(e, r, nil); err != nil {
		return err
	}
	if err := os.Remove(f.checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

func (f *quantizeFlags) usable(e *env, r *ptq.Result) error {
	e.warn(r.Warnings)
	if r.Bytes >= r.FloatBytes && !f.allowLarger {
		weights := 0
		for _, l := range r.Layers {
			weights += l.Params
		}
		return cli.Wrap(fmt.Errorf("%s was not written: it would have %d bytes, and the original with its %s has %d",
			f.out, r.Bytes, message.Count(weights, "weight"), r.FloatBytes),
			"serve the float file, which recourse and eval take as it is; --allow-larger writes this one "+
				"all the same")
	}
	if h := r.HeldOut; !f.force && (h.Collapsed() || h.Exceeds() && f.r.Target == nil) {
		return cli.WithCode(cli.Wrap(fmt.Errorf("%s was not written: %s", f.out, h),
			r.Advice()+"--force writes it all the same"), cli.Missed)
	} else if h.Collapsed() || h.Doubtful() {
		e.msg.Warn("%s", h)
	}
	if err := r.Verified.Err(); err != nil {
		if f.r.Write.FullRange && ort.Saturates() {
			err = fmt.Errorf("%w (this processor has no VNNI, and sums of 8-bit weights beyond 64 saturate)", err)
		}
		return cli.WithCode(cli.Wrap(fmt.Errorf("%s was not written: %w", f.out, err),
			"leave out write.full-range, or use --set write.compute=float; a report of this is welcome"), cli.RunFailed)
	}
	return nil
}

// runTarget looks for the smallest model that keeps the target. The model is written in any case; one that
// does not keep the target ends with the code Missed.
func (f *quantizeFlags) runTarget(ctx context.Context, e *env, path string, in *opened, run ptq.Run) error {
	r, err := ptq.Smallest(ctx, in.files[0], in.task, in.people, f.r, run)
	var few *ptq.TooFew
	switch {
	case errors.As(err, &few):
		return cli.WithCode(cli.Wrap(fmt.Errorf("inconclusive: %w", err),
			"give more rows of data, a larger target.holdout or a larger --target-vd"), cli.Inconclusive)
	case err != nil:
		return fmt.Errorf("model %s: %w", path, err)
	}
	if err := f.write(e, r.Result, r); err != nil || r.Reached {
		return err
	}
	c := r.Candidates[r.Chosen].HeldOut
	return cli.WithCode(cli.Wrap(fmt.Errorf("no budget up to 8 bits was shown to keep VD(%g) within %g; %s is the best "+
		"found: at most %.4f of its promises break, and %.4f of the reverse ones, as far as %d people can show",
		f.r.Target.Margin, f.r.Target.VD, f.out, float64(c.VD.Upper), float64(c.RVD.Upper), r.Asked),
		"more people narrow the bounds; a larger target.margin, --method cf-ptq or --keep-float the "+
			"errors"), cli.Missed)
}

type quantizeFlags struct {
	calibrationFlags

	out            string
	budget         float64
	keepFloat      []string
	r              ptq.Recipe // what the flags say
	targetVD       float64
	seed           uint64
	plan, savePlan string
	log            string
	checkpoint     string
	overwrite      bool
	force          bool
	allowLarger    bool
	calibrating    *task.People // who were read; nil with --plan
}

func (f *quantizeFlags) variables() variables {
	return f.calibrationFlags.variables().with(variables{
		"output": &f.out, "budget": &f.budget, "target-vd": &f.targetVD, "keep-float": repeated{&f.keepFloat},
		"save-plan": &f.savePlan, "plan": &f.plan, "overwrite": &f.overwrite, "force": &f.force,
		"allow-larger": &f.allowLarger, "log": &f.log, "checkpoint": &f.checkpoint, "seed": &f.seed,
	})
}

func (f *quantizeFlags) check(e *env, args []string) error {
	if f.out == "" {
		return cli.Usagef(hintMissingOutput, "--output is missing")
	}
	check := f.checkUse
	if f.plan != "" {
		check = f.checkPlan
	}
	if err := check(e); err != nil {
		return err
	}
	outputs := []string{f.out}
	if f.records() {
		outputs = append(outputs, record.Path(f.out))
	}
	return writable(append(f.paths(args[0]), f.plan), append(outputs, f.savePlan, f.log), f.overwrite, f.checkpoint)
}

func (f *quantizeFlags) checkUse(e *env) (err error) {
	var settings []string
	if e.given("budget") {
		settings = append(settings, fmt.Sprint("allocate.budget=", f.budget))
	}
	if e.given("target-vd") {
		settings = append(settings, fmt.Sprint("target.vd=", f.targetVD), fmt.Sprint("target.seed=", f.seed))
	}
	if f.keepFloat != nil {
		settings = append(settings, "allocate.keep-float="+strings.Join(f.keepFloat, ","))
	}
	if f.r, err = f.recipe(e.flags, settings...); err != nil {
		return err
	}
	f.r.Write.AllowLarger = f.allowLarger
	if f.r.Target != nil && f.checkpoint != "" {
		err = cli.Usagef(cli.HintConflict,
			"--checkpoint: a search for a target trains several times, and a checkpoint is of one training")
	}
	return cmp.Or(
		e.conflict(!f.r.LooksAtRecourse(), fmt.Sprintf("FLAG: the method %s does not look at recourse; cf-ptq does",
			f.r.Method), "promises", "overrides"),
		e.conflict(f.r.Train == nil, "FLAG: without an objective nothing is trained; --method cfq-qat trains", "log",
			"checkpoint"),
		err,
		e.conflict(f.r.Target != nil, "FLAG: with --target-vd the budget is what is looked for", "budget"),
	)
}

func (f *quantizeFlags) checkPlan(e *env) error {
	use := strings.Fields("output plan save-plan overwrite ort-lib threads workers json quiet")
	said := ""
	e.flags.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(use, flag.Name) {
			said = flag.Name
		}
	})
	if said != "" {
		return cli.Usagef(cli.HintConflict, "--%s: that is for the plan to say; quantize anew without --plan", said)
	}
	return nil
}

func (f *quantizeFlags) runPlan(ctx context.Context, e *env, path string) error {
	if err := cli.Input("plan", f.plan); err != nil {
		return err
	}
	text, err := os.ReadFile(f.plan)
	if err != nil {
		return cli.WithCode(err, cli.Unusable)
	}
	mistaken := func(err error) error {
		return cli.Wrap(fmt.Errorf("plan %s: %w", f.plan, err), "docs/files.md says what a plan may say")
	}
	p, err := quant.UnmarshalPlan(text)
	if err != nil {
		return mistaken(err)
	}
	m, err := loadModel(ctx, e, path, nil)
	if err != nil {
		return err
	}
	r, err := ptq.FromPlan(ctx, m, p, ptq.Run{Workers: e.workers, Progress: e.progress()})
	if mistake := quant.PlanError(""); errors.As(err, &mistake) {
		return mistaken(err)
	}
	if err != nil {
		return fmt.Errorf("plan %s, model %s: %w", f.plan, path, err)
	}
	return f.write(e, r, nil)
}

type writtenFile struct {
	File   string            `json:"file"`
	SHA256 string            `json:"sha256"`
	Plan   string            `json:"plan,omitempty"` // the file of --save-plan
	Recipe map[string]string `json:"recipe"`         // as it is in the file
}

// write puts the files in place, the model last, and says what was done; target is nil without --target-vd.
func (f *quantizeFlags) write(e *env, r *ptq.Result, target *ptq.TargetResult) error {
	if err := f.usable(e, r); err != nil {
		return err
	}
	if r.Rounding != "" {
		e.msg.Note("%s; what is written computes in float32", r.Rounding)
	}
	if f.savePlan != "" {
		if err := cli.Write(f.savePlan, func(w io.Writer) error { return ptq.WritePlan(w, r) }); err != nil {
			return err
		}
	}
	if err := writeLog(f.log, "training log", r); err != nil {
		return err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(r.Model))
	files := []cli.File{{Path: f.out, Write: cli.Content(r.Model)}}
	if f.records() {
		_, data, err := fileHash(f.data)
		if err != nil {
			return err
		}
		p := f.calibrating
		rows := record.New(sum, record.Data{Name: filepath.Base(f.data), SHA256: data},
			lists.Map(r.Calibrated, func(i int) uint64 { return task.InputHash(p.X[i*p.Dim : (i+1)*p.Dim]) }))
		rows.Span(p)
		// Together, the record first: of a run that is killed in between, it is seen to be that of another model.
		files = slices.Insert(files, 0, cli.File{Path: record.Path(f.out), Write: rows.Write})
	}
	if err := cli.WriteAll(files...); err != nil {
		return err
	}
	if f.records() {
		e.msg.Note("the %d calibration rows are recorded in %s: keep it next to the model, cfq gate reads it",
			len(r.Calibrated), record.Path(f.out))
	}
	out := writtenFile{File: f.out, SHA256: sum, Plan: f.savePlan, Recipe: r.Recipe}
	if target != nil {
		return e.page("target", struct {
			writtenFile
			*ptq.TargetResult
		}{out, target})
	}
	return e.page("quantized", struct {
		writtenFile
		*ptq.Result
	}{out, r})
}

// records says whether the rows that are calibrated on are recorded: those of a data file.
func (f *quantizeFlags) records() bool { return f.plan == "" && f.data != "" }

func rowsUsed(used, all int) string {
	if all > used {
		return fmt.Sprintf("%d of %d rows", used, all)
	}
	return message.Count(used, "row")
}

type widthTable struct {
	Mixed, Scored bool // rows of different widths; a plan has no scores
	Widths        []int
	Layers        []layerWidths
	Last          int // column, that of the kernel
}

type layerWidths struct {
	ptq.Layer
	Shown  map[int]int // rows by bit width, "" where all layers have one width
	Kernel string
}

func layerTable(r *ptq.Result) *widthTable {
	kernels := map[string]string{}
	for _, l := range r.Verified.Layers {
		kernels[l.Node] = l.Kernel
	}
	table := &widthTable{
		Mixed:  slices.ContainsFunc(r.Layers, func(l ptq.Layer) bool { return len(l.Rows) > 0 }),
		Scored: slices.ContainsFunc(r.Layers, func(l ptq.Layer) bool { return l.Score != 0 }),
	}
	for _, l := range r.Layers {
		shown := l.Rows
		if table.Mixed && l.Float == "" && len(l.Rows) == 0 {
			shown = map[int]int{int(l.Bits): l.Channels} // rows differ in width only where each has a scale of its own
		}
		table.Layers = append(table.Layers, layerWidths{l, shown, kernels[l.Node]})
		table.Widths = slices.AppendSeq(table.Widths, maps.Keys(shown))
	}
	slices.Sort(table.Widths)
	table.Widths = slices.Compact(table.Widths)
	if table.Last = len(table.Widths) + len([]string{"layer", "weights", "bits", "scales"}); table.Scored {
		table.Last++
	}
	return table
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
