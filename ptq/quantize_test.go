package ptq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/ptq/taskmodel"
	"cfq/task"
)

// Every method and allocator writes a model that ONNX Runtime runs on integer kernels within its budget, decides like
// the original, and is the same for any number of workers. Each method and each allocator meets each kind of scales.
func TestQuantize(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 25)
	kinds := []string{scalesPerTensor, scalesPerChannel}
	for i, method := range Methods() {
		for k, name := range append(choiceNames(keyOf(t, "allocate.rule").Choices), "") {
			allocator := name
			if allocator != "" && (i+k)%3 > 0 && !long() {
				continue
			}
			scales := kinds[(i+k+1)%len(kinds)] // of cf-ptq and ptq those that they have anyway are run twice
			perTensor := scales == scalesPerTensor
			settings := []string{"allocate.budget=3.5", "round.scales=" + scales}
			if allocator != "" {
				settings = append(settings, "allocate.rule="+name)
			}
			people := people
			switch untrained := method.Recipe.Train == nil; {
			case untrained && allocator == allocatorLearned:
				continue // it needs an objective
			case !untrained:
				if allocator != "" || !long() {
					continue // it trains whatever has been allocated; TestTrainedMethods has the others
				}
				settings, people = append(settings, "train.steps=32"), few(people, 15)
			}
			if method.Recipe.Refine.Rounds > 0 {
				settings = append(settings, fmt.Sprint("refine.rounds=", 1-min(1, len(allocator))))
			}
			o := mustRecipe(method.Name, settings...)
			t.Run(fmt.Sprintf("%s/%s/%s", method.Name, allocator, scales), func(t *testing.T) {
				r := quantized(t, m, tk, people, o)
				spent, weights := 0.0, 0
				for _, l := range r.Layers {
					spent += l.Bits * float64(l.Params)
					weights += l.Params
					if perTensor != (l.Channels == 1) {
						t.Errorf("layer %s has %d scales", l.Node, l.Channels)
					}
					if most := r.Plan.Layer(l.Node).MeanBits(); l.Bits > most+1e-9 || l.Bits < most-0.5 {
						t.Errorf("layer %s has %v bits in the file, %v in the plan", l.Node, l.Bits, most)
					}
				}
				most := o.Allocate.Budget*float64(weights) + 1e-6
				if o.Allocate.Cost == costBits && spent > most || r.Stored < r.Bits {
					t.Errorf("%v bits for %d weights exceed a budget of %v", spent, weights, o.Allocate.Budget)
				}
				if (r.Recourse > 0) != (method.Recipe.Calibrate.Points != onFactual) {
					t.Errorf("%d recourse points", r.Recourse)
				}
				if allocator != "" || method.Name != CFPTQ && !long() {
					return
				}
				again := quantized(t, m, tk, people, o, Run{Workers: 3})
				if !bytes.Equal(r.Model, again.Model) {
					t.Error("three workers wrote other bytes than one")
				}
			})
		}
	}
}

// Where a wide column's segments meet, the slope of the quantized model is that of
// the original, not that of both segments together.
func TestGradientAtSegmentEnds(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	r := quantized(t, m, tk, people, mustRecipe("ptq", "allocate.budget=8", "write.compute=integer"))
	q := must.Get(codec.Read(r.Model, ""))(t)
	dim, ends := tk.Dim(), 0
	var x []float32
	var sources []int
	for j, c := range r.Plan.Input.Columns {
		if !r.Plan.Input.Inner(j) {
			continue
		}
		for i := range 20 {
			row := append([]float32{}, people.X[i*dim:(i+1)*dim]...)
			row[c.Source] = c.Hi
			x, sources = append(x, row...), append(sources, c.Source)
		}
		ends++
	}
	if ends == 0 {
		t.Fatal("no column has segments")
	}
	var grads [2][]float32
	for i, m := range []*graph.Model{m, q} {
		c, err := taskmodel.Open(loaded(t, m), tk, 1)
		must.Do(t, err)
		_, grads[i], err = c.MarginGrads(t.Context(), x)
		must.Do(t, errors.Join(err, c.Close()))
	}
	var full, quantized float64
	for i, s := range sources {
		full += math.Abs(float64(grads[0][i*dim+s]))
		quantized += math.Abs(float64(grads[1][i*dim+s]))
	}
	if ratio := quantized / full; ratio < 0.8 || ratio > 1.25 {
		t.Errorf("the slopes at the ends of segments are %.2f times the original's", ratio)
	}
}

