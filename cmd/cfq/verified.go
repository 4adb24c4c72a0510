package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"cfq/eval/report"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/task"
	"cfq/task/draft"
)

// verify compares the scores of the model, read from path, with those of its owner. The threshold of the decision is
// none of the scores'.
func (f *taskFlags) verify(
	ctx context.Context, e *env, path string, in *opened, rows task.ReadOptions,
) (v *draft.Verification, err error) {
	if path == "" {
		return nil, cli.Usagef("give the model after the task file", "--scores needs the MODEL that has them")
	}
	if err := cli.Input("scores", f.scores); err != nil {
		return nil, err
	}
	s, err := draft.ReadScores(ctx, f.scores)
	if err == nil {
		err = s.Select(rows)
	}
	if err != nil {
		return nil, dataError(err)
	}
	m, plain := in.files[0], *in.task
	s.Coarse = m.Coarse()
	if plain.Target.Threshold = 0; plain.Target.Output == string(onnxio.Probabilities) {
		plain.Target.Threshold = 0.5
	}
	c, err := openClassifier(ctx, e, path, m, &plain)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	logits, classes, err := c.Logits(ctx, in.people.X)
	if err != nil {
		return nil, runError(err)
	}
	if v, err = draft.Verify(s, in.task, in.people, logits, classes); err != nil {
		return nil, dataError(fmt.Errorf("scores %s: %w", f.scores, err))
	}
	return v, nil
}

func (f *taskFlags) record(e *env, paths []string, t *task.Task, v *draft.Verification) (err error) {
	if v == nil {
		return nil
	}
	r := draft.Record{Encoding: t.EncodingHash(), Verification: *v}
	if _, r.Model, err = codec.Digest(paths[1]); err == nil && f.scores != "" {
		_, r.Scores, err = fileHash(f.scores)
	}
	if err != nil {
		return err
	}
	path := draft.RecordPath(paths[0])
	all, err := readRecords(path)
	if err != nil { // of another version: what it says can be verified anew
		all = &draft.Records{}
	}
	all.Add(r)
	if err := cli.Write(path, cli.Content(all.Encode())); err != nil {
		return err
	}
	e.msg.Note("%s records that the encoding is verified: keep it next to the task file, cfq gate reads it", path)
	return nil
}

func readRecords(path string) (*draft.Records, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &draft.Records{}, nil
	} else if err != nil {
		return nil, cli.WithCode(err, cli.Unusable)
	}
	all, err := draft.ParseRecords(data)
	if err != nil {
		return nil, cli.Wrap(fmt.Errorf("%s: %w", path, err), "`cfq task check --scores` writes it anew")
	}
	return all, nil
}

func (d *evaluation) encoding(needed bool) (record report.File, says string, err error) {
	path, says, err := verification(d.f.task, d.task, d.sources[0].SHA256)
	if err != nil {
		return record, "", err
	}
	if needed && path == "" {
		return record, "", cli.Usagef("`cfq task check TASK -d DATA MODEL --scores SCORES` verifies it; without SCORES, "+
			"target.accuracy in TASK does", "the gate needs a verified encoding: %s", says)
	}
	record, err = source(path)
	return record, says, err
}

// verification looks for the record next to a task file. path is "" unless it is about the task's encoding and the
// model with the hash sum.
func verification(taskPath string, t *task.Task, sum string) (path, says string, err error) {
	path = draft.RecordPath(taskPath)
	all, err := readRecords(path)
	if err != nil {
		return "", "", err
	}
	if len(all.List) == 0 {
		return "", unverified, nil
	}
	i := slices.IndexFunc(all.List, func(r draft.Record) bool { return r.Model == sum })
	encoding := t.EncodingHash()
	switch text := "The encoding is unverified: "; {
	case !slices.ContainsFunc(all.List, func(r draft.Record) bool { return r.Encoding == encoding }):
		return "", text + path + " is about another encoding than the task file's.", nil
	case i < 0:
		return "", text + path + " is about another original.", nil
	case !all.List[i].Verified():
		return "", text + "the scores of " + path + " do not verify it.", nil
	case all.List[i].Accuracy > 0 && all.List[i].Accuracy != t.Target.Accuracy:
		return "", text + path + " is about another target.accuracy.", nil
	}
	r := all.List[i]
	if r.Accuracy > 0 {
		return path, fmt.Sprintf("The encoding is verified: the original's accuracy on %s is the one that the task file "+
			"states.", message.Count(r.Rows, "row")), nil
	}
	says = fmt.Sprintf("The encoding is verified: the original gives the scores that its owner has of %s.",
		message.Count(r.Rows, "row"))
	if n := len(r.Unseen); n > 0 {
		says += fmt.Sprintf(" They say nothing of %s: %s.", message.Count(n, "input"), message.List(r.Unseen, 6))
	}
	return path, says, nil
}
