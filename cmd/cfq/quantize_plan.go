package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"cfq/internal/cli"
	"cfq/ptq"
	"cfq/quant"
	"cfq/task"
)

// planRows is how many rows of data the model of a plan is verified on.
const planRows = 512

// checkPlan reports flags that say what a plan says already.
func (f *quantizeFlags) checkPlan() error {
	if f.plan == "" {
		return nil
	}
	said := []string{
		"method", "budget", "target-vd", "keep-float", "promises", "only", "weight-only", "act-bits", "calibration-rows", "overrides",
		"teacher-steps", "teacher-noise", "teacher-sample", "teacher-seed", "no-cache", "refine", "cross-layer-equalization", "target-margin", "target-side",
		"holdout", "confidence", "target-sample", "seed", "target-ort", "reduced-range",
	}
	for _, s := range ptq.Settings() {
		said = append(said, s.Name)
	}
	for _, name := range said {
		if f.given(name) {
			return cli.Usagef("edit the plan, or quantize anew without --plan", "--%s: that is for the plan to say", name)
		}
	}
	switch {
	case f.data != "" && f.task == "":
		return cli.Usagef("-t task.yaml says what the columns mean", "--data: to verify on these rows takes a --task, too")
	case f.data == "" && (f.task != "" || f.rows != ""):
		return cli.Usagef("a plan needs neither", "--task and --rows are of use with --data: the rows that the model is verified on")
	}
	return nil
}

// runPlan writes the model of a plan.
func (f *quantizeFlags) runPlan(ctx context.Context, e *env, path string) error {
	p, err := readPlan(f.plan)
	if err != nil {
		return err
	}
	m, err := readModel(path)
	if err != nil {
		return err
	}
	var people *task.People
	if f.data != "" {
		t, err := readTask(f.task)
		if err != nil {
			return err
		}
		if people, err = readSample(ctx, e, f.data, f.rows, t, planRows, 1); err != nil {
			return err
		}
	}
	r, err := ptq.FromPlan(ctx, m, p, people, f.options(e))
	if err != nil {
		return runError(planFileError(f.plan, path, err))
	}
	if err := f.usable(e, r); err != nil {
		return err
	}
	return f.write(e, r, nil)
}

// readPlan reads a plan file.
func readPlan(path string) (*quant.PlanFile, error) {
	if err := cli.Input("plan", path); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Wrap(err, cli.Unusable, "")
	}
	p, err := quant.UnmarshalPlan(text)
	if err != nil {
		return nil, cli.Wrap(fmt.Errorf("plan %s: %w", path, err), cli.Unusable, "docs/plan.md says what a plan may say")
	}
	return p, nil
}

// planFileError says which of the two files an error is about.
func planFileError(plan, model string, err error) error {
	if mistake := (*quant.PlanError)(nil); errors.As(err, &mistake) {
		return cli.Wrap(fmt.Errorf("plan %s: %w", plan, err), cli.Unusable, "docs/plan.md says what a plan may say")
	}
	return fmt.Errorf("plan %s, model %s: %w", plan, model, err)
}
