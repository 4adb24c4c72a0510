package draft

import (
	"context"
	"math"
	"strings"

	"gonum.org/v1/gonum/mat"
)

// fitted is the layout whose numbers, shifted and scaled, bring it nearest to the scores: the data at hand may not be
// those whose mean and deviation the owner took. A function of a number may stand for another scale of it.
func (q *search) fitted(ctx context.Context, l layout) (best layout, off float64, err error) {
	plain := l.clone()
	for _, c := range l.order {
		if in := q.ways[c][l.ways[c]].input; in != nil && in.Kind == "numeric" && (in.Log != nil || in.Clip != nil) {
			plain.ways[c] = 0 // as it is
		}
	}
	best, off = l, math.Inf(1)
	for _, l := range []layout{plain, l} {
		fit, at, err := q.fit(ctx, l)
		if err != nil {
			return l, 0, err
		}
		if at < off {
			best, off = fit, at
		}
	}
	return best, off, nil
}

// fit finds the shifts and scales of a layout's numbers, by the method of Levenberg and Marquardt, and how far the
// layout is off then, on all rows.
func (q *search) fit(ctx context.Context, l layout) (_ layout, off float64, err error) {
	rows := q.whole()
	offs, err := q.off(ctx, []layout{l}, rows)
	if err != nil {
		return l, 0, err
	}
	off = offs[0]
	const rounds, least, perParameter = 30, 1e-12, 2
	var columns []int
	for _, c := range l.order {
		if in := q.ways[c][l.ways[c]].input; in != nil && in.Kind == "numeric" {
			columns = append(columns, c)
		}
	}
	n := 2 * len(columns)
	if n == 0 || len(q.rows)*q.scores.Columns < perParameter*n || off == 0 {
		return l, off, nil
	}
	now := make([]float64, n) // of each column, shift and logarithm of the scale of its input
	r, err := q.residuals(ctx, l, columns, now)
	if err != nil || r == nil {
		return l, off, err
	}
	damping := 1e-2
	for range rounds {
		jac, err := q.slopes(ctx, l, columns, now, len(r))
		if err != nil || jac == nil {
			return l, off, err
		}
		next, ok := damped(jac, r, now, damping)
		if !ok {
			break
		}
		tried, err := q.residuals(ctx, l, columns, next)
		if err != nil {
			return l, off, err
		}
		if tried == nil || !(norm(tried) < norm(r)) {
			if damping *= 8; damping > 1e8 {
				break
			}
			continue
		}
		settled := norm(r)-norm(tried) < least*norm(r)
		now, r, damping = next, tried, damping/4
		if settled {
			break
		}
	}
	fitted := q.with(l, columns, now)
	offs, err = q.off(ctx, []layout{fitted}, rows)
	if err != nil || !(offs[0] < off) {
		return l, off, err
	}
	return fitted, offs[0], nil
}

// damped is a step from the parameters now, at which residuals are r and their slopes jac.
func damped(jac *mat.Dense, r, now []float64, damping float64) ([]float64, bool) {
	n := len(now)
	var normal mat.Dense
	normal.Mul(jac.T(), jac)
	for i := range n {
		normal.Set(i, i, normal.At(i, i)*(1+damping)+1e-9)
	}
	var right, step mat.VecDense
	right.MulVec(jac.T(), mat.NewVecDense(len(r), r))
	if err := step.SolveVec(&normal, &right); err != nil {
		return nil, false
	}
	next := make([]float64, n)
	for i := range n {
		next[i] = now[i] - step.AtVec(i)
	}
	return next, true
}

func norm(r []float64) float64 { return mat.Norm(mat.NewVecDense(len(r), r), 2) }

// with is the layout with the numbers of columns shifted and scaled.
func (q *search) with(l layout, columns []int, params []float64) layout {
	l = l.clone()
	for i, c := range columns {
		old := q.ways[c][l.ways[c]]
		shift, scale := params[2*i], math.Exp(params[2*i+1])
		in := *old.input
		std := short(*in.Std / scale)
		mean := short(*in.Mean - shift**in.Std/scale)
		in.Mean, in.Std = &mean, &std
		w := number(strings.TrimSuffix(old.what, ", fitted")+", fitted", in)
		w.fitted = true
		block := make([]float32, len(q.rows))
		for k := range q.rows {
			w.fill(q.fields[k][c], block[k:k+1])
		}
		q.ways[c], q.blocks[c] = append(q.ways[c], w), append(q.blocks[c], block)
		l.ways[c] = len(q.ways[c]) - 1
	}
	return l
}

// residuals are what the model's scores exceed their owner's by, with the parameters; nil when one is no number.
func (q *search) residuals(ctx context.Context, l layout, columns []int, params []float64) ([]float64, error) {
	x := make([]float32, 0, len(q.rows)*q.inputs)
	at := map[int]int{}
	for i, c := range columns {
		at[c] = i
	}
	for k := range q.rows {
		for _, c := range l.order {
			w := q.ways[c][l.ways[c]].width
			block := q.blocks[c][l.ways[c]][k*w : (k+1)*w]
			if i, ok := at[c]; ok {
				x = append(x, float32(float64(block[0])*math.Exp(params[2*i+1])+params[2*i]))
				continue
			}
			x = append(x, block...)
		}
	}
	q.tried++
	logits, classes, err := q.model(ctx, x)
	if err != nil {
		return nil, context.Cause(ctx) // a model that fails is as far off as can be
	}
	got, err := q.scores.predicted(logits, classes)
	if err != nil {
		return nil, err
	}
	n := q.scores.Columns
	for i := range got {
		row := q.rows[i/n]
		if got[i] -= q.scores.Values[row*n+i%n] - q.scores.shift(row); math.IsNaN(got[i]) || math.IsInf(got[i], 0) {
			return nil, nil
		}
	}
	return got, nil
}

// slopes are the central differences of the residuals by the parameters, residuals x parameters.
func (q *search) slopes(ctx context.Context, l layout, columns []int, now []float64, rows int) (*mat.Dense, error) {
	const h = 1e-3
	out := mat.NewDense(rows, len(now), nil)
	for j := range now {
		was := now[j]
		now[j] = was + h
		up, err := q.residuals(ctx, l, columns, now)
		now[j] = was - h
		down, err2 := q.residuals(ctx, l, columns, now)
		now[j] = was
		if err != nil || err2 != nil || up == nil || down == nil {
			return nil, err
		}
		for i := range up {
			out.Set(i, j, (up[i]-down[i])/(2*h))
		}
	}
	return out, nil
}
