package ptq

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"

	"cfq/calib"
	"cfq/calib/refine"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/quant/verify"
)

// Result is a quantized model and how it came about.
type Result struct {
	written
	Allocation
	Improvements
	Layers    []Layer  `json:"layers"`
	Equalized []string `json:"equalized,omitempty"` // pairs of layers whose channel ranges were balanced
	CalibrationPoints
	FileSize
	Verified *verify.Report `json:"verified"`
	HeldOut  *HeldOut       `json:"held_out,omitempty"`          // nil by a plan, and without recourse
	Warnings []string       `json:"warnings,omitempty"`          // what is not as the method's name says
	Rounding string         `json:"original_computes,omitempty"` // see classifier.Model.Rounding

	made allocation // none by a plan
}

type written struct {
	Model  []byte            `json:"-"`
	Plan   *quant.Plan       `json:"-"`
	Recipe map[string]string `json:"-"` // as in the model's metadata
	from   *canonicalModel   // for WritePlan
}

// Allocation is what bit widths were chosen by and what they come to.
type Allocation struct {
	Method    string         `json:"method"`
	Allocator string         `json:"allocator"`
	Rounding  calib.Rounding `json:"rounding"`
	Budget    float64        `json:"budget"`
	Cost      string         `json:"cost"`           // what the budget counts
	Bits      float64        `json:"mean_bit_width"` // of the quantized weights: what a budget of bits counts
	// Stored is qdq.StoredBits of the file: codes, scales, zero points, the order of rows.
	Stored float64 `json:"stored_bits_per_weight"`
}

// Improvements is what came of the stages that not every method has.
type Improvements struct {
	Refined  *refine.Outcome `json:"refined,omitempty"`  // what end-to-end refinement did
	Training *Training       `json:"training,omitempty"` // what training did; it comes behind refinement
	Sparsity *Sparsity       `json:"sparsity,omitempty"` // what pruning made of the weights
	Learned  *Learned        `json:"learned_widths,omitempty"`
}

// CalibrationPoints are the people and points that layers are fitted and measured on.
type CalibrationPoints struct {
	People int `json:"people"` // who were given
	// Calibrated are the positions, ascending, of the people that the model was calibrated on or, by
	// Smallest, chosen by. A model of a plan has none.
	Calibrated []int `json:"-"`
	// CalibratedOn says whether scales and codes are fitted on recourse points, too; "" by a plan.
	CalibratedOn string `json:"calibrate_on,omitempty"`
	Factual      int    `json:"calibration_rows"`
	Recourse     int    `json:"recourse_points"`
	Reached      int    `json:"recourse_points_valid"`
	Promised     bool   `json:"promises,omitempty"` // the recourse points are those of Run.Promises
}

// FileSize is what the file takes.
type FileSize struct {
	FloatBytes int `json:"float_bytes"`
	Metadata   int `json:"metadata_bytes,omitempty"` // of the model's exporter, that are left out
	Bytes      int `json:"bytes"`
}

// Layer is what was decided for one layer, and why.
type Layer struct {
	Node   string `json:"node"`
	Params int    `json:"params"`
	// Bits is the mean bit width of the weights; Rows says how many rows have which bit width where they differ.
	Bits     float64     `json:"bits"`
	Rows     map[int]int `json:"rows_of_bit_width,omitempty"`
	Channels int         `json:"scales"`
	// Score is the gradient score, eq. cfptq_sensitivity or its factual counterpart;
	// 0 when Result.Warnings says why there is none.
	Score float64 `json:"sensitivity,omitempty"`
	// MarginError is the mean squared quantization error of the margin when this layer alone is
	// quantized, per bit width of quant.Formats; nil where it was not measured.
	MarginError []float64 `json:"margin_error,omitempty"`
	Float       string    `json:"float,omitempty"` // why the layer stays in float
}

// InFloat says how many weights stay in float and have no part in the mean bit width; "" where none do.
func (r *Result) InFloat() string {
	float, all := 0, 0
	for i := range r.Layers {
		if all += r.Layers[i].Params; r.Layers[i].Float != "" {
			float += r.Layers[i].Params
		}
	}
	if float == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d weights", float, all)
}

// chosenBy says what a recipe chose bit widths by.
func (a *Allocation) chosenBy(r *Recipe) {
	a.Method, a.Allocator, a.Rounding = r.Method, r.Allocate.Rule, r.Round.Rule
	a.Budget, a.Cost = r.Allocate.Budget, r.Allocate.Cost
}

