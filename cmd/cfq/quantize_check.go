package main

import (
	"fmt"
	"slices"

	"cfq/calib/record"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/onnxio/codec"
	"cfq/ptq"
	"cfq/quant/qdq"
)

// check looks at the flags before any work is done.
func (f *quantizeFlags) check(args []string) error {
	if err := arguments("quantize", args, "MODEL"); err != nil {
		return err
	}
	if f.out == "" {
		return cli.Usagef("-o model.q.onnx names the file to write", "--output is missing")
	}
	checks := []func() error{f.checkPlan, f.checkValues, f.checkUse, f.checkTarget, f.teacher.check}
	if f.plan != "" {
		checks = checks[:1]
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	outputs := []string{f.out}
	if f.records() {
		outputs = append(outputs, record.Path(f.out))
	}
	if f.savePlan != "" {
		outputs = append(outputs, f.savePlan)
	}
	for _, path := range outputs {
		if err := cli.Output(path, f.overwrite); err != nil {
			return err
		}
	}
	return cli.Distinct(append(codec.ExternalFiles(args[0]), args[0], f.data, f.task, f.rows, f.from, f.overrides, f.plan), outputs)
}

// checkValues reports values that there are not.
func (f *quantizeFlags) checkValues() error {
	if err := checkMethod(string(f.o.Method), f.o.Budget); err != nil {
		return err
	}
	for _, s := range ptq.Settings() {
		value := *s.Of(&f.o)
		if value == "" {
			continue
		}
		if err := oneOf(s.Name, value, ptq.Names(s.Choices)); err != nil {
			return err
		}
	}
	if err := oneOf("target-side", f.side, []string{sideBoth, sideVD}); err != nil {
		return err
	}
	switch {
	case f.o.ActBits < 2 || f.o.ActBits > 8:
		return cli.Usagef("the widths go from 2 to 8 bits", "--act-bits %d: there are no such activations", f.o.ActBits)
	case f.calibrationRows < 0:
		return cli.Usagef("0 takes all", "--calibration-rows %d: a number of rows is 0 or more", f.calibrationRows)
	}
	if _, err := qdq.RuntimeOf(f.o.Runtime); err != nil {
		return cli.Usagef("newer releases read what was written for an older one", "--target-ort %s: %v", f.o.Runtime, err)
	}
	o := f.o
	o.Refine = f.refine.option()
	return cli.Wrap(o.Check(), cli.Unusable, "")
}

// checkUse reports flags that are of no use beside each other.
func (f *quantizeFlags) checkUse() error {
	m, err := ptq.FindMethod(f.o.Method)
	if err != nil {
		return err
	}
	for _, name := range []string{"act-bits", "act-range", "input"} {
		if f.o.WeightOnly && f.given(name) {
			return cli.Usagef("give one of the two", "--%s: with --weight-only no activation is quantized", name)
		}
	}
	on := f.o.CalibrateOn
	if on == "" {
		on = m.Defaults.CalibrateOn
	}
	switch factual := on == ptq.OnFactual && !m.RecourseSensitivity; {
	case factual && f.from != "":
		return cli.Usagef("--method cf-ptq calibrates on them", "--promises: the method %s has no use for promises", f.o.Method)
	case factual && f.overrides != "":
		return cli.Usagef("--method cf-ptq calibrates on recourse", "--overrides: the method %s has no use for what people can change", f.o.Method)
	}
	return nil
}

// checkTarget reports what cannot be aimed at.
func (f *quantizeFlags) checkTarget() error {
	f.target.OneSided = f.side == sideVD
	if f.target.VD == 0 && !f.given("target-vd") {
		for _, name := range []string{"target-margin", "target-side", "holdout", "confidence", "target-sample"} {
			if f.given(name) {
				return cli.Usagef("--target-vd 0.02 looks for the smallest model with a VD of 2 % at most", "--%s is of use with --target-vd only", name)
			}
		}
		return nil
	}
	inside := func(v float64) bool { return v > 0 && v < 1 }
	switch t := f.target; {
	case f.given("budget"):
		return cli.Usagef("give one of the two", "--budget: with --target-vd the budget is what is looked for")
	case !inside(t.VD):
		return cli.Usagef("0.02 is two of a hundred", "--target-vd %v: it is a share above 0 and below 1", t.VD)
	case !inside(t.HoldOut):
		return cli.Usagef("0.3 holds three of ten rows out", "--holdout %v: it is a share above 0 and below 1", t.HoldOut)
	case !(t.Confidence >= 0.5 && t.Confidence < 1):
		return cli.Usagef("0.95 is usual", "--confidence %v: it is at least 0.5 and below 1", t.Confidence)
	case !(t.Margin > 0 && t.Margin < 1e30):
		return cli.Usagef("0.1 is usual: at the boundary half of all promises break whatever is done", "--target-margin %v: it is a number of logits above 0", t.Margin)
	case t.Sample < 1:
		return cli.Usagef("", "--target-sample %d: there are no such people", t.Sample)
	}
	return nil
}

// oneOf reports a flag whose value is none of the choices.
func oneOf(flag, value string, choices []string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	hint := ""
	if s := cli.Suggest(value, choices); s != "" {
		hint = fmt.Sprintf("did you mean %s?", s)
	}
	return cli.Usagef(hint, "invalid value %q for --%s: want %s", value, flag, message.Or(choices))
}
