package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/ptq/taskmodel"
	"cfq/qat/fit"
	"cfq/task"
	"cfq/task/draft"
)

// readScores reads the scores that a model's owner has of rows of the data, of which the flag selects some.
func readScores(ctx context.Context, path, selected string) (*draft.Scores, error) {
	rows, err := readSelection(selected)
	if err = cmp.Or(err, cli.Input("scores", path)); err != nil {
		return nil, err
	}
	s, err := draft.ReadScores(ctx, path)
	if err == nil {
		err = s.Select(rows)
	}
	return s, dataError(err)
}

// compare compares the scores of the model, read from path, with those of its owner. The threshold of the decision is
// none of the scores'.
func (in *opened) compare(ctx context.Context, e *env, path string, s *draft.Scores) (
	v *draft.Verification, err error,
) {
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
		return nil, err
	}
	v, err = draft.Verify(s, in.task, in.people, logits, classes)
	return v, dataError(cli.Wrap(err, "--scores takes what the training code gives rows of --data"))
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
	all, err := draft.ReadRecords(path)
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

// shows is how the file of the first model shows that the task encodes people as the model was trained; "" if not.
func (in *opened) shows(taskPath string) (how string, err error) {
	if taskmodel.RawColumns(in.files[0], in.task) {
		return "the model's graph takes the columns of the data as they are", nil
	}
	text, _ := in.files[0].Graph().Meta(fit.RecipeKey)
	var by struct{ Task string }
	if json.Unmarshal([]byte(text), &by) != nil || by.Task == "" { // of another program
		return "", nil
	}
	if _, sum, err := fileHash(taskPath); err != nil || sum != by.Task {
		return "", err
	}
	return "cfq train made the model with this task file", nil
}

// recordedEvidence is what the model and the record next to the task file say of the encoding, for the model with the
// hash sum; path is that of the record, "" unless it is about both.
func recordedEvidence(taskPath string, in *opened, sum string) (known draft.Evidence, path string, err error) {
	if known.Model, err = in.shows(taskPath); err != nil {
		return known, "", err
	}
	path = draft.RecordPath(taskPath)
	all, err := draft.ReadRecords(path)
	if err != nil || len(all.List) == 0 {
		return known, "", cli.Wrap(err, "`cfq task check --scores` writes it anew")
	}
	i := slices.IndexFunc(all.List, func(r draft.Record) bool { return r.Model == sum })
	encoding := in.task.EncodingHash()
	switch {
	case !slices.ContainsFunc(all.List, func(r draft.Record) bool { return r.Encoding == encoding }):
		known.Other = path + " is about another encoding than the task file's"
	case i < 0:
		known.Other = path + " is about another original"
	case all.List[i].Accuracy > 0 && all.List[i].Accuracy != in.task.Target.Accuracy:
		known.Other = path + " is about another target.accuracy"
	default:
		known.Scores = &all.List[i].Verification
		return known, path, nil
	}
	return known, "", nil
}

// scored adds to what is known of the encoding the scores that the original's owner has of rows of the data. Scores
// that contradict it are an error.
func (d *evaluation) scored(ctx context.Context, path string, known *draft.Evidence) error {
	s, err := readScores(ctx, path, d.f.rows)
	if err != nil {
		return err
	}
	in := *d.opened
	if in.people, err = task.Read(ctx, d.f.data, d.task, task.ReadOptions{Only: s.Rows}); err != nil {
		return dataError(cli.Wrap(err, hintData))
	}
	known.Scores, err = in.compare(ctx, d.e, d.paths[0], s)
	if state, why := known.State(); err == nil && state == draft.Contradicted {
		err = cli.Wrap(fmt.Errorf("scores %s: %s", path, why), "either they are not the original's of these rows, or the "+
			"encoding is another: `cfq task check --scores` says where")
	}
	return err
}

// encoding adds to a result whether the encoding is verified, and says why.
func (d *evaluation) encoding(known draft.Evidence, r *eval.Result) (says string) {
	right, favourable := r.Rate("accuracy_full"), r.Rate("fnr_full").Den
	known.Stated, known.Rows, known.Right = d.task.Target.Accuracy, right.Den, right.Num
	known.Frequent = max(favourable, right.Den-favourable)
	var why string
	r.Population.Encoding, why = known.State()
	return fmt.Sprintf("The encoding is %s: %s.", r.Population.Encoding, why)
}
