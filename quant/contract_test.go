package quant_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
	"cfq/onnxio/pass"
	"cfq/quant"
)

func TestContractions(test *testing.T) {
	eng := orttest.Need(test)
	rapid.Check(test, func(t *rapid.T) {
		letters := func(name, from string) string {
			some := rapid.SliceOfNDistinct(rapid.SampledFrom(strings.Split(from, "")), 0, 2, rapid.ID)
			return strings.Join(some.Draw(t, name), "")
		}
		shuffled := func(name, s string) string {
			return strings.Join(rapid.Permutation(strings.Split(s, "")).Draw(t, name), "")
		}
		each, per := "n"+letters("each", "ab"), letters("per", "cd")
		summed, out := "e"+letters("summed", "fg"), letters("out", "hi")
		x, w, y := shuffled("x", each+per+summed), shuffled("w", per+summed+out), shuffled("y", each+per+out)
		last := rapid.Bool().Draw(t, "over the last axes")
		if last {
			x, w, y = each+shuffled("x", summed), shuffled("w", summed+out), each+out
		}
		sizes := map[rune]int64{'n': -1}
		dims := func(s string) (d []int64) {
			for _, l := range s {
				if sizes[l] == 0 {
					sizes[l] = rapid.Int64Range(1, 3).Draw(t, "size of "+string(l))
				}
				d = append(d, sizes[l])
			}
			return d
		}
		rows := dims("n" + strings.Replace(x, "n", "", 1)) // the batch first
		dim := int64(1)
		for _, d := range rows[1:] {
			dim *= d
		}
		m := &graph.Model{IRVersion: 10, Opsets: []graph.Opset{{Version: 21}}, Graph: &graph.Graph{Name: "g"}}
		m.Graph.Inputs = []graph.Value{
			{Name: "x", DType: graph.Float, Shape: graph.Shape{{Size: -1, Param: "N"}, {Size: dim}}},
		}
		b := &builder{graph.NewBuilder(m.Graph, ""), rand.New(rand.NewPCG(9, 9))}
		h := b.tokens("x", rows...)
		perm := make([]int64, 0, len(x))
		for _, l := range x {
			perm = append(perm, int64(strings.IndexRune("n"+strings.Replace(x, "n", "", 1), l)))
		}
		h = b.Op("Transpose", []string{h}, graph.IntsAttr("perm", perm...))
		in, terms := []string{h, b.random("w", dims(w)...)}, []string{x, w}
		if rapid.Bool().Draw(t, "left") {
			slices.Reverse(in)
			slices.Reverse(terms)
		}
		h = b.Op("Einsum", in, graph.StringAttr("equation", strings.Join(terms, ",")+"->"+y))
		if last && out != "" && rapid.Bool().Draw(t, "bias") {
			h = b.Op("Add", []string{b.random("c", dims(out)...), h})
		}
		m.Graph.Outputs = []graph.Value{{Name: b.Op("Tanh", []string{h}), DType: graph.Float}}
		c, _, err := pass.Canonical(m, nil)
		must.Do(t, err)
		same(test, eng, m, c, 5, int(dim))
		layers, err := quant.FindLayers(c)
		if err != nil || len(layers) != 1 || layers[0].Fixed != "" {
			t.Fatalf("layers %+v, %v", layers, err)
		}
		if slices.ContainsFunc(c.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "Add" }) {
			t.Fatal("the bias stays behind the layer")
		}
	})
}
