// Package ptq quantizes ONNX classifiers so that algorithmic recourse survives: what people were told to change to get
// a favourable decision still works after the model has been quantized.
//
// Input: a model, a task, the rows to calibrate on. Output: a quantized model, written and verified in ONNX Runtime,
// with the plan it was made from. Invariant: the same inputs and recipe give the same bytes, for any number of workers.
//
// [Quantize] does everything for one budget; [Smallest] searches for a budget, [Sweep] measures methods and budgets,
// [FromPlan] writes a saved plan, [OpenFleet] draws variants of a model, and [Sensitivity] measures how much each
// layer matters.
//
// References: section Training-Free Counterfactual-Aware PTQ of the paper.
package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"cfq/calib"
	"cfq/calib/refine"
	"cfq/eval"
	"cfq/internal/lists"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/qat/cohort"
	"cfq/quant"
	"cfq/sensitivity"
	"cfq/task"
)

// Quantize quantizes the model for the task, calibrated on the people's rows. Result.Verified says whether the written
// model does what it should; look at it before shipping. An *InputError says that the recipe, the model or the task
// cannot be used as they are.
func Quantize(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, r Recipe, run Run) (
	*Result, error,
) {
	c, err := calibrate(ctx, m, t, people, r, run)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // the result is what counts
	result, err := c.quantize(ctx, c.net.recipe.Allocate.Budget)
	if err != nil {
		return nil, err
	}
	return result, c.judge(ctx, result)
}

// calibration is all of Quantize that does not depend on the budget, in the order in which it comes about. Close it
// after use.
type calibration struct {
	net            *network
	sample         *calibrationSample
	calibrationSet *calib.Set        // U_cal of the paper: the rows and the recourse points
	fitSet         *calib.Set        // what everything is fitted on: calibrationSet or its rows
	input          *quant.Input      // nil where no layer reads the input on a grid
	foldedLayers   []quant.LayerInfo // network.layers with the grid folded into those that read it
	outputs        calib.Outputs     // output quantizers of convolutions
	layers         [][]quant.Layer   // layer, format
	gradients      []float64         // gradient score of each layer
	marginErrors   [][]float64       // of each layer as a whole, by format; nil where they were not measured
	errors         widthErrors       // what each bit width costs the margin
	source         *cohort.Source    // who is trained on; nil for methods without training
	warnings       []string          // of all stages up to this one
	mirror         bool              // rows of few bits have negative scales where that errs less
}