func TestQuantizeErrors(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 100)
	short := *tk
	short.Features = tk.Features[:3]
	noLayers := m.Clone()
	noLayers.Graph.Nodes = []*graph.Node{{
		Op: "Identity", Inputs: []string{m.Graph.Inputs[0].Name},
		Outputs: []string{m.Graph.Outputs[0].Name},
	}}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		m    *graph.Model
		t    *task.Task
		p    *task.People
		o    Recipe
		want string
	}{
		{
			"method", context.Background(), m, tk, people,
			Recipe{Method: "cfptq"},
			`invalid value "cfptq" for method: want cf-ptq, cfq-qat,`,
		},
		{"task", context.Background(), m, &short, people, mustRecipe(CFPTQ), "the task's features make 3"},
		{"people", context.Background(), m, tk, &task.People{}, mustRecipe(CFPTQ), "no rows to calibrate on"},
		{"layers", context.Background(), noLayers, tk, people, mustRecipe(CFPTQ), "without dense layers"},
		{"cancelled", cancelled, m, tk, people, mustRecipe(CFPTQ), "context canceled"},
	} {
		_, err := Quantize(tt.ctx, loaded(t, tt.m), tt.t, tt.p, tt.o, Run{})
		must.Fail(t, err, tt.want)
	}
}

// Layers that have no canonical form stay in float, also where they read the
// model's input, and are in the result with the reason.
func TestQuantizeLeavesFixedLayers(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 60)
	g := m.Graph
	ones := slices.Repeat([]float32{1}, 20) // a number for each place is no matrix
	for _, n := range g.Consumers()["x"] {
		n.Inputs[0] = "flat"
	}
	g.Inits = append(g.Inits, graph.FromFloats("ones", ones, 4, 5),
		graph.FromInts("cube", []int64{-1, 4, 1, 5}, 4), graph.FromInts("rows", []int64{-1, 20}, 2))
	g.Nodes = append([]*graph.Node{
		{Name: "r1", Op: "Reshape", Inputs: []string{"x", "cube"}, Outputs: []string{"c"}},
		{Name: "cubic", Op: "Einsum", Inputs: []string{"c", "ones"}, Outputs: []string{"d"}, Attrs: []graph.Attr{
			graph.StringAttr("equation", "naij,aj->naij"),
		}},
		{Name: "r2", Op: "Reshape", Inputs: []string{"d", "rows"}, Outputs: []string{"flat"}},
	}, g.Nodes...)
	r := quantized(t, m, tk, people, mustRecipe(CFPTQ, "refine.rounds=1"))
	first := r.Layers[0]
	if len(r.Layers) != 4 || first.Node != "cubic" || first.Float == "" || first.Params != 20 {
		t.Errorf("%+v", r.Layers)
	}
}

func keyOf(t *testing.T, name string) Key {
	t.Helper()
	for _, k := range Keys() {
		if k.Name == name {
			return k
		}
	}
	t.Fatalf("there is no setting %s", name)
	return Key{}
}

