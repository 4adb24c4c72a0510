package ptq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/calib"
	"cfq/eval"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/ptq/taskmodel"
	"cfq/qat"
	"cfq/qat/cohort"
	"cfq/quant"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/sensitivity"
	"cfq/task"
)

// refusedShare: of this many people who are calibrated on at least one is refused, because recourse
// points are made from refused people.
const refusedShare = 4

const minLabels = 20

type calibrationSample struct {
	all      *task.People
	margins  []float32         // of all, see network.marginsOf
	people   *task.People      // those of all who are calibrated on
	rows     []int             // their positions among all, ascending
	set      *constraint.Set   // what each of people can change
	promises []recourse.Action // of people; nil where none are given
	warnings []string
	cheapest *cohort.Population // see calibration.cheapest; nil until it is asked for
	held     *heldOut           // see calibration.heldOut; nil until it is asked for
	// Those of all who are trained on, and their positions; nil without training.
	trained     *task.People
	trainedRows []int
}

func (p *network) chooseSample(ctx context.Context, all *task.People) (_ *calibrationSample, err error) {
	c := &calibrationSample{all: all, people: all, rows: task.AllRows(all.N), promises: p.run.Promises}
	switch {
	case all.N == 0:
		return nil, errors.New("there are no rows to calibrate on")
	case c.promises != nil && len(c.promises) != all.N:
		return nil, fmt.Errorf("%d promises for %d people", len(c.promises), all.N)
	}
	margins, err := p.marginsOf(ctx, all)
	if err != nil {
		return nil, err
	}
	c.margins = margins
	labelled := lists.Where(len(all.Labels), func(i int) bool { return all.Labels[i] >= 0 && margins[i] == margins[i] })
	known := len(labelled)
	right := len(lists.Filter(labelled, func(i int) bool { return (margins[i] > 0) == (all.Labels[i] == 1) }))
	switch doc := p.recipe.objectiveDoc(); {
	case doc.Groups && len(all.Subgroups) == 0:
		return nil, fmt.Errorf("objective %s needs subgroups of people: the task has no feature with subgroup: true",
			p.recipe.objective())
	case doc.Labels && p.full.Classes() > 2:
		return nil, fmt.Errorf("objective %s needs a model of two classes, and this one has %d: objective %s takes any",
			p.recipe.objective(), p.full.Classes(), qat.Distil)
	case doc.Labels && known == 0:
		return nil, fmt.Errorf("objective %s needs labels, and none of %d rows has one: objective %s needs none",
			p.recipe.objective(), all.N, qat.Distil)
	}
	if known >= minLabels && 5*right < 2*known { // what a wrong class index looks like
		c.warnings = append(c.warnings, fmt.Sprintf("the model decides only %.0f %% of the labelled rows as their labels "+
			"say: is class %d, the task's target.index, the favourable one?", 100*float64(right)/float64(known),
			p.full.Target()))
	}
	if p.recipe.Calibrate.Rows > 0 && all.N > p.recipe.Calibrate.Rows {
		c.rows = withRefused(qat.Spread(all.N, p.recipe.Calibrate.Rows), margins)
		c.people = all.Subset(c.rows)
		if c.promises != nil {
			c.promises = subset(c.promises, c.rows)
		}
	}
	c.set, err = personal(p.set, c.people)
	return c, err
}

// maxMargins is how many multiplications the margins of people may take of whom only some are calibrated on.
const maxMargins = 1 << 37

// marginsOf returns the margins of all people or, where that takes too long, of lookedAt times those who are calibrated
// on, evenly spread, and not a number of the others.
func (p *network) marginsOf(ctx context.Context, all *task.People) ([]float32, error) {
	const lookedAt = 2
	rows := qat.Spread(all.N, lookedAt*p.recipe.Calibrate.Rows)
	if len(rows) == 0 || float64(all.N)*float64(sensitivity.Multiplications(p.found)) <= maxMargins {
		return p.full.Margins(ctx, all.X)
	}
	margins, err := p.full.Margins(ctx, lists.RowsAt(all.X, all.Dim, rows))
	if err != nil {
		return nil, err
	}
	out := slices.Repeat([]float32{float32(math.NaN())}, all.N)
	for k, i := range rows {
		out[i] = margins[k]
	}
	return out, nil
}

// withRefused adds rows, evenly spread, of people who are refused until there is one for
// every refusedShare rows given. Rows are in ascending order.
func withRefused(rows []int, margins []float32) []int {
	refused := 0
	var others []int
	for r, m := range margins {
		switch _, chosen := slices.BinarySearch(rows, r); {
		case !(m <= 0):
		case chosen:
			refused++
		default:
			others = append(others, r)
		}
	}
	rows = append(rows, subset(others, qat.Spread(len(others), len(rows)/refusedShare-refused))...)
	slices.Sort(rows)
	return rows
}

