package main

import (
	"context"
	"errors"
	"slices"

	"cfq/eval"
	"cfq/eval/records"
	"cfq/eval/report"
	"cfq/internal/cli"
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
		return &rowAnswers{columns, people, func(status string) []any {
			why := records.Unreadable
			if status == filtered {
				why = records.Filtered
			}
			return own(table.Count(why, 1))
		}}, nil
	})
}
