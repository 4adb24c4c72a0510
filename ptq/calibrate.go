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
	"cfq/internal/message"
	"cfq/quant"
	"cfq/recourse"
	"cfq/sensitivity"
	"cfq/task"
)

// minPoints is the number of rows, or of recourse points, below which a calibration is doubtful.
const minPoints = 100

// calibrated is the second stage: every layer is fitted in every number format.
type calibrated struct {
	*prepared
	cohort

	union    *calib.Set // U_cal of the paper: the rows and the recourse points
	cal      *calib.Set // what everything is fitted on: union or its rows
	grid     grid
	outputs  calib.Outputs   // output quantizers of convolutions
	fits     [][]quant.Layer // layer, format
	warnings []string
}

// grid is the 8-bit grid that the model's input is laid on.
type grid struct {
	input *quant.Input      // nil where no layer reads the input on a grid
	wide  []quant.LayerInfo // prepared.layers with the grid folded into those that read it
}

// calibrate fits the layers on rows of the people and on the recourse of those who are refused.
func (p *prepared) calibrate(ctx context.Context, people *task.People) (*calibrated, error) {
	group, warning, err := p.choose(ctx, people)
	if err != nil {
		return nil, inputError(err)
	}
	c := &calibrated{prepared: p, cohort: group, warnings: slices.Concat(p.warnings, warning)}
	if c.union, err = p.calibrationSet(ctx, &c.cohort); err != nil {
		return nil, err
	}
	if c.cal = c.union; p.o.CalibrateOn == OnFactual {
		c.cal = calib.FactualSet(c.union.Facts(), p.full.Dim())
	}
	p.tell("statistics of the layers", 0, 0)
	doubts, err := c.fitInput(ctx)
	if err != nil {
		return nil, err
	}
	c.warnings = append(c.warnings, doubts...)
	if p.o.CalibrateOn == OnWeighted {
		margins, err := p.full.Margins(ctx, c.cal.X)
		if err != nil {
			return nil, err
		}
		c.cal.Weigh(margins)
	}
	stats, err := calib.Collect(ctx, c.full, c.grid.wide, c.cal, c.grid.input, c.logits())
	if err != nil {
		return nil, inputError(fmt.Errorf("%s: %w", strings.Join(append(c.warnings, "statistics"), "; "), err))
	}
	c.join(stats)
	var onIntegers []quant.LayerInfo
	for i, l := range p.layers {
		if !c.inFloat(i) {
			onIntegers = append(onIntegers, l)
		}
	}
	if c.outputs, err = calib.FitOutputs(ctx, p.full, onIntegers, c.cal, p.o.ActBits, p.o.ActRange); err != nil {
		return nil, inputError(err)
	}
	for i := range p.layers {
		p.tell("fit the weights", i, len(p.layers))
		fits, err := c.fit(ctx, i, &stats[i], c.formats(i), calib.Variation{})
		if err != nil {
			return nil, err
		}
		c.fits = append(c.fits, fits)
		stats[i] = calib.Stats{} // of wide layers they take more memory than the weights
	}
	p.tell("fit the weights", len(p.layers), len(p.layers))
	c.warnings = append(c.warnings, c.tooSmall()...)
	if n := c.full.Fixed(); n > 0 && c.canStep() {
		c.warnings = append(c.warnings, fmt.Sprintf("the model takes batches of exactly %s, which gradient steps of "+
			"refinement cannot do with: errors may be larger than those of a model with a dynamic batch axis",
			message.Count(n, "row")))
	}
	return c, nil
}

// tooSmall warns of calibration sets that are too small.
func (c *calibrated) tooSmall() (warnings []string) {
	n := c.cal.Recourse
	switch on := c.o.CalibrateOn; {
	case on == OnFactual:
	case n == 0:
		warnings = append(warnings, c.noRecourse()+": calibrated on factual rows alone, as mixed-ptq would be")
	case n < minPoints:
		warnings = append(warnings, fmt.Sprintf("only %d recourse points to calibrate on: %d or more would be better", n,
			minPoints))
	}
	if c.people.N < minPoints {
		warnings = append(warnings, fmt.Sprintf("only %d rows to calibrate on: %d or more would be better", c.people.N,
			minPoints))
	}
	return warnings
}

