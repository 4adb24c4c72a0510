package ptq

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/qat"
	"cfq/quant"
)

func TestQuantizable(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "test.csv")
	// behind puts a node between the input and what reads it.
	behind := func(n *graph.Node, inits ...*graph.Tensor) *graph.Model {
		c := m.Clone()
		in := c.Graph.Inputs[0].Name
		for _, node := range c.Graph.Nodes {
			for i := range node.Inputs {
				if node.Inputs[i] == in {
					node.Inputs[i] = "behind"
				}
			}
		}
		n.Name, n.Inputs, n.Outputs = "extra", append([]string{in}, n.Inputs...), []string{"behind"}
		c.Graph.Nodes = slices.Concat([]*graph.Node{n}, c.Graph.Nodes)
		c.Graph.Inits = append(c.Graph.Inits, inits...)
		c.SetOpset("ai.onnx.ml", 3)
		return c
	}
	yes := graph.FromFloats("yes", []float32{1})
	double := m.Clone()
	double.Graph.Inputs[0].DType, double.Graph.Outputs[0].DType = graph.Double, graph.Double
	for i, init := range double.Graph.Inits {
		v := must.Get(init.Numbers())(t)
		double.Graph.Inits[i] = graph.FromNumbers(init.Name, graph.Double, v, init.Dims...)
	}
	diverged := m.Clone()
	first := diverged.Graph.Inits[0]
	nan := slices.Repeat([]float32{float32(math.NaN())}, first.Len())
	diverged.Graph.Inits[0] = graph.FromFloats(first.Name, nan, first.Dims...)
	quantized := quantized(t, m, tk, few(people, 60), mustRecipe("ptq"))
	written := must.Get(codec.Read(quantized.Model, ""))(t)
	decided := m.Clone()
	b := graph.NewBuilder(decided.Graph, "d.")
	half := b.Op("Greater", []string{b.Op("Softmax", []string{"logits"}), b.Const(graph.FromFloats("h", []float32{.5}))})
	decided.Graph.Outputs = []graph.Value{{Name: b.Op("Cast", []string{half}, graph.IntAttr("to", int64(graph.Float)))}}
	partly := m.Clone()
	w := partly.Graph.Inits[0]
	w.Name, w.DType, w.Raw = "codes", graph.Int8, make([]byte, w.Len())
	partly.Graph.Inits = append(partly.Graph.Inits, graph.FromFloats("scale", []float32{1}))
	partly.Graph.Nodes = slices.Insert(partly.Graph.Nodes, 0, &graph.Node{
		Op: "DequantizeLinear", Inputs: []string{"codes", "scale"}, Outputs: []string{m.Graph.Inits[0].Name},
	})
	for name, c := range map[string]struct {
		m                 *graph.Model
		why, instead      string
		recourse, already bool
	}{
		"the loan model": {m: m},
		"a scaler": {
			m: behind(&graph.Node{Op: "Scaler", Domain: "ai.onnx.ml", Attrs: []graph.Attr{
				{Name: "offset", Kind: graph.AttrFloats, Floats: make([]float32, tk.Dim())},
				{Name: "scale", Kind: graph.AttrFloats, Floats: slices.Repeat([]float32{1}, tk.Dim())},
			}}),
		},
		"training mode": {
			m: func() *graph.Model {
				c := behind(&graph.Node{Op: "Dropout", Inputs: []string{"", "mode"}}, yes)
				c.Graph.Nodes = slices.Concat([]*graph.Node{{
					Op: "Cast", Name: "cast", Inputs: []string{"yes"}, Outputs: []string{"mode"},
					Attrs: []graph.Attr{graph.IntAttr("to", int64(graph.Bool))},
				}}, c.Graph.Nodes)
				return c
			}(),
			why: "training mode", instead: "model.eval()", recourse: true,
		},
		"doubles":                  {m: double},
		"a training that diverged": {m: diverged, why: `layer "/layers.0/Gemm" has weights that are no finite numbers`},
		"steps": {
			m: behind(&graph.Node{Op: "Floor"}), why: `scores move in steps (Floor node "extra")`, recourse: true,
		},
		"rows that are mixed": {
			m: behind(&graph.Node{Op: "Softmax", Attrs: []graph.Attr{graph.IntAttr("axis", 0)}}), recourse: true,
			why: `from Softmax node "extra" on`,
		},
		"one layer of another tool's": {
			m: partly, why: `layer "/layers.0/Gemm" is quantized already: quantize the float model`, already: true,
		},
		"a decision alone": {m: decided, why: "is a decision without its margin", recourse: true},
		"its own file":     {m: written, why: "quantized already", already: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := Quantizable(context.Background(), loaded(t, c.m))
			unusable := c.m.Graph.Nodes[0].Is("Softmax") || c.m == decided
			if refused := usable(t.Context(), loaded(t, c.m), tk); unusable != (refused != nil) {
				t.Error(refused)
			}
			if c.why == "" {
				must.Do(t, err)
				return
			}
			var o *Obstacle
			if !errors.As(err, &o) {
				t.Fatalf("%v is no obstacle", err)
			}
			if !strings.Contains(o.Error(), c.why) || !strings.Contains(o.Instead, c.instead) || o.Recourse != c.recourse ||
				o.Already != c.already {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestSelected(t *testing.T) {
	t.Parallel()
	layers := []quant.LayerInfo{
		{Node: "/layers.0/Gemm"},
		{Node: "/layers.2/Gemm"},
		{Node: "/head/Gemm"},
		{Node: "odd[name"},
	}
	for _, c := range []struct {
		keep  []string
		float []string // what stays in float
		fails string
	}{
		{float: nil},
		{keep: []string{"/head/Gemm"}, float: []string{"/head/Gemm"}},
		{keep: []string{"/layers.*/Gemm"}, float: []string{"/layers.0/Gemm", "/layers.2/Gemm"}},
		{keep: []string{"*"}, float: []string{"odd[name"}}, // * is no slash
		{keep: []string{"Gemm"}, fails: `keep in float "Gemm" matches no layer (* stands for anything but a slash); ` +
			`the layers are /layers.0/Gemm, /layers.2/Gemm, /head/Gemm, odd[name`},
		{keep: []string{"/head/[Gemm"}, fails: `keep in float "/head/[Gemm" is no pattern`},
	} {
		got, err := keptInFloat(layers, c.keep)
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("keep %q: error %v, want %q", c.keep, err, c.fails)
			continue
		}
		if names := slices.Sorted(maps.Keys(got)); err == nil && !slices.Equal(names, c.float) {
			t.Errorf("keep %q: %q stay in float, want %q", c.keep, names, c.float)
		}
	}
}

func TestKeepFloat(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 100)
	ctx := context.Background()
	o := mustRecipe("ptq")
	for i, keep := range []string{"/layers.0/Gemm", "/layers.2/Gemm", "/layers.4/Gemm"} {
		o.Allocate.KeepFloat = []string{keep}
		r, err := Quantize(ctx, loaded(t, m), tk, people, o, Run{})
		if err != nil {
			t.Errorf("%s: %v", keep, err)
			continue
		}
		for k, l := range r.Layers {
			if (l.Float != "") != (k == i) || (l.Bits == 0) != (k == i) {
				t.Errorf("%s: %+v", keep, l)
			}
		}
		if len(r.Warnings) > 0 || r.Plan.Layer(keep) != nil || len(r.Plan.Layers) != 2 {
			t.Errorf("%s: warnings %q, %d planned layers", keep, r.Warnings, len(r.Plan.Layers))
		}
	}
	for want, o := range map[string]Recipe{
		"every layer is to stay in float": mustRecipe(CFPTQ, "allocate.keep-float=/*/Gemm"),
		`the layers are /layers.0/Gemm`:   mustRecipe(CFPTQ, "allocate.keep-float=/layers.9/Gemm"),
		"is no pattern":                   mustRecipe(CFPTQ, "allocate.keep-float=[]"),
	} {
		_, err := Quantize(ctx, loaded(t, m), tk, people, o, Run{})
		wantInputError(t, err, want)
	}
}

// Of many people some are calibrated on, evenly spread; where few of them are refused,
// refused ones are added until there are enough.
func TestWithRefused(t *testing.T) {
	t.Parallel()
	margins := make([]float32, 20000)
	for i := range margins {
		margins[i] = 1
		if i%10 == 7 {
			margins[i] = -1 // 2000 refused
		}
	}
	even := qat.Spread(len(margins), 4000)
	if len(even) != 4000 || even[0] != 0 || even[1]-even[0] != 5 || even[3999] != 19995 {
		t.Fatalf("%d rows, from %d to %d", len(even), even[0], even[len(even)-1])
	}
	rows := withRefused(slices.Clone(even), margins) // every fifth row: none of them refused
	refused := 0
	for k, r := range rows {
		if k > 0 && r <= rows[k-1] {
			t.Fatalf("row %d behind row %d", r, rows[k-1])
		}
		if margins[r] < 0 {
			refused++
		}
	}
	if len(rows) != 5000 || refused != 1000 {
		t.Errorf("%d rows, %d of them refused", len(rows), refused)
	}
	for i := range margins {
		margins[i] = -1
	}
	must.Same(t, even, withRefused(slices.Clone(even), margins))
	must.Same(t, []int{0, 1, 2, 4, 5}, withRefused([]int{1, 2, 4, 5}, []float32{-1, 1, 1, -1, 1, 1}))
}
