package main

import (
	"context"
	"fmt"
	"unicode/utf8"

	"cfq/internal/message"
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
		return runError(fmt.Errorf("model %s: %w", args[0], err))
	}
	e.warn(p.Warnings)
	return e.show(p, func(w *textView) { writeProfile(w, p) })
}

// longestName is how much of a layer's name a table shows; names differ at their ends.
const longestName = 16

func shortName(name string) string {
	name = message.OneLine(name) // it is from the model
	n := utf8.RuneCountInString(name)
	if n <= longestName {
		return name
	}
	return "…" + string([]rune(name)[n-longestName+1:])
}

func writeProfile(out *textView, p *ptq.Profile) {
	out.lines("profile", p)
	writeScores(out, p, "gradient: mean l1 norm of the gradient of a row's loss by the weights",
		func(i *ptq.Importance) *ptq.Score { return i.Gradient })
	writeScores(out, p,
		fmt.Sprintf("curvature: trace of the loss's Hessian by the weights, %d random vectors", p.Probes),
		func(i *ptq.Importance) *ptq.Score { return i.Trace })
	how := "measured"
	if p.Errors != "exact" {
		how = "to first order"
	}
	fmt.Fprintf(out, "\nquantization error of the margin (rms, logits): one layer alone, %s\n", how)
	out.grid(&message.Grid{}, "  ", "errors", p)
}

type layerScore struct {
	Node              string
	Weights           int
	Factual, Recourse *ptq.Score // nil where there is none
}

func writeScores(out *textView, p *ptq.Profile, title string, score func(*ptq.Importance) *ptq.Score) {
	rows := make([]layerScore, len(p.Layers))
	for i, l := range p.Layers {
		rows[i] = layerScore{Node: l.Node, Weights: l.Weights}
		if l.Factual != nil {
			rows[i].Factual = score(l.Factual)
		}
		if l.Recourse != nil {
			rows[i].Recourse = score(l.Recourse)
		}
	}
	if rows[0].Factual != nil || rows[0].Recourse != nil {
		fmt.Fprintf(out, "\n%s (rank)\n", title)
		out.grid(&message.Grid{}, "  ", "scores", rows)
	}
}