// Every choice of every setting makes a file that runs as planned, says in its recipe how it
// was made, and differs from that of the other choices.
func TestChoices(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 20)
	std, err := findMethod("cf-ptq")
	must.Do(t, err)
	var usual *Result // by the choices that are made anyway
	// the choices above make no difference here; all activations have 8 bits: bops are bits; small layers are float
	same := map[string]int{"allocate.cost": 1, "write.input": 1, "write.compute": 1}
	for _, c := range Keys() {
		if c.Choices == nil || c.Name == "allocate.rule" || c.Name == "train.prune-by" || c.Name == "allocate.scores" {
			continue // TestQuantize and TestPruned have them all
		}
		if c.Name == objectiveKey && !long() {
			continue
		}
		usually := c.Get(&std.Recipe)
		files := map[string]bool{}
		for _, choice := range c.Choices {
			settings := []string{"refine.rounds=0", c.Name + "=" + choice.Name}
			add := func(key, value string) {
				if c.Name != key {
					settings = append(settings, key+"="+value)
				}
			}
			add("write.compute", "integer")
			if c.Name != "allocate.cost" && c.Name != "write.compute" {
				add("write.act-bits", "5")
			}
			add("allocate.keep-float", "/layers.2/Gemm")
			if c.Name == "train.objective" && choice.Name != untrained {
				add("train.steps", "32")
			}
			r, special := usual, choice.Name != usually || c.Name == "allocate.cost" ||
				c.Name == "write.compute"
			if special || usual == nil {
				o := mustRecipe(CFPTQ, settings...)
				if r, err = Quantize(t.Context(), loaded(t, m), tk, people, o, Run{}); err != nil {
					t.Errorf("%s %s: %v", c.Name, choice.Name, err)
					continue
				}
			}
			if !special {
				usual = r
			}
			must.Do(must.In(t, c.Name, choice.Name), r.Verified.Err())
			if choice.Name != usually && r.Recipe[c.Name] != choice.Name {
				t.Errorf("%s %s is not in the recipe %v", c.Name, choice.Name, r.Recipe)
			}
			q := must.Get(codec.Read(r.Model, ""))(t)
			q.Metadata = nil
			plain := must.Get(codec.Marshal(q))(t)
			files[string(plain)] = true
		}
		if got, want := len(files), len(c.Choices)-same[c.Name]; got != want {
			t.Errorf("%s: %d choices make %d files, want %d", c.Name, len(c.Choices), got, want)
		}
	}
}

// By bytes, files of random networks are no larger than by bits, and the margin error is often smaller.
func TestBudgetOfBytes(t *testing.T) {
	t.Parallel()
	tk, networks, smaller := sparseTask(t), 1, 0
	budgets := []float64{2.7, 4}
	if long() {
		networks, budgets = 40, []float64{2, 2.7, 3.3, 4, 6}
	}
	for seed := range networks {
		s := newSparse(uint64(seed))
		m, people := loaded(t, s.model()), s.people(150)
		for _, budget := range budgets {
			var bytes [2]int
			var rms [2]float64
			for k, cost := range []string{costBits, costBytes} {
				o := mustRecipe(CFPTQ, fmt.Sprint("allocate.budget=", budget), "allocate.cost="+cost, "refine.rounds=1")
				r := must.Get(Quantize(t.Context(), m, tk, people, o, Run{}))(t)
				must.Do(t, r.Verified.Err())
				delete(r.Recipe, "allocate.cost")
				text := must.Get(json.Marshal(r.Recipe))(t)
				q := must.Get(codec.Read(r.Model, ""))(t)
				q.SetMeta(RecipeKey, string(text))
				bytes[k], rms[k] = len(must.Get(codec.Marshal(q))(t)), r.HeldOut.RMS
			}
			if bytes[1] > bytes[0] {
				t.Errorf("seed %d, budget %v: %d bytes, by bits %d", seed, budget, bytes[1], bytes[0])
			}
			if rms[1] < rms[0] {
				smaller++
			}
		}
	}
	if smaller < networks*len(budgets)/4 {
		t.Errorf("of %d files %d have a smaller margin error", networks*len(budgets), smaller)
	}
}