func (c *calibration) describe(r *Result, budget float64) {
	n := c.net
	r.chosenBy(&n.recipe)
	r.Budget, r.Sparsity, r.Rounding = budget, n.recipe.Train.sparsity(r.Plan), n.full.Rounding()
	r.Equalized, r.Warnings = n.equalized, slices.Clone(c.warnings)
	r.CalibrationPoints = c.sample.points(c.calibrationSet)
	r.CalibratedOn, r.Calibrated = n.recipe.Calibrate.Points, c.sample.rows
	if t := r.Training; t != nil {
		r.Calibrated = c.sample.trainedRows
		r.Warnings = append(r.Warnings, t.doubts()...)
	}
	for k := range r.Layers {
		if i := n.index(r.Layers[k].Node); i >= 0 {
			r.Layers[k].Score = c.gradients[i]
			if c.marginErrors != nil {
				r.Layers[k].MarginError = c.marginErrors[i]
			}
		}
	}
}

func (c *calibrationSample) points(s *calib.Set) CalibrationPoints {
	return CalibrationPoints{
		People: c.all.N, Factual: s.Factual, Recourse: s.Recourse, Reached: s.Valid(),
		Promised: s.Recourse > 0 && c.promises != nil,
	}
}

// write makes the file of a plan, which has yet to be verified.
func (m *canonicalModel) write(plan *quant.Plan, recipe map[string]string) (*Result, error) {
	out, err := qdq.Write(m.canonical, plan, qdq.Options{Size: size})
	if err != nil {
		return nil, fmt.Errorf("quantized graph: %w", err)
	}
	out = m.file.Restored(out)
	qdq.Shorten(out, m.found)
	text, err := json.Marshal(recipe) // keys are sorted: the same recipe gives the same bytes
	if err != nil {
		return nil, err
	}
	if !m.spec.KeepMetadata {
		codec.StripMetadata(out)
		out.Metadata = slices.DeleteFunc(out.Metadata, func(e graph.Meta) bool { return e.Key == trainingKey })
	}
	out.SetMeta(RecipeKey, string(text))
	bytes, err := codec.Marshal(out)
	if err != nil {
		return nil, err
	}
	notes, err := qdq.Describe(out)
	if err != nil {
		return nil, err
	}
	r := &Result{
		written:  written{Model: bytes, Plan: plan, Recipe: recipe, from: m},
		FileSize: FileSize{FloatBytes: m.floatBytes, Metadata: m.metadata, Bytes: len(bytes)},
	}
	r.Layers, r.Bits = m.planned(plan, notes)
	r.Stored = qdq.StoredBits(notes)
	return r, nil
}

// RecipeKey is the metadata entry that says how a model was made: the JSON of its recipe, with what it was made from.
const RecipeKey = "cfq.recipe"

// trainingKey is that of what the original says of its training (fit.RecipeKey): the recipe names the original.
const trainingKey = "cfq.training"

// hashDigits of a SHA-256 in hexadecimal name a file in a recipe.
const hashDigits = 32

// written is the recipe of a model that is written at a budget, with what it was made from; more comes on top.
func (c *calibration) written(budget float64, more map[string]string) map[string]string {
	r := c.net.recipe
	r.Allocate.Budget = budget
	texts, sample := r.Texts(), c.sample
	origin := map[string]string{"task": c.net.task.Hash()}
	if sample.people.N < sample.all.N {
		origin["calibrated_on"] = fmt.Sprintf("%d of %d rows", sample.people.N, sample.all.N)
	}
	if sample.promises != nil {
		origin["recourse"] = "promises"
	}
	maps.Copy(origin, c.net.run.Origin)
	maps.Copy(origin, more)
	for k, v := range origin {
		if slices.Contains([]string{"model", "data", "task", "promises", "overrides"}, k) {
			v = v[:min(len(v), hashDigits)]
		}
		if v != "" {
			texts[originPrefix+k] = v
		}
	}
	return texts
}

const verifyRows = 512

// verify runs the file on rows x.
func (r *Result) verify(ctx context.Context, x []float32, run *Run) error {
	m := r.from
	run.tell("verify", 0, 0)
	probes, err := m.probes(ctx, x)
	if err != nil {
		return err
	}
	check := verify.Options{Plan: r.Plan, Engine: m.engine, FloatBytes: m.floatBytes, Probes: probes}
	if m.spec.AllowLarger {
		check.FloatBytes = 0
	}
	r.Verified, err = verify.Check(ctx, r.Model, check)
	return err
}

// planned is what a plan and the file written by it say of each layer, and the plan's mean bits of a quantized weight.
func (m *canonicalModel) planned(plan *quant.Plan, notes []qdq.LayerNote) (layers []Layer, bits float64) {
	weights := 0
	for i, info := range m.found {
		l := Layer{Node: info.Node, Params: info.Params(), Float: info.Fixed}
		p := plan.Layer(info.Node)
		if l.Float == "" && p == nil {
			l.Float = "the plan keeps it"
		}
		if l.Float == "" {
			l.Bits, l.Channels = p.MeanBits(), len(p.Scales)
			if k := slices.IndexFunc(notes, func(n qdq.LayerNote) bool { return n.Node == info.Node }); k >= 0 {
				l.Bits = notes[k].Bits
				if rows := notes[k].Rows; len(rows) > 1 {
					l.Rows = rows
				}
			}
			again := func(o quant.LayerInfo) bool {
				q := plan.Layer(o.Node)
				return o.Fixed == "" && q != nil && q.Codes != nil && slices.Equal(q.Codes, p.Codes) && slices.Equal(o.W, info.W)
			}
			if !slices.ContainsFunc(m.found[:i], again) { // not stored already
				bits += p.MeanBits() * float64(l.Params)
				weights += l.Params
			}
		}
		layers = append(layers, l)
	}
	return layers, bits / float64(weights)
}

