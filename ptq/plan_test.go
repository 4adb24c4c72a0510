package ptq

import (
	"bytes"
	"context"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/task"
)

func planOf(t *testing.T, m *graph.Model, o Recipe) (*Result, []byte) {
	t.Helper()
	_, tk, people := loans(t, "train.csv")
	r := must.Get(Quantize(t.Context(), loaded(t, m), tk, few(people, 60), o, Run{}))(t)
	var b bytes.Buffer
	must.Do(t, WritePlan(&b, r))
	return r, b.Bytes()
}

func readPlan(t *testing.T, text []byte) *quant.PlanFile {
	t.Helper()
	f := must.Get(quant.UnmarshalPlan(text))(must.In(t, text))
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
	roundTrip(t, m, &declared, few(people, 60), mustRecipe("ptq"))
}

// A plan gives the bytes of the run that saved it, whatever the options of that were, without data and without a task.
func TestFromPlan(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 50)
	for name, o := range map[string]Recipe{
		"default":     mustRecipe(CFPTQ, "refine.rounds=1"),
		"paper":       mustRecipe("cf-ptq-paper", "allocate.budget=3"),
		"tensor":      mustRecipe("ptq", "allocate.budget=2"),
		"kept":        mustRecipe("ptq", "allocate.keep-float=/layers.2/Gemm"),
		"input kept":  mustRecipe("ptq", "allocate.keep-float=/layers.0/Gemm", "round.scales=per-channel"),
		"input float": mustRecipe("ptq", "write.input=float", "write.compute=integer"),
		"equalized":   mustRecipe("ptq", "round.cross-layer-equalization=true", "allocate.budget=3"),
		"equal, kept": mustRecipe("ptq", "round.cross-layer-equalization=true", "allocate.keep-float=/layers.0/Gemm"),
		"low":         mustRecipe("ptq", "write.act-bits=4", "write.compute=integer", "round.rule=gptq"),
	} {
		if !slices.Contains([]string{"default", "equal, kept", "low"}, name) && !long() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if name != "default" {
				o.Write.Compute = computeInteger
			}
			r, text := roundTrip(t, m, tk, people, o)
			if name == "low" && !long() {
				return
			}
			again := must.Get(FromPlan(t.Context(), loaded(t, m), readPlan(t, []byte(text)), Run{Workers: 2}))(t)
			must.Do(t, again.Verified.Err())
			if again.Method != r.Method || again.Budget != r.Budget || again.Bits != r.Bits {
				t.Errorf("%s at %v, %v bits; want %s at %v, %v bits", again.Method, again.Budget, again.Bits, r.Method,
					r.Budget, r.Bits)
			}
		})
	}
	_, text := planOf(t, m, mustRecipe("ptq", "allocate.budget=8", "write.full-range=true", "write.compute=integer"))
	again := must.Get(FromPlan(t.Context(), loaded(t, m), readPlan(t, text), Run{}))(t)
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
		r := must.Get(FromPlan(context.Background(), loaded(t, m), f, Run{}))(must.In(t, node))
		for _, l := range r.Layers {
			if (l.Float != "") != (l.Node == node) {
				t.Errorf("%s in float: %+v", node, l)
			}
		}
		if (r.Plan.Input == nil) != (node == "/layers.0/Gemm") {
			t.Errorf("%s in float: the input's grid is %v", node, r.Plan.Input)
		}
	}
}

func TestFromPlanErrors(t *testing.T) {
	t.Parallel()
	m, _, _ := loans(t, "train.csv")
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
	for _, c := range []struct {
		m    *graph.Model
		f    *quant.PlanFile
		want string
	}{
		{other, readPlan(t, text), "the plan is for another model"},
		{m, none, "leaves every layer in float"},
	} {
		_, err := FromPlan(t.Context(), loaded(t, c.m), c.f, Run{})
		wantInputError(t, err, c.want)
	}
}