// actionSet is what people can change, who are known by their rows of the data file.
func actionSet(t *task.Task, overrides []task.Override) (*constraint.Set, error) {
	set, err := constraint.Compile(t)
	if err != nil || len(overrides) == 0 {
		return set, err
	}
	if set, err = set.Override(overrides); err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	return set, nil
}

// personal is what each of some people can change, by position.
func personal(set *constraint.Set, people *task.People) (*constraint.Set, error) {
	if set.HasOverrides() && len(people.Rows) != people.N {
		return nil, fmt.Errorf("overrides are by rows of the data file, and %d people have %d of them", people.N,
			len(people.Rows))
	}
	return set.Select(people.Rows), nil
}

func subset[T any](s []T, at []int) []T { return lists.RowsAt(s, 1, at) }

// thin returns at most limit rows of inputs, evenly spread, with their classes.
func (m *canonicalModel) thin(x []float32, classes []int, limit int) ([]float32, []int) {
	n := len(x) / m.full.Dim()
	if n <= limit {
		return x, classes
	}
	at := qat.Spread(n, limit)
	if classes != nil {
		classes = subset(classes, at)
	}
	return lists.RowsAt(x, m.full.Dim(), at), classes
}

// minPoints is the number of rows, or of recourse points, below which a calibration is doubtful.
const minPoints = 100

func (c *calibration) fitLayers(ctx context.Context) error {
	p := c.net
	c.fitSet = c.calibrationSet
	if p.recipe.Calibrate.Points == onFactual {
		c.fitSet = calib.FactualSet(c.calibrationSet.Facts(), p.full.Dim())
	}
	p.run.tell("statistics of the layers", 0, 0)
	if err := c.fitInput(ctx); err != nil {
		return err
	}
	stats, err := c.collect(ctx, c.fitSet)
	if err != nil {
		return inputError(fmt.Errorf("%s: %w", strings.Join(append(c.warnings, "statistics"), "; "), err))
	}
	onIntegers := subset(p.layers, lists.Where(len(p.layers), func(i int) bool { return !c.inFloat(i) }))
	if c.outputs, err = calib.FitOutputs(ctx, p.full, onIntegers, c.fitSet, p.recipe.Write.ActBits); err != nil {
		return inputError(err)
	}
	if c.layers, err = c.fitWeights(ctx, stats, nil, calib.Variation{}); err != nil {
		return err
	}
	p.run.tell("fit the weights", len(p.layers), len(p.layers))
	c.warnings = append(c.warnings, c.tooSmall()...)
	if n := c.net.full.Fixed(); n > 0 && c.canStep() {
		c.warnings = append(c.warnings, fmt.Sprintf("the model takes batches of exactly %s, which gradient steps of "+
			"refinement cannot do with: errors may be larger than those of a model with a dynamic batch axis",
			message.Count(n, "row")))
	}
	return nil
}

func (c *calibration) tooSmall() (warnings []string) {
	few := func(n int, what string) {
		if n < minPoints {
			warnings = append(warnings, fmt.Sprintf("only %d %s to calibrate on: %d or more would be better", n, what,
				minPoints))
		}
	}
	switch {
	case c.net.recipe.Calibrate.Points == onFactual:
	case c.fitSet.Recourse == 0:
		why := "no row is refused and has recourse"
		if c.sample.promises != nil {
			why = "no row has a promise that changes anything"
		}
		warnings = append(warnings, why+": calibrated on factual rows alone, as mixed-ptq would be")
	default:
		few(c.fitSet.Recourse, "recourse points")
	}
	few(c.sample.people.N, "rows")
	return warnings
}

func (p *network) recoursePoints(ctx context.Context, x []float32, set *constraint.Set, promises []recourse.Action,
	o recourse.TeacherOptions,
) (*calib.Set, error) {
	if promises != nil {
		return calib.Promised(ctx, p.full, x, promises)
	}
	return calib.Counterfactual(ctx, p.full, set, x, o)
}

// teacher returns the settings of the teacher recourse. Its seed counts only where something is drawn, so that another
// one is not another run.
func (p *network) teacher() recourse.TeacherOptions {
	spec := &p.recipe.Calibrate
	o := recourse.TeacherOptions{
		Steps: spec.TeacherSteps, StepSize: spec.TeacherStep, Margin: p.task.Target.Margin,
		Plain: spec.Teacher == teacherPaper, Noise: spec.TeacherNoise, Sample: spec.TeacherSample, Workers: p.run.Workers,
		Progress: func(done, total int) { p.run.tell("teacher recourse", done, total) },
	}
	if o.Noise > 0 || o.Sample > 0 {
		o.Seed = spec.TeacherSeed
	}
	return o
}

