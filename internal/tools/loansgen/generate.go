package main

import (
	"bytes"
	"fmt"

	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

const (
	trainRows = 2000
	testRows  = 1000
)

// hidden returns the widths of the hidden layers.
func hidden() []int { return []int{64, 32} }

// file is one generated file.
type file struct {
	Name string
	Data []byte
}

// generate makes all files.
func generate() ([]file, error) {
	people, held := populate(trainRows, 1), populate(testRows, 2)
	encoders := fit(people)
	rows := make([][]float64, len(people))
	labels := make([]bool, len(people))
	for i, p := range people {
		rows[i], labels[i] = encode(encoders, p), p.approved
	}
	n := train(rows, labels, hidden())
	model, err := codec.Marshal(export(n))
	if err != nil {
		return nil, fmt.Errorf("model.onnx: %w", err)
	}
	return []file{
		{"train.csv", table(people)},
		{"test.csv", table(held)},
		{"task.yaml", taskFile(encoders)},
		{"model.onnx", model},
		{"README.md", readme(n, encoders, people, held)},
	}, nil
}

// export writes the network as PyTorch would: Gemm with transB=1, Relu, a
// dynamic batch.
func export(n *net) *graph.Model {
	g := &graph.Graph{Name: "loans"}
	rows := graph.Dim{Size: -1, Param: "N"}
	last := len(n.layers) - 1
	g.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: graph.Shape{rows, {Size: int64(n.layers[0].in)}}}}
	g.Outputs = []graph.Value{{Name: "logits", DType: graph.Float, Shape: graph.Shape{rows, {Size: int64(n.layers[last].out)}}}}
	x := "x"
	for i, d := range n.layers {
		weight, bias := fmt.Sprintf("layers.%d.weight", 2*i), fmt.Sprintf("layers.%d.bias", 2*i)
		g.Inits = append(g.Inits,
			graph.FromFloats(weight, singles(d.w), int64(d.out), int64(d.in)),
			graph.FromFloats(bias, singles(d.b), int64(d.out)))
		out := fmt.Sprintf("/layers.%d/Gemm_output_0", 2*i)
		if i == last {
			out = "logits"
		}
		g.Nodes = append(g.Nodes, &graph.Node{
			Name: fmt.Sprintf("/layers.%d/Gemm", 2*i), Op: "Gemm",
			Inputs: []string{x, weight, bias}, Outputs: []string{out},
			Attrs: []graph.Attr{graph.FloatAttr("alpha", 1), graph.FloatAttr("beta", 1), graph.IntAttr("transB", 1)},
		})
		x = out
		if i < last {
			out = fmt.Sprintf("/layers.%d/Relu_output_0", 2*i+1)
			g.Nodes = append(g.Nodes, &graph.Node{Name: fmt.Sprintf("/layers.%d/Relu", 2*i+1), Op: "Relu", Inputs: []string{x}, Outputs: []string{out}})
			x = out
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

// rates returns the share of people whose label the network gives and the share
// that it refuses.
func rates(n *net, encoders []encoder, people []person) (accuracy, refused float64) {
	acts := n.buffers()
	right, no := 0, 0
	for _, p := range people {
		n.forward(encode(encoders, p), acts)
		logits := acts[len(acts)-1]
		approved := logits[1] > logits[0]
		if approved == p.approved {
			right++
		}
		if !approved {
			no++
		}
	}
	return float64(right) / float64(len(people)), float64(no) / float64(len(people))
}

func readme(n *net, encoders []encoder, people, held []person) []byte {
	var b bytes.Buffer
	accuracy, refused := rates(n, encoders, held)
	fitted, _ := rates(n, encoders, people)
	fmt.Fprintf(&b, `# Loans: a synthetic example

Nobody in these files exists. They are made by `+"`internal/tools/loansgen`"+`, byte for byte the
same on every machine:

    make generate   # writes them
    make drift      # fails if they differ

| file | what it is |
|---|---|
| train.csv | %d applicants: the rows the model was trained on |
| test.csv | %d further applicants |
| task.yaml | how columns become model inputs, and what people can change |
| model.onnx | the classifier: %d inputs, ReLU layers of %d and %d, two logits (refused, approved); opset 17, dynamic batch |

The population is drawn feature by feature: income depends on employment, age and a hidden
wealth that savings share; debt, amount and duration are independent; late payments lower the
credit grade. Income, savings, debt and amount are log-normal, so single inputs lie ten to
fifteen standard deviations out: the case in which one scale for all inputs ruins a quantized
model. Women's incomes are drawn about 11 %% lower, so that a look at subgroups has something
to show; the decision itself never looks at sex.

A lender's score (saturating in income, savings, debt and the burden of the instalments, with
a guarantor counting more when the credit history is poor) plus a normal error decides the
label. The model is trained on the labels with Adam in plain float64 arithmetic and rounded to
float32. It is right for %.1f %% of the training rows and %.1f %% of the test rows, and refuses
%.1f %% of the latter.
`, len(people), len(held), n.layers[0].in, n.layers[0].out, n.layers[1].out, 100*fitted, 100*accuracy, 100*refused)
	return b.Bytes()
}