// probes is what a written model is verified on: rows spread over x, as many as a model with a fixed batch size takes.
func (m *canonicalModel) probes(ctx context.Context, x []float32) ([]*graph.Tensor, error) {
	rows := cmp.Or(m.full.Fixed(), verifyRows)
	x, _ = m.thin(x, nil, rows)
	x, err := m.full.Inputs(ctx, x)
	if err != nil {
		return nil, err
	}
	for size := rows * m.file.Dim(); m.full.Fixed() > 0 && len(x) < size; {
		x = append(slices.Clip(x), x[:min(len(x), size-len(x))]...)
	}
	return m.file.FileFeed(x)
}

// WritePlan writes the plan file from which FromPlan makes r's model again, byte by byte.
func WritePlan(w io.Writer, r *Result) error {
	infos, err := quant.FindLayers(r.from.canonical)
	if err != nil {
		return err
	}
	f, err := quant.NewPlanFile(r.Plan, infos, r.from.dataInput())
	if err != nil {
		return err
	}
	if f.Model.SHA256, err = codec.Fingerprint(r.from.source); err != nil {
		return err
	}
	f.Equalized = r.from.source != r.from.canonical
	f.Recipe = r.Recipe
	text, err := quant.MarshalPlan(f)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// FromPlan quantizes m as a plan file says: it replaces the stages between the opened model and the written file. The
// written model is verified on points that are drawn from the plan's input grid. An *InputError says that the plan is
// not for this model.
func FromPlan(ctx context.Context, m *onnxio.Model, f *quant.PlanFile, run Run) (_ *Result, err error) {
	run.tell("read the model", 0, 0)
	spec := WriteSpec{KeepMetadata: f.Recipe["write.keep-metadata"] == "true"}
	var all *bool
	if f.Equalized {
		all = new(f.Recipe["round.cross-layer-equalization"] == "true")
	}
	from, err := canonical(ctx, m, nil, spec, all, run.Workers)
	if err != nil {
		return nil, inputError(err)
	}
	defer func() { err = errors.Join(err, from.full.Close()) }()
	plan, err := from.planFrom(f)
	if err != nil {
		return nil, inputError(err)
	}
	r, err := from.write(plan, f.Recipe)
	if err != nil {
		return nil, inputError(err)
	}
	text, err := json.Marshal(f.Recipe)
	if err != nil {
		return nil, err
	}
	if made, err := ParseRecipe("recipe", text); err == nil { // it may have been edited
		r.chosenBy(&made)
	}
	return r, r.verify(ctx, drawProbes(f.Input, from.dataInput(), from.full.Dim()), &run)
}

func (m *canonicalModel) planFrom(f *quant.PlanFile) (*quant.Plan, error) {
	sum, err := codec.Fingerprint(m.source)
	if err != nil {
		return nil, err
	}
	if sum != f.Model.SHA256 {
		weights := 0
		for i := range m.found {
			weights += m.found[i].Params()
		}
		return nil, fmt.Errorf("the plan is for another model: for one with %d weights and the SHA-256 %.12s..., and this "+
			"one has %d and %.12s... in canonical form",
			f.Model.Weights, f.Model.SHA256, weights, sum)
	}
	plan, err := f.Plan(m.found, m.dataInput())
	if err == nil && len(plan.Layers) == 0 {
		err = errors.New("the plan leaves every layer in float: there is nothing to quantize")
	}
	return plan, err
}

func (m *canonicalModel) dataInput() string { return m.canonical.Graph.DataInputs()[0].Name }

// drawProbes draws rows to verify a model on: on the plan's input grid, each value at one end of
// its column's range, at the other or between, and from a normal distribution where the grid is not the model's input.
func drawProbes(in *quant.Input, data string, dim int) []float32 {
	rng := rand.New(rand.NewPCG(1, 0x91a7))
	x := make([]float32, verifyRows*dim)
	lo, hi := make([]float32, dim), make([]float32, dim)
	if in != nil && (in.Value == "" || in.Value == data) {
		lo, hi = in.Ranges(dim)
	}
	for i := range x {
		if a, b := lo[i%dim], hi[i%dim]; a == b {
			x[i] = float32(rng.NormFloat64())
		} else {
			x[i] = a + (b-a)*float32(min(max(3*rng.Float64()-1, 0), 1))
		}
	}
	return x
}
