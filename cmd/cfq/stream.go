package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

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

// The statuses of rows that are no people.
const (
	unreadable = "unreadable"
	filtered   = "filtered"
)

const maxReported = 1000

type rowStream struct {
	e        *env
	in       *rowio.Reader
	out      *rowio.Writer
	decoded  *reconstructed
	reported int
}

// openStdin reads the head of stdin. It waits for it no longer than ctx lasts.
func openStdin(ctx context.Context, t *task.Task, o rowio.Options) (*rowio.Reader, error) {
	type opened struct {
		in  *rowio.Reader
		err error
	}
	done := make(chan opened, 1)
	go func() {
		in, err := rowio.Open(os.Stdin, t, o)
		done <- opened{in, err}
	}()
	select {
	case x := <-done:
		return x.in, x.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (f *streamFlags) open(
	ctx context.Context, e *env, t *task.Task,
	answers func(kept []string, like *task.People) ([]string, error),
) (*rowStream, error) {
	o := rowio.Options{Format: f.format, Columns: f.columns, Keep: f.keep, Hash: f.hash}
	in, err := openStdin(ctx, t, o)
	if err != nil {
		err = fmt.Errorf("stdin: %w", err)
		if f.columns == nil {
			return nil, cli.Wrap(err,
				"the first row names the columns; --columns age,income names those of rows without a header")
		}
		return nil, cli.WithCode(err, cli.Unusable)
	}
	kept := in.Kept()
	own, err := answers(kept, in.Like())
	if err != nil {
		return nil, err
	}
	for _, name := range own {
		if slices.Contains(kept, name) {
			return nil, cli.Usagef("give the column another name where the rows come from",
				"column %s is kept, and the answers have one of that name",
				message.Quote(name))
		}
	}
	s := &rowStream{e: e, in: in}
	s.out, err = rowio.NewWriter(e.stdout, f.format, slices.Concat(kept, own), f.columns == nil)
	return s, written(err)
}

// rowAnswers answer rows behind the cells that are kept: people those of each person, other those of rows with a status
// instead.
type rowAnswers struct {
	people func(p *task.People) ([][]any, error)
	other  func(status string) []any
}

func (s *rowStream) answer(ctx context.Context, with rowAnswers) error {
	var failed error // of what was done with the rows, not of reading them
	n, err := s.in.Each(ctx, func(b *rowio.Batch) error {
		if failed = s.decoded.keepRows(ctx, b); failed == nil {
			failed = s.batch(b, with)
		}
		return failed
	})
	if n.Unreadable > 0 {
		s.e.msg.Warn("stdin: %d of %s could not be read", n.Unreadable, message.Count(n.Rows, "row"))
	}
	var left task.People
	left.Total = n.Rows
	none := s.decoded.count(&left, s.e.msg.Warn)
	warnRows(s.e, "stdin", &left)
	switch {
	case cmp.Or(failed, none) != nil:
		return cmp.Or(failed, none)
	case err != nil && ctx.Err() == nil:
		return dataError(fmt.Errorf("stdin: %w", err))
	case err != nil:
		return err
	}
	return written(s.out.Close())
}

func (s *rowStream) batch(b *rowio.Batch, with rowAnswers) (err error) {
	var answers [][]any
	if b.People.N > 0 {
		if answers, err = with.people(b.People); err != nil {
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
			cells = with.other(unreadable)
		default:
			cells = with.other(filtered)
		}
		if err := s.out.Write(slices.Concat(row.Kept, cells)); err != nil {
			return written(err)
		}
	}
	return written(s.out.Flush())
}

func (s *rowStream) report(p *task.Problem) {
	switch s.reported++; {
	case s.reported <= maxReported:
		s.e.msg.Warn("stdin: %v", p)
	case s.reported == maxReported+1:
		s.e.msg.Warn("stdin: further rows that cannot be read are only counted")
	}
}

func written(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return cli.WithCode(err, cli.Closed)
	}
	return err
}

// keepPipe has writes to a pipe that nobody reads return an error, instead of ending the process in the middle of
// something.
func keepPipe() (restore func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

func (j *recourseJob) answerStream(ctx context.Context) error {
	defer keepPipe()()
	var columns *promise.Columns
	s, err := j.stream.open(ctx, j.e, j.t, func(kept []string, _ *task.People) ([]string, error) {
		columns = promise.NewColumns(j.t, kept...)
		return columns.Names(), nil
	})
	if err != nil {
		return err
	}
	s.decoded = j.decoded
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
	return s.answer(ctx, rowAnswers{people, func(status string) []any {
		return append([]any{status}, make([]any, len(columns.Names())-1)...)
	}})
}
