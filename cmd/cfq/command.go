package main

import (
	"context"
	_ "embed" // the flags
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/onnxio/ort"
)

// command is a subcommand; help/NAME.txt has its usage, what it does and examples.
type command struct {
	name     string
	operands []string        // arguments that it needs, no more and no fewer; nil = it looks at them itself
	actions  func() []string // what its first argument may be; nil = files and other texts
	subcommand
}

// subcommand has the variables of its own flags, and runs when they are parsed.
type subcommand interface {
	variables() variables
	run(ctx context.Context, e *env, args []string) error
}

type runFunc func(ctx context.Context, e *env, args []string) error

// A runFunc is a subcommand without flags.
func (runFunc) variables() variables { return nil }

func (f runFunc) run(ctx context.Context, e *env, args []string) error { return f(ctx, e, args) }

func commands() []command {
	model, none := []string{"MODEL"}, []string{}
	return []command{
		{name: "quantize", operands: model, subcommand: &quantizeFlags{}},
		{name: "train", operands: none, subcommand: &trainFlags{}},
		{name: "eval", subcommand: &evalFlags{}},
		{name: "summarize", subcommand: &summarizeFlags{}},
		{name: "gate", operands: []string{"FULL", "QUANTIZED"}, subcommand: &gateFlags{}},
		{name: "compare", subcommand: &compareFlags{}},
		{name: "sweep", operands: model, subcommand: &sweepFlags{}},
		{name: "reproduce", actions: tableNames, subcommand: &reproduceFlags{}},
		{name: "recourse", subcommand: &recourseFlags{}},
		{name: "sensitivity", operands: model, subcommand: &sensitivityFlags{}},
		{name: "inspect", operands: model, subcommand: runFunc(inspect)},
		{name: "explain", actions: explainable, subcommand: runFunc(explain)},
		{name: "task", actions: taskActions, subcommand: &taskFlags{}},
		{name: "doctor", operands: none, subcommand: runFunc(doctor)},
		{name: "completion", actions: shells, subcommand: runFunc(completion)},
		{name: "version", operands: none, subcommand: runFunc(version)},
	}
}

// perCore bounds threads and workers: more than a few for each core only slow each other down.
const perCore = 16

type env struct {
	stdout  io.Writer    // the result
	msg     *cli.Printer // everything else
	lib     string
	threads int
	workers int // never 0 after parsing
	json    bool
	helpAll bool
	command []string       // arguments as they were typed
	flags   *pflag.FlagSet // of the subcommand, parsed
}

func (e *env) engine() ort.Options { return ort.Options{Lib: e.lib, Threads: e.threads} }

func (e *env) progress() func(eval.Event) {
	show := e.msg.Progress()
	return func(ev eval.Event) { show(ev.Stage, ev.Done, ev.Total) }
}

// newFlagSet returns a set that keeps the order of its flags and writes nothing.
func newFlagSet(name string) *pflag.FlagSet {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SortFlags = false
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	return fs
}

func (c *command) flags(e *env) (*pflag.FlagSet, runFunc) {
	fs := newFlagSet(c.name)
	addFlags(fs, c.name, c.variables())
	fs.AddFlagSet(e.common())
	return fs, func(ctx context.Context, e *env, args []string) error {
		if c.operands != nil {
			if err := arguments(c.name, args, c.operands...); err != nil {
				return err
			}
		}
		e.flags = fs
		if e.workers == 0 {
			e.workers = max(1, runtime.GOMAXPROCS(0)/e.threads)
		}
		return cli.Blame(fs, classified(c.run(ctx, e, args)))
	}
}

func (e *env) common() *pflag.FlagSet {
	fs := newFlagSet("common")
	addFlags(fs, "common", variables{
		"ort-lib": &e.lib, "threads": &e.threads, "workers": &e.workers, "json": &e.json, "quiet": &e.msg.Quiet,
		"help-all": &e.helpAll,
	})
	maximum := perCore * runtime.NumCPU()
	limit := func(flag string, at *int, least int) {
		cli.Require(fs, flag, fmt.Sprintf("%d to %d, which is %d per core", least, maximum, perCore),
			func() bool { return least <= *at && *at <= maximum })
	}
	limit("threads", &e.threads, 1)
	limit("workers", &e.workers, 0)
	return fs
}

// changed says whether the command line has a flag, given whether that or the environment does.
func (e *env) changed(flag string) bool { return e.flags.Changed(flag) }
func (e *env) given(flag string) bool   { return cli.Given(e.flags, flag) }

// conflict is an error when the command line has one of the flags, which text calls FLAG, and they are of no use.
func (e *env) conflict(useless bool, text string, flags ...string) error {
	return refuseFlags(func(flag string) bool { return useless && e.changed(flag) }, text, flags...)
}

func refuseFlags(has func(flag string) bool, text string, flags ...string) error {
	for _, flag := range flags {
		if has(flag) {
			return cli.Usagef(cli.HintConflict, "%s", strings.ReplaceAll(text, "FLAG", "--"+flag))
		}
	}
	return nil
}

func (e *env) warn(list []string) {
	for _, text := range list {
		e.msg.Warn("%s", text)
	}
}

// page shows a value by the page of that name.
func (e *env) page(name string, v any) error { return e.show(v, func(w *textView) { w.page(name, v) }) }

