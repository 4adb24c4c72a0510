package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/eval/records"
	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/recourse"
	"cfq/task"
)

type summarizeFlags struct{ evalFlags }

func (f *summarizeFlags) run(ctx context.Context, e *env, args []string) error {
	if len(args) < 3 {
		return cli.Usagef(cli.HintArguments, "want the two models and tables of records, have %d arguments", len(args))
	}
	f.tables = args[2:]
	work := func(d *evaluation) (*report.Document, error) {
		d.known.problem = d.known.read()
		o := d.options()
		o.Noise = f.noise
		if err := d.readRecords(ctx, f.tables, o); err != nil {
			return nil, err
		}
		return f.measure(ctx, d, o, nil)
	}
	return evaluate(ctx, e, &f.evaluationFlags, args[:2], report.EvaluationViews(), work)
}

// answerStream answers the rows on stdin with the records of the people in them. An ID that rows keep already is no
// column of its own.
func (d *evaluation) answerStream(ctx context.Context, f *streamFlags, margins []float64) (err error) {
	o := d.options()
	o.Margins, o.Progress = margins, nil
	f.hash = true
	decoded, err := newReconstructed(d.e, d.paths[0], d.files[0], d.models[0], d.task)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, decoded.close()) }()
	return f.answer(ctx, d.e, d.task, decoded, func(kept []string, like *task.People) (*rowAnswers, error) {
		for _, w := range like.Warnings { // such as of outcomes that the rows do not have
			d.e.msg.Warn("stdin: %s", w)
		}
		nobody := func(context.Context, func(*eval.Batch) error) error { return nil }
		_, settings, err := eval.Measure(ctx, d.models[0], nil, nobody, o)
		if err != nil {
			return nil, err
		}
		table, err := records.NewTable(d.madeWith(&settings, like))
		if err != nil {
			return nil, err
		}
		columns, own := table.Names(), func(cells []any) []any { return cells }
		if id := slices.Index(columns, records.ColID); d.task.Data.ID == records.ColID && slices.Contains(kept, columns[id]) {
			columns = slices.Delete(columns, id, id+1)
			own = func(cells []any) []any { return slices.Delete(cells, id, id+1) }
		}
		people := func(p *task.People) (rows [][]any, err error) {
			o := o
			o.OnRecords = func(_ *eval.Batch, _ *eval.Settings, list []eval.Record) error {
				for i := range list {
					list[i].Row, list[i].Line = 0, 0 // which depend on what else is in the stream
					rows = append(rows, slices.Clone(own(table.Row(&list[i]))))
				}
				return nil
			}
			b := &eval.Batch{People: p, Set: d.allowed.set.Select(make([]int, p.N))}
			all, _, err := eval.Measure(ctx, d.models[0], []recourse.Model{d.quantized(1, o)}, b.Source(), o)
			for _, x := range all {
				err = errors.Join(err, x.Close())
			}
			return rows, err
		}
		return &rowAnswers{columns, people, func(why records.Outcome) []any { return own(table.Count(why, 1)) }}, nil
	})
}

const (
	hintOtherRecords = "--resume goes on with the same files and flags; --overwrite in its place begins anew"
	hintNoRecords    = "give tables of the same models and task file, made by the same version, each row in one of them"
)

func (f *evaluationFlags) checkRecords(resume bool) (*records.Output, error) {
	if f.records == "" {
		if resume {
			return nil, cli.Usagef(cli.HintConflict, "--resume goes on from the records of an earlier run: --records FOLDER/ "+
				"names them")
		}
		return nil, nil
	}
	folder := os.IsPathSeparator(f.records[len(f.records)-1])
	if info, err := os.Stat(f.records); err == nil {
		folder = info.IsDir()
	}
	if !folder {
		out, err := records.NewFile(f.records)
		if err != nil {
			return nil, cli.Usagef(cli.HintValue, "--records: %w; a name that ends in / is a folder", err)
		}
		if resume {
			return nil, cli.Usagef(cli.HintConflict, "--resume needs a folder of records, as in --records records/")
		}
		return out, cli.Output(f.records, f.overwrite)
	}
	out, old, err := records.NewFolder(f.records, resume)
	if err == nil && old && !resume && !f.overwrite {
		err = cli.Wrap(fmt.Errorf("--records: %s has records already", f.records),
			"--resume goes on from them; --overwrite replaces them")
	}
	return out, err
}

