package main

import (
	"context"
	"fmt"
	"slices"

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/ptq/taskmodel"
	"cfq/recourse"
	"cfq/recourse/promise"
	"cfq/task"
	"cfq/task/draft"
	"cfq/task/rowio"
)

// reconstructed tells people for whom the original gives no number, and, with latent, those whom it refuses only as they
// are, and not as the decoder makes them of their codes: what would have them approved is the decoder, and no action.
type reconstructed struct {
	path    string
	full    recourse.Model
	again   *classifier.Model // nil for a task without latent
	kept    int
	leftOut int
	without []task.Problem // people without a number
}

func newReconstructed(e *env, path string, m *onnxio.Model, full recourse.Model, t *task.Task) (*reconstructed, error) {
	r := &reconstructed{path: path, full: full}
	if t.Latent == nil {
		return r, nil
	}
	var err error
	r.again, err = taskmodel.Reconstructed(m, t, e.workers)
	return r, unusableModel(path, err)
}

// keep returns the others among the people, and their positions; nil of all. The people who are left out are counted.
func (r *reconstructed) keep(ctx context.Context, p *task.People) (kept *task.People, rows []int, err error) {
	margins, err := r.full.Margins(ctx, p.X)
	if err != nil {
		return nil, nil, err
	}
	for i, m := range margins {
		if m != m {
			no := task.Problem{Line: p.Line(i), Reason: "the model gives no number (NaN), and so no decision"}
			r.without = append(r.without, no)
			continue
		}
		rows = append(rows, i)
	}
	if r.again != nil {
		own, err := taskmodel.OwnDoing(ctx, r.full, r.again, p.Subset(rows))
		if err != nil {
			return nil, nil, err
		}
		r.leftOut += len(rows) - len(own)
		rows = lists.Map(own, func(i int) int { return rows[i] })
	}
	if r.kept += len(rows); len(rows) == p.N {
		return p, nil, nil
	}
	return p.Subset(rows), rows, nil
}

func (r *reconstructed) keepRows(ctx context.Context, b *rowio.Batch) error {
	if b.People.N == 0 {
		return nil
	}
	people, rows, err := r.keep(ctx, b.People)
	if err != nil || rows == nil {
		return err
	}
	b.People = people
	for i := range b.Rows {
		if row := &b.Rows[i]; row.Person >= 0 {
			at, kept := slices.BinarySearch(rows, row.Person)
			if row.Person = at; !kept {
				row.Person = -1
			}
		}
	}
	return nil
}

// count adds who was left out to the rows that the filter left out or that cannot be read. It is an error if nobody has
// a number.
func (r *reconstructed) count(p *task.People, warn func(format string, args ...any)) error {
	p.Filtered, p.Failed, p.Problems = p.Filtered+r.leftOut, p.Failed+len(r.without), append(p.Problems, r.without...)
	warnLeftOut(r.leftOut, r.path, warn)
	if r.kept+r.leftOut == 0 && r.without != nil {
		return &promise.NoNumber{Line: r.without[0].Line}
	}
	return nil
}

func warnLeftOut(n int, path string, warn func(format string, args ...any)) {
	if n > 0 {
		warn("%d %s left out: %s refuses them as they are, but not what the decoder makes of their codes, so that nothing "+
			"would be theirs to do", n, message.Plural(n, "person is", "people are"), path)
	}
}

func (r *reconstructed) close() error {
	if r.again == nil {
		return nil
	}
	return r.again.Close()
}

type checked struct {
	*draft.Report
	Latent  *taskmodel.LatentCheck `json:"latent,omitempty"`
	Columns []task.Column          `json:"-"`
}

const leastAlike = 0.9

func checkLatent(ctx context.Context, e *env, in *opened, r *draft.Report) (*taskmodel.LatentCheck, error) {
	l, err := taskmodel.CheckLatent(ctx, in.files[0], in.task, in.people, e.workers)
	if err != nil {
		return nil, err
	}
	for _, p := range l.Problems {
		r.Find(draft.Problem, "latent", p)
	}
	if l.Alike < leastAlike {
		r.Find(draft.Warning, "latent", fmt.Sprintf("the model decides only %.0f %% of people alike as what the decoder "+
			"makes of their codes: train it for longer, or with more codes", 100*l.Alike))
	}
	if b := in.task.Latent.Pixels; b > 0 && l.Distance > b/2 {
		r.Find(draft.Warning, "latent", fmt.Sprintf("latent.pixels: what the decoder makes of people is %.3g from them on "+
			"average before any action, of a budget of %g", l.Distance, b))
	}
	return l, nil
}
