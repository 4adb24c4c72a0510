package recourse

import (
	"context"
	"fmt"

	"cfq/internal/lists"
)

// Worst is the model that is as strict as the strictest of several models at every point: its margin is their least
// one, so what Solve, Teacher and FirstValid find for it all of them accept. Where models tie, the first of them
// counts. A margin that is not a number counts as the least.
//
// The gradients are those of the model with the least margin: of the margin, a subgradient of the minimum; of the
// loss, that of the largest loss for two classes. The paper aggregates the losses of the sampled models; the
// largest is the aggregate whose minimum accepts in all of them, an average can trade one against the others.
//
// The models have the same number of inputs and there is at least one; Worst panics otherwise.
//
// Reference: robust recourse solver of section "Baseline family II: robust recourse generation under model shift".
func Worst(models ...Model) Model {
	if len(models) == 0 {
		panic("recourse: the worst of no models")
	}
	for i, m := range models {
		if m.Dim() != models[0].Dim() {
			panic(fmt.Sprintf("recourse: model %d has %d inputs, the first has %d", i, m.Dim(), models[0].Dim()))
		}
	}
	if len(models) == 1 {
		return models[0]
	}
	return worst(models)
}

type worst []Model

func (w worst) Dim() int { return w[0].Dim() }

func (w worst) Margins(ctx context.Context, x []float32) ([]float32, error) {
	m, _, err := w.least(ctx, x)
	return m, err
}

func (w worst) MarginGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	return w.grads(ctx, x, Model.MarginGrads)
}

func (w worst) LossGrads(ctx context.Context, x []float32) (m, g []float32, err error) {
	return w.grads(ctx, x, Model.LossGrads)
}

// Limit is that of the first model: all are behind one decoder, which makes it.
func (w worst) Limit() string {
	if m, ok := w[0].(limited); ok {
		return m.Limit()
	}
	return ""
}

// Limits has those of the first model. There is one that has a Limit.
func (w worst) Limits(ctx context.Context, x []float32) (margins, limits []float32, err error) {
	if margins, err = w.Margins(ctx, x); err == nil {
		_, limits, err = w[0].(limited).Limits(ctx, x)
	}
	return margins, limits, err
}

// Distances returns those of the first model, as Limits does.
func (w worst) Distances(ctx context.Context, x []float32) ([]float32, error) {
	if m, ok := w[0].(Decoded); ok {
		return m.Distances(ctx, x)
	}
	return nil, nil
}

func (w worst) least(ctx context.Context, x []float32) (m []float32, which []int, err error) {
	for k, model := range w {
		got, err := model.Margins(ctx, x)
		if err := call(w.Dim(), len(x)/w.Dim(), got, nil, err); err != nil {
			return nil, nil, fmt.Errorf("model %d: %w", k, err)
		}
		if k == 0 {
			m, which = got, make([]int, len(got))
			continue
		}
		for i, v := range got {
			if v < m[i] || v != v && m[i] == m[i] {
				m[i], which[i] = v, k
			}
		}
	}
	return m, which, nil
}

func (w worst) grads(ctx context.Context, x []float32, of func(Model, context.Context, []float32) (m, g []float32,
	err error),
) (m, g []float32, err error) {
	m, which, err := w.least(ctx, x)
	if err != nil {
		return nil, nil, err
	}
	if w.Limit() != "" {
		_, limits, err := w[0].(limited).Limits(ctx, x)
		if err != nil {
			return nil, nil, err
		}
		m = lesser(m, limits)
	}
	dim := w.Dim()
	g = make([]float32, len(x))
	for k, model := range w {
		rows := lists.Where(len(which), func(i int) bool { return which[i] == k })
		if len(rows) == 0 {
			continue
		}
		margins, got, err := of(model, ctx, lists.RowsAt(x, dim, rows))
		if err := call(dim, len(rows), margins, got, err); err != nil {
			return nil, nil, fmt.Errorf("model %d: %w", k, err)
		}
		for at, i := range rows {
			copy(row(g, i, dim), row(got, at, dim))
		}
	}
	return m, g, nil
}
