package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"cfq/allocate"
	"cfq/calib"
	"cfq/calib/refine"
	"cfq/internal/lists"
	"cfq/onnxio/classifier"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/sensitivity"
	"cfq/task"
)

// errorRows is how many points the quantization error of the margin is measured on; more change the third digit.
const errorRows = 4096

// widthErrors is what the exact knapsack minimises, by layer, unit and format; nil where not measured. It is the mean
// squared quantization error of the margin, what the allocator says in its place, or the risk of bit widths that were
// learned (qat.Policy).
type widthErrors [][][]float64

func (c *calibration) score(ctx context.Context) (err error) {
	rule := c.net.recipe.Allocate.Rule
	points, classes := c.calibrationSet.Moved(), []int(nil) // of gradients; the target
	if c.scoresFactual() {
		points = c.calibrationSet.Facts()
		if classes, err = factualClasses(ctx, c.net.full, c.sample.people); err != nil {
			return err
		}
	}
	if rule == allocatorExact { // it only reports gradients
		points, classes = c.net.thin(points, classes, c.affordable(len(points)))
	}
	c.net.run.tell("sensitivity of the layers", 0, 0)
	c.gradients, err = sensitivity.Gradient(ctx, c.net.full, c.net.layers, points, classes)
	switch {
	case err != nil && (rule == allocatorPaper || rule == allocatorOptimum || ctx.Err() != nil):
		return err
	case err != nil:
		c.gradients = make([]float64, len(c.net.layers))
		c.warnings, err = append(c.warnings, fmt.Sprintf("no sensitivity scores: %v", err)), nil
	}
	switch rule {
	case allocatorExact:
		err = c.measureErrors(ctx)
	case allocatorOptimum:
		terms := make([][]float64, len(c.net.layers))
		for i, score := range c.gradients { // the terms of eq. cfptq_budget, with the sign of errors
			for _, f := range quant.Formats() {
				terms[i] = append(terms[i], -score*float64(f.Bits))
			}
		}
		c.errors.fill(terms)
	case allocatorHAWQ:
		var terms [][]float64
		terms, err = c.curvatures(ctx, points, classes)
		c.errors.fill(terms)
	}
	return err
}

func (c *calibration) scoresFactual() bool {
	return c.net.recipe.Allocate.Scores == onFactual || c.calibrationSet.Recourse == 0
}

// measureErrors measures what the fits of each unit, and of whole layers where that is the unit, do to the margin.
func (c *calibration) measureErrors(ctx context.Context) (err error) {
	at, perRow := c.calibrationSet.Points(), c.net.recipe.Allocate.Unit == bitWidthsPerRow
	if c.scoresFactual() {
		at = c.calibrationSet.Facts()
	}
	at, _ = c.net.thin(at, nil, c.affordable(errorRows))
	c.errors = nil
	if perRow {
		c.errors, err = c.measureRows(ctx, at)
	}
	conv := func(l quant.LayerInfo) bool { return l.Conv != nil }
	if err == nil && (!perRow || slices.ContainsFunc(c.net.layers, conv)) {
		c.marginErrors, err = c.measureLayers(ctx, at, c.exactErrors(len(at)/c.net.full.Dim()),
			"quantization error of each bit width")
		c.errors.fill(c.marginErrors)
	}
	return err
}

// fill gives layers without errors those of the whole layer.
func (e *widthErrors) fill(layers [][]float64) {
	if *e == nil {
		*e = make(widthErrors, len(layers))
	}
	for i, of := range layers {
		if (*e)[i] == nil {
			(*e)[i] = [][]float64{of}
		}
	}
}

