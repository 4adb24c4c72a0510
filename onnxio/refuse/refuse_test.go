package refuse_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/refuse"
)

func value(name string, t graph.DType, dims ...int64) graph.Value {
	return graph.Value{Name: name, DType: t, Shape: graph.Fixed(dims...)}
}

func model(inputs, outputs []graph.Value, ops ...string) *graph.Model {
	g := &graph.Graph{Name: "g", Inputs: inputs, Outputs: outputs}
	last := inputs[0].Name
	for i, op := range ops {
		n := &graph.Node{Op: op, Inputs: []string{last}}
		if domain, name, ok := strings.Cut(op, ":"); ok {
			n.Domain, n.Op = domain, name
		}
		last = fmt.Sprint("v", i)
		n.Outputs = []string{last}
		g.Nodes = append(g.Nodes, n)
	}
	for _, o := range outputs {
		g.Nodes = append(g.Nodes, &graph.Node{Op: "Identity", Inputs: []string{last}, Outputs: []string{o.Name}})
	}
	return &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
}

func TestOperators(t *testing.T) {
	x, y := []graph.Value{value("x", graph.Float, -1, 10)}, []graph.Value{value("y", graph.Float, -1, 2)}
	for _, op := range refuse.Operators() {
		why, instead := refuse.Operator(op)
		_, reason, _ := strings.Cut(why, ": ")
		err := refuse.Check(model(x, y, "Gemm", op))
		if err == nil || reason == "" || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), instead) {
			t.Errorf("%s: %q, instead %q; a model with it: %v", op, why, instead, err)
		}
	}
	if why, instead := refuse.Operator("Gemm"); why != "" || instead != "" {
		t.Errorf("Gemm: %q, %q", why, instead)
	}
}

func TestCheck(t *testing.T) {
	x := []graph.Value{value("x", graph.Float, -1, 10)}
	y := []graph.Value{value("y", graph.Float, -1, 2)}
	one := []graph.Value{value("variable", graph.Float, -1, 1)}
	regressor := model(x, one, "Gemm")
	regressor.ProducerName = "skl2onnx"
	function := model(x, y, "my.functions:Cell")
	function.Functions = []*graph.Function{{
		Name: "Cell", Domain: "my.functions", Inputs: []string{"a"}, Outputs: []string{"b"},
		Nodes: []*graph.Node{{Op: "GRU", Name: "cell", Inputs: []string{"a"}, Outputs: []string{"b"}}},
	}}
	for name, c := range map[string]struct {
		m    *graph.Model
		want []string // empty for a model that passes
	}{
		"network":        {m: model(x, y, "Gemm", "Relu", "Gemm")},
		"pipeline":       {m: model(x, y, "ai.onnx.ml:Scaler", "MatMul", "Sigmoid")},
		"no layers":      {m: model(x, y, "Exp", "ReduceSum")}, // recourse can be searched for it
		"single logit":   {m: model(x, one, "Gemm")},           // variable, but not of scikit-learn
		"topk alone":     {m: model(x, y, "Gemm", "TopK")},
		"one row":        {m: model([]graph.Value{value("x/y:0", graph.Float, 1, 10)}, y, "Gemm")},
		"categories":     {m: model(append(x, value("c", graph.Int64, -1, 4)), y, "Gemm")},
		"forest":         {model(x, y, "ai.onnx.ml:TreeEnsembleClassifier"), []string{"ensemble of decision trees"}},
		"forest of 2025": {model(x, y, "ai.onnx.ml:TreeEnsemble"), []string{"ensemble of decision trees"}},
		"svm":            {model(x, y, "ai.onnx.ml:SVMClassifier"), []string{"support vector machine"}},
		"neighbours":     {model(x, y, "com.microsoft:CDist", "TopK"), []string{"nearest-neighbours"}},
		"neighbours 2":   {model(x, y, "Scan", "TopK"), []string{"nearest-neighbours"}},
		"lstm":           {model(x, y, "LSTM", "Gemm"), []string{`recurrent network (LSTM node "v0")`}},
		"gru inside":     {function, []string{`recurrent network (GRU node "cell")`}},
		"loop":           {model(x, y, "Loop", "Gemm"), []string{"recurrent network"}},
		"tfidf": {
			model([]graph.Value{value("text", graph.String, -1, 1)}, y, "TfIdfVectorizer", "MatMul"),
			[]string{"text or sequence model"},
		},
		"lower case": {
			model([]graph.Value{value("home", graph.String, -1)}, y, "StringNormalizer", "ai.onnx.ml:LabelEncoder", "MatMul"),
			[]string{"rewrites texts before it looks them up (StringNormalizer", "in lower case"},
		},
		"tokens": {
			model([]graph.Value{value("input_ids", graph.Int64, -1, -1)}, y, "Gather", "MatMul"),
			[]string{"text or sequence model", `"input_ids"`},
		},
		"regressor": {regressor, []string{"a regressor"}},
		"forest regressor": {
			model(x, one, "ai.onnx.ml:TreeEnsembleRegressor"), []string{"ensemble of decision trees", "; and it is a regressor"},
		},
		"detector": {
			model(x, []graph.Value{value("boxes", graph.Float, -1, 9, 4), value("scores", graph.Float, -1, 9, 3)}, "Conv"),
			[]string{"detector"},
		},
		"suppression": {model(x, y, "Conv", "NonMaxSuppression"), []string{"detector"}},
		"lost constants": {
			model(append(x, value("model/norm/Sub/y:0", graph.Float, 1, 1)), y, "Gemm"), []string{"constants became inputs"},
		},
		"noise": {model(x, y, "Gemm", "RandomNormalLike"), []string{"draws random numbers"}},
	} {
		err := refuse.Check(c.m)
		if len(c.want) == 0 {
			must.Do(must.In(t, name), err)
			continue
		}
		var r *refuse.Refusal
		if !errors.As(err, &r) {
			t.Errorf("%s: %v, want a refusal", name, err)
			continue
		}
		for _, want := range append(c.want, "which this method cannot quantize: ", "; instead, ") {
			must.Has(must.In(t, name), err.Error(), want)
		}
		if strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: more than one line", name)
		}
	}
}
