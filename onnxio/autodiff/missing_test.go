package autodiff_test

import (
	"strings"
	"testing"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

func TestMissing(t *testing.T) {
	known := map[string]bool{}
	for _, op := range autodiff.Operators() {
		known[op.Name] = true
	}
	_, page, _ := strings.Cut(autodiff.Markdown(), "## Refused by name")
	for _, c := range []struct{ domain, op, want string }{
		{"", "Compress", "mask"},
		{"", "NonZero", "mask"},
		{"", "Unique", "mask"},
		{"", "GridSample", "in front of the model"},
		{"", "RoiAlign", "in front of the model"},
		{"", "Det", "in front of the model"},
		{"", "Col2Im", "ConvTranspose"},
		{"", "MaxUnpool", "ConvTranspose"},
		{"com.microsoft", "Attention", "without its optimizer"},
		{"com.microsoft.nchwc", "Conv", "without its optimizer"},
	} {
		n := &graph.Node{Name: "here", Op: c.op, Domain: c.domain, Inputs: []string{"x"}, Outputs: []string{"y"}}
		g := &graph.Graph{Nodes: []*graph.Node{n}}
		float := graph.Type{DType: graph.Float, Shape: graph.Fixed(2, 3)}
		_, err := autodiff.Gradients(g, graph.Types{"x": float, "y": float}, "y", []string{"x"}, autodiff.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.op+` node "here"`) {
			t.Errorf("%s: %v", c.op, err)
		}
		if c.domain == "" && (known[c.op] || !strings.Contains(page, c.op)) {
			t.Errorf("%s has a rule, or is not on the page of operators", c.op)
		}
	}
}