func (d *evaluation) madeWith(s *eval.Settings, like *task.People) records.Run {
	r := records.Run{
		Tool: d.e.run().Tool, Full: d.sources[0].SHA256, Quantized: d.sources[1].SHA256, Task: d.inputs.Task.SHA256,
		Overrides: d.inputs.Overrides.SHA256, Columns: like.OtherColumns, Settings: *s,
	}
	if l := d.task.Latent; l != nil {
		r.Coder = l.Coder().String()
	}
	for i := range like.Subgroups {
		r.Attributes = append(r.Attributes, like.Subgroups[i].Feature)
	}
	return r
}

// fingerprint adds up people, so that the sum says who they are in any order: those who were evaluated, and the
// promises that were issued to them, included.
type fingerprint [4]uint64

func (s *fingerprint) add(r *eval.Record) {
	b := append([]byte(r.ID), 0, byte(r.Label), 0)
	if r.Evaluated {
		b[len(b)-1] = 1
	}
	numbers := r.X
	if r.Issued != nil {
		numbers = slices.Concat(numbers, r.Issued.Point)
	}
	b, _ = binary.Append(b, binary.LittleEndian, numbers) // of a list of numbers it never fails
	sum := sha256.Sum256(b)
	for i := range s {
		s[i] += binary.LittleEndian.Uint64(sum[8*i:])
	}
}

func tables(args []string) (paths []string, err error) {
	for _, arg := range args {
		some := []string{arg}
		info, err := os.Stat(arg)
		pattern := arg
		if err == nil && info.IsDir() {
			pattern = filepath.Join(arg, "*.parquet")
		}
		if pattern != arg || err != nil && strings.ContainsAny(arg, "*?[") {
			if some, err = filepath.Glob(pattern); err != nil || len(some) == 0 {
				return nil, cli.Wrap(fmt.Errorf("records: no file is called %s", pattern), hintNoRecords)
			}
			if err := records.Complete(some); err != nil {
				return nil, cli.Wrap(err, "cfq eval --resume goes on with it; name its files one by one if these people will do")
			}
		}
		for _, path := range some {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
				continue // as of a part without people
			}
			if err := cli.Input("table of records", path); err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(paths, func(o string) bool { return cli.Distinct([]string{o}, []string{path}) != nil }) {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 {
		return nil, cli.Wrap(fmt.Errorf("records: nothing is in %s", message.List(args, 3)), hintNoRecords)
	}
	slices.Sort(paths)
	return paths, nil
}

// readRecords reads the records of tables, to be summed up at a confidence; 0 for that with which they were made.
func (d *evaluation) readRecords(ctx context.Context, paths []string, o eval.Options) error {
	var who fingerprint
	d.known.unlike = eval.Tally{}
	all, run, file, err := records.Read(ctx, paths, d.task, func(r *eval.Record) {
		one := &task.People{X: r.X, Dim: len(r.X), N: 1}
		known := d.known.record.Equal(one)
		r.Calibrated = known != nil && known[0]
		who.add(r)
		d.known.look(one)
	})
	if err != nil {
		return cli.Wrap(err, hintNoRecords)
	}
	d.closers = append(d.closers, all)
	own := d.madeWith(&run.Settings, &task.People{})
	own.Attributes, own.Columns = run.Attributes, run.Columns
	if x := run.Differs(&own); x != "" {
		return cli.Usagef("give the files and the version of cfq that the records were made with, or make the records anew",
			"records in %s: they were not made with the files and the version at hand: %s", message.List(paths, 3), x)
	}
	if o.Confidence > 0 {
		run.Settings.Confidence = o.Confidence
	}
	o.Margins, o.Sample, o.Seed, o.OneSided = run.Settings.Margins, 0, run.Settings.Seed, run.Settings.OneSided
	by := run.Settings.Solver
	o.Solver = recourse.SolveOptions{Restarts: by.Restarts, Rounds: by.Rounds, Beam: by.Beam, Seed: by.Seed}
	d.total = &task.People{N: all.Len(), Reading: task.Reading{Total: file.Rows, Failed: file.Unreadable}}
	sum, _ := binary.Append(nil, binary.LittleEndian, who[:]) // of numbers it never fails
	d.inputs.Data = report.File{Name: "records", SHA256: hex.EncodeToString(sum), Entries: all.Len(), Used: all.Len()}
	d.tabled = &measured{[]*eval.Records{all}, run.Settings, file, o}
	if note := all.Note(); note != "" {
		d.e.msg.Note("%s: %s", message.List(paths, 3), note)
	}
	return nil
}
