package autodiff_test

import (
	"fmt"
	"iter"
	"testing"

	"pgregory.net/rapid"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

func TestMalformed(t *testing.T) {
	var names []string
	for _, op := range autodiff.Operators() {
		names = append(names, op.Name)
	}
	rapid.Check(t, func(t *rapid.T) { malformed(t, names) })
}

func malformed(t *rapid.T, names []string) {
	g := &graph.Graph{}
	types := graph.Types{}
	small := rapid.Int64Range(-3, 3)
	aType := func() graph.Type {
		s := graph.Shape{}
		for _, n := range rapid.SliceOfN(rapid.Int64Range(-1, 3), 0, 4).Draw(t, "shape") {
			d := graph.Dim{Size: n}
			if n < 0 {
				d.Param = rapid.SampledFrom([]string{"", "N", "M"}).Draw(t, "param")
			}
			s = append(s, d)
		}
		return graph.Type{DType: rapid.SampledFrom([]graph.DType{
			graph.Float, graph.Double, graph.Float16,
			graph.Int64,
		}).Draw(t, "type"), Shape: s}
	}
	n := &graph.Node{Name: "node", Op: rapid.SampledFrom(names).Draw(t, "op"), Outputs: []string{"y"}}
	for i := range rapid.IntRange(0, 5).Draw(t, "inputs") {
		name := fmt.Sprintf("x%d", i)
		switch rapid.IntRange(0, 3).Draw(t, "input") {
		case 0:
			v := rapid.SliceOfN(small, 0, 4).Draw(t, "constant")
			if rapid.Bool().Draw(t, "scales") {
				f := make([]float32, len(v))
				for i, x := range v {
					f[i] = float32(x) / 2
				}
				g.Inits = append(g.Inits, graph.FromFloats(name, f, int64(len(f))))
				break
			}
			g.Inits = append(g.Inits, graph.FromInts(name, v, int64(len(v))))
		case 1:
			name = ""
		default:
			types[name] = aType()
			g.Inputs = append(g.Inputs, graph.Value{Name: name})
		}
		n.Inputs = append(n.Inputs, name)
	}
	for _, name := range []string{
		"axis", "keepdims", "transA", "transB", "to", "start", "end", "group", "ceil_mode",
		"count_include_pad", "p", "blocksize", "num_groups", "batch_dims", "size", "q_num_heads", "kv_num_heads",
		"num_heads", "is_causal", "interleaved", "rotary_embedding_dim", "exclusive", "reverse", "time_axis", "upper",
	} {
		if rapid.Bool().Draw(t, name) {
			n.Attrs = append(n.Attrs, graph.IntAttr(name, small.Draw(t, name)))
		}
	}
	for _, name := range []string{
		"perm", "axes", "split", "pads", "kernel_shape", "strides", "dilations",
		"output_padding",
	} {
		if rapid.Bool().Draw(t, name) {
			n.Attrs = append(n.Attrs, graph.IntsAttr(name, rapid.SliceOfN(small, 0, 4).Draw(t, name)...))
		}
	}
	for name, of := range wordsOf() {
		if rapid.Bool().Draw(t, name) {
			n.Attrs = append(n.Attrs, graph.StringAttr(name, rapid.SampledFrom(of).Draw(t, name)))
		}
	}
	if rapid.Bool().Draw(t, "second output") {
		n.Outputs = append(n.Outputs, "y2")
	}
	g.Nodes = []*graph.Node{n}
	for _, o := range n.Outputs {
		if rapid.Bool().Draw(t, "known") {
			types[o] = aType()
		}
	}
	var wrt []string
	for _, v := range g.Inputs {
		wrt = append(wrt, v.Name)
	}
	got, err := autodiff.Gradients(g, types, "y", wrt, autodiff.Options{})
	if err != nil {
		return
	}
	for _, v := range got {
		if _, err := autodiff.Gradients(g, types, v, wrt, autodiff.Options{}); err != nil {
			t.Log(err)
		}
	}
}

func wordsOf() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		_ = yield("mode", []string{"", "linear", "nearest", "cubic", "CRD", "edge", "reflect", "wrap", "constant"}) &&
			yield("equation", []string{"", "->", "ij,jk->ik", "...i,i...->...", "ii", "a,b->ba", "ab->c", ",", "aB...->Ba"}) &&
			yield("reduction", []string{"add", "mul", "none"}) &&
			yield("coordinate_transformation_mode", []string{"align_corners", "asymmetric", "half_pixel_symmetric", "x"}) &&
			yield("nearest_mode", []string{"ceil", "floor"}) && yield("auto_pad", []string{"SAME_UPPER", "VALID", "x"})
	}
}

// The type of the output may be known, as where a model was measured, and inference is then not asked.
func TestMissingInputOfComposite(t *testing.T) {
	for _, op := range autodiff.Operators() {
		g := &graph.Graph{
			Inputs: []graph.Value{{Name: "x"}},
			Nodes:  []*graph.Node{{Name: "node", Op: op.Name, Inputs: []string{"x"}, Outputs: []string{"y"}}},
		}
		ofRank4 := graph.Type{DType: graph.Float, Shape: graph.Shape{{Size: 2}, {Size: 2}, {Size: 2}, {Size: 2}}}
		_, err := autodiff.Gradients(g, graph.Types{"x": ofRank4, "y": ofRank4}, "y", []string{"x"}, autodiff.Options{})
		if op.Name == "Attention" && err == nil {
			t.Error("Attention without keys and values has a gradient")
		}
	}
}
