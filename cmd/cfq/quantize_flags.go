package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"cfq/ptq"
	"cfq/task"
)

// quantizeFlags are the flags of quantize.
type quantizeFlags struct {
	given                 func(flag string) bool // on the command line
	data, task, rows, out string
	from, overrides       string
	o                     ptq.Options // those of its fields that are flags as they are
	refine                rounds
	teacher               teacherFlags
	target                ptq.Target
	side                  string
	calibrationRows       rowCount
	plan, savePlan        string
	overwrite             bool
	calibrating           *task.People // who were read; nil with --plan
}

// add adds the flags: first what most people need, then the rest under headings.
func (f *quantizeFlags) add(fs *pflag.FlagSet) {
	fs.StringVarP(&f.data, "data", "d", "", "the calibration rows: a CSV `file`, also gzipped")
	fs.StringVarP(&f.task, "task", "t", "", "the task `file`")
	fs.StringVarP(&f.out, "output", "o", "", "the quantized model `file`")
	fs.StringVar((*string)(&f.o.Method), "method", string(ptq.CFPTQ), "the `method`; see below")
	fs.Float64Var(&f.o.Budget, "budget", 4, "mean `bits` per weight, 2 to 8; see --cost")
	fs.Float64Var(&f.target.VD, "target-vd", 0, "in place of a budget: the smallest model of whose promises at most this `share` breaks")
	fs.StringArrayVar(&f.o.KeepFloat, "keep-float", nil, "leave the layers of this name or `pattern` in float, as in '/head/*'; may be repeated")
	fs.StringVar(&f.savePlan, "save-plan", "", "write the plan, all bits, scales and codes, to a `file`")
	fs.StringVar(&f.plan, "plan", "", "write the model that this plan `file` describes; needs no data")
	fs.StringVar(&f.rows, "rows", "", rowsHelp)
	fs.StringVar(&f.from, "promises", "", fromHelp)
	fs.BoolVar(&f.overwrite, "overwrite", false, "replace outputs that exist")
	choice := func(fs *pflag.FlagSet, names ...string) {
		for _, name := range names {
			c := ptq.FindSetting(name)
			end := "; else as the method says"
			switch name {
			case "cost":
				end = "; else " + string(ptq.CostBits)
			case "input":
				end = "; else " + string(ptq.InputAuto)
			}
			fs.StringVar(c.Of(&f.o), name, "", c.Doc+": "+strings.Join(ptq.Names(c.Choices), ", ")+end)
		}
	}
	group(fs, "Bit widths", func(fs *pflag.FlagSet) {
		choice(fs, "allocator", "cost", "bit-widths", "scales")
		fs.StringArrayVar(&f.o.Only, "only", nil, "quantize only the layers of this name or `pattern`; may be repeated")
		fs.BoolVar(&f.o.WeightOnly, "weight-only", false, "store weights in few bits and compute in float")
		fs.IntVar(&f.o.ActBits, "act-bits", 8, "`bits` of the activations between layers, 2 to 8")
		choice(fs, "input")
	})
	group(fs, "Calibration", func(fs *pflag.FlagSet) {
		choice(fs, "calibrate-on", "weight-range", "act-range")
		f.calibrationRows.add(fs)
		fs.StringVar(&f.overrides, "overrides", "", overridesHelp)
		f.teacher.add(fs)
	})
	group(fs, "Rounding", func(fs *pflag.FlagSet) {
		choice(fs, "rounding")
		fs.Var(&f.refine, "refine", "`rounds` of end-to-end refinement, 0 for none; else as the method says")
		fs.BoolVar(&f.o.CrossLayerEqualization, "cross-layer-equalization", false, "balance the channel ranges of neighbouring layers first")
	})
	group(fs, "Target (with --target-vd)", func(fs *pflag.FlagSet) {
		fs.Float64Var(&f.target.Margin, "target-margin", 0.1, "the `margin`, in logits, of the promises that are to hold")
		fs.StringVar(&f.side, "target-side", sideBoth, "what must be within the target: both VD and RVD, or only vd")
		fs.Float64Var(&f.target.HoldOut, "holdout", 0.3, "the `share` of the rows that is not calibrated on and judges")
		fs.Float64Var(&f.target.Confidence, "confidence", 0.95, "of the claim that the target is kept")
		fs.IntVar(&f.target.Sample, "target-sample", 4000, "at most this many refused `people` judge")
		fs.Uint64Var(&f.target.Seed, "seed", 1, "seed of what is held out and of the judges, and of the rows read of very large data")
	})
	group(fs, "Where it runs", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.o.Runtime, "target-ort", "", "the oldest ONNX Runtime `version` that must read the file, as in 1.22; else 1.24")
		fs.BoolVar(&f.o.Reduced, "reduced-range", false, "8-bit weights in 7 bits: the same results on CPUs without VNNI")
	})
}

// The values of --target-side.
const (
	sideBoth = "both"
	sideVD   = "vd"
)

// rounds is a number that may not be given.
type rounds struct {
	n   int
	set bool
}

func (r *rounds) Type() string { return "rounds" }

func (r *rounds) String() string {
	if !r.set {
		return ""
	}
	return strconv.Itoa(r.n)
}

// Set reads a whole number of 0 or more.
func (r *rounds) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a number of rounds: 0 is none", s)
	}
	r.n, r.set = n, true
	return nil
}

// option returns the number as Options.Refine wants it.
func (r *rounds) option() int {
	if r.set && r.n == 0 {
		return -1
	}
	return r.n
}

// options puts the options together; what comes out of files is not there yet.
func (f *quantizeFlags) options(e *env) ptq.Options {
	o := f.o
	o.Refine, o.Teacher, o.Cache = f.refine.option(), f.teacher.options(), f.teacher.cache()
	o.Engine, o.Workers, o.Rows = e.engine(), e.workers, f.calibrationRows.option()
	show := e.msg.Stages()
	o.Progress = func(ev ptq.Event) { show(ev.Stage, ev.Done, ev.Total) }
	return o
}

// writeMethods writes what each method stands for.
func writeMethods(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  method\tallocator\tbit-widths\tscales\tcalibrate-on\tweight-range\tact-range\trounding\trefine")
	for _, m := range ptq.Methods() {
		d := m.Defaults
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", m.Name, d.Allocator, d.BitWidths, d.Scales, d.CalibrateOn, d.WeightRange, d.ActRange, d.Rounding, max(d.Refine, 0))
	}
	_ = tw.Flush() // into memory
}
