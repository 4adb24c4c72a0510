package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"cfq/eval/records"
	"cfq/internal/cli"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/recourse/promise"
	"cfq/task"
	"cfq/task/rowio"
)

type streamFlags struct {
	format        rowio.Format // "" when none was asked for
	columns, keep []string
	hash          bool // rows are to be compared
}

func (f *streamFlags) variables() variables {
	formats := lists.Map(rowio.Formats(), func(format rowio.Format) string { return string(format) })
	return variables{"stream": cli.Choice(&f.format, formats), "columns": &f.columns, "keep": &f.keep}
}

func (f *streamFlags) check(given func(flag string) bool, args []string, refused ...string) error {
	if f.format == "" {
		return refuseFlags(given, "FLAG belongs to --stream: give both or none", "columns", "keep")
	}
	err := refuseFlags(given, "--stream reads rows on stdin and writes rows to stdout: it cannot have FLAG", refused...)
	if err != nil {
		return err
	}
	if n := len(args); n > 1 && slices.Contains(rowio.Formats(), rowio.Format(args[n-1])) {
		return cli.Usagef(cli.HintValue, "--stream has its format behind an equals sign: --stream=%s", args[n-1])
	}
	for _, list := range [][]string{f.columns, f.keep} {
		for i, name := range list {
			if name == "" || slices.Contains(list[:i], name) {
				return cli.Usagef(cli.HintValue, "%s: a column has no name, or one that another has", strings.Join(list, ","))
			}
		}
	}
	return nil
}

const maxReported = 1000

// rowAnswers answer the rows of a stream behind the cells that are kept, in columns of their own: people those of each
// person, other those of rows that are no people.
type rowAnswers struct {
	columns []string
	people  func(p *task.People) ([][]any, error)
	other   func(why records.Outcome) []any
}

type rowStream struct {
	*rowAnswers
	e        *env
	out      *rowio.Writer
	reported int
}

// answer answers the rows on stdin by what begin returns for the names of the columns that are kept, and for nobody
// with the columns that people have. It waits for the first row no longer than ctx lasts.
func (f *streamFlags) answer(ctx context.Context, e *env, t *task.Task, decoded *reconstructed,
	begin func(kept []string, like *task.People) (*rowAnswers, error),
) error {
	var in *rowio.Reader
	var err error
	opened := make(chan bool)
	go func() {
		in, err = rowio.Open(os.Stdin, t, rowio.Options{Format: f.format, Columns: f.columns, Keep: f.keep, Hash: f.hash})
		close(opened)
	}()
	select {
	case <-opened:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err != nil {
		hint := ""
		if f.columns == nil {
			hint = "the first row names the columns; --columns age,income names those of rows without a header"
		}
		return cli.Usagef(hint, "stdin: %w", err)
	}
	kept := in.Kept()
	s := &rowStream{e: e}
	if s.rowAnswers, err = begin(kept, in.Like()); err != nil {
		return err
	}
	for _, name := range s.columns {
		if slices.Contains(kept, name) {
			return cli.Usagef("give the column another name where the rows come from",
				"column %s is kept, and the answers have one of that name", message.Quote(name))
		}
	}
	s.out, err = rowio.NewWriter(e.stdout, f.format, slices.Concat(kept, s.columns), f.columns == nil)
	if err != nil {
		return err
	}
	var failed error // of what was done with the rows, not of reading them
	n, err := in.Each(ctx, func(b *rowio.Batch) error {
		if failed = decoded.keepRows(ctx, b); failed == nil {
			failed = s.batch(b)
		}
		return failed
	})
	if n.Unreadable > 0 {
		e.msg.Warn("stdin: %d of %s could not be read", n.Unreadable, message.Count(n.Rows, "row"))
	}
	left := task.People{Reading: task.Reading{Total: n.Rows}}
	none := decoded.count(&left, e.msg.Warn)
	warnRows(e, "stdin", &left)
	switch {
	case cmp.Or(failed, none) != nil:
		return cmp.Or(failed, none)
	case err != nil && ctx.Err() == nil:
		return dataError(fmt.Errorf("stdin: %w", err))
	case err != nil:
		return err
	}
	return s.out.Close()
}

func (s *rowStream) batch(b *rowio.Batch) (err error) {
	var answers [][]any
	if b.People.N > 0 {
		if answers, err = s.people(b.People); err != nil {
			return err
		}
	}
	for i := range b.Rows {
		row := &b.Rows[i]
		var cells []any
		switch {
		case row.Person >= 0:
			cells = answers[row.Person]
		case row.Problem != nil:
			s.report(row.Problem)
			cells = s.other(records.Unreadable)
		default:
			cells = s.other(records.Filtered)
		}
		if err := s.out.Write(slices.Concat(row.Kept, cells)); err != nil {
			return err
		}
	}
	return s.out.Flush()
}

func (s *rowStream) report(p *task.Problem) {
	switch s.reported++; {
	case s.reported <= maxReported:
		s.e.msg.Warn("stdin: %v", p)
	case s.reported == maxReported+1:
		s.e.msg.Warn("stdin: further rows that cannot be read are only counted")
	}
}

func (j *recourseJob) answerStream(ctx context.Context) error {
	return j.stream.answer(ctx, j.e, j.t, j.decoded, func(kept []string, _ *task.People) (*rowAnswers, error) {
		columns := promise.NewColumns(j.t, kept...)
		people := func(p *task.People) ([][]any, error) {
			answers, err := j.answers(ctx, p, j.set.of(p), func(int) {})
			if err != nil {
				return nil, err
			}
			rows := make([][]any, len(answers))
			var fields []string
			for i := range answers {
				if fields, err = columns.Fields(fields[:0], answers[i].Line); err != nil {
					return nil, err
				}
				for _, f := range fields {
					var cell any // nothing, where the field is empty
					if f != "" {
						cell = f
					}
					rows[i] = append(rows[i], cell)
				}
			}
			return rows, nil
		}
		names := columns.Names()
		return &rowAnswers{names, people, func(why records.Outcome) []any {
			return append([]any{string(why)}, make([]any, len(names)-1)...)
		}}, nil
	})
}
