package main

import (
	"bytes"
	"embed"
	"fmt"
	"text/template"

	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

const (
	trainRows = 2000
	testRows  = 1000
	scoreRows = 100
)

//go:embed *.tmpl
var templates embed.FS

// file is one generated file.
type file struct {
	name string
	data []byte
}

// generate makes all files.
func generate() ([]file, error) {
	people, held := populate(trainRows, 1), populate(testRows, 2)
	encoders := fit(people)
	n := trained(encoders, people)
	model, err := codec.Marshal(export(n))
	if err != nil {
		return nil, fmt.Errorf("model.onnx: %w", err)
	}
	byName := map[string]encoder{}
	for _, e := range encoders {
		byName[e.name] = e
	}
	fitted, _ := rates(n, encoders, people)
	accuracy, refused := rates(n, encoders, held)
	percent := func(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
	files := []file{
		{"train.csv", table(people)},
		{"test.csv", table(held)},
		{"model.onnx", model},
		{"scores.csv", scores(n, encoders, people[:scoreRows])},
	}
	all, err := template.ParseFS(templates, "*")
	if err != nil {
		return nil, err
	}
	for name, values := range map[string]any{"task.yaml": byName, "README.md": map[string]any{
		"TrainRows": trainRows, "TestRows": testRows, "Inputs": n[0].in, "Widths": widths(),
		"Fitted": percent(fitted), "Accuracy": percent(accuracy), "Refused": percent(refused),
	}} {
		var b bytes.Buffer
		if err := all.ExecuteTemplate(&b, name+".tmpl", values); err != nil {
			return nil, err
		}
		files = append(files, file{name, b.Bytes()})
	}
	return files, nil
}

// export writes the network as PyTorch would: Gemm with transB=1, Relu, a
// dynamic batch.
func export(n net) *graph.Model {
	value := func(name string, width int) []graph.Value {
		shape := graph.Shape{{Size: -1, Param: "N"}, {Size: int64(width)}}
		return []graph.Value{{Name: name, DType: graph.Float, Shape: shape}}
	}
	g := &graph.Graph{Name: "loans", Inputs: value("x", n[0].in), Outputs: value("logits", n[len(n)-1].out)}
	add := func(layer int, op string, attrs []graph.Attr, inputs ...string) string {
		name := fmt.Sprintf("/layers.%d/%s", layer, op)
		out := name + "_output_0"
		if layer == 2*len(n)-2 {
			out = "logits"
		}
		g.Nodes = append(g.Nodes, &graph.Node{
			Name: name, Op: op, Inputs: inputs, Outputs: []string{out}, Attrs: attrs,
		})
		return out
	}
	attrs := []graph.Attr{graph.FloatAttr("alpha", 1), graph.FloatAttr("beta", 1), graph.IntAttr("transB", 1)}
	x := "x"
	for i, d := range n {
		weight, bias := fmt.Sprintf("layers.%d.weight", 2*i), fmt.Sprintf("layers.%d.bias", 2*i)
		g.Inits = append(g.Inits,
			graph.FromFloats(weight, singles(d.w.value), int64(d.out), int64(d.in)),
			graph.FromFloats(bias, singles(d.b.value), int64(d.out)))
		x = add(2*i, "Gemm", attrs, x, weight, bias)
		if i+1 < len(n) {
			x = add(2*i+1, "Relu", nil, x)
		}
	}
	return &graph.Model{
		IRVersion: 8, Opsets: []graph.Opset{{Version: 17}},
		ProducerName: "loansgen", Graph: g,
		Doc: "Loan decisions on a synthetic population: logits of refused (0) and approved (1).",
	}
}

func singles(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

// scores are the logits of people as the network computes them before it is exported.
func scores(n net, encoders []encoder, people []person) []byte {
	acts := n.buffers()
	var b bytes.Buffer
	b.WriteString("refused,approved\n")
	for _, p := range people {
		logits := n.forward(encode(encoders, p), acts)
		fmt.Fprintf(&b, "%.6f,%.6f\n", logits[0], logits[1])
	}
	return b.Bytes()
}

// rates returns the share of people whose label the network gives and the share
// that it refuses.
func rates(n net, encoders []encoder, people []person) (accuracy, refused float64) {
	acts := n.buffers()
	for _, p := range people {
		logits := n.forward(encode(encoders, p), acts)
		approved := logits[1] > logits[0]
		accuracy += indicator(approved == p.approved)
		refused += indicator(!approved)
	}
	return accuracy / float64(len(people)), refused / float64(len(people))
}