// calibrationSet returns the rows of a cohort, with recourse points where the method looks at them.
func (p *prepared) calibrationSet(ctx context.Context, c *cohort) (*calib.Set, error) {
	switch {
	case p.o.CalibrateOn == OnFactual && !p.method.RecourseSensitivity:
		return calib.FactualSet(c.people.X, p.full.Dim()), nil
	case c.promises != nil:
		return calib.Promised(ctx, p.full, c.people.X, c.promises)
	}
	return calib.Counterfactual(ctx, p.full, c.set, c.people.X, p.teacher())
}

// logits reports whether the ranges need statistics that weigh by gradients.
func (p *prepared) logits() bool {
	return p.o.WeightRange == calib.Logits || p.o.ActRange == calib.Logits
}

// teacher returns the settings of the teacher recourse.
func (p *prepared) teacher() recourse.TeacherOptions {
	o := p.o.Teacher
	o.Plain = o.Plain || p.o.TeacherSteps == TeacherPaper
	o.Progress = func(done, total int) { p.tell("teacher recourse", done, total) }
	if o.Workers == 0 {
		o.Workers = p.o.Workers
	}
	return o
}

// fit fits layer i in each of the formats.
func (c *calibrated) fit(ctx context.Context, i int, s *calib.Stats, formats []quant.Format, vary calib.Variation) (
	[]quant.Layer, error,
) {
	fits, err := calib.FitWeights(ctx, c.grid.wide[i], s, formats, calib.WeightOptions{
		PerTensor: c.o.Scales == ScalesPerTensor, Range: c.o.WeightRange, Rounding: c.o.Rounding, Vary: vary,
		Workers: c.o.Workers, Engine: c.engine,
	})
	if err != nil {
		return nil, err
	}
	for n := range fits {
		fits[n].Reduced = c.reduced(i)
		quant.HalfScales(fits[n].Scales)
		if !c.inFloat(i) && !c.onGrid(i) {
			act := c.outputs.Act(c.layers[i], vary, calib.Activation(s, c.o.ActBits, c.o.ActRange))
			fits[n].Act = &act
			fits[n].Result = c.outputs.Result(c.layers[i].Node, vary)
		}
	}
	return fits, nil
}

// formats returns the formats that layer i can have.
func (c *calibrated) formats(i int) []quant.Format { return quant.FormatsFor(c.reduced(i)) }

// reduced reports whether the 8-bit codes of layer i stay within quant.ReducedMax: on integers wider ones saturate
// where the processor has no VNNI, and nobody knows where a file will run.
func (c *calibrated) reduced(i int) bool {
	bits := c.o.ActBits
	if c.onGrid(i) {
		bits = 8
	}
	return !c.o.FullRange && !c.inFloat(i) && quant.Saturates(bits, math.MaxInt8)
}

// onGrid reports whether layer i reads the model's input on its grid.
func (c *calibrated) onGrid(i int) bool {
	return c.grid.input != nil && c.integer[i] && c.layers[i].Input == c.grid.input.Value
}

// inFloat reports whether layer i computes in float, on weights of few bits.
func (c *calibrated) inFloat(i int) bool {
	first := &c.found[0]
	return !c.integer[i] || c.grid.input == nil && first.Fixed == "" && first.Conv == nil && first.Positions == 1 &&
		c.layers[i].Input == first.Input
}

// maxGridError is the root mean square margin error, in logits, from which the grid of the
// input alone is too coarse.
const maxGridError = eval.HeadlineMargin / 2

