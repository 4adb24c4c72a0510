package ptq

import (
	"bytes"
	"context"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/task"
)

// roundTrip quantizes m, saves the plan, makes the model from the plan again and holds
// the two against each other. It returns the result and the plan's text.
func roundTrip(t *testing.T, m *graph.Model, tk *task.Task, people *task.People, o Recipe) (*Result, string) {
	t.Helper()
	r := quantized(t, m, tk, people, o)
	var text, second bytes.Buffer
	must.Do(t, WritePlan(&text, r))
	again, err := FromPlan(context.Background(), loaded(t, m), readPlan(t, text.Bytes()), nil, Run{})
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
	people = few(people, 150)
	for name, o := range map[string]Recipe{
		"rows": mustRecipe(CFPTQ, "allocate.budget=3", "refine.rounds=2"),
		"rows, equalized": mustRecipe(CFPTQ,
			"allocate.budget=3", "refine.rounds=0", "round.cross-layer-equalization=true"),
		"bytes": mustRecipe(CFPTQ, "allocate.budget=4", "refine.rounds=0", "allocate.cost=bytes"),
	} {
		t.Run(name, func(t *testing.T) {
			r, text := roundTrip(t, m, tk, people, o)
			if got := strings.Contains(text, `"equalized": true`); got != o.Round.CrossLayerEqualization {
				t.Errorf("the plan says that it is equalized: %v", got)
			}
			if len(r.Layers[0].Rows) < 2 {
				t.Errorf("the first layer has rows of %v", r.Layers[0].Rows)
			}
			if short, all := halves(r.Plan); short != all {
				t.Errorf("%d of %d scales in the plan are in float16", short, all)
			}
		})
	}
	t.Run("old runtime", func(t *testing.T) {
		r, text := roundTrip(t, m, tk, people,
			mustRecipe(CFPTQ, "allocate.budget=3", "refine.rounds=0", "write.runtime=1.20"))
		if !strings.Contains(text, `"target_ort": "1.20"`) {
			t.Error("the plan does not say for which release")
		}
		q := must.Get(codec.Read(r.Model, ""))(t)
		if q.Opset("") != 21 {
			t.Errorf("opset %d", q.Opset(""))
		}
		for _, v := range q.Graph.Inits {
			if v.DType == graph.Int4 || v.DType == graph.Int2 {
				t.Errorf("%s is %s", v.Name, v.DType)
			}
		}
	})
}

func TestFromPlanConvolutions(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	_, tk, people := loans(t, "train.csv")
	people = few(people, 150)
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
		"kept":        {mustRecipe("ptq", "allocate.budget=8", "allocate.keep-float=n_Conv_1"), `"float": true`},
		"old runtime": {mustRecipe("ptq", "allocate.budget=3", "write.runtime=1.20"), `"target_ort": "1.20"`},
	} {
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

// Releases that there are not, or that do not read the model, are found before any work.
func TestRuntimeErrors(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	newer := m.Clone()
	newer.SetOpset("", 23)
	_, text := planOf(t, m, mustRecipe("ptq"))
	f := readPlan(t, text)
	for _, c := range []struct {
		m       *graph.Model
		version string
		want    string
	}{
		{m, "1.19", `"1.19"`},
		{m, "latest", `"latest"`},
		{newer, "1.22", "the model has opset 23, and ONNX Runtime 1.22 reads up to 22"},
	} {
		work := 0
		o, run := mustRecipe(CFPTQ), Run{Progress: func(ev Event) {
			if ev.Stage != "read the model" {
				work++
			}
		}}
		o.Write.Runtime = c.version
		f.Runtime = c.version
		_, err := Quantize(context.Background(), loaded(t, c.m), tk, people, o, run)
		_, planErr := FromPlan(context.Background(), loaded(t, c.m), f, nil, run)
		for _, err := range []error{err, planErr} {
			wantInputError(t, err, c.want)
		}
		if work > 0 {
			t.Errorf("%s: %d steps of work were done", c.version, work)
		}
	}
}
