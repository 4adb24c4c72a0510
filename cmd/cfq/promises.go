package main

import (
	"context"
	"errors"
	"fmt"

	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/recourse"
	"cfq/recourse/promise"
	"cfq/task"
)

const maxShown = 5

// claimSlack is how far, in logits, a claimed margin may be from the one found before it is worth a warning.
const claimSlack = 1e-3

func (f *peopleFlags) checkPeople() error {
	if f.promises != "" {
		if err := cli.Input("promises file", f.promises); err != nil {
			return err
		}
	}
	switch {
	case f.promises == "" || f.data != "":
		return dataFile(f.data)
	case f.rows != "":
		return cli.Usagef(hintMissingData, "--rows chooses rows of --data, which is missing")
	}
	return nil
}

// streamed hands people on in batches, each with the promises of --promises to them, see promise.Stream. The people are
// those of the data or, without any, the file's. Errors of each are returned as they are.
func (f *peopleFlags) streamed(ctx context.Context, t *task.Task, read task.ReadOptions,
	each func(*promise.File) error,
) (*promise.File, error) {
	if f.promises == "" {
		all, err := streamPeople(ctx, f.data, t, read, judgedPeople, func(p *task.People) error {
			return each(&promise.File{People: p})
		})
		return &promise.File{People: all}, err
	}
	var failed error // of what was done with the promises, not of reading them
	var people promise.Batches
	if f.data != "" {
		people = func(each func(*task.People) error) (*task.People, error) {
			return streamPeople(ctx, f.data, t, read, batchPeople, each)
		}
	}
	file, err := promise.Stream(ctx, f.promises, t, people, func(b *promise.File) error {
		failed = each(b)
		return failed
	})
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, promisesError(err, people == nil)
	}
	return file, nil
}

func promisesError(err error, alone bool) error {
	if !alone {
		return dataError(err)
	}
	return cli.Wrap(dataError(err), hintMissingData)
}

func warnPromises(e *env, path string, f *promise.File) error {
	for _, note := range f.Notes {
		e.msg.Warn("%s: %s", path, note)
	}
	warnProblems(e, fmt.Sprintf("%s: %d of %d rows could not be read and are left out", path, f.Failed, f.Rows),
		f.Problems, f.Failed)
	warnProblems(e, fmt.Sprintf("%s: %s to people who are not among the people read", path,
		message.Count(f.Missing, "promise")), f.Lost, f.Missing)
	if f.Made > 0 {
		return nil
	}
	err := fmt.Errorf("%s promises nothing to any of the people", path)
	n := 0
	for _, k := range f.Unpromised {
		n += k
	}
	if n > 0 && n == f.Rows-f.Failed {
		err = fmt.Errorf("%s promises nothing: its %s say so; only rows with the status found are promises", path,
			message.Count(n, "row"))
	}
	return cli.Wrap(err, "give the data and the task file that the promises were made with")
}

func warnClaims(e *env, difference float64) {
	if difference > claimSlack {
		e.msg.Warn("the margins that the promises file states differ from those found by up to %.3g: "+
			"was it made for another model, task or data?", difference)
	}
}

// judged makes one action for each person out of the promises, see [promise.File.Actions], as the only model, read from
// path, judges them; nil without promises.
func (in *opened) judged(ctx context.Context, e *env, path string) (_ []recourse.Action, err error) {
	if in.issued == nil {
		return nil, nil
	}
	c, err := openClassifier(ctx, e, path, in.files[0], in.task)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	verdicts, err := promise.Judge(ctx, c, in.set, in.issued)
	if err != nil {
		return nil, err
	}
	var sum promise.Tally
	sum.Add(in.issued, verdicts)
	warnClaims(e, sum.Difference())
	actions, further := in.issued.Actions(verdicts)
	if further > 0 {
		e.msg.Note("%d further promises to the same people: of each person's, the cheapest that the model keeps is used",
			further)
	}
	if sum.Infeasible+sum.Invalid > 0 {
		e.msg.Warn("of %s the task does not allow %d, and the model does not keep %d; cfq recourse --promises says more",
			message.Count(sum.Promises, "promise"), sum.Infeasible, sum.Invalid)
	}
	return actions, nil
}

func warnProblems(e *env, what string, list []task.Problem, n int) {
	if n == 0 {
		return
	}
	e.msg.Warn("%s", what)
	shown := list[:min(maxShown, len(list))]
	for i := range shown {
		e.msg.Warn("  %s", shown[i].Error())
	}
	if more := n - len(shown); more > 0 {
		e.msg.Warn("  and %d more", more)
	}
}
