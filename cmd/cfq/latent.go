package main

import (
	"context"
	"fmt"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/task"
	"cfq/task/draft"
)

// reconstructed tells people whom the original refuses only as they are, and not as the decoder makes them of their
// codes: what would have them approved is the decoder, and no action.
type reconstructed struct {
	path    string
	full    recourse.Model
	again   *classifier.Model
	leftOut int
}

// newReconstructed opens the model m of a path, which full is, behind the decoder; nil for a task without one.
func newReconstructed(
	e *env, path string, m *onnxio.Model, full recourse.Model, t *task.Task,
) (*reconstructed, error) {
	if t.Latent == nil {
		return nil, nil
	}
	again, err := ptq.Reconstructed(m, t, e.workers)
	if err != nil {
		return nil, unusableModel(path, err)
	}
	return &reconstructed{path: path, full: full, again: again}, nil
}

// keep leaves such people out, and counts them.
func (r *reconstructed) keep(ctx context.Context, p *task.People) (*task.People, error) {
	if r == nil {
		return p, nil
	}
	before, err := r.full.Margins(ctx, p.X)
	if err != nil {
		return nil, err
	}
	after, err := r.again.Margins(ctx, p.X)
	if err != nil {
		return nil, err
	}
	rows := make([]int, 0, p.N)
	for i := range p.N {
		if before[i] > 0 || !(after[i] > 0) {
			rows = append(rows, i)
		}
	}
	r.leftOut += p.N - len(rows)
	if len(rows) == p.N {
		return p, nil
	}
	return p.Subset(rows), nil
}

// count adds those who were left out to the counts of the file, and says so.
func (r *reconstructed) count(total *task.People, warn func(format string, args ...any)) {
	if r == nil || r.leftOut == 0 {
		return
	}
	total.Filtered += r.leftOut
	warn("%d people are left out: %s refuses them as they are, but not what the decoder makes of their codes, so that "+
		"nothing would be theirs to do", r.leftOut, r.path)
}

func (r *reconstructed) close() error {
	if r == nil {
		return nil
	}
	return r.again.Close()
}

// checked is what task check reports.
type checked struct {
	*draft.Report
	Latent *ptq.LatentCheck `json:"latent,omitempty"`
}

// leastAlike is the share of people decided alike below which a decoder makes other people of them.
const leastAlike = 0.9

// checkLatent adds to a report what is wrong with the encoder and the decoder.
func checkLatent(
	ctx context.Context, e *env, m *onnxio.Model, t *task.Task, people *task.People, r *draft.Report,
) (*ptq.LatentCheck, error) {
	l, err := ptq.CheckLatent(ctx, m, t, people, e.workers)
	if err != nil {
		return nil, runError(err)
	}
	for _, p := range l.Problems {
		r.Find(draft.Problem, "latent", p)
	}
	if l.Alike < leastAlike {
		r.Find(draft.Warning, "latent", fmt.Sprintf("the model decides only %.0f %% of people alike as what the decoder "+
			"makes of their codes: train it for longer, or with more codes", 100*l.Alike))
	}
	if b := t.Latent.Pixels; b > 0 && l.Distance > b/2 {
		r.Find(draft.Warning, "latent", fmt.Sprintf("latent.pixels: what the decoder makes of people is %.3g from them on "+
			"average before any action, of a budget of %g", l.Distance, b))
	}
	return l, nil
}
