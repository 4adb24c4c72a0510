package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/ordered"
	"cfq/onnxio"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/promise"
	"cfq/task"
)

type recourseFlags struct {
	peopleFlags

	out       string
	margin    float64
	seed      uint64
	restarts  int
	exact     bool
	robust    robustFlags
	stream    streamFlags
	overwrite bool
}

func (f *recourseFlags) variables() variables {
	return f.peopleFlags.variables().with(f.stream.variables()).with(variables{
		"output": &f.out, "margin": &f.margin, "seed": &f.seed, "restarts": &f.restarts, "exact": &f.exact,
		"overwrite": &f.overwrite, "robust": &f.robust.models,
		"calibration": &f.robust.calibration, "method": cli.Choice(&f.robust.method, ptq.MethodNames()),
		"budget": &f.robust.budget,
	})
}

func (f *recourseFlags) run(ctx context.Context, e *env, args []string) (err error) {
	if err := f.check(e, args); err != nil {
		return err
	}
	people := f.checkPeople
	if f.stream.format != "" {
		people = func() error { return nil }
	}
	in, err := f.openFiles(ctx, e, args, people)
	if err != nil {
		return err
	}
	t, m := in.task, in.files[0]
	if !e.changed("margin") {
		f.margin = t.Target.Margin
	}
	c, err := openClassifier(ctx, e, args[0], m, t)
	if err != nil {
		return err
	}
	defer func() {
		if says := c.Rounding(); says != "" && err == nil {
			e.msg.Note("%s: %s", args[0], says)
		}
		c.Close()
	}()
	if x := c.Mixes(); x != nil && f.promises == "" {
		return unusableModel(args[0], x)
	}
	job := &recourseJob{recourseFlags: f, e: e, t: t, model: c, set: in.allowed}
	if f.promises != "" {
		return job.checkPromises(ctx)
	}
	if f.robust.models > 0 {
		if job.fleet, err = f.openFleet(ctx, e, m, t); err != nil {
			return err
		}
		defer job.fleet.Close() //nolint:errcheck // nothing was written
		job.model = job.fleet.Worst(f.robust.models)
	}
	if job.decoded, err = newReconstructed(e, args[0], m, c, t); err != nil {
		return err
	}
	defer roomForSearch(e.workers)()
	find := job.findRecourse
	if f.stream.format != "" {
		find = job.answerStream
	}
	return errors.Join(find(ctx), job.decoded.close())
}

func (f *recourseFlags) check(e *env, args []string) error {
	err := cmp.Or(
		f.stream.check(e.changed, args, "data", "output", "rows", "promises", "overrides", "robust", "json"),
		arguments("recourse", args, "MODEL"),
		e.conflict(f.promises != "", "FLAG finds actions and --promises reads them: give one of the two", "exact", "robust"),
		e.conflict(!e.changed("robust"), "FLAG is of use with --robust only", "calibration", "method", "budget"),
	)
	if err != nil {
		return err
	}
	return writable(append(f.paths(args[0]), f.robust.calibration), []string{f.out}, f.overwrite)
}

type recourseJob struct {
	*recourseFlags
	e     *env
	t     *task.Task
	model recourse.Model // that must accept
	set   *permitted
	fleet *ptq.Fleet   // nil without --robust
	first *task.People // with --robust, the first batch

	decoded *reconstructed
}

type solved struct {
	*report.Recourse
	Robustness *ptq.Robustness `json:"robustness,omitempty"` // with --robust
}