// With activations of fewer bits the same budget of bit operations buys wider weights.
func TestBudgetOfOperations(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 150)
	bits := map[int]float64{}
	for _, act := range []int{4, 8} {
		r := quantized(t, m, tk, people, mustRecipe(CFPTQ, "allocate.budget=3", "allocate.cost=bops",
			fmt.Sprint("write.act-bits=", act), "refine.rounds=0"))
		bits[act] = r.Bits
		var bops, all float64
		for i, l := range r.Layers {
			a := 8.0
			if i > 0 {
				a = float64(act)
			}
			bops += l.Bits * a * float64(l.Params)
			all += 8 * float64(l.Params)
		}
		if bops > 3*all+1e-6 {
			t.Errorf("%d-bit activations: %v bit operations of %v", act, bops, 3*all)
		}
	}
	if bits[4] <= bits[8] {
		t.Errorf("%v bits per weight with 4-bit activations, %v with 8-bit ones", bits[4], bits[8])
	}
}

func TestRefinedInFloat(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 50)
	r := quantized(t, m, tk, people, mustRecipe(CFPTQ, "allocate.budget=3"))
	if o := r.Refined; o == nil || !(o.After < o.Before) || o.Rounds == 0 {
		t.Errorf("refinement: %+v", o)
	}
	r = quantized(t, m, tk, people, mustRecipe(CFPTQ, "refine.rounds=0"))
	for _, l := range r.Verified.Layers {
		if l.Kernel != "Gemm" && l.Kernel != "FusedGemm" {
			t.Errorf("layer %s runs as %s", l.Node, l.Kernel)
		}
	}
	if r.Plan.Input != nil {
		t.Error("the input is quantized")
	}
}

// Where rounds of refinement leave much, gradient steps follow, the same for any number of workers; where the required
// margin is large, they are not needed.
func TestRefinedBySteps(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 60)
	quantize := func(workers int) *Result {
		return quantized(t, m, tk, people, mustRecipe(CFPTQ, "allocate.budget=2"), Run{Workers: workers})
	}
	r := quantize(1)
	if o := r.Refined; o.Steps == 0 || !(o.After < 0.9*o.Before) {
		t.Errorf("refinement: %+v", o)
	}
	if long() && !bytes.Equal(quantize(2).Model, r.Model) {
		t.Error("two workers write another file")
	}
	if long() {
		tk.Target.Margin = 5
		must.Same(t, 0, quantize(1).Refined.Steps)
	}
}

// Gradient steps see where the quantized model accepts people, whatever the original says there.
func TestOwnWays(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	c := calibrated(t, m, tk, few(people, 120), mustRecipe(CFPTQ), Run{})
	plans := c.fitsOf(2)
	quantized := must.Get(c.openLayers(t.Context(), plans))(t)
	defer quantized.Close()
	ways := must.Get(c.ownWays(t.Context(), plans))(t)
	if len(ways) == 0 {
		t.Fatal("nobody has recourse by the quantized model")
	}
	for _, w := range ways {
		if margin := must.Get(quantized.Margins(t.Context(), w.To))(t)[0]; margin < eval.HeadlineMargin {
			t.Errorf("the way of person %d ends at the margin %v of the quantized model", w.Person, margin)
		}
	}
}

// What becomes of the weights does not depend on people who are not calibrated on.
func TestOthersAreNotSeen(t *testing.T) {
	needLong(t)
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	quantize := func(people *task.People) *Result {
		return quantized(t, m, tk, people, mustRecipe(CFPTQ, "allocate.budget=2", "calibrate.rows=300"))
	}
	r := quantize(people)
	margins := marginsOf(t, m, tk, people.X)
	var refused []int // and not calibrated on
	for i, v := range margins {
		if _, seen := slices.BinarySearch(r.Calibrated, i); v <= 0 && !seen {
			refused = append(refused, i)
		}
	}
	others := *people
	others.X = slices.Clone(people.X)
	for _, i := range refused {
		copy(others.X[i*people.Dim:(i+1)*people.Dim], people.X[refused[0]*people.Dim:])
	}
	if len(refused) < 100 || r.Refined.Steps == 0 {
		t.Fatalf("%d others, refined %+v", len(refused), r.Refined)
	}
	if !bytes.Equal(quantize(&others).Model, r.Model) {
		t.Error("people who are not calibrated on change the file")
	}
}