func (c *calibration) collect(ctx context.Context, set *calib.Set) ([]calib.Stats, error) {
	stats, err := calib.Collect(ctx, c.net.full, c.foldedLayers, set, c.input)
	if err != nil {
		return nil, err
	}
	for i, g := range c.net.uses {
		if g[0] != i || len(g) < 2 {
			continue
		}
		parts, weights := make([]*calib.Stats, len(g)), make([]float64, len(g))
		for k, at := range g {
			parts[k], weights[k] = &stats[at], float64(c.net.layers[at].Positions)
		}
		calib.Join(parts, weights)
	}
	return stats, nil
}

// fitWeights fits each layer in the formats that an assignment has for it, in all where it is nil. The statistics of
// wide layers take more memory than the weights, so they are dropped on the way.
func (c *calibration) fitWeights(ctx context.Context, stats []calib.Stats, widths assignment, vary calib.Variation) (
	[][]quant.Layer, error,
) {
	n, round, out := c.net, &c.net.recipe.Round, make([][]quant.Layer, len(stats))
	for i := range stats {
		all := quant.FormatsFor(c.reduced(i))
		at := task.AllRows(len(all))
		if widths != nil {
			at = slices.Compact(slices.Sorted(slices.Values(widths[i])))
		} else {
			n.run.tell("fit the weights", i, len(stats))
		}
		fits, err := calib.FitWeights(ctx, c.foldedLayers[i], &stats[i], subset(all, at), calib.WeightOptions{
			PerTensor: round.Scales == scalesPerTensor, Rounding: round.Rule, Vary: vary,
			Workers: n.run.Workers, Engine: n.engine, Mirror: c.mirror && c.inFloat(i),
		})
		if err != nil {
			return nil, err
		}
		out[i] = make([]quant.Layer, len(all))
		for k, fit := range fits {
			fit.Reduced = c.reduced(i)
			quant.HalfScales(fit.Scales)
			if c.inFloat(i) && fit.Bits < maxBudget { // wider codes err less than such biases
				quant.HalfBiases(fit.Bias)
			}
			if !c.inFloat(i) && !c.onGrid(i) {
				act := c.outputs.Act(n.layers[i], vary, calib.Activation(&stats[i], n.recipe.Write.ActBits))
				fit.Act, fit.Result = &act, c.outputs.Result(n.layers[i].Node, vary)
			}
			out[i][at[k]] = fit
		}
		stats[i] = calib.Stats{}
	}
	return out, nil
}

// reduced reports whether the 8-bit codes of layer i stay within quant.ReducedMax: on integers wider ones saturate
// where the processor has no VNNI, and nobody knows where a file will run.
func (c *calibration) reduced(i int) bool {
	bits := c.net.recipe.Write.ActBits
	if c.onGrid(i) {
		bits = 8
	}
	return !c.net.recipe.Write.FullRange && !c.inFloat(i) && quant.Saturates(bits, math.MaxInt8)
}

func (c *calibration) onGrid(i int) bool {
	return c.input != nil && c.net.integer[i] && c.net.layers[i].Input == c.input.Value
}

func (c *calibration) inFloat(i int) bool {
	first := &c.net.found[0]
	return !c.net.integer[i] || c.input == nil && first.Fixed == "" && first.Conv == nil && first.Positions == 1 &&
		c.net.layers[i].Input == first.Input
}

// maxGridError is the root mean square margin error, in logits, from which the grid of the input alone is too coarse.
const maxGridError = eval.HeadlineMargin / 2

// fitInput lays the value that the first dense layers read on a grid: the
// model's input, or what scaling operators make of it. Calibration points move onto the grid's range.
func (c *calibration) fitInput(ctx context.Context) error {
	c.foldedLayers = slices.Clone(c.net.layers)
	first := c.net.found[0]
	choice := c.net.recipe.Write.Input
	if first.Fixed != "" || first.Conv != nil || first.Positions > 1 || !c.net.integer[0] || choice == inputFloat {
		return nil // what lies behind a layer in float is no input any more
	}
	raw := c.isInput(first.Input)
	x, values := c.fitSet.X, inputDomain(c.net.task)
	if c.sample.all.N > c.sample.people.N {
		x = append(slices.Clip(x), c.sample.all.X...)
	}
	x, err := c.net.full.Value(ctx, x, first.Input)
	if err != nil {
		return err
	}
	if !raw {
		values = nil
	}
	input := calib.FitInput(x, first.In, values)
	input.Value = first.Input
	if raw && choice == inputAuto {
		rms, err := c.gridError(ctx, input, c.fitSet.X)
		if err != nil {
			return err
		}
		if rms > maxGridError {
			c.warnings = append(c.warnings, fmt.Sprintf("on an 8-bit grid the input alone moves margins by %.2g logits: the "+
				"layers that read it compute in float (write.input=%s keeps them on integers)", rms, inputInt8))
			return nil
		}
	}
	c.input = input
	for i, l := range c.net.layers {
		if l.Input == first.Input {
			c.foldedLayers[i] = input.Fold(l)
		}
	}
	if !raw {
		return nil
	}
	seen := &calib.Set{X: x[:c.fitSet.Rows()*first.In], Dim: first.In} // what the model reads of the points
	if !c.net.task.Made() {                                            // they are its inputs
		if seen = c.fitSet; c.calibrationSet != c.fitSet {
			c.calibrationSet.Clip(input)
		}
	}
	for _, j := range seen.Clip(input) {
		at := slices.IndexFunc(c.net.task.Features, func(f task.Feature) bool {
			j -= f.ModelInputs()
			return j < 0
		})
		c.warnings = append(c.warnings, fmt.Sprintf("input %q has values far from all others: those are clipped; is there a "+
			"mistake in the data?", c.net.task.Features[at].Name))
	}
	return nil
}

