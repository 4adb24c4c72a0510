package calib

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"

	"cfq/internal/lists"
	"cfq/onnxio/ort"
	"cfq/quant"
)

// WeightOptions say how weights become codes.
type WeightOptions struct {
	PerTensor bool // one scale for the layer, or each group of a convolution, instead of one per output channel
	// Rounding is Nearest or GPTQ (Nearest). With GPTQ the bias takes up what the codes do to the mean of the outputs.
	Rounding Rounding
	Vary     Variation // how the fit departs from the best one
	// Mirror gives rows of few bits negative scales, and the codes of the negated weights, where that errs less.
	Mirror  bool
	Workers int // rows fitted at once (1); no result depends on it
	Engine  ort.Options
}

// corrects says whether codes make up for the errors of others, and the bias for that of the mean.
func (o WeightOptions) corrects() bool { return o.Rounding == GPTQ }

// FitWeights fits the weights of a layer (in the coordinates of s.Gram) in each of the formats: the scales, and unless
// weights are rounded to the nearest the codes and the bias. The scales minimise the reconstruction error of
// the layer's outputs over clipping thresholds, E||(W - dq(q(W))) h||^2 = sum over rows r of e_r^T Gram e_r. The paper
// leaves the choice of objective to the backend (eq. cfptq_calibration); the error of the weights themselves would clip
// rare but wide columns.
func FitWeights(ctx context.Context, l quant.LayerInfo, s *Stats, formats []quant.Format,
	o WeightOptions,
) ([]quant.Layer, error) {
	if l.Conv != nil && l.Conv.Group > 1 {
		return fitGroups(ctx, l, s, formats, o)
	}
	w, err := newWeightFit(l, s, o)
	if err != nil {
		return nil, fmt.Errorf("layer %q: %w", l.Node, err)
	}
	if w.wide != nil {
		defer w.wide.product.session.Close() //nolint:errcheck // nothing is lost
	}
	fits := make([]quant.Layer, 0, len(formats))
	for _, f := range formats {
		fit, errs, err := w.fit(ctx, f)
		if err == nil && o.Mirror && f.Bits <= maxMirrored {
			err = w.mirror(ctx, &fit, errs, f)
		}
		if err != nil {
			return nil, fmt.Errorf("layer %q: %w", l.Node, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fits = append(fits, fit)
	}
	return fits, nil
}

// fit also returns the error of each row, where codes are assigned.
func (w *weightFit) fit(ctx context.Context, f quant.Format) (fit quant.Layer, errs []float64, err error) {
	fit = quant.Layer{Node: w.l.Node, Bits: f.Bits, Scales: w.scales(ctx, f)}
	w.o.Vary.scales(w.l.Node, fit.Scales)
	if w.o.corrects() || w.o.Vary.Rounding > 0 {
		errs, err = w.assign(ctx, &fit, f)
	}
	return fit, errs, err
}

// maxMirrored bounds the bits of rows whose codes are mirrored: with more, that one end of the grid reaches a step
// further than the other makes no difference.
const maxMirrored = 4

// mirror gives the rows of a fit whose errors are smaller that way the codes of the negated weights, and negative
// scales.
func (w *weightFit) mirror(ctx context.Context, fit *quant.Layer, errs []float64, f quant.Format) error {
	m := *w
	negated := func(v []float32) []float32 { return lists.Map(v, func(v float32) float32 { return -v }) }
	m.l.W, m.l.B = negated(w.l.W), negated(w.l.B)
	other, mirrored, err := m.fit(ctx, f)
	if err != nil {
		return err
	}
	for r, e := range mirrored {
		if in := w.l.In; e < errs[r] {
			copy(fit.Codes[r*in:(r+1)*in], other.Codes[r*in:(r+1)*in])
			fit.Scales[r], fit.Bias[r] = -other.Scales[r], -other.Bias[r]
		}
	}
	return nil
}

type weightFit struct {
	l    quant.LayerInfo
	o    WeightOptions
	mean []float64
	// search rounds while scales are looked for, final with the scale found.
	search, final rounding
	// penalty is, for rows of wideRow weights or more, what the squared error of each weight costs.
	penalty []float32
	wide    *wide // rounds such rows by GPTQ, else nil
}

// wideRow is the number of weights of a row from which on its scale is looked for by the errors of single weights:
// a search by what they make together would take the third power of the width.
const wideRow = 256

func newWeightFit(l quant.LayerInfo, s *Stats, o WeightOptions) (*weightFit, error) {
	m := s.Moments
	w := &weightFit{l: l, o: o, mean: m.Mean, final: nearest(m.Gram, l.In)}
	wideLayer := l.In >= wideRow
	if wideLayer {
		w.penalty = make([]float32, l.In)
	}
	if !o.corrects() {
		for j := range w.penalty {
			w.penalty[j] = float32(m.Gram[j*l.In+j])
		}
		if !wideLayer {
			w.search = searcher(m.Gram, l.In)
		}
		return w, nil
	}
	c, err := newCovariance(m)
	if err != nil {
		return nil, err
	}
	if w.search = c.gptq; wideLayer {
		for a, j := range c.order {
			w.penalty[j] = float32(c.factor[a*c.n+a] * c.factor[a*c.n+a])
		}
	}
	if w.final = c.polished; wideLayer && o.Vary.Rounding == 0 {
		p, err := newProduct(o.Engine, false)
		if err != nil {
			return nil, err
		}
		w.wide = &wide{c, p, singles(c.matrix), singles(c.factor)}
	}
	return w, nil
}

func (w *weightFit) scales(ctx context.Context, f quant.Format) []float32 {
	if w.o.PerTensor {
		return []float32{w.scale(0, w.l.Out, f, w.o.Workers)}
	}
	scales := make([]float32, w.l.Out)
	parallel(ctx, w.o.Workers, w.l.Out, func(r int) { scales[r] = w.scale(r, r+1, f, 1) })
	return scales
}

// assign fills in the codes and, where those make up for errors, the bias that takes up
// what they do to the mean of the outputs.
func (w *weightFit) assign(ctx context.Context, fit *quant.Layer, f quant.Format) (sums []float64, err error) {
	l := w.l
	sums = make([]float64, l.Out)
	fit.Codes = make([]int8, len(l.W))
	if w.o.corrects() {
		fit.Bias = make([]float32, l.Out)
	}
	if w.wide != nil { // rows are rounded many at once
		errs := make([]error, (l.Out+wideRows-1)/wideRows)
		parallel(ctx, w.o.Workers, len(errs), func(k int) {
			from, to := k*wideRows, min((k+1)*wideRows, l.Out)
			scales := lists.Make(to-from, func(r int) float32 { return fit.Scales[(from+r)%len(fit.Scales)] })
			errs[k] = w.wide.polished(ctx, l.W[from*l.In:to*l.In], scales, f, fit.Codes[from*l.In:to*l.In], sums[from:to])
		})
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	parallel(ctx, w.o.Workers, l.Out, func(r int) {
		scale := fit.Scales[r%len(fit.Scales)]
		row, codes := l.Row(r), fit.Codes[r*l.In:(r+1)*l.In]
		if w.wide == nil {
			sums[r] = w.final(row, scale, f, codes, w.o.Vary.dither(l.Node, r), unlimited)
		}
		if w.o.corrects() {
			shift := 0.0
			for j, v := range row {
				shift += (float64(v) - float64(quant.Dequantize(codes[j], scale))) * w.mean[j]
			}
			fit.Bias[r] = float32(float64(l.B[r]) + shift)
		}
	})
	return sums, nil
}

// parallel calls f for 0..n-1, workers at once, until ctx is done; every call
// writes its own result, so the outcome does not depend on their number.
func parallel(ctx context.Context, workers, n int, f func(int)) {
	if workers <= 1 {
		for i := 0; i < n && ctx.Err() == nil; i++ {
			f(i)
		}
		return
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { f(i); return nil })
	}
	_ = group.Wait() // f has no errors
}

// fitGroups is FitWeights for a convolution in groups, each of which reads other
// numbers: each is fitted by itself, as a tensor of its own.
func fitGroups(ctx context.Context, l quant.LayerInfo, s *Stats, formats []quant.Format,
	o WeightOptions,
) ([]quant.Layer, error) {
	out := make([]quant.Layer, len(formats))
	for g, part := range l.Groups() {
		stats := *s
		stats.Moments = s.group(g, groups(l))
		part.Node = fmt.Sprintf("%s/%d", l.Node, g) // random numbers of its own
		fits, err := FitWeights(ctx, part, &stats, formats, o)
		if err != nil {
			return nil, err
		}
		for i, f := range fits {
			to := &out[i]
			to.Node, to.Bits = l.Node, f.Bits
			to.Scales = append(to.Scales, slices.Repeat(f.Scales, part.Out/len(f.Scales))...)
			to.Codes, to.Bias = append(to.Codes, f.Codes...), append(to.Bias, f.Bias...)
		}
	}
	return out, nil
}

// Clipping thresholds are tried from all of the largest weight down to clipMin of it, clipSteps of them in a geometric
// row: all of them for small layers, otherwise every clipStride-th at first and then those around the best. The error
// jumps up and down with the threshold, so few coarse ones would miss the best.
const (
	clipSteps  = 240
	clipStride = 4
	clipMin    = 0.1
	// smoothStride is that of the errors of single weights, which hardly jump in wide rows.
	smoothStride = 16
)

// clipShare is the share of the largest weight that a threshold is.
func clipShare(i float64) float64 { return math.Pow(clipMin, i/clipSteps) }

// stride is how many thresholds are left out at first, for in inputs of a layer.
func stride(in int) int { return min(clipStride, 1+(in-1)/16) }

// penalized is the sum of squared errors of rows of weights rounded to the nearest, each times its penalty, or anything
// above limit when it is that.
func (w *weightFit) penalized(rows []float32, scale float32, f quant.Format, limit float64) float64 {
	// From here on a float32 has no fraction: adding it rounds, halves to even. The bits of such numbers are in the order
	// of the numbers, and the smaller of two integers takes no branch.
	const whole = 3 << 22
	bits := func(code int) int32 { return int32(math.Float32bits(whole + float32(code))) }
	lo, hi, inverse := bits(f.QMin), bits(f.QMax), 1/scale
	var sum float64
	for ; len(rows) > 0; rows = rows[len(w.penalty):] {
		var part float32
		for from := 0; from < len(w.penalty) && sum+float64(part) <= limit; from += wideRow {
			to := min(from+wideRow, len(w.penalty))
			row := rows[from:to]
			for j, p := range w.penalty[from:to] {
				v := row[j]
				q := min(max(int32(math.Float32bits(float32(v*inverse)+whole)), lo), hi)
				e := v - float32((math.Float32frombits(uint32(q))-whole)*scale)
				part += p * float32(e*e)
			}
		}
		sum += float64(part)
	}
	return sum
}

// idleScale is the scale of a row of zeros. It is also the unit of the row's bias,
// so it is small. Weights that are all below idleWeight are zeros: weight decay leaves
// such numbers, whose scales would be denormal, and no input makes them count.
const (
	idleScale  = 1e-4
	idleWeight = 1e-30
)

func (w *weightFit) scale(from, to int, f quant.Format, workers int) float32 {
	rows := w.l.W[from*w.l.In : to*w.l.In]
	largest := max(-slices.Min(rows), slices.Max(rows))
	if largest < idleWeight {
		return idleScale
	}
	clipped := func(i float64) float32 { return float32(clipShare(i) * float64(largest) / float64(f.QMax)) }
	every := stride(w.l.In)
	if w.penalty != nil {
		every = smoothStride
	}
	at := func(i, limit float64) (sum float64) {
		scale := clipped(i)
		if w.penalty != nil {
			return w.penalized(rows, scale, f, limit)
		}
		for r := from; r < to && sum <= limit; r++ {
			sum += w.search(w.l.Row(r), scale, f, nil, nil, limit-sum)
		}
		return sum
	}
	coarse := func(i int, limit float64) float64 { return at(float64(i), limit) }
	best := float64(bestThreshold(workers, every, coarse))
	if f.QMax >= fineCodes && every <= clipStride {
		best = between(best, at)
	}
	return clipped(best)
}

// With so many codes, thresholds that differ by a step of bestThreshold round most weights otherwise: so fineSteps
// thresholds for each step are tried around the best, unless rows are wide.
const (
	fineCodes = 64
	fineSteps = 16
)

// between returns the threshold of the smallest loss less than a step away from one.
func between(best float64, loss func(i, limit float64) float64) float64 {
	middle, least := best, loss(best, unlimited)
	for k := 1 - fineSteps; k < fineSteps; k++ {
		i := middle + float64(k)/fineSteps
		if e := loss(i, least); i >= 0 && e < least {
			best, least = i, e
		}
	}
	return best
}

// bestThreshold returns the threshold of the smallest loss. A loss may return anything above the limit once it exceeds
// that. The limit is the smallest loss of the round before, so that the result does not depend on the workers.
func bestThreshold(workers, stride int, loss func(i int, limit float64) float64) int {
	tried := slices.Repeat([]float64{math.Inf(1)}, clipSteps+1)
	try := func(from, to, stride int) int {
		limit := slices.Min(tried)
		parallel(context.Background(), workers, (to-from)/stride+1, func(k int) {
			i := from + k*stride
			if math.IsInf(tried[i], 1) {
				tried[i] = loss(i, limit)
			}
			if workers <= 1 { // one after the other
				limit = min(limit, tried[i])
			}
		})
		return floats.MinIdx(tried)
	}
	best := try(0, clipSteps, stride)
	if stride > clipStride {
		best = try(max(0, best-stride), min(clipSteps, best+stride), clipStride)
		stride = clipStride
	}
	return try(max(0, best-stride+1), min(clipSteps, best+stride-1), 1)
}
