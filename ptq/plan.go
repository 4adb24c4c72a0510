package ptq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/task"
)

// WritePlan writes the plan file from which FromPlan makes r's model again, byte by byte.
func WritePlan(w io.Writer, r *Result) error {
	infos, err := quant.FindLayers(r.from.canonical)
	if err != nil {
		return err
	}
	f, err := quant.NewPlanFile(r.Plan, infos, dataInput(r.from.canonical))
	if err != nil {
		return err
	}
	if f.Model.SHA256, err = codec.Fingerprint(r.from.source); err != nil {
		return err
	}
	f.Runtime, f.Equalized = r.from.spec.Runtime, r.from.source != r.from.canonical
	f.Recipe = r.Recipe
	text, err := quant.MarshalPlan(f)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// FromPlan quantizes m as a plan file says: it replaces the stages between the opened model and the written
// file. The written model is verified on people
// or, where that is nil, on points that are drawn from the plan's input grid. An *InputError says that the plan is not
// for this model.
func FromPlan(ctx context.Context, m *onnxio.Model, f *quant.PlanFile, people *task.People, run Run) (_ *Result,
	err error,
) {
	run.tell("read the model", 0, 0)
	spec := WriteSpec{Runtime: f.Runtime, KeepMetadata: f.Recipe["write.keep-metadata"] == "true"}
	from, err := open(m, nil, spec, f.Equalized, run.Workers)
	if err != nil {
		return nil, inputError(err)
	}
	defer func() { err = errors.Join(err, from.full.Close()) }()
	plan, err := from.planFrom(f)
	if err != nil {
		return nil, inputError(err)
	}
	if people == nil {
		people = drawProbes(f.Input, dataInput(from.canonical), from.full.Dim())
	}
	if people.Dim != from.full.Dim() || people.N == 0 {
		return nil, inputError(fmt.Errorf("%d rows of %d values to verify a model with %d inputs on", people.N,
			people.Dim, from.full.Dim()))
	}
	out, bytes, err := from.write(plan, f.Recipe)
	if err != nil {
		return nil, inputError(err)
	}
	run.tell("verify", 0, 0)
	r, err := from.result(ctx, out, bytes, plan, people.X)
	if err != nil {
		return nil, err
	}
	r.Recipe = f.Recipe
	text, err := json.Marshal(f.Recipe)
	if err != nil {
		return nil, err
	}
	if made, err := ParseRecipe("recipe", text); err == nil { // it may have been edited
		r.Method, r.Allocator, r.Rounding = made.Method, made.Allocate.Rule, made.Round.Rule
		r.Budget, r.Cost = made.Allocate.Budget, made.Allocate.Cost
	}
	return r, nil
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
	plan, err := f.Plan(m.found, dataInput(m.canonical))
	if err == nil && len(plan.Layers) == 0 {
		err = errors.New("the plan leaves every layer in float: there is nothing to quantize")
	}
	return plan, err
}

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
			if c.Source < 0 || c.Source >= dim { // no layer reads the grid, so nobody has looked
				continue
			}
			if j == 0 || in.Columns[j-1].Source != c.Source {
				lo[c.Source] = c.Lo
			}
			hi[c.Source] = c.Hi
		}
	}
	for i := range p.X {
		if a, b := lo[i%dim], hi[i%dim]; a == b {
			p.X[i] = float32(rng.NormFloat64())
		} else {
			p.X[i] = a + (b-a)*float32(min(max(3*rng.Float64()-1, 0), 1))
		}
	}
	return p
}