func (c *calibration) isInput(value string) bool {
	producers := c.net.canonical.Graph.Producers()
	for n := producers[value]; n != nil && quant.Reshapes(n); n = producers[value] {
		value = n.Input(0)
	}
	return value == c.net.dataInput()
}

func (c *calibration) gridError(ctx context.Context, input *quant.Input, rows []float32) (_ float64, err error) {
	rows, _ = c.net.thin(rows, nil, c.affordable(errorRows))
	x, err := c.net.full.Inputs(ctx, rows)
	if err != nil {
		return 0, err
	}
	file := c.net.full
	if c.net.task.Made() {
		if file, err = taskmodel.OpenWithoutFront(c.net.file, c.net.task, c.net.run.Workers); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	want, err := file.Margins(ctx, x)
	if err != nil {
		return 0, err
	}
	got, err := file.Margins(ctx, input.Round(x, c.net.file.Dim()))
	if err != nil {
		return 0, err
	}
	return math.Sqrt(sensitivity.MarginError(got, want)), nil
}

func (c *calibration) assemble(w assignment) []quant.Layer {
	var out []quant.Layer
	for i, formats := range w {
		switch {
		case len(formats) == 0:
		case !slices.ContainsFunc(formats, func(f int) bool { return f != formats[0] }):
			out = append(out, c.layers[i][formats[0]])
		default:
			out = append(out, mixed(c.layers[i], formats, c.net.layers[i].In))
		}
	}
	return out
}

func mixed(fits []quant.Layer, formats []int, in int) quant.Layer {
	out := fits[formats[0]]
	out.Bits, out.Scales, out.Codes, out.Bias = 0, nil, nil, nil
	for r, f := range formats {
		fit := &fits[f]
		out.RowBits = append(out.RowBits, fit.Bits)
		out.Scales = append(out.Scales, fit.Scales[r])
		if fit.Codes != nil {
			out.Codes = append(out.Codes, fit.Codes[r*in:(r+1)*in]...)
		}
		if fit.Bias != nil {
			out.Bias = append(out.Bias, fit.Bias[r])
		}
	}
	return out
}

func (c *calibration) planOf(layers []quant.Layer) *quant.Plan {
	p := &quant.Plan{Layers: layers}
	for i := range layers {
		if layers[i].Act == nil {
			p.Input = c.input
		}
	}
	return p
}

// inputDomain returns the values that the input grid must cover whether the data show them or not: those that the
// values of categories have, the least and the largest level of ordinal ones, and the bounds of pixels.
func inputDomain(t *task.Task) [][]float32 {
	out := make([][]float32, 0, t.ModelDim())
	for i := range t.Features {
		f := &t.Features[i]
		for k := range f.ModelInputs() {
			c, n := f.Category(), f.Number()
			switch {
			case c != nil && c.Made() != nil:
				lo, hi := math.Inf(1), math.Inf(-1)
				for _, row := range c.Made() {
					lo, hi = min(lo, row[k]), max(hi, row[k])
				}
				out = append(out, []float32{float32(lo), float32(hi)})
			case c != nil:
				out = append(out, []float32{0, 1})
			case len(n.Levels) > 0 && n.Spread == 0 && n.Clip == nil:
				out = append(out, []float32{n.ToInput(n.Levels[0]), n.ToInput(n.Levels[len(n.Levels)-1])})
			case t.IsPixel(f) && f.Bounds[1]-f.Bounds[0] <= 255: // one that is always black may be painted, in any shade
				lo, hi := f.Bounds[0], f.Bounds[1]
				out = append(out, []float32{f.ToInput(lo), f.ToInput(min(lo+1, hi)), f.ToInput(hi)})
			default:
				out = append(out, nil)
			}
		}
	}
	return out
}
