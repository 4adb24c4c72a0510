package classifier

import (
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// labelCase ends a network with logits z in probabilities, and in what label makes of them and of the largest's index.
type labelCase struct {
	name      string
	columns   int
	batch     graph.Dim
	label     func(b *graph.Builder, p, k string) string
	alone     bool // the label is the only output
	threshold float64
	refused   string
}

func (l *labelCase) model() *graph.Model {
	m := newMLP(3, l.columns, 7).model(l.batch)
	b := graph.NewBuilder(m.Graph, "h.")
	op, axis := "Softmax", []graph.Attr{graph.IntAttr("axis", 1)}
	if l.columns == 1 {
		op, axis = "Sigmoid", nil
	}
	p := b.Op(op, []string{"z"}, axis...)
	k := b.Op("ArgMax", []string{p}, graph.IntAttr("axis", 1), graph.IntAttr("keepdims", 0))
	label := graph.Value{Name: l.label(b, p, k), DType: graph.Int64}
	if m.Graph.Outputs = []graph.Value{label}; !l.alone {
		m.Graph.Outputs = append(m.Graph.Outputs, graph.Value{Name: p, DType: graph.Float})
	}
	return m
}

func integer(b *graph.Builder, v int64) string { return b.Const(graph.FromInts("i", []int64{v}, 1)) }

func labels() []labelCase {
	argmax := func(axis, keep int64) func(b *graph.Builder, p, k string) string {
		return func(b *graph.Builder, p, _ string) string {
			return b.Op("ArgMax", []string{p}, graph.IntAttr("axis", axis), graph.IntAttr("keepdims", keep))
		}
	}
	with := func(op string, v int64) func(b *graph.Builder, p, k string) string {
		return func(b *graph.Builder, _, k string) string { return b.Op(op, []string{integer(b, v), k}) }
	}
	above := func(limit float32) func(b *graph.Builder, p, k string) string {
		return func(b *graph.Builder, p, _ string) string {
			over := b.Op("Greater", []string{p, one(b, limit)})
			return b.Op("Cast", []string{over}, graph.IntAttr("to", int64(graph.Int64)))
		}
	}
	flag := func(b *graph.Builder, from string) string {
		flags := b.Op("Cast", []string{b.Op("Greater", []string{from, one(b, .6)})}, graph.IntAttr("to", int64(graph.Int64)))
		return b.Op("ReduceMax", []string{flags}, graph.IntsAttr("axes", 1), graph.IntAttr("keepdims", 0))
	}
	const single, otherwise = "does not compare the classes of a row", "does not answer what its margins decide"
	rows, alone, few := rows(), graph.Dim{Size: 1}, graph.Dim{Size: 8}
	return []labelCase{
		{name: "index", columns: 2, batch: rows, label: argmax(1, 0)},
		{name: "index alone", columns: 3, batch: rows, label: argmax(-1, 1), alone: true},
		{name: "index of a fixed batch", columns: 2, batch: few, label: argmax(1, 0)},
		{name: "one column", columns: 1, batch: rows, label: argmax(1, 0), alone: true, refused: single},
		{name: "one column, beside it", columns: 1, batch: rows, label: argmax(-1, 1), refused: single},
		{name: "axis 0", columns: 2, batch: rows, label: argmax(0, 0), alone: true, refused: single},
		{name: "axis 0 of three", columns: 3, batch: rows, label: argmax(-2, 1), alone: true, refused: single},
		{name: "axis 0 of one row", columns: 2, batch: alone, label: argmax(0, 0), refused: single},
		{name: "1 and 2", columns: 2, batch: rows, label: with("Add", 1)},
		{name: "always 2 of 1 and 2", columns: 2, batch: rows, label: with("Max", 2), refused: otherwise},
		{name: "2 and 1", columns: 2, batch: rows, label: with("Sub", 2), refused: otherwise},
		{name: "inverted", columns: 2, batch: rows, label: with("Sub", 1), refused: otherwise},
		{name: "inverted, of three", columns: 3, batch: few, label: with("Sub", 2), refused: otherwise},
		{name: "constant", columns: 2, batch: rows, label: with("Mul", 0), refused: otherwise},
		{name: "a flag of the inputs", columns: 2, batch: rows, label: func(b *graph.Builder, _, _ string) string {
			return flag(b, "x")
		}},
		{name: "whether a class is likely", columns: 2, batch: rows, label: func(b *graph.Builder, p, _ string) string {
			return flag(b, p)
		}},
		{name: "grades", columns: 1, batch: rows, label: func(b *graph.Builder, p, _ string) string {
			return b.Op("Cast", []string{b.Op("Mul", []string{p, one(b, 10)})}, graph.IntAttr("to", int64(graph.Int64)))
		}},
		{name: "above 0.5", columns: 1, batch: rows, label: above(.5)},
		{name: "above 0.3", columns: 1, batch: rows, label: above(.3), refused: "declare it as target.threshold"},
		{name: "above 0.3, declared", columns: 1, batch: rows, label: above(.3), threshold: .3},
		{name: "above 0.3, declared otherwise", columns: 1, batch: rows, label: above(.3), threshold: .7, refused: otherwise},
	}
}

// TestLabels: what a file answers next to its probabilities, or alone, is what margins decide.
func TestLabels(t *testing.T) {
	e := orttest.Need(t)
	for _, l := range labels() {
		t.Run(l.name, func(t *testing.T) {
			c, err := fromGraph(t.Context(), l.model(), e, Options{Threshold: l.threshold})
			if err == nil {
				defer c.Close()
				_, err = c.Answers(t.Context(), nil, false)
			}
			if l.refused != "" {
				must.Fail(t, err, l.refused)
				return
			}
			must.Do(t, err)
			must.Do(t, must.Err(c.Answers(t.Context(), normals(3, 3*100), false)))
		})
	}
}

// TestSameAnswers: texts that are exchanged agree with margins, and are not what the original says.
func TestSameAnswers(t *testing.T) {
	texts := func(words ...string) *Model {
		l := labelCase{columns: 2, batch: rows(), label: func(b *graph.Builder, _, k string) string {
			list := graph.Tensor{Name: "t", DType: graph.String, Dims: []int64{2}}
			for _, s := range words {
				list.Strings = append(list.Strings, []byte(s))
			}
			return b.Op("Gather", []string{b.Const(&list), k})
		}}
		m := l.model()
		m.Graph.Outputs[0].DType = graph.String
		return open(t, m, Options{})
	}
	f, same, other, x := texts("no", "yes"), texts("no", "yes"), texts("yes", "no"), normals(5, 3*50)
	must.Do(t, same.SameAnswers(t.Context(), f, x))
	must.Fail(t, other.SameAnswers(t.Context(), f, x), "says \"yes\" of a row of which the original's says \"no\"")
	l := labelCase{columns: 2, batch: rows(), label: func(b *graph.Builder, _, k string) string {
		return b.Op("Add", []string{integer(b, 1), k})
	}}
	few := open(t, l.model(), Options{})
	row := normals(5, 3) // there is the first of 1 and 2 only, or the second
	must.Do(t, must.Err(few.Answers(t.Context(), slices.Concat(row, row), false)))
}

// TestSameKind: a quantized file gives numbers that production can read as the original's.
func TestSameKind(t *testing.T) {
	e := orttest.Need(t)
	ends := map[string]func(b *graph.Builder, z string) string{
		"logits":        func(_ *graph.Builder, z string) string { return z },
		"probabilities": func(b *graph.Builder, z string) string { return b.Op("Sigmoid", []string{z}) },
		"[1-p, p]":      func(b *graph.Builder, z string) string { return pair(b, b.Op("Sigmoid", []string{z})) },
		"logarithms":    func(b *graph.Builder, z string) string { return b.Op("LogSoftmax", []string{pair(b, z)}) },
		"two logits":    pair,
		"labels": func(b *graph.Builder, z string) string {
			return b.Op("ArgMax", []string{pair(b, z)}, graph.IntAttr("axis", 1))
		},
	}
	models := map[string]*onnxio.Model{}
	for name, end := range ends {
		m := newMLP(3, 1, 7).model(rows())
		m.Graph.Outputs = []graph.Value{{Name: end(graph.NewBuilder(m.Graph, "h."), "z")}}
		models[name] = must.Get(onnxio.FromGraph(t.Context(), m, e))(t)
	}
	for a, f := range models {
		for b, g := range models {
			if err := f.SameKind(g); (err == nil) != (a == b) {
				t.Errorf("%s and %s: %v", a, b, err)
			}
		}
	}
}
