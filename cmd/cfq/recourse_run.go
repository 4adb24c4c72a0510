package main

import (
	"context"
	"io"
	"os"
	"time"

	"cfq/internal/cli"
	"cfq/recourse"
	"cfq/recourse/promise"
	"cfq/task"
)

// recourseBatch is how many people are read, helped and written at a time.
const recourseBatch = 8192

// recourseJob is one run of recourse.
type recourseJob struct {
	*recourseFlags
	e      *env
	t      *task.Task
	model  recourse.Model // that must accept
	robust *robustRun     // nil without --robust
	set    *allowed
}

// findRecourse reads people, finds their actions and writes them, a batch at a time.
func (j *recourseJob) findRecourse(ctx context.Context) error {
	o, err := readOptions(j.data, j.rows)
	if err != nil {
		return err
	}
	start := time.Now()
	s := newSolved(j.margin, j.exact)
	var people *task.People
	var failed error // of what was done with the people, not of reading them
	err = j.write(func(w io.Writer) error {
		out, err := promise.NewWriter(w, j.t)
		if err != nil {
			return err
		}
		show := j.e.msg.Progress("recourse")
		rows := estimateRows(j.data)
		people, err = task.Stream(ctx, j.data, j.t, o, recourseBatch, func(p *task.People) error {
			if j.robust != nil {
				j.robust.batch(p)
			}
			failed = j.solve(ctx, p, s, out, func(done int) { show(s.People+done, max(rows, s.People+p.N)) })
			return failed
		})
		switch {
		case failed != nil:
			return runError(failed)
		case err != nil:
			return dataError(err)
		}
		show(1, 1)
		s.finish(people, time.Since(start))
		if j.robust != nil { // before the file appears, which it does not when the run is stopped
			if s.Robustness, err = j.robust.measure(ctx, j.set, j.margin, j.seed, j.e.workers); err != nil {
				return runError(err)
			}
		}
		return out.Flush()
	})
	if err != nil {
		return err
	}
	warnRows(j.e, j.data, people)
	j.set.warn(j.e)
	if j.e.json {
		return writeJSON(j.e.stdout, s)
	}
	return s.write(j.e.stdout, j.out)
}

// write makes the output file by make, all of it or nothing; without one nothing is kept.
func (j *recourseJob) write(create func(io.Writer) error) error {
	if j.out == "" {
		return create(io.Discard)
	}
	var inner error
	err := cli.Write(j.out, func(w io.Writer) error { inner = create(w); return inner })
	if inner != nil {
		return inner // says already what it was that failed
	}
	return err
}

// solve finds and writes the actions of one batch.
func (j *recourseJob) solve(ctx context.Context, p *task.People, s *solved, out *promise.Writer, progress func(done int)) error {
	stated := j.model // whose margins the file states
	if j.robust != nil {
		stated = j.robust.fleet.Full
	}
	before, err := stated.Margins(ctx, p.X)
	if err != nil {
		return err
	}
	set := j.set.of(p)
	actions, methods, err := j.answer(ctx, set, p.X, func(done, _ int) { progress(done) })
	if err != nil {
		return err
	}
	if j.robust != nil {
		if err := j.robust.restate(ctx, actions); err != nil {
			return err
		}
	}
	for i := range actions {
		l := promise.Line{Row: p.Rows[i], Line: p.Lines[i], Before: float64(before[i]), X: p.X[i*p.Dim : (i+1)*p.Dim], Action: actions[i]}
		if l.Action.Status == recourse.Found {
			l.Changes = set.Person(i).Changes(l.X, l.Action.Point)
		}
		if l.Method = methods[i]; !l.Method.Proved() {
			l.Method = recourse.Search
		}
		s.add(&l)
		s.addMethod(methods[i], l.Action.Status)
		if err := out.Write(l); err != nil {
			return err
		}
	}
	return nil
}

// estimateRows guesses the rows of a plain data file from its first lines, for a progress bar; 0 when it cannot.
func estimateRows(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	head := make([]byte, 1<<16)
	n, _ := io.ReadFull(f, head)
	lines := 0
	for _, c := range head[:n] {
		switch c {
		case 0:
			return 0
		case '\n':
			lines++
		}
	}
	if lines == 0 || n > 1 && head[0] == 0x1f && head[1] == 0x8b {
		return 0
	}
	return int(float64(info.Size()) * float64(lines) / float64(n))
}
