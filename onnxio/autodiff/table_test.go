package autodiff_test

import (
	"fmt"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

func TestClosed(t *testing.T) {
	table := map[string]autodiff.Operator{}
	for _, op := range autodiff.Operators() {
		table[op.Name] = op
	}
	tried := map[string]bool{}
	for _, s := range samples() {
		tried[s.op] = true
		b := newBench(t, ort.Options{}, graph.Double, s.opset, 2)
		vars, outs := b.add(s)
		before := len(b.g.Nodes)
		for _, g := range b.grads(outs[0], vars, autodiff.Options{}) {
			b.grads(g, vars, autodiff.Options{})
		}
		for _, n := range b.g.Nodes[before:] {
			op, ok := table[n.Op]
			if !ok {
				t.Errorf("%s: emits %s, which is not in the table", s.name(), n.Op)
			} else if op.Kind == autodiff.Composite && n.Name != "node" {
				t.Errorf("%s: emits the composite %s", s.name(), n.Op)
			}
		}
	}
	for name, op := range table {
		if op.Kind != autodiff.Constant && !tried[name] {
			t.Errorf("%s has a rule, but no sample", name)
		}
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	var last string
	docs := autodiff.Markdown()
	rows, _, _ := strings.Cut(docs, "### Refused by name")
	entries := 0
	for row := range strings.Lines(rows) {
		if cells := strings.Split(row, " | "); strings.HasPrefix(row, "| ") && cells[0] != "| operator" {
			entries += strings.Count(cells[0], ",") + 1
		}
	}
	must.Same(t, len(autodiff.Operators()), entries)
	for _, op := range autodiff.Operators() {
		if seen[op.Name] || strings.ToLower(op.Name) < last {
			t.Errorf("%s is there twice, or out of order", op.Name)
		}
		seen[op.Name], last = true, strings.ToLower(op.Name)
		if op.Since < 1 || op.Doc == "" || strings.HasPrefix(op.Doc, "*") ||
			(op.Kind == autodiff.Composite) != strings.Contains(docs, " | *expanded*: "+op.Doc+" |") {
			t.Errorf("%s: opset %d, doc %q", op.Name, op.Since, op.Doc)
		}
		must.Has(t, docs, fmt.Sprintf(" %s %d", op.Name, op.Since))
	}
}

// TestConstants: what depends on a value through a condition, an index or a
// shape only has a zero gradient, of the value's type.
func TestConstants(t *testing.T) {
	b := newBench(t, ort.Options{}, graph.Float, 18, 2)
	b.input("x", in("N 3"))
	nb := graph.NewBuilder(b.g, "")
	for _, op := range autodiff.Operators() {
		if op.Kind != autodiff.Constant || op.Name == "Constant" {
			continue
		}
		from := nb.Op("Identity", []string{"x"})
		inputs := []string{from}
		switch op.Name {
		case "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual":
			inputs = []string{from, from}
		case "And", "Or", "Xor":
			no := nb.Op("IsNaN", []string{from})
			inputs = []string{no, no}
		case "Not":
			inputs = []string{nb.Op("IsNaN", inputs)}
		case "ConstantOfShape":
			inputs = []string{nb.Op("Shape", inputs)}
		}
		y := nb.Op("Cast", []string{nb.Op(op.Name, inputs)}, graph.IntAttr("to", int64(graph.Float)))
		must.Do(t, autodiff.Infer(b.g, b.types))
		before := len(b.g.Nodes)
		gx := b.grads(y, []string{"x"}, autodiff.Options{})
		must.Same(must.In(t, op.Name), "float[N,3]", b.types[gx[0]].String())
		for _, n := range b.g.Nodes[before:] {
			if n.Op != "Shape" && n.Op != "ConstantOfShape" && n.Op != "Identity" {
				t.Errorf("%s: a zero gradient takes %s", op.Name, n.Op)
			}
		}
	}
}