func (e *env) show(v any, text func(*textView)) error {
	if !e.json {
		text(newTextView(e.stdout))
		return nil // of writing start tells
	}
	enc := json.NewEncoder(e.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writable checks, before any work is done, that a run can write its outputs: each is another file than the inputs and
// the others, and is not there unless overwrite is set. What the run resumes from is an output that may be there. Names
// may be empty.
func writable(inputs, outputs []string, overwrite bool, resumed ...string) error {
	var named []string
	for i, path := range slices.Concat(outputs, resumed) {
		if path == "" {
			continue
		}
		if err := cli.Output(path, overwrite || i >= len(outputs)); err != nil {
			return err
		}
		named = append(named, path)
	}
	return cli.Distinct(inputs, named)
}

func arguments(c string, have []string, names ...string) error {
	if len(have) == len(names) {
		return nil
	}
	what := ""
	if len(have) > len(names) {
		what = "unexpected argument " + have[len(names)]
	} else {
		missing := names[len(have):]
		what = message.Plural(len(missing), "missing argument ", "missing arguments ") + strings.Join(missing, " and ")
	}
	return cli.Usagef(cli.HintArguments, "%s; usage: cfq %s %s ...", what, c, strings.Join(names, " "))
}

//go:embed flags.txt
var flagTable string

// variables are what flags set, by name: pointers, values of a flag, or functions of the text that is given. They may
// be more than a subcommand has flags.
type variables map[string]any

func (v variables) with(others variables) variables {
	maps.Copy(v, others)
	return v
}

// repeated is a list to which each use of a flag adds one text. Other lists are separated by commas.
type repeated struct{ list *[]string }

// flagRow is a flag as flags.txt has it.
type flagRow struct {
	heading               string
	name, short           string
	bare                  string // the value of the flag alone
	value, interval, help string
}

// flagRows are the flags of a subcommand, in the order of its help.
func flagRows(command string) (rows []flagRow) {
	shared := map[string]flagRow{}
	section, heading := "", ""
	for line := range strings.Lines(flagTable) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if title, ok := strings.CutPrefix(cells[0], "# "); ok {
			section, heading, _ = strings.Cut(title, ": ")
			continue
		}
		row := shared[cells[0]]
		if len(cells) > 1 {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			row = flagRow{name: cells[0], value: cells[1], interval: cells[2], help: cells[3]}
			row.name, row.short, _ = strings.Cut(row.name, " -")
			row.name, row.bare, _ = strings.Cut(row.name, "=")
		}
		row.heading = heading
		switch {
		case row.name == "":
		case section == "shared":
			shared[row.name] = row
		case section == command:
			rows = append(rows, row)
		}
	}
	return rows
}

// addFlags adds the flags of a subcommand that set the variables.
func addFlags(fs *pflag.FlagSet, command string, v variables) {
	for _, row := range flagRows(command) {
		row.add(fs, v[row.name])
		f := fs.Lookup(row.name)
		f.Annotations = map[string][]string{headingKey: {row.heading}}
		f.NoOptDefVal += row.bare // "true" for a switch
		if row.value != "" {
			if err := f.Value.Set(row.value); err != nil {
				panic(fmt.Errorf("flag --%s of %s: %w", row.name, command, err))
			}
			f.DefValue = f.Value.String()
		}
		if row.interval != "" {
			row.limit(fs, v[row.name])
		}
	}
}

func (r *flagRow) add(fs *pflag.FlagSet, variable any) {
	switch at := variable.(type) {
	case *string:
		fs.StringVarP(at, r.name, r.short, *at, r.help)
	case *bool:
		fs.BoolVarP(at, r.name, r.short, *at, r.help)
	case *int:
		fs.IntVarP(at, r.name, r.short, *at, r.help)
	case *uint64:
		fs.Uint64VarP(at, r.name, r.short, *at, r.help)
	case *float64:
		fs.Float64VarP(at, r.name, r.short, *at, r.help)
	case *[]string:
		fs.StringSliceVarP(at, r.name, r.short, *at, r.help)
	case repeated:
		fs.StringArrayVarP(at.list, r.name, r.short, *at.list, r.help)
	case *[]float64:
		fs.FuncP(r.name, r.short, r.help, func(text string) error { return parseNumbers(at, text) })
	case func(string) error:
		fs.FuncP(r.name, r.short, r.help, at)
	case pflag.Value:
		fs.VarP(at, r.name, r.short, r.help)
	default:
		panic(fmt.Sprintf("flag --%s sets a %T", r.name, variable))
	}
}

// limit has a flag refuse numbers outside of its interval: "[0, 1) a share below 1".
func (r *flagRow) limit(fs *pflag.FlagSet, variable any) {
	var begin, end rune
	var lo, hi float64
	if _, err := fmt.Sscanf(r.interval, "%c%g, %g%c", &begin, &lo, &hi, &end); err != nil {
		panic(fmt.Errorf("flag --%s: interval %s: %w", r.name, r.interval, err))
	}
	outside := func(x float64) bool {
		return !(lo <= x && x <= hi) || begin == '(' && x == lo || end == ')' && x == hi
	}
	want := r.interval[strings.IndexRune(r.interval, end)+len("] "):]
	cli.Require(fs, r.name, want, func() bool { return !slices.ContainsFunc(numbersAt(variable), outside) })
}

func numbersAt(variable any) []float64 {
	v := reflect.ValueOf(variable).Elem()
	if list, ok := v.Interface().([]float64); ok {
		return list
	}
	return []float64{v.Convert(reflect.TypeFor[float64]()).Float()}
}

// parseNumbers reads a list of numbers that are separated by commas.
func parseNumbers(at *[]float64, text string) error {
	*at = nil
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("%q is not a number of 0 or more", word)
		}
		*at = append(*at, v)
	}
	return nil
}
