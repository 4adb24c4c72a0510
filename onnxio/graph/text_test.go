package graph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/onnxio/graph"
)

func TestText(t *testing.T) {
	g := mlp()
	g.Inputs = append(g.Inputs, graph.Value{Name: "seq"}, graph.Value{Name: "any", DType: graph.Int4},
		graph.Value{Name: "s", DType: graph.Double, Shape: graph.Shape{}}, graph.Value{
			Name: "open", DType: graph.Float,
			Shape: graph.Shape{{Size: -1}},
		})
	g.Inits = append(g.Inits, graph.FromFloats("big", make([]float32, 5), 5), graph.FromFloats("eps", []float32{1e-3}),
		graph.FromInts("axes", []int64{-1}, 1),
		&graph.Tensor{Name: "codes", DType: graph.Int4, Dims: []int64{2}, Raw: []byte{0}}, &graph.Tensor{
			Name:  "bad",
			DType: graph.Float, Dims: []int64{-1},
		})
	g.Nodes = append(g.Nodes, &graph.Node{
		Name: "odd \"name\"", Op: "Act", Domain: "com.example",
		Inputs: []string{"a b", "_"}, Outputs: []string{"", "é"}, Attrs: []graph.Attr{
			graph.FloatAttr("alpha", .1), graph.IntsAttr("axes", 0, 1),
			graph.StringAttr("mode", "linear"), graph.TensorAttr("value", graph.FromInts("", []int64{3})),
			{Name: "fs", Kind: graph.AttrFloats, Floats: []float32{.5, 1e30}},
			{Name: "ss", Kind: graph.AttrStrings, Strings: [][]byte{[]byte("p")}},
			{Name: "body", Kind: graph.AttrGraph},
			{Name: "bodies", Kind: graph.AttrGraphs},
			{Name: "r", Kind: graph.AttrInt, Ref: "outer"},
			{Name: "tp", Kind: 13},
		},
	})
	want := `input x float[N,2]
input seq ?
input any int4*
input s double[]
input open float[?]
init w float[2,2] = [1,2,3,4]
init b float[2] = [0,1]
init big float[5]
init eps float[] = [0.001]
init axes int64[1] = [-1]
init codes int4[2]
init bad float[-1]
node h = Gemm(x, w, b) {transB=1} "fc"
node y = Clip(h, _, _)
node _, é = com.example::Act("a b", "_") {alpha=0.1, axes=[0,1], mode="linear", value=int64[] = [3], ` +
		`fs=[0.5,1e+30], ss=["p"], body=graph, bodies=graphs, r=@outer, tp=kind13} "odd \"name\""
output y float*
`
	if diff := cmp.Diff(want, g.Text()); diff != "" {
		t.Error(diff)
	}
}
