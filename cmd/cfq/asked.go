package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"cfq/calib/record"
	"cfq/eval"
	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/promise"
	"cfq/task"
)

// asked are the flags of the subcommands that hold models against each other: who is asked, and about what.
type asked struct {
	data, task, rows   string
	promises           string
	overrides          string
	sample             int
	seed               uint64
	restarts           int
	by                 []string
	minGroup           int
	certify            float64
	confidence         float64 // two-sided, of all intervals
	overwrite, records bool
}

// noBy is what --by takes for no groups.
const noBy = "none"

func (f *asked) add(fs *pflag.FlagSet) {
	fs.StringVarP(&f.data, "data", "d", "", "the people: a CSV `file`, also gzipped")
	fs.StringVarP(&f.task, "task", "t", "", "the task `file`")
	fs.StringVar(&f.rows, "rows", "", rowsHelp)
	fs.StringVar(&f.promises, "promises", "", fromHelp)
	fs.StringVar(&f.overrides, "overrides", "", overridesHelp)
	fs.IntVar(&f.sample, "sample", 0, "evaluate a random sample of so many refused `people`; 0 takes all")
	fs.Uint64Var(&f.seed, "seed", 1, "`seed` of the sample and of the solver")
	fs.IntVar(&f.restarts, "restarts", 0, "random `restarts` of the solver; 0 is the solver's default")
}

func (f *asked) addGroups(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.by, "by", nil, "groups that are told apart: `features`, joined by * for their combinations; else the task's subgroups; none for none")
	fs.IntVar(&f.minGroup, "min-group", 30, "`promises` without which a group is not compared with others")
}

// certifyHelp is the help of --certify.
const certifyHelp = "prove what survives within this `radius`, in model-input units, around each recourse point; measure the logits there"

// field is what a subcommand works on: files that are open, people who are read.
type field struct {
	e      *env
	f      *asked
	task   *task.Task
	set    *constraint.Set // of people, by position
	people *task.People
	given  *promise.File // nil without --promises
	stray  float64       // how far margins that the promises file states are from those found; NaN when it states none
	paths  []string      // of the models, the original's first
	files  []*graph.Model
	models []*classifier.Model
	// sources are the models' files as reports name them.
	sources []report.File
	same    bool // a quantized model has the content of the original
	// warnings are doubts about the files, for the report.
	warnings []string
}

// open reads the task, the models and the people, in the order in which mistakes are cheapest to report. outputs are files that will be
// written. keep says which of the people remain; nil keeps all.
func (f *asked) open(ctx context.Context, e *env, paths, outputs []string, o task.ReadOptions, keep func(*task.People) ([]int, error)) (_ *field, err error) {
	var inputs []string
	for _, p := range paths {
		inputs = append(append(inputs, p, record.Path(p)), codec.ExternalFiles(p)...)
	}
	if err := cli.Distinct(append(inputs, f.data, f.task, f.rows, f.promises, f.overrides), outputs); err != nil {
		return nil, err
	}
	switch {
	case f.sample < 0:
		return nil, cli.Usagef("0 takes all", "--sample %d: there are no such people", f.sample)
	case f.minGroup < 0:
		return nil, cli.Usagef("", "--min-group %d: a number of promises is 0 or more", f.minGroup)
	case f.restarts < 0:
		return nil, cli.Usagef("0 is the solver's default", "--restarts %d: a number of restarts is 0 or more", f.restarts)
	case !(f.certify >= 0):
		return nil, cli.Usagef("0 proves the points themselves", "--certify %g: a radius is a number of 0 or more", f.certify)
	}
	d := &field{e: e, f: f, paths: paths}
	if d.task, err = readTask(f.task); err != nil {
		return nil, err
	}
	set, err := actionSet(f.task, f.overrides, d.task)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		m, err := readModel(path)
		if err != nil {
			return nil, err
		}
		d.files = append(d.files, m)
	}
	if err := d.pairing(); err != nil {
		return nil, err
	}
	if f.minGroup == 0 {
		f.minGroup = 1
	}
	if d.people, d.given, err = promised(ctx, e, f.data, f.rows, f.promises, d.task, o); err != nil {
		return nil, err
	}
	if keep != nil {
		rows, err := keep(d.people)
		if err != nil {
			return nil, err
		}
		d.only(rows)
	}
	if f.named() {
		if err := eval.CheckGroups(d.people.Subgroups, f.by); err != nil {
			return nil, f.badGroups(err)
		}
	}
	d.set = set.of(d.people)
	set.warn(e)
	for i, path := range paths {
		m, err := openClassifier(ctx, e, path, d.files[i], d.task)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.models = append(d.models, m)
	}
	return d, nil
}

// only keeps the people at the given positions, and the promises to them.
func (d *field) only(rows []int) {
	if len(rows) == d.people.N {
		return
	}
	all := d.people
	d.people = all.Subset(rows)
	d.people.Total, d.people.Failed, d.people.Filtered, d.people.Excluded = all.Total, all.Failed, all.Filtered, all.Excluded+all.N-len(rows)
	if d.given != nil {
		d.given = d.given.Only(d.people, rows)
	}
}

// Close frees the models.
func (d *field) Close() error {
	var err error
	for _, m := range d.models {
		err = errors.Join(err, m.Close())
	}
	return err
}

// options are those of eval.Compare that the flags give.
func (d *field) options(ctx context.Context) (eval.Options, error) {
	promises, verdicts, err := chosen(ctx, d.e, d.models[0], d.set, d.given)
	if d.given != nil && err == nil {
		if d.stray = d.given.Difference(verdicts); d.stray > claimSlack {
			d.warn("the margins that %s states differ from those found by up to %.3g: it may be of another model, task or data", filepath.Base(d.f.promises), d.stray)
		}
	}
	return eval.Options{
		Promises: promises, Sample: d.f.sample, Seed: d.f.seed, Workers: d.e.workers, Confidence: d.f.confidence,
		Solver: recourse.SolveOptions{Restarts: d.f.restarts}, Progress: d.e.progress(),
	}, runError(err)
}

// groups adds the groups to r that --by names.
func (d *field) groups(r *eval.Result) error {
	if d.f.without() {
		return nil
	}
	groups, err := r.ByGroups(d.people.Subgroups, d.f.by, d.f.minGroup)
	if err != nil {
		return d.f.badGroups(err)
	}
	r.Groups = groups
	return nil
}

// without says that no groups are wanted.
func (f *asked) without() bool { return len(f.by) == 1 && f.by[0] == noBy }

// named says that groups are asked for by name.
func (f *asked) named() bool { return len(f.by) > 0 && !f.without() }

func (f *asked) badGroups(err error) error {
	return cli.Wrap(fmt.Errorf("groups by %s: %w", strings.Join(f.by, ", "), plain(err)), cli.Unusable,
		"a feature with subgroup: true, or a column under data: subgroups, tells people apart")
}