// roundTrip quantizes m, saves the plan, makes the model from the plan again and holds
// the two against each other. It returns the result and the plan's text.
func roundTrip(t *testing.T, m *graph.Model, tk *task.Task, people *task.People, o Recipe) (*Result, string) {
	t.Helper()
	r := quantized(t, m, tk, people, o)
	var text, second bytes.Buffer
	must.Do(t, WritePlan(&text, r))
	again, err := FromPlan(context.Background(), loaded(t, m), readPlan(t, text.Bytes()), Run{})
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, text.Bytes())
	}
	if !bytes.Equal(r.Model, again.Model) {
		t.Errorf("%d bytes, want the %d of the run that saved the plan", len(again.Model), len(r.Model))
	}
	if err := WritePlan(&second, again); err != nil || !bytes.Equal(text.Bytes(), second.Bytes()) {
		t.Errorf("the plan of the second run is another (%v)", err)
	}
	if r.Stored != again.Stored || len(r.Layers) != len(again.Layers) {
		t.Errorf("%v stored bits in %d layers, want %v in %d", again.Stored, len(again.Layers), r.Stored, len(r.Layers))
	}
	for i, l := range r.Layers {
		if a := again.Layers[i]; a.Bits != l.Bits || !reflect.DeepEqual(a.Rows, l.Rows) || a.Channels != l.Channels {
			t.Errorf("layer %+v, want %+v", a, l)
		}
	}
	return r, text.String()
}

func halves(p *quant.Plan) (halves, all int) {
	for _, l := range p.Layers {
		for _, s := range l.Scales {
			all++
			if h, ok := quant.Half(s); ok && h == s {
				halves++
			}
		}
	}
	return halves, all
}

// A plan gives the bytes again whatever is in it: rows of several widths, scales in float16,
// weights that were evened out, another release of ONNX Runtime.
func TestFromPlanKinds(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 60)
	for name, o := range map[string]Recipe{
		"rows": mustRecipe(CFPTQ, "allocate.budget=3", "refine.rounds=1"),
		"bytes, equalized": mustRecipe(CFPTQ, "allocate.budget=3", "refine.rounds=0",
			"round.cross-layer-equalization=true"),
	} {
		t.Run(name, func(t *testing.T) {
			r, text := roundTrip(t, m, tk, people, o)
			must.Same(t, o.Round.CrossLayerEqualization, strings.Contains(text, `"equalized": true`))
			if len(r.Layers[0].Rows) < 2 {
				t.Errorf("the first layer has rows of %v", r.Layers[0].Rows)
			}
			if short, all := halves(r.Plan); short != all {
				t.Errorf("%d of %d scales in the plan are in float16", short, all)
			}
		})
	}
}

func TestFromPlanConvolutions(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	_, tk, people := loans(t, "train.csv")
	people = few(people, 50)
	m := convolutionalLoans(tk)
	for name, c := range map[string]struct {
		o    Recipe
		want string // in the plan
	}{
		"integers": {mustRecipe("ptq", "allocate.budget=8"), `(?s)"result": \{.*"result": \{`},
		"channels": {
			mustRecipe("ptq", "allocate.budget=4", "round.scales=per-channel", "round.rule=gptq"),
			`"result": \{`,
		},
		"rows":  {mustRecipe(CFPTQ, "allocate.budget=5", "refine.rounds=0"), `"result": \{`},
		"float": {mustRecipe("ptq", "write.compute=auto"), `"reads": "float"`},
		"act bits": {
			mustRecipe("ptq", "allocate.budget=8", "write.act-bits=4", "write.compute=integer"),
			`"result": \{"bits": 4`,
		},
		"kept": {mustRecipe("ptq", "allocate.budget=8", "allocate.keep-float=n_Conv_1"), `"float": true`},
	} {
		if !slices.Contains([]string{"rows", "act bits"}, name) && !long() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if name != "float" {
				c.o.Write.Compute = computeInteger
			}
			if _, text := roundTrip(t, m, tk, people, c.o); !regexp.MustCompile(c.want).MatchString(text) {
				t.Errorf("the plan does not say %s:\n%.2000s", c.want, text)
			}
		})
	}
}
