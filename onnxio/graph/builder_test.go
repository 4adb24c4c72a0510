package graph_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/onnxio/graph"
)

func TestBuilder(t *testing.T) {
	g := mlp()
	b := graph.NewBuilder(g, "q_")
	y := b.Op("Mul", []string{"y", b.Const(graph.FromFloats("two", []float32{2}))})
	if y != "q_mul" || g.Nodes[2].Name != "q_n_Mul" || g.Init("q_two") == nil {
		t.Errorf("names: %q, %q\n%s", y, g.Nodes[2].Name, g.Text())
	}
	if again := b.Op("Mul", []string{y, y}); again != "q_mul_1" {
		t.Errorf("second name %q", again)
	}
	b.Append(&graph.Node{Name: "own", Op: "Split", Inputs: []string{y}, Outputs: []string{"q_split", ""}})
	if name := b.Name("split"); name != "q_split_1" {
		t.Errorf("a name that a node's output has is given again: %q", name)
	}
	if err := g.Check(); err != nil {
		t.Error(err)
	}
}

func TestBuilderNames(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "a_1", "a_2", "a_1_1", "b", "n_A", "n_A_1"})
	rapid.Check(t, func(t *rapid.T) {
		g := &graph.Graph{}
		taken := rapid.SliceOfDistinct(names, rapid.ID[string]).Draw(t, "taken")
		for i, name := range taken {
			switch i % 3 {
			case 0:
				g.Inputs = append(g.Inputs, graph.Value{Name: name})
			case 1:
				g.Inits = append(g.Inits, graph.FromFloats(name, []float32{0}))
			default:
				g.Nodes = append(g.Nodes, &graph.Node{Op: "A", Outputs: []string{name}})
			}
		}
		b := graph.NewBuilder(g, "")
		for range 10 {
			var name string
			if rapid.Bool().Draw(t, "op") {
				name = b.Op("A", nil)
			} else {
				name = b.Name(names.Draw(t, "hint"))
			}
			if slices.Contains(taken, name) {
				t.Fatalf("%q is given twice", name)
			}
			taken = append(taken, name)
		}
	})
}