// fitInput lays the value that the first dense layers read on a grid: the
// model's input, or what scaling operators make of it. Calibration points move onto the grid's range.
func (c *calibrated) fitInput(ctx context.Context) (warnings []string, err error) {
	c.grid = grid{wide: slices.Clone(c.layers)}
	first := c.found[0]
	if first.Fixed != "" || first.Conv != nil || first.Positions > 1 || !c.integer[0] || c.o.Input == InputFloat {
		return nil, nil // what lies behind a layer in float is no input any more
	}
	raw := c.isInput(first.Input)
	x, values := c.cal.X, inputDomain(c.task)
	if c.all.N > c.people.N {
		x = append(slices.Clip(x), c.all.X...)
	}
	if x, err = c.full.Value(ctx, x, first.Input); err != nil {
		return nil, err
	}
	if !raw {
		values = nil
	}
	input := calib.FitInput(x, first.In, values)
	input.Value = first.Input
	if raw && c.o.Input == InputAuto {
		rms, err := c.gridError(ctx, input, c.cal.X)
		if err != nil {
			return nil, err
		}
		if rms > maxGridError {
			return []string{fmt.Sprintf("on an 8-bit grid the input alone moves margins by %.2g logits: the layers that read "+
				"it compute in float (--input %s keeps them on integers)", rms, InputInt8)}, nil
		}
	}
	c.grid.input = input
	for i, l := range c.layers {
		if l.Input == first.Input {
			c.grid.wide[i] = input.Fold(l)
		}
	}
	if !raw {
		return nil, nil
	}
	seen := &calib.Set{X: x[:c.cal.Rows()*first.In], Dim: first.In} // what the model reads of the points
	if !c.task.Made() {                                             // they are its inputs
		if seen = c.cal; c.union != c.cal {
			c.union.Clip(input)
		}
	}
	for _, j := range seen.Clip(input) {
		warnings = append(warnings, fmt.Sprintf("input %q has values far from all others: those are clipped; is there a "+
			"mistake in the data?", inputNames(c.task)[j]))
	}
	return warnings, nil
}

// isInput reports whether a value is the model's input, perhaps in another shape.
func (c *calibrated) isInput(value string) bool {
	producers := c.canonical.Graph.Producers()
	for n := producers[value]; n != nil && quant.Reshapes(n); n = producers[value] {
		value = n.Input(0)
	}
	return value == c.canonical.Graph.DataInputs()[0].Name
}

// gridError is the root mean square margin error that the grid of the input alone makes on rows.
func (c *calibrated) gridError(ctx context.Context, input *quant.Input, rows []float32) (_ float64, err error) {
	x, err := c.full.Inputs(ctx, sampled(rows, c.full.Dim(), c.affordable(errorRows)))
	if err != nil {
		return 0, err
	}
	file := c.full
	if c.task.Made() {
		if file, err = openBehind(c.file, c.task, nil, c.o.Workers); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	want, err := file.Margins(ctx, x)
	if err != nil {
		return 0, err
	}
	got, err := file.Margins(ctx, input.Round(x, c.file.Dim()))
	if err != nil {
		return 0, err
	}
	return math.Sqrt(sensitivity.MarginError(got, want)), nil
}

// assemble returns the plans of the layers in their chosen formats; layers without any stay in float.
func (c *calibrated) assemble(fits [][]quant.Layer, w assignment) []quant.Layer {
	var out []quant.Layer
	for i, formats := range w {
		switch {
		case len(formats) == 0:
		case !slices.ContainsFunc(formats, func(f int) bool { return f != formats[0] }):
			out = append(out, fits[i][formats[0]])
		default:
			out = append(out, mixed(fits[i], formats, c.layers[i].In))
		}
	}
	return out
}

// mixed puts a layer together from the rows of its fits in several formats.
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

// planOf puts layers together to a plan.
func (c *calibrated) planOf(layers []quant.Layer) *quant.Plan {
	p := &quant.Plan{Layers: layers}
	for i := range layers {
		if layers[i].Act == nil {
			p.Input = c.grid.input
		}
	}
	return p
}
