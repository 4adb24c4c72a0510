package ptq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/quant/verify"
	"cfq/task"
)

// origin is what a model was written from, besides its plan.
type origin struct {
	source    *graph.Model // the canonical model, which a plan file names
	canonical *graph.Model // what the plan was made for: source, or what quant.Equalize made of it
	runtime   string
}

// recipeKey is the metadata entry that says how a model was made: a JSON object of texts.
const recipeKey = "cfq.recipe"

// writer is how models are written that ONNX Runtime from the given version on must read.
func writer(version string) qdq.Options { return qdq.Options{Size: size, Runtime: version} }

// readable reports a model that ONNX Runtime of the given version cannot read, however it
// is written, and versions that there are not.
func readable(m *graph.Model, version string) error {
	r, err := qdq.RuntimeOf(version)
	if err != nil {
		return err
	}
	return r.Check(m)
}

// WritePlan writes the plan file that FromPlan makes r's model from again, byte by byte.
func WritePlan(w io.Writer, r *Result) error {
	infos, err := quant.FindLayers(r.origin.canonical)
	if err != nil {
		return err
	}
	f, err := quant.NewPlanFile(r.Plan, infos, dataInput(r.origin.canonical))
	if err != nil {
		return err
	}
	if f.Model.SHA256, err = fingerprint(r.origin.source); err != nil {
		return err
	}
	f.Runtime, f.Equalized = r.origin.runtime, r.origin.source != r.origin.canonical
	m, err := codec.Read(r.Model, "")
	if err != nil {
		return err
	}
	if text, ok := m.Meta(recipeKey); ok {
		if err := json.Unmarshal([]byte(text), &f.Recipe); err != nil {
			return fmt.Errorf("the model's %s: %w", recipeKey, err)
		}
	}
	text, err := quant.MarshalPlan(f)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// FromPlan quantizes m as a plan file says. What the file leaves out is computed as
// quant.PlanFile.Plan does. The written model is verified on people or, where that is
// nil, on points that are drawn from the plan's input grid. Of the options only
// Engine, Workers and Progress count. An *InputError says that the plan is not for this model.
func FromPlan(ctx context.Context, m *graph.Model, f *quant.PlanFile, people *task.People, o Options) (_ *Result, err error) {
	q := &job{o: o, floatBytes: size(m)}
	q.tell("read the model", 0, 0)
	loaded, err := q.load(ctx, m, nil)
	if err != nil {
		return nil, inputError(err)
	}
	q.source = loaded.Graph()
	q.canonical = q.source
	if err := readable(q.canonical, f.Runtime); err != nil {
		return nil, inputError(err)
	}
	plan, err := q.planFrom(f)
	if err != nil {
		return nil, inputError(err)
	}
	if q.full, err = openAs(loaded.With(q.canonical), nil, o.Workers); err != nil {
		return nil, inputError(err)
	}
	defer func() { err = errors.Join(err, q.full.Close()) }()
	if people == nil {
		people = drawProbes(f.Input, dataInput(q.canonical), q.full.Dim())
	}
	if people.Dim != q.full.Dim() || people.N == 0 {
		return nil, inputError(fmt.Errorf("%d rows of %d values to verify a model with %d inputs on", people.N, people.Dim, q.full.Dim()))
	}
	out, err := qdq.Write(q.canonical, plan, writer(f.Runtime))
	if err != nil {
		return nil, inputError(fmt.Errorf("quantized graph: %w", err))
	}
	setRecipe(out, f.Recipe)
	bytes, err := codec.Marshal(out)
	if err != nil {
		return nil, err
	}
	q.tell("verify", 0, 0)
	report, err := verify.Check(ctx, bytes, verify.Options{Plan: plan, Engine: o.Engine, FloatBytes: q.floatBytes, Probes: q.probes(people)})
	if err != nil {
		return nil, err
	}
	r := &Result{Model: bytes, Plan: plan, FloatBytes: q.floatBytes, Bytes: len(bytes), Verified: report}
	r.origin = origin{q.source, q.canonical, f.Runtime}
	if err := q.describePlan(r, out, f.Recipe); err != nil {
		return nil, err
	}
	return r, q.decideAlike(ctx, r, out, people)
}

// leastAlike is the share of rows that a model of a plan decides as the original does, below
// which something is probably wrong with the plan.
const leastAlike = 0.9

// decideAlike warns when the model of a plan decides otherwise than the original: a plan may
// be edited, and verification holds the file against the plan only.
func (q *job) decideAlike(ctx context.Context, r *Result, written *graph.Model, people *task.People) (err error) {
	c, err := classifier.Open(ctx, written, q.o.Engine, classifier.Options{Workers: q.o.Workers})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	want, err := q.full.Margins(ctx, people.X)
	if err != nil {
		return err
	}
	got, err := c.Margins(ctx, people.X)
	if err != nil {
		return err
	}
	alike := 0
	for i, m := range got {
		if (m > 0) == (want[i] > 0) {
			alike++
		}
	}
	if float64(alike) < leastAlike*float64(len(got)) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the model of the plan decides only %d of %d rows as the original does: are the plan's scales and codes right?", alike, len(got)))
	}
	return nil
}