func (j *recourseJob) findRecourse(ctx context.Context) error {
	o, err := readOptions(j.data, j.rows)
	if err != nil {
		return err
	}
	start := time.Now()
	s := solved{Recourse: report.NewRecourse(j.margin, j.exact)}
	var people *task.People
	err = j.write(func(out *promise.Writer) error {
		show, all := j.e.msg.Progress(), o.CountRows(j.data)
		ctx, size, queue := j.pieces(ctx, all)
		var begun atomic.Int64
		people, err = streamPeople(ctx, j.data, j.t, o, size, func(p *task.People) error {
			p, _, err := j.decoded.keep(ctx, p)
			if err != nil || p.N == 0 {
				return err
			}
			if j.fleet != nil && j.first == nil {
				j.first = p
			}
			set := j.set.of(p)
			var before atomic.Int64 // of these people, whom progress has counted
			return queue.Go(func() ([]promise.Answer, error) {
				return j.answers(ctx, p, set, func(now int) {
					total := begun.Add(int64(now) - before.Swap(int64(now)))
					show(cli.People, int(total), max(all, int(total)+p.N-now))
				})
			}, func(answers []promise.Answer) error {
				for i := range answers {
					a := &answers[i]
					s.Add(&a.Line, a.Tried)
					if a.Search != nil {
						s.Compare(a.Action, *a.Search)
					}
					if err := out.Write(a.Line); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if waited := queue.Wait(); err == nil {
			err = waited
		}
		if err != nil {
			return err
		}
		show(cli.People, 1, 1)
		if err := j.decoded.count(people, j.e.msg.Warn); err != nil {
			return err
		}
		s.Finish(people, time.Since(start))
		if j.first != nil { // before the file appears, which it does not when the run is stopped
			s.Robustness, err = j.fleet.Robustness(ctx, j.set.of(j.first), j.first, j.robust.models, robustSample,
				recourse.SolveOptions{Margin: j.margin, Seed: j.seed, Workers: j.e.workers})
		}
		return err
	})
	if err != nil {
		return err
	}
	warnRows(j.e, j.data, people)
	j.set.warn(j.e)
	return j.e.show(s, func(w *textView) {
		s.Write(w, j.out)
		if s.Robustness != nil {
			w.page("robustness", s.Robustness)
		}
	})
}

// pieces returns how many of all people are read at a time, and what works on them, with the context: a worker for each
// piece. An exact search of one person may take a minute, and for a robust one the first people stand for all: these
// have two large batches at a time, whose people all workers share.
func (j *recourseJob) pieces(ctx context.Context, all int) (context.Context, int, *ordered.Queue[[]promise.Answer]) {
	if j.exact || j.fleet != nil {
		two := min(2, j.e.workers)
		return ctx, batchPeople, ordered.New[[]promise.Answer](two, two)
	}
	size := recourse.Together(j.t)
	if all > size || all == 0 {
		ctx = ordered.OneCore(ctx)
	}
	return ctx, size, ordered.New[[]promise.Answer](j.e.workers+2, j.e.workers) // two wait: one begins when another ends
}

// write makes the output file by create, all of it or nothing; without one nothing is kept.
func (j *recourseJob) write(create func(out *promise.Writer) error) error {
	var failed error // says already what it was that failed
	whole := func(w io.Writer) error {
		out, err := promise.NewWriter(w, j.t)
		if err == nil {
			err = create(out)
		}
		if err == nil {
			err = out.Flush()
		}
		failed = err
		return err
	}
	if j.out == "" {
		return whole(io.Discard)
	}
	err := cli.Write(j.out, whole)
	return cmp.Or(failed, err)
}

func (j *recourseJob) answers(ctx context.Context, p *task.People, set *constraint.Set, progress func(done int)) (
	[]promise.Answer, error,
) {
	o := recourse.SolveOptions{Margin: j.margin, Restarts: j.restarts, Seed: j.seed, Workers: j.e.workers}
	s := promise.Solver{Model: j.model, Options: o}
	if j.exact {
		s.Exact = &recourse.ExactOptions{}
	}
	if j.fleet != nil {
		s.Stated = j.fleet.Models[0] // margins that can be checked with the model alone
	}
	answers, err := s.Solve(ctx, set, p, func(done, _ int) { progress(done) })
	if errors.Is(err, recourse.ErrNotExact) {
		return nil, cli.Wrap(err, "without --exact the solver finds actions that are near the cheapest")
	}
	return answers, err
}

func (j *recourseJob) checkPromises(ctx context.Context) error {
	if j.data == "" && j.out != "" {
		return cli.Usagef(hintMissingData, "--output: a promises file counts the rows of a data file, and there is none")
	}
	c := report.NewPromises(j.margin)
	var file *promise.File
	err := j.write(func(out *promise.Writer) error {
		read, err := readSelection(j.rows)
		if err != nil {
			return err
		}
		file, err = j.streamed(ctx, j.t, read, func(f *promise.File) error { return j.judge(ctx, f, c, out) })
		if err != nil {
			return err
		}
		if j.data != "" {
			warnRows(j.e, j.data, file.People)
		}
		return warnPromises(j.e, j.promises, file)
	})
	if err != nil {
		return err
	}
	c.Finish(file)
	j.set.warn(j.e)
	warnClaims(j.e, float64(c.Claimed))
	return j.e.show(c, func(w *textView) { c.Write(w, j.out) })
}

func (j *recourseJob) judge(ctx context.Context, f *promise.File, c *report.Promises, out *promise.Writer) error {
	set := j.set.of(f.People)
	verdicts, err := promise.Judge(ctx, j.model, set, f)
	if err != nil {
		return err
	}
	c.Add(f, verdicts)
	if j.out == "" {
		return nil
	}
	return f.Write(out, set, verdicts)
}

// robustSample is how many people the table beneath robust actions is about, at most.
const robustSample = 500

type robustFlags struct {
	models      int
	calibration string
	method      string
	budget      float64
}

// openFleet samples deployments: as many as were asked for are solved on, as many again tell how far that carries.
func (f *recourseFlags) openFleet(ctx context.Context, e *env, m *onnxio.Model, t *task.Task) (*ptq.Fleet, error) {
	data, rows := f.data, f.rows
	if f.robust.calibration != "" {
		data, rows = f.robust.calibration, ""
	}
	people, err := readPeople(ctx, e, data, rows, t, task.ReadOptions{})
	if err != nil {
		return nil, err
	}
	r, err := ptq.NewRecipe(f.robust.method)
	if err != nil {
		return nil, err
	}
	r.Allocate.Budget = f.robust.budget
	fleet, err := ptq.OpenFleet(ctx, m, t, people, ptq.Draws{Recipe: r, Models: 2 * f.robust.models, Seed: f.seed},
		ptq.Run{Workers: e.workers, Progress: e.progress()})
	if err != nil {
		return nil, err
	}
	e.warn(fleet.Result.Warnings)
	return fleet, nil
}
