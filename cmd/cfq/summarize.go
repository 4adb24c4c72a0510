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

type recordStream struct {
	*records.Table
	id int // of the column of IDs, when rows keep it already; else -1
}

func (s *recordStream) own(cells []any) []any {
	if s.id < 0 {
		return cells
	}
	return slices.Delete(cells, s.id, s.id+1)
}

func (d *evaluation) recordStream(
	ctx context.Context, o eval.Options, kept []string, like *task.People,
) (s *recordStream, columns []string, err error) {
	nobody := func(context.Context, func(*eval.Batch) error) error { return nil }
	_, settings, err := eval.Measure(ctx, d.models[0], nil, nobody, o)
	if err != nil {
		return nil, nil, err
	}
	s = &recordStream{id: -1}
	if s.Table, err = records.NewTable(d.madeWith(&settings, like)); err != nil {
		return nil, nil, err
	}
	columns = s.Names()
	if d.task.Data.ID == records.ColID && slices.Contains(kept, records.ColID) {
		s.id = slices.Index(columns, records.ColID)
		columns = slices.Delete(columns, s.id, s.id+1)
	}
	return s, columns, nil
}

func (d *evaluation) answerStream(ctx context.Context, f *streamFlags, margins []float64) (err error) {
	defer keepPipe()()
	o := d.options()
	o.Margins, o.Progress = margins, nil
	f.hash = true
	decoded, err := newReconstructed(d.e, d.paths[0], d.files[0], d.models[0], d.task)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, decoded.close()) }()
	var table *recordStream
	s, err := f.open(ctx, d.e, d.task, func(kept []string, like *task.People) (columns []string, err error) {
		for _, w := range like.Warnings { // such as of outcomes that the rows do not have
			d.e.msg.Warn("stdin: %s", w)
		}
		table, columns, err = d.recordStream(ctx, o, kept, like)
		return columns, err
	})
	if err != nil {
		return err
	}
	s.decoded = decoded
	people := func(p *task.People) (rows [][]any, err error) {
		o := o
		o.OnRecords = func(_ *eval.Batch, _ *eval.Settings, list []eval.Record) error {
			for i := range list {
				list[i].Row, list[i].Line = 0, 0 // which depend on what else is in the stream
				rows = append(rows, slices.Clone(table.own(table.Row(&list[i]))))
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
	return s.answer(ctx, rowAnswers{people, func(status string) []any {
		why := records.Unreadable
		if status == filtered {
			why = records.Filtered
		}
		return table.own(table.Count(why, 1))
	}})
}