// planFrom returns the plan of a file if it is one for the canonical model.
func (q *job) planFrom(f *quant.PlanFile) (*quant.Plan, error) {
	var err error
	if q.found, err = quant.FindLayers(q.canonical); err != nil {
		return nil, err
	}
	sum, err := fingerprint(q.canonical)
	if err != nil {
		return nil, err
	}
	if sum != f.Model.SHA256 {
		weights := 0
		for i := range q.found {
			weights += q.found[i].Params()
		}
		return nil, fmt.Errorf("the plan is for another model: for one with %d weights and the SHA-256 %.12s..., and this one has %d and %.12s... in canonical form",
			f.Model.Weights, f.Model.SHA256, weights, sum)
	}
	if f.Equalized {
		if q.canonical, _, err = quant.Equalize(q.source); err != nil {
			return nil, err
		}
		if q.found, err = quant.FindLayers(q.canonical); err != nil {
			return nil, err
		}
	}
	plan, err := f.Plan(q.found, dataInput(q.canonical))
	if err == nil && len(plan.Layers) == 0 {
		err = errors.New("the plan leaves every layer in float: there is nothing to quantize")
	}
	return plan, err
}

// describePlan fills in what the plan and the recipe say about a result.
func (q *job) describePlan(r *Result, written *graph.Model, recipe map[string]string) error {
	r.Method, r.Cost, r.Allocator, r.Rounding = recipe["method"], recipe["cost"], recipe["allocator"], recipe["rounding"]
	r.Budget, _ = strconv.ParseFloat(recipe["budget"], 64) // 0 when the recipe was edited
	for _, info := range q.found {
		l := Layer{Node: info.Node, Params: info.Params(), Float: info.Fixed}
		if l.Float == "" && r.Plan.Layer(info.Node) == nil {
			l.Float = "the plan keeps it"
		}
		r.Layers = append(r.Layers, l)
	}
	r.widths(q.found)
	stored, err := qdq.Stored(written)
	r.Stored = 8 * float64(stored) / float64(r.weights())
	return err
}

// setRecipe writes the recipe into the metadata: the same recipe gives the same bytes.
func setRecipe(m *graph.Model, recipe map[string]string) {
	text, err := json.Marshal(recipe) // keys are sorted
	if err != nil {
		panic(err) // a map of strings always marshals
	}
	m.SetMeta(recipeKey, string(text))
}

// fingerprint is the SHA-256 of a model's bytes.
func fingerprint(m *graph.Model) (string, error) {
	b, err := codec.Marshal(m)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// dataInput is the name of the model's only input.
func dataInput(m *graph.Model) string {
	if in := m.Graph.DataInputs(); len(in) > 0 {
		return in[0].Name
	}
	return ""
}

// drawProbes draws rows to verify a model on when there are no data: on the plan's input
// grid, each value at one end of its column's range, at the other or between, and
// from a normal distribution where the grid is not the model's input.
func drawProbes(in *quant.Input, data string, dim int) *task.People {
	rng := rand.New(rand.NewPCG(1, 0x91a7))
	p := &task.People{Dim: dim, N: verifyRows, X: make([]float32, verifyRows*dim)}
	lo, hi := make([]float32, dim), make([]float32, dim)
	if in != nil && (in.Value == "" || in.Value == data) {
		for j, c := range in.Columns {
			if c.Source < 0 || c.Source >= dim {
				continue
			}
			if j == 0 || in.Columns[j-1].Source != c.Source {
				lo[c.Source] = c.Lo
			}
			hi[c.Source] = c.Hi
		}
	}
	for i := range p.X {
		a, b := lo[i%dim], hi[i%dim]
		switch {
		case a == b:
			p.X[i] = float32(rng.NormFloat64())
		default:
			p.X[i] = a + (b-a)*float32(min(max(3*rng.Float64()-1, 0), 1))
		}
	}
	return p
}
