package main

import (
	"context"
	"fmt"

	"cfq/internal/lists"
	"cfq/ptq"
	"cfq/task"
)

type sensitivityFlags struct{ calibrationFlags }

func (f *sensitivityFlags) run(ctx context.Context, e *env, args []string) error {
	r, err := f.recipe(e.flags)
	if err != nil {
		return err
	}
	in, run, err := f.openRun(ctx, e, args[0], task.ReadOptions{})
	if err != nil {
		return err
	}
	p, err := ptq.Sensitivity(ctx, in.files[0], in.task, in.people, r, run)
	if err != nil {
		return fmt.Errorf("model %s: %w", args[0], err)
	}
	e.warn(p.Warnings)
	return e.page("profile", p)
}

type layerScore struct {
	Node              string
	Weights           int
	Factual, Recourse *ptq.Score // nil where there is none
}

// layerScores are the scores of a kind; none where no layer has one.
func layerScores(p *ptq.Profile, kind string) []layerScore {
	score := func(i *ptq.Importance) *ptq.Score {
		switch {
		case i == nil:
			return nil
		case kind == "gradient":
			return i.Gradient
		}
		return i.Trace
	}
	rows := lists.Map(p.Layers, func(l ptq.LayerProfile) layerScore {
		return layerScore{l.Node, l.Weights, score(l.Factual), score(l.Recourse)}
	})
	if rows[0].Factual == nil && rows[0].Recourse == nil {
		return nil
	}
	return rows
}