// curvatures are the errors of layers and formats as HAWQ-V2 has them: the mean eigenvalue of the Hessian of the loss
// at rows of x by the layer's weights, times their squared error. A Hessian of negative trace counts nothing.
func (c *calibration) curvatures(ctx context.Context, x []float32, classes []int) ([][]float64, error) {
	x, classes = c.net.thin(x, classes, sensitivity.TraceRows(c.net.layers))
	traces, _, err := sensitivity.Trace(ctx, c.net.full, c.net.layers, x, classes, sensitivity.TraceOptions{
		Progress: func(done, total int) { c.net.run.tell("curvature", done, total) },
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(c.net.layers))
	for i, l := range c.foldedLayers {
		changes, err := c.changes(i)
		if err != nil {
			return nil, err
		}
		for _, change := range changes {
			squares := 0.0
			for k, w := range l.W {
				d := float64(change.W[k]) - float64(w)
				squares += d * d
			}
			out[i] = append(out[i], max(0, traces[i])/float64(l.Params())*squares)
		}
	}
	return out, nil
}

func (c *calibration) exactErrors(rows int) bool {
	return sensitivity.Exact(len(c.net.layers), len(quant.Formats()), rows, sensitivity.Multiplications(c.net.layers))
}

func (c *calibration) measureLayers(ctx context.Context, x []float32, exact bool, stage string) ([][]float64, error) {
	layers, formats := c.net.layers, len(quant.Formats())
	if !exact {
		x, _ = c.net.thin(x, nil, sensitivity.MaxFirstOrderRows)
		return sensitivity.FirstOrder(ctx, c.net.full, layers, x, c.changes,
			func(done, total int) { c.net.run.tell(stage, done, total) })
	}
	return sensitivity.Measured(ctx, c.net.full, x, len(layers), formats, func(i, f int) (*classifier.Model, error) {
		c.net.run.tell(stage, i*formats+f, len(layers)*formats)
		return c.openPlain(c.layers[i][f])
	})
}

// measureRows estimates what each format of each row of the dense layers does to the margin on rows of x.
func (c *calibration) measureRows(ctx context.Context, x []float32) (widthErrors, error) {
	c.net.run.tell("quantization error of each bit width", 0, 0)
	dense := lists.Where(len(c.net.layers), func(i int) bool { return c.net.layers[i].Conv == nil })
	got, err := sensitivity.Rows(ctx, c.net.full, subset(c.foldedLayers, dense), x,
		func(k int) ([]sensitivity.Change, error) { return c.changes(dense[k]) })
	if err != nil {
		return nil, err
	}
	out := make(widthErrors, len(c.net.layers))
	for k, i := range dense {
		out[i] = got[k]
	}
	return out, nil
}

func (c *calibration) changes(layer int) ([]sensitivity.Change, error) {
	return sensitivity.ChangesOf(c.layers[layer], c.foldedLayers[layer], c.input)
}

func (c *calibration) openPlain(l quant.Layer) (*classifier.Model, error) {
	m, err := qdq.Write(c.net.canonical, c.planOf([]quant.Layer{l}), qdq.Options{Plain: true})
	if err != nil {
		return nil, err
	}
	return c.net.full.With(m), nil
}

// factualClasses returns the class of each row for the factual gradient: the favourable one for rows with that label;
// for others the most likely class, of those that are not favourable where the label says so.
func factualClasses(ctx context.Context, c *classifier.Model, people *task.People) ([]int, error) {
	z, k, err := c.Logits(ctx, people.X)
	if err != nil {
		return nil, err
	}
	out := make([]int, people.N)
	for i := range out {
		label := int8(-1)
		if people.Labels != nil {
			label = people.Labels[i]
		}
		row := z[i*k : (i+1)*k]
		if k == 1 {
			row = []float32{0, row[0]}
		}
		best := -1
		for class, v := range row {
			if (label != 0 || class != c.Target()) && (best < 0 || v > row[best]) {
				best = class
			}
		}
		if label == 1 {
			best = c.Target()
		}
		out[i] = best
	}
	return out, nil
}

// assignment says which format each layer has, by its index among quant.Formats: none (the
// layer stays in float), one for the layer, or one for each of its rows.
type assignment [][]int

// allocate returns assignments that keep the budget, of which the better one is to be taken, and what came of learning
// bit widths, nil where they were not learned.
func (c *calibration) allocate(ctx context.Context, budget float64) (w []allocation, learned *Learned, err error) {
	of := c.errors
	if c.net.recipe.Allocate.Rule == allocatorLearned {
		if of, learned, err = c.learn(ctx, budget); err != nil {
			return nil, nil, err
		}
	}
	plain, err := c.within(of, budget)
	if errors.Is(err, allocate.ErrBudget) {
		err = inputError(fmt.Errorf("a budget of %v bits per weight (cost: %s): %w", budget, c.net.recipe.Allocate.Cost, err))
	}
	w = []allocation{{from: c, widths: plain}}
	if err != nil || c.net.recipe.Allocate.Cost != costBytes || c.affordable(refineRows) < refineLeast {
		return w, learned, err // in networks that are too large to be refined containers weigh nothing
	}
	allowed, err := c.fileSize(c.assemble(plain), true)
	if err != nil {
		return nil, nil, err
	}
	packed, err := c.pack(of, allowed)
	if packed != nil && !reflect.DeepEqual(packed, plain) {
		w = append(w, allocation{from: c, widths: packed})
	}
	if err != nil || budget >= mirrorBelow || learned != nil || c.net.recipe.Round.Rule != calib.GPTQ {
		return w, learned, err
	}
	m, err := c.mirrored(ctx)
	if err != nil {
		return nil, nil, err
	}
	if packed, err = m.pack(m.errors, allowed); packed != nil {
		w = append(w, allocation{from: m, widths: packed})
	}
	return w, learned, err
}

// Mirrored rows gain below mirrorBelow bits.
const mirrorBelow = 3

// allocation is an assignment for the fits of a calibration and, once it is refined, what has come of it.
type allocation struct {
	from    *calibration
	widths  assignment
	layers  []quant.Layer
	refined *refine.Outcome
	allowed int // bytes of the file; 0 where they do not count
}

// mirrored is the calibration with negative scales of rows of few bits where that errs less: -1..2 instead of -2..1.
func (c *calibration) mirrored(ctx context.Context) (*calibration, error) {
	stats, err := c.collect(ctx, c.fitSet)
	if err != nil {
		return nil, err
	}
	m := *c
	m.mirror = true
	if m.layers, err = m.fitWeights(ctx, stats, nil, calib.Variation{}); err == nil {
		err = m.measureErrors(ctx)
	}
	return &m, err
}

// units is how many bit widths layer i has: one for all rows or, of a dense layer, one for each.
func (c *calibration) units(i int) int {
	if l := &c.net.layers[i]; c.net.perRow(l) {
		return l.Out
	}
	return 1
}

// choices lists the formats of each unit of layer i, with the errors of all uses of its weights; without, where they
// were not measured.
func (c *calibration) choices(i int, of widthErrors) [][]allocate.Choice {
	units := c.units(i)
	cost, _ := c.multiples(i)
	cost *= int64(c.net.layers[i].Params() / units)
	return lists.Make(units, func(r int) (out []allocate.Choice) {
		for f, format := range quant.Formats() {
			out = append(out, allocate.Choice{Bits: format.Bits, Cost: cost * int64(format.Bits)})
			if of == nil {
				continue
			}
			for _, k := range c.net.uses[i] {
				out[f].Error += of[k][r][f]
			}
		}
		return out
	})
}

// perRow reports whether each row of a layer has a bit width of its own.
func (p *network) perRow(l *quant.LayerInfo) bool {
	return p.recipe.Allocate.Unit == bitWidthsPerRow && l.Conv == nil
}

// multiples is what one bit of a weight of layer i costs, and what the budget grants for it, in the unit of the budget.
func (c *calibration) multiples(i int) (cost, grant int64) {
	if c.net.recipe.Allocate.Cost != costBOPs {
		return 1, 1
	}
	act := 8
	if fit := c.layers[i][0]; fit.Act != nil {
		act = fit.Act.Bits
	} else if !c.onGrid(i) {
		act = 32 // float
	}
	n := int64(sensitivity.Multiplications(c.net.layers[i:i+1])) / int64(c.net.layers[i].Params())
	return n * int64(act), n * 8
}

// within gives each unit its format, so that the whole costs no more than the budget, in the unit of the budget.
func (c *calibration) within(of widthErrors, bits float64) (assignment, error) {
	var choices [][]allocate.Choice
	var perWeight []float64
	var granted float64
	for i, uses := range c.net.uses {
		if uses[0] != i {
			continue
		}
		_, grant := c.multiples(i)
		granted += float64(c.net.layers[i].Params()) * float64(grant)
		score := 0.0
		for _, k := range uses {
			score += c.gradients[k] / float64(c.net.layers[k].Params())
		}
		choices = append(choices, c.choices(i, of)...)
		perWeight = append(perWeight, slices.Repeat([]float64{score}, c.units(i))...)
	}
	budget := int64(math.Floor(bits*granted + 1e-6)) // 4.1 x 2880 is 11808, not a hair less
	picks, err := c.pick(choices, perWeight, budget)
	if errors.Is(err, allocate.ErrBudget) {
		var least int64
		for _, c := range choices {
			least += slices.MinFunc(c, func(a, b allocate.Choice) int { return cmp.Compare(a.Cost, b.Cost) }).Cost
		}
		err = fmt.Errorf("%w: the least is %.2f", allocate.ErrBudget, math.Ceil(100*float64(least)/granted)/100)
	}
	if err != nil {
		return nil, err
	}
	return c.assigned(picks), nil
}

func (c *calibration) assigned(picks []int) assignment {
	out := make(assignment, len(c.net.layers))
	for i, uses := range c.net.uses {
		if out[i] = out[uses[0]]; uses[0] == i {
			n := c.units(i)
			out[i], picks = picks[:n], picks[n:]
		}
	}
	return out
}

func (c *calibration) pick(choices [][]allocate.Choice, perWeight []float64, budget int64) ([]int, error) {
	switch c.net.recipe.Allocate.Rule {
	case allocatorUniform:
		return allocate.Uniform(choices, budget)
	case allocatorPaper:
		return allocate.Paper(choices, perWeight, budget)
	}
	return allocate.Exact(choices, budget)
}

// pack gives each unit its format, so that the file takes no more bytes than are allowed; nil where it cannot.
func (c *calibration) pack(of widthErrors, allowed int) (assignment, error) {
	var layers []allocate.Packing
	var groups [][]string
	for i, uses := range c.net.uses {
		if uses[0] == i {
			layers = append(layers, allocate.Packing{Rows: c.choices(i, of)})
			groups = append(groups, lists.Map(uses, func(k int) string { return c.net.layers[k].Node }))
		}
	}
	sets, base, unpack, err := qdq.Overheads(c.net.canonical, c.planOf(c.fitsOf(minBudget)), groups, c.net.shortSize)
	if err != nil {
		return nil, err
	}
	for g, of := range sets {
		for _, h := range of {
			layers[g].Sets = append(layers[g].Sets, allocate.Set{Choices: h.Formats, Cost: 8 * int64(h.Bytes), Shared: h.Planes})
		}
	}
	budget := allowed - base
	for k := range 8 { // a number may take a byte more, and a few bytes less allow the same rows
		picks, err := allocate.Containers(layers, 8*int64(unpack), 8*int64(budget))
		if err != nil {
			break
		}
		w := c.assigned(slices.Concat(picks...))
		bytes, err := c.fileSize(c.assemble(w), false)
		if err != nil || bytes <= allowed {
			return w, err
		}
		budget -= (bytes - allowed) << k
	}
	return nil, nil
}

// fitsOf are the fits of all layers with so many bits.
func (c *calibration) fitsOf(bits int) []quant.Layer {
	f := slices.IndexFunc(quant.Formats(), func(f quant.Format) bool { return f.Bits == bits })
	return lists.Map(c.layers, func(fits []quant.Layer) quant.Layer { return fits[f] })
}

// fileSize is the size of a file without metadata. A plain one, whose bytes others may take, stores the order of rows.
func (c *calibration) fileSize(layers []quant.Layer, plain bool) (int, error) {
	m, err := qdq.Write(c.net.canonical, c.planOf(layers), qdq.Options{Size: size, Ordered: plain})
	if err != nil {
		return 0, err
	}
	return c.net.shortSize(m), nil
}

func (c *calibration) meanBits(plans []quant.Layer) float64 {
	var bits, weights float64
	for _, p := range plans {
		n := float64(c.net.layers[c.net.index(p.Node)].Params())
		bits += n * p.MeanBits()
		weights += n
	}
	return bits / weights
}