func calibrate(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, r Recipe, run Run) (
	*calibration, error,
) {
	c, err := fit(ctx, m, t, people, r, run)
	if err != nil {
		return nil, err
	}
	if c, err = c.equalized(ctx, m, people); err == nil {
		err = c.score(ctx)
	}
	if err == nil && r.Train != nil {
		if err = c.openSource(ctx); err != nil {
			err = fmt.Errorf("training: %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// clearlyLess is the ratio of margin errors below which it is not chance that a model is better with equal channels.
const clearlyLess = 0.8

// equalized returns the calibration with all channels equalized instead, where some differ more than in ordinary
// networks and the margin error of 4 bits at points held out is clearly less with it. It closes the other one.
func (c *calibration) equalized(ctx context.Context, m *onnxio.Model, people *task.People) (*calibration, error) {
	r := c.net.recipe
	doubtful, err := quant.MayBeUneven(c.net.canonical)
	if err != nil || !doubtful || r.Round.CrossLayerEqualization {
		return c, err
	}
	r.Round.CrossLayerEqualization = true
	other, err := fit(ctx, m, c.net.task, people, r, c.net.run)
	if err != nil {
		return c, err
	}
	held, err := c.heldOut(ctx)
	var of [2]float64
	for i, x := range []*calibration{c, other} {
		if err == nil && len(held.X) > 0 {
			of[i], err = x.errorAt(ctx, x.fitsOf(4), &held.Points)
		}
	}
	if of[1] < clearlyLess*of[0] {
		c, other = other, c
	}
	return c, errors.Join(err, other.Close())
}

// fit is calibrate without scores.
func fit(ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, r Recipe, run Run) (
	_ *calibration, err error,
) {
	net, err := prepare(ctx, m, t, r, run) // layers, and what stays in float and why
	if err != nil {
		return nil, inputError(err)
	}
	c := &calibration{net: net}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if net.checkpoint, err = net.openCheckpoint(people); err != nil {
		return nil, inputError(err)
	}
	if c.sample, err = net.chooseSample(ctx, people); err != nil {
		return nil, inputError(err)
	}
	c.warnings = slices.Concat(net.warnings, c.sample.warnings)
	c.calibrationSet = calib.FactualSet(c.sample.people.X, people.Dim)
	if r.Calibrate.Points != onFactual || r.Allocate.Scores != onFactual {
		c.calibrationSet, err = net.recoursePoints(ctx, c.sample.people.X, c.sample.set, c.sample.promises, net.teacher())
		if err != nil {
			return nil, err
		}
	}
	if err = c.fitLayers(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// quantize is Quantize of a candidate, which may never be written: its margin error is not measured.
func (c *calibration) quantize(ctx context.Context, budget float64) (*Result, error) {
	allocations, learned, err := c.allocate(ctx, budget) // bit widths within the budget
	if err != nil {
		return nil, err
	}
	made, err := c.better(ctx, allocations)
	if err != nil {
		return nil, err
	}
	layers := made.layers
	var trained *Training
	if c.source != nil {
		if layers, trained, err = c.train(ctx, layers, budget); err != nil {
			return nil, fmt.Errorf("training: %w", err)
		}
		if bytes, err := c.fileSize(layers, false); err != nil || made.allowed > 0 && bytes > made.allowed {
			return nil, cmp.Or(err, fmt.Errorf("training: the file would have %d bytes, and %d are allowed: "+
				"allocate.cost=bits counts no bytes", bytes, made.allowed))
		}
	}
	r, err := c.net.write(c.planOf(layers), c.written(budget, nil))
	if err != nil {
		return nil, err
	}
	r.Learned, r.Refined, r.Training, r.made = learned, made.refined, trained, made
	c.describe(r, budget)
	return r, r.verify(ctx, c.sample.people.X, &c.net.run) // in ONNX Runtime
}

// better refines allocations and returns the one that after the rounds has the least margin error on ways to recourse
// and takes no more bytes than the first one, which is plain and stays where nobody has recourse.
func (c *calibration) better(ctx context.Context, all []allocation) (best allocation, err error) {
	var judging refine.Points
	if len(all) > 1 {
		ways := c.net.ways(c.fitSet, c.sample.set)
		if sensitivity.Multiplications(c.net.layers) <= maxStepWork { // else the search takes longer than all the rest
			ways, err = c.cheapest(ctx)
		}
		if err == nil && len(ways.Rays) > 0 {
			judging, err = c.drawPoints(ctx, ways, heldPoints, 0)
		}
		if err != nil {
			return best, err
		}
	}
	points, err := c.refinePoints(ctx)
	if err != nil {
		return best, err
	}
	least, allowed := math.Inf(1), 0
	for k, w := range all {
		w.layers, w.refined, err = c.refineRounds(ctx, w.from.assemble(w.widths), points)
		e, bytes := 0.0, 0
		if err == nil && len(judging.Margins) > 0 {
			e, err = c.errorAt(ctx, w.layers, &judging)
		}
		if err == nil && c.net.recipe.Allocate.Cost == costBytes && (len(all) > 1 || c.source != nil) {
			bytes, err = c.fileSize(w.layers, k == 0)
		}
		if err != nil {
			return best, err
		}
		if k == 0 {
			allowed = bytes
		}
		if k == 0 || bytes <= allowed && e < least {
			best, least = w, e
		}
	}
	best.allowed = allowed
	if best.refined == nil {
		return best, nil
	}
	outcome, bytes := *best.refined, 0
	moved, err := c.descend(ctx, best.layers, &points, &outcome)
	if err == nil && allowed > 0 {
		bytes, err = c.fileSize(moved, false)
	}
	if err == nil && bytes <= allowed { // a scale may have left the range of float16
		best.layers, best.refined = moved, &outcome
	}
	return best, err
}

func (c *calibration) Close() error { return c.net.full.Close() }

// heldPoints is how many recourse points the margin error of a written model is measured at, at most; with fewer than
// minPoints of people held out, those of people who were calibrated on are taken.
const heldPoints = 1000

// HeldOut is the margin error of the written model at recourse points of people that it was neither calibrated nor
// trained on.
type HeldOut struct {
	Points   int     `json:"points"`
	Seen     bool    `json:"calibrated_on,omitempty"` // too few people are left: these were calibrated on
	RMS      float64 `json:"rms"`                     // root mean square, in logits
	Required float64 `json:"required_margin"`         // of the task; eval.HeadlineMargin where that is 0
	// Cause is what most of the error comes from where it is more than half of Required: a layer, which alone makes
	// the error CauseRMS, or, with InputGrid, the grid of the input, whose first reader the layer is.
	Cause     string  `json:"cause,omitempty"`
	CauseRMS  float64 `json:"cause_rms,omitempty"`
	InputGrid bool    `json:"input_grid,omitempty"`
	// Of a file that fails, PassingBudget is the least that passes with the error PassingRMS, even without refinement and
	// training; 0 where none does, or where it was not measured.
	PassingBudget float64 `json:"passing_budget,omitempty"`
	PassingRMS    float64 `json:"passing_rms,omitempty"`

	AsTheyAre `json:"as_they_are"`
}

// AsTheyAre compares decisions on people who change nothing: recourse points cannot tell a model from a constant, since
// all of them have one margin.
type AsTheyAre struct {
	Refused  [2]int     `json:"refused"`  // by the original, and of these by the written model
	Approved [2]int     `json:"approved"` // likewise
	Error    eval.Float `json:"rms"`
	// Spread is the ratio of the standard deviations of margins, written to original: of all, or without the outer tenths,
	// which a grid may clip or which alone may differ, whichever is larger.
	Spread eval.Float `json:"margin_spread"`
}

// A model has collapsed whose margins have less than minKept of their spread, or that decides less than minKept alike
// of those whom the original refuses, or approves. Fewer than minDecided may all be near the decision.
const minKept, minDecided = 0.5, 20

// Collapsed reports whether the written model fails to tell people apart.
func (h *HeldOut) Collapsed() bool { return h != nil && h.collapse() != "" }

func (a *AsTheyAre) collapse() string {
	for k, n := range [][2]int{a.Refused, a.Approved} {
		if n[0] >= minDecided && float64(n[1]) < minKept*float64(n[0]) {
			return fmt.Sprintf("quantizing has collapsed the model: of %d people whom the original %s, it %[2]s %d", n[0],
				[]string{"refuses", "approves"}[k], n[1])
		}
	}
	if n := a.Refused[0] + a.Approved[0]; n >= minDecided && a.Spread < minKept {
		return fmt.Sprintf("quantizing has collapsed the model: margins of %d people spread %.2g times as far as the "+
			"original's", n, a.Spread)
	}
	return ""
}

// Doubtful reports whether the error is more than half of the required margin, and Exceeds whether it is more than it.
func (h *HeldOut) Doubtful() bool { return h != nil && h.RMS > h.Required/2 }

// Exceeds reports whether the error is more than the required margin.
func (h *HeldOut) Exceeds() bool { return h != nil && h.RMS > h.Required }

// Fails reports whether the file should not be served.
func (h *HeldOut) Fails() bool { return h.Collapsed() || h.Exceeds() }

// trainingPays is the budget up to which training is worth its time.
const trainingPays = 3

// Advice says which budget passes, where that was measured, and which method makes smaller errors.
func (r *Result) Advice() (s string) {
	if h := r.HeldOut; h.PassingBudget > 0 {
		s = fmt.Sprintf("--budget %g passes: before refinement its margin error is %.2g; ", h.PassingBudget, h.PassingRMS)
	}
	method := CFPTQ
	if r.Budget <= trainingPays {
		method = "cfq-qat"
	}
	if r.Method == method || r.Training != nil && r.Training.Objective == qat.Distil {
		return s
	}
	return s + fmt.Sprintf("--method %s makes smaller errors; ", method)
}

// String says what the error is, where it comes from and what helps.
func (h *HeldOut) String() string {
	of, limit := "people held out", ""
	if h.Seen {
		of = "people who were calibrated on"
	}
	if !h.Exceeds() {
		limit = "half of "
	}
	s := cmp.Or(h.collapse(), fmt.Sprintf("margin error %.3g logits (rms) at %d recourse points of %s, more than %sthe "+
		"margin of %g that recourse must have", h.RMS, h.Points, of, limit, h.Required))
	switch {
	case h.InputGrid:
		s += fmt.Sprintf("; the 8-bit grid of the input alone makes %.2g: try --set write.input=%s", h.CauseRMS, inputFloat)
	case h.Cause != "":
		s += fmt.Sprintf("; layer %q alone makes %.2g: try a larger --budget, or --keep-float %[1]q", h.Cause, h.CauseRMS)
	}
	return s
}

// heldOut are recourse points of people who are neither calibrated nor trained on, or of others where few are left.
type heldOut struct {
	refine.Points       // with the original's margins
	people        []int // whose they are; none where they are calibrated on
}

// heldOut finds the same points for every method, before training.
func (c *calibration) heldOut(ctx context.Context) (h *heldOut, err error) {
	if c.sample.held != nil {
		return c.sample.held, nil
	}
	h = &heldOut{people: c.refused(lists.Where(c.sample.all.N, func(i int) bool {
		_, seen := slices.BinarySearch(c.sample.rows, i)
		return !seen
	}))}
	h.X, err = c.recourseOf(ctx, h.people)
	if len(h.X) < minPoints*c.net.full.Dim() && err == nil {
		h.people = nil
		h.X, err = c.recourseOf(ctx, c.refused(c.sample.rows))
		if c.sample.promises != nil {
			h.X, _ = c.net.thin(slices.Concat(cohort.Points(c.sample.promises)...), nil, heldPoints)
		}
	}
	if err == nil {
		h.Margins, err = c.net.full.Margins(ctx, h.X)
	}
	c.sample.held = h
	return h, err
}

func compareMargins(written, original []float32) (a AsTheyAre) {
	var got, want []float64
	for k, m := range written {
		of := &a.Refused
		if original[k] > 0 {
			of = &a.Approved
		}
		of[0]++
		if m == m && m > 0 == (original[k] > 0) {
			of[1]++
		}
		got, want = append(got, float64(m)), append(want, float64(original[k]))
	}
	a.Error = eval.Float(math.Sqrt(sensitivity.MarginError(written, original)))
	slices.Sort(got)
	slices.Sort(want)
	for _, out := range []int{0, len(got) / 10} {
		inner := func(margins []float64) float64 { return stat.PopStdDev(margins[out:len(margins)-out], nil) }
		a.Spread = max(a.Spread, eval.Float(inner(got)/inner(want)))
	}
	return a
}

// refused returns those of the rows whom the original refuses, heldPoints at most.
func (c *calibration) refused(rows []int) []int {
	rows = lists.Filter(rows, func(i int) bool { return c.sample.margins[i] <= 0 })
	return subset(rows, qat.Spread(len(rows), heldPoints))
}

// recourseOf returns points on the ways of people to their teacher recourse: where they reach the required margin. The
// teacher goes on beyond it, where an error breaks no promise.
func (c *calibration) recourseOf(ctx context.Context, refused []int) ([]float32, error) {
	if len(refused) == 0 || c.sample.promises != nil {
		return nil, nil
	}
	some := c.sample.all.Subset(refused)
	set, err := personal(c.net.set, some)
	if err != nil {
		return nil, err
	}
	u, err := calib.Counterfactual(ctx, c.net.full, set, some.X, c.net.teacher())
	if err != nil {
		return nil, err
	}
	ways := c.net.ways(u, set)
	return ways.Ends(ctx, c.net.full.Margins, float32(c.net.required()))
}

func (p *network) required() float64 { return cmp.Or(p.task.Target.Margin, eval.HeadlineMargin) }

// judge measures the margin error of a written model.
func (c *calibration) judge(ctx context.Context, r *Result) error {
	held, err := c.heldOut(ctx)
	if err != nil {
		return err
	}
	g, err := openFile(ctx, r.Model, c.net.task, c.net.full.Model, c.net.run.Workers)
	if err != nil {
		return err
	}
	r.HeldOut, err = c.measureHeldOut(ctx, held, g)
	if err == nil && (r.HeldOut.Doubtful() || r.HeldOut.Collapsed()) {
		err = c.findCause(ctx, r.HeldOut, held, r.Plan.Layers)
	}
	if err == nil && r.HeldOut.Fails() && c.net.recipe.Target == nil {
		err = c.findPassing(ctx, r.HeldOut, held, r.Budget)
	}
	return err
}

// measureHeldOut closes g.
func (c *calibration) measureHeldOut(ctx context.Context, held *heldOut, g *classifier.Model) (_ *HeldOut, err error) {
	defer func() { err = errors.Join(err, g.Close()) }()
	margins := c.sample.margins
	known := lists.Where(len(margins), func(i int) bool { return margins[i] == margins[i] })
	known = subset(known, qat.Spread(len(known), 4*heldPoints))
	written, err := g.Margins(ctx, lists.RowsAt(c.sample.all.X, c.sample.all.Dim, known))
	if err != nil {
		return nil, err
	}
	h := &HeldOut{
		Points: len(held.Margins), Seen: len(held.people) == 0, Required: c.net.required(),
		AsTheyAre: compareMargins(written, subset(margins, known)),
	}
	h.RMS, err = held.Error(ctx, g)
	return h, err
}

func (c *calibration) findCause(ctx context.Context, h *HeldOut, held *heldOut, layers []quant.Layer) error {
	for _, l := range layers {
		rms, err := c.errorAt(ctx, []quant.Layer{l}, &held.Points)
		if err != nil {
			return err
		}
		if rms > h.CauseRMS {
			h.Cause, h.CauseRMS = l.Node, rms
		}
	}
	if c.input == nil {
		return nil
	}
	rms, err := c.gridError(ctx, c.input, held.X)
	if err == nil && rms > h.CauseRMS/2 {
		h.InputGrid, h.CauseRMS = true, rms
	}
	return err
}

// passingStep is the distance of the budgets that are tried where a file fails.
const passingStep = 0.5

// findPassing looks for the least larger budget at which the fits of a plain allocation pass the check by which the
// written model fails. Refinement improves on them; training does where it aims at the original's margins.
func (c *calibration) findPassing(ctx context.Context, h *HeldOut, held *heldOut, above float64) error {
	r := c.net.recipe
	if r.Allocate.Rule == allocatorLearned || r.Train != nil && r.objective() != qat.Distil {
		return nil
	}
	for budget := math.Floor(above/passingStep+1) * passingStep; budget <= maxBudget; budget += passingStep {
		widths, err := c.within(c.errors, budget)
		if err != nil {
			return err
		}
		g, err := c.openLayers(ctx, c.assemble(widths))
		if err != nil {
			return err
		}
		at, err := c.measureHeldOut(ctx, held, g)
		if err != nil {
			return err
		}
		if !at.Fails() {
			h.PassingBudget, h.PassingRMS = budget, at.RMS
			return nil
		}
	}
	return nil
}
