package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/lists"
)

const hintModelNames = "as in ptq=one/model.onnx cf-ptq=two/model.onnx"

type compareFlags struct {
	evaluationFlags
	draws int
}

func (f *compareFlags) variables() variables {
	return f.evaluationFlags.variables().with(variables{"draws": &f.draws})
}

func (f *compareFlags) run(ctx context.Context, e *env, args []string) error {
	if len(args) < 3 {
		are := [...]string{"", "1 model is", "2 models are", "3 models are"}[3-len(args)]
		return cli.Usagef(cli.HintArguments, "%s missing: the original and two quantized ones are the least", are)
	}
	names, paths, err := named(args)
	if err != nil {
		return err
	}
	work := func(d *evaluation) (*report.Comparison, error) {
		results, err := f.results(ctx, d, names)
		if err != nil {
			return nil, err
		}
		debug.FreeOSMemory() // that of the evaluation is not needed beside what draws take
		c, err := eval.ComparePaired(names[1:], results,
			eval.ComparisonOptions{Confidence: f.confidence, Seed: f.seed, Draws: f.draws, Workers: e.workers})
		if err != nil {
			return nil, err
		}
		models := d.origins()
		return &report.Comparison{
			Title: fmt.Sprintf("%s of %s", strings.Join(names[1:], ", "), models[0].Name), Run: e.run(), Full: models[0],
			Inputs: d.inputs, Comparison: c, Warnings: d.warnings,
			Entries: lists.Make(len(models)-1, func(i int) report.Entry {
				return report.Entry{Alias: names[i+1], Model: models[i+1], Recipe: recipe(d.files[i+1].Graph())}
			}),
		}, nil
	}
	return evaluate(ctx, e, &f.evaluationFlags, paths, report.ComparisonViews(), work)
}

func (f *compareFlags) results(ctx context.Context, d *evaluation, names []string) (results []*eval.Result, err error) {
	o := d.options()
	o.Margins = f.marginsOf(0.1, 0.25, d.task.Target.Margin)
	if results, err = d.results(ctx, o, false); err != nil {
		return nil, err
	}
	for k, r := range results {
		i := k + 1 // of the model
		if r.Batches, err = eval.Rerun(ctx, d.models[0], d.models[i], r); err != nil {
			return nil, fmt.Errorf("%s: %w", names[i], err)
		}
		if r.Batches.Differ > 0 {
			d.warn("%s: %v", names[i], r.Batches)
		}
		if err := d.weigh(ctx, r, i, false); err != nil {
			return nil, err
		}
		others, err := r.Alternatives(nil)
		if err != nil {
			return nil, err
		}
		if len(others) > 0 { // copies would make differences certain that are not
			if i == 1 {
				d.warn("%s: the comparison counts distinct rows", others[0].About)
			}
			results[k] = others[0].Result
		}
	}
	return results, nil
}

func named(args []string) (names, paths []string, err error) {
	for _, arg := range args {
		name, path, ok := strings.Cut(arg, "=")
		if !ok {
			path = arg
			name = strings.TrimSuffix(filepath.Base(arg), filepath.Ext(arg))
		}
		switch {
		case name == "" || path == "":
			return nil, nil, cli.Usagef(hintModelNames, "%s is neither a file nor NAME=FILE", arg)
		case slices.Contains(names, name):
			return nil, nil, cli.Usagef(hintModelNames, "two models are called %s: give them names", name)
		}
		names, paths = append(names, name), append(paths, path)
	}
	return names, paths, nil
}
