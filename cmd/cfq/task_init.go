package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"cfq/internal/cli"
	"cfq/task"
	"cfq/task/draft"
)

// init writes a draft, or a task file whose gaps are filled.
func (f *taskFlags) init(ctx context.Context, e *env, args []string) (err error) {
	args, err = atMost("init", args, "MODEL")
	if err != nil {
		return err
	}
	if err := dataFile(f.data); err != nil {
		return err
	}
	if f.out != "" {
		inputs := []string{f.data, args[0]}
		if err := errors.Join(cli.Output(f.out, f.overwrite), cli.Distinct(inputs, []string{f.out})); err != nil {
			return cli.Wrap(err, cli.Unusable, cli.HintOf(err))
		}
	}
	o := draft.Options{Label: f.label, Favourable: f.favourable, Features: f.features, File: filepath.Base(f.data)}
	if args[0] != "" {
		model, scaled, err := openAny(ctx, e, args[0])
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, model.Close()) }()
		o.Model, o.Scaled = model, scaled
	}
	var text []byte
	var t *task.Task
	if f.from != "" {
		text, t, err = f.fill(ctx, e, o)
	} else {
		text, t, err = f.draft(ctx, e, o)
	}
	if err != nil {
		return err
	}
	return f.put(e, text, t)
}

// draft infers a task file.
func (f *taskFlags) draft(ctx context.Context, e *env, o draft.Options) ([]byte, *task.Task, error) {
	rows, err := readSelection(f.rows)
	if err != nil {
		return nil, nil, err
	}
	table, err := draft.Open(ctx, f.data, f.columns, rows)
	if err != nil {
		return nil, nil, dataError(err)
	}
	p, err := draft.Infer(ctx, table, o)
	if err != nil {
		return nil, nil, dataError(err)
	}
	f.tell(e, p)
	return p.Text, p.Task, nil
}

// tell writes what was found and guessed.
func (f *taskFlags) tell(e *env, p *draft.Proposal) {
	for _, n := range p.Notes {
		e.msg.Note("%s", n)
	}
	for _, w := range p.Warnings {
		e.msg.Warn("%s", w)
	}
}

// put writes the task file where it is wanted.
func (f *taskFlags) put(e *env, text []byte, t *task.Task) error {
	if f.out != "" {
		if err := cli.Write(f.out, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
			return err
		}
		e.msg.Note("%s written; `cfq task show %s` shows what it comes to", f.out, f.out)
	}
	switch {
	case e.json:
		text = t.JSON()
	case f.out != "":
		return nil
	}
	_, err := io.Copy(e.stdout, bytes.NewReader(text))
	return err
}

// fill fills the gaps of the task file that --from names.
func (f *taskFlags) fill(ctx context.Context, e *env, o draft.Options) ([]byte, *task.Task, error) {
	for _, name := range []string{"label", "favourable", "features", "columns"} {
		if f.given.Changed(name) {
			return nil, nil, cli.Usagef("change the task file itself", "--from keeps what the task file says, so --%s means nothing beside it", name)
		}
	}
	if err := cli.Input("task file", f.from); err != nil {
		return nil, nil, err
	}
	text, err := os.ReadFile(f.from)
	if err != nil {
		return nil, nil, dataError(err)
	}
	rows, err := readSelection(f.rows)
	if err != nil {
		return nil, nil, err
	}
	p, err := draft.Fill(ctx, f.from, text, f.data, rows, o)
	if err != nil {
		return nil, nil, dataError(err)
	}
	f.tell(e, p)
	return p.Text, p.Task, nil
}
