package ptq

import (
	"bytes"
	"context"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/quant"
	"cfq/task"
)

func planOf(t *testing.T, m *graph.Model, o Recipe) (*Result, []byte) {
	t.Helper()
	_, tk, people := loans(t, "train.csv")
	r := must.Get(Quantize(t.Context(), loaded(t, m), tk, few(people, 150), o, Run{}))(t)
	var b bytes.Buffer
	must.Do(t, WritePlan(&b, r))
	return r, b.Bytes()
}

func readPlan(t *testing.T, text []byte) *quant.PlanFile {
	t.Helper()
	f, err := quant.UnmarshalPlan(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

// A plan has no task, and a model whose output only a task declares is written by it all the same.
func TestFromPlanOfDeclaredHead(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "test.csv")
	declared := *tk
	declared.Target.Output, declared.Target.Threshold = "logits", 1
	m = m.Clone()
	b := graph.NewBuilder(m.Graph, "head.")
	signs := b.Const(graph.FromFloats("signs", []float32{-1, 1}, 2, 1))
	m.Graph.Outputs[0].Name = b.Op("Exp", []string{b.Op("MatMul", []string{m.Graph.Outputs[0].Name, signs})})
	m.Graph.Outputs[0].Shape[1].Size = 1
	roundTrip(t, m, &declared, few(people, 150), mustRecipe("ptq"))
}

// A plan gives the bytes of the run that saved it, whatever the options of that were,
// without data and without a task.
func TestFromPlan(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 150)
	for name, o := range map[string]Recipe{
		"default":     mustRecipe(CFPTQ),
		"paper":       mustRecipe("cf-ptq-paper", "allocate.budget=3"),
		"tensor":      mustRecipe("ptq", "allocate.budget=2"),
		"kept":        mustRecipe("ptq", "allocate.keep-float=/layers.2/Gemm"),
		"input kept":  mustRecipe("ptq", "allocate.keep-float=/layers.0/Gemm", "round.scales=per-channel"),
		"input float": mustRecipe("ptq", "write.input=float", "write.compute=integer"),
		"equalized":   mustRecipe("ptq", "round.cross-layer-equalization=true", "allocate.budget=3"),
		"equal, kept": mustRecipe("ptq", "round.cross-layer-equalization=true", "allocate.keep-float=/layers.0/Gemm"),
		"low":         mustRecipe("ptq", "write.act-bits=4", "write.compute=integer", "round.rule=gptq"),
	} {
		t.Run(name, func(t *testing.T) {
			if name != "default" {
				o.Write.Compute = computeInteger
			}
			r, text := roundTrip(t, m, tk, people, o)
			again := must.Get(FromPlan(t.Context(), loaded(t, m), readPlan(t, []byte(text)), people, Run{Workers: 2}))(t)
			must.Do(t, again.Verified.Err())
			if again.Method != r.Method || again.Budget != r.Budget || again.Bits != r.Bits {
				t.Errorf("%s at %v, %v bits; want %s at %v, %v bits", again.Method, again.Budget, again.Bits, r.Method,
					r.Budget, r.Bits)
			}
		})
	}
	_, text := planOf(t, m, mustRecipe("ptq", "allocate.budget=8", "write.full-range=true", "write.compute=integer"))
	again := must.Get(FromPlan(t.Context(), loaded(t, m), readPlan(t, text), nil, Run{}))(t)
	if err := again.Verified.Err(); (err != nil) != ort.Saturates() {
		t.Errorf("the full range of codes: %v", err)
	}
}

func TestFromEditedPlan(t *testing.T) {
	t.Parallel()
	m, _, _ := loans(t, "train.csv")
	_, text := planOf(t, m, mustRecipe("ptq", "round.scales=per-channel", "write.compute=integer"))
	for _, node := range []string{"/layers.0/Gemm", "/layers.4/Gemm"} {
		f := readPlan(t, bytes.Replace(text, []byte(`"node": "`+node+`",`), []byte(`"node": "`+node+`", "float": true,`), 1))
		if node == "/layers.0/Gemm" { // nothing reads the grid
			f.Input.Columns[0].Source = 99
		}
		r, err := FromPlan(context.Background(), loaded(t, m), f, nil, Run{})
		if err != nil {
			t.Fatalf("%s in float: %v", node, err)
		}
		for _, l := range r.Layers {
			if (l.Float != "") != (l.Node == node) {
				t.Errorf("%s in float: %+v", node, l)
			}
		}
		if (r.Plan.Input == nil) != (node == "/layers.0/Gemm") {
			t.Errorf("%s in float: the input's grid is %v", node, r.Plan.Input)
		}
	}
	f := readPlan(t, text)
	l := &f.Layers[1]
	l.Bits = 8
	for i := range l.Rows {
		l.Rows[i].Codes, l.Rows[i].Scale = "", nil
	}
	r := must.Get(FromPlan(context.Background(), loaded(t, m), f, nil, Run{}))(t)
	if p := r.Plan.Layers; p[0].Bits != 4 || p[1].Bits != 8 || r.Layers[1].Bits != 8 {
		t.Errorf("%d and %d bits", p[0].Bits, p[1].Bits)
	}
	must.Do(t, r.Verified.Err())
}

func TestFromPlanErrors(t *testing.T) {
	t.Parallel()
	m, _, people := loans(t, "train.csv")
	_, text := planOf(t, m, mustRecipe("ptq"))
	other := m.Clone()
	for i := range other.Graph.Inits {
		if v, err := other.Graph.Inits[i].Floats(); err == nil && len(v) > 0 {
			v[0]++
			other.Graph.Inits[i] = graph.FromFloats(other.Graph.Inits[i].Name, v, other.Graph.Inits[i].Dims...)
			break
		}
	}
	none := readPlan(t, text)
	for i := range none.Layers {
		none.Layers[i].Float = true
	}
	narrow := *people
	narrow.Dim--
	for _, c := range []struct {
		m    *graph.Model
		f    *quant.PlanFile
		p    *task.People
		want string
	}{
		{other, readPlan(t, text), nil, "the plan is for another model"},
		{m, none, nil, "leaves every layer in float"},
		{m, readPlan(t, text), &narrow, "to verify a model"},
	} {
		_, err := FromPlan(t.Context(), loaded(t, c.m), c.f, c.p, Run{})
		wantInputError(t, err, c.want)
	}
}
