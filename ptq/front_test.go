package ptq

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/ptq/taskmodel"
	"cfq/task"
)

func made(t *testing.T, tk *task.Task, pairs ...string) *task.Task {
	t.Helper()
	text := string(tk.JSON())
	for i := 0; i < len(pairs); i += 2 {
		must.Has(t, text, pairs[i])
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	tk = must.Get(task.Parse("task.json", []byte(text)))(t)
	return tk
}

func behindDense(m *graph.Model, inputs int, w, b []float32) *graph.Model {
	c := m.Clone()
	in := &c.Graph.Inputs[0]
	old := in.Name
	in.Name, in.Shape = "z", graph.Shape{in.Shape[0], {Size: int64(inputs)}}
	builder := graph.NewBuilder(&graph.Graph{}, "undo.")
	dim := int64(len(b))
	x := builder.Op("MatMul", []string{"z", builder.Const(graph.FromFloats("w", w, int64(inputs), dim))})
	builder.Op("Add", []string{x, builder.Const(graph.FromFloats("b", b, 1, dim))})
	builder.G.Nodes[len(builder.G.Nodes)-1].Outputs[0] = old
	c.Graph.Nodes = append(builder.G.Nodes, c.Graph.Nodes...)
	c.Graph.Inits = append(builder.G.Inits, c.Graph.Inits...)
	return c
}

// The loan model behind an encoding, and a task that says so: margins, gradients and recourse are those of the loan
// model.
func TestFront(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "test.csv")
	people = few(people, 40)
	dim := tk.Dim()
	// Inputs: sex as -1 and 1, housing without the first value, employment as one-hot with a shift of 2 in its first
	// input; the rest as it is. The layer in front of the loan model undoes it.
	other := made(t, tk, `"name": "sex",`, `"name": "sex", "inputs": [-1, 1],`, `"name": "housing",`,
		`"name": "housing", "inputs": "drop_first",`, `"name": "employment",`,
		`"name": "employment", "inputs": `+`[[3,0,0,0,0],[2,1,0,0,0],[2,0,1,0,0],[2,0,0,1,0],[2,0,0,0,1]],`)
	names := tk.InputNames()
	w, b := make([]float32, (dim-1)*dim), make([]float32, dim)
	k := 0
	for j, name := range names {
		switch {
		case name == "housing=rent":
			b[j] = 1
			continue
		case strings.HasPrefix(name, "housing="):
			w[k*dim+slices.Index(names, "housing=rent")] = -1
		case name == "employment=salaried":
			b[j] = -2
		}
		w[k*dim+j] = 1
		if name == "sex" {
			w[k*dim+j], b[j] = 0.5, 0.5
		}
		k++
	}
	undone := behindDense(m, dim-1, w, b)
	checkSameModel(t, m, tk, undone, other, people, people)

	quantized(t, undone, other, people, mustRecipe(CFPTQ, "allocate.budget=8", "refine.rounds=0"))
}

func TestFarValue(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	income := slices.Index(tk.InputNames(), "income")
	stepped := made(t, tk, `"name": "income",`, `"name": "income", "clip": [0, 1e9],`)
	people = few(people, 100)
	people.X = slices.Clone(people.X)
	people.X[7*people.Dim+income] = 400
	for _, tk := range []*task.Task{tk, stepped} {
		r := quantized(t, m, tk, people, mustRecipe(CFPTQ, "allocate.budget=8", "write.compute=integer", "write.input=int8",
			"refine.rounds=0"))
		if all := strings.Join(r.Warnings, "\n"); !strings.Contains(all, `input "income" has values far from all others`) {
			t.Errorf("a step in front: %v; warnings %q", tk.Made(), r.Warnings)
		}
	}
}

// ofNumbers keeps the gradients by numbers: those by values of a category are defined up to what all of them share.
func ofNumbers(tk *task.Task, slopes []float32) {
	for row := range slices.Chunk(slopes, tk.Dim()) {
		for i := range tk.Features {
			if f := &tk.Features[i]; f.Encoding.Kind() == "onehot" {
				clear(row[f.Offset : f.Offset+f.Width])
			}
		}
	}
}

func checkSameModel(t *testing.T, m *graph.Model, tk *task.Task, other *graph.Model, otherTask *task.Task,
	people, otherPeople *task.People,
) {
	t.Helper()
	ctx := context.Background()
	var all [2][]float32
	var slopes [2][]float32
	for i, g := range []*graph.Model{m, other} {
		c, err := taskmodel.Open(loaded(t, g), []*task.Task{tk, otherTask}[i], 1)
		must.Do(t, err)
		defer c.Close()
		all[i], slopes[i], err = c.MarginGrads(ctx, []*task.People{people, otherPeople}[i].X)
		must.Do(t, err)
	}
	if d := furthest(all[0], all[1]); d > 1e-4 {
		t.Errorf("margins differ by %v", d)
	}
	for _, s := range slopes {
		ofNumbers(tk, s)
	}
	if d := furthest(slopes[0], slopes[1]); d > 1e-3 {
		t.Errorf("gradients differ by %v", d)
	}
	a, b := promisesTo(t, loaded(t, m), tk, people), promisesTo(t, loaded(t, other), otherTask, otherPeople)
	refused := 0
	for i := range a {
		if a[i].Status != b[i].Status || math.Abs(a[i].Cost-b[i].Cost) > 1e-3*max(1, a[i].Cost) {
			t.Errorf("person %d: %v at %v, %v at %v", i, a[i].Status, a[i].Cost, b[i].Status, b[i].Cost)
		}
		if a[i].Cost > 0 {
			refused++
		}
	}
	if refused < 10 {
		t.Errorf("%d people have recourse", refused)
	}
}

func furthest(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i]-b[i])))
	}
	return most
}

func TestFrontOfNumbers(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "test.csv")
	people = few(people, 50)
	savings := &tk.Features[4]
	must.Same(t, "savings", savings.Name)
	spread := task.Decimal(savings.Number().Std)
	other := made(t, tk, `"name": "housing",`, `"name": "housing", "inputs": "index",`, `"mean": 6263.57,`,
		`"log": 1, "spread": `+spread+`, "mean": 8.5,`, `"std": 6094.39,`, `"std": 0.9,`, `"name": "debt",`,
		`"name": "debt", "clip": [-5, 1e6],`)
	names := tk.InputNames()
	dim := len(names)
	housing, saved := slices.Index(names, "housing=rent"), slices.Index(names, "savings")

	undone := m.Clone()
	in := &undone.Graph.Inputs[0]
	old := in.Name
	in.Name, in.Shape = "z", graph.Shape{in.Shape[0], {Size: int64(dim - 2)}}
	b := graph.NewBuilder(&graph.Graph{}, "undo.")
	row := func(v ...float32) string { return b.Const(graph.FromFloats("c", v, 1, int64(len(v)))) }
	table := func(rows, cols int, ones ...[2]int) string {
		w := make([]float32, rows*cols)
		for _, p := range ones {
			w[p[0]*cols+p[1]] = 1
		}
		return b.Const(graph.FromFloats("w", w, int64(rows), int64(cols)))
	}
	var rest [][2]int
	for j := range dim {
		switch {
		case j < housing && j != saved:
			rest = append(rest, [2]int{j, j})
		case j > housing+2:
			rest = append(rest, [2]int{j - 2, j})
		}
	}
	raw := b.Op("MatMul", []string{"z", table(dim-2, 1, [2]int{saved, 0})})
	raw = b.Op("Exp", []string{b.Op("Add", []string{b.Op("Mul", []string{raw, row(0.9)}), row(8.5)})})
	raw = b.Op("Sub", []string{raw, row(float32(1 + savings.Number().Mean))})
	raw = b.Op("Div", []string{raw, row(float32(savings.Number().Std))})
	home := b.Op("MatMul", []string{"z", table(dim-2, 1, [2]int{housing, 0})})
	home = b.Op("Abs", []string{b.Op("Sub", []string{home, row(0, 1, 2)})})
	home = b.Op("Relu", []string{b.Op("Sub", []string{row(1), home})})
	sum := b.Op("MatMul", []string{"z", table(dim-2, dim, rest...)})
	sum = b.Op("Add", []string{sum, b.Op("MatMul", []string{raw, table(1, dim, [2]int{0, saved})})})
	b.Op("Add", []string{sum, b.Op("MatMul", []string{
		home, table(3, dim, [2]int{0, housing}, [2]int{1, housing + 1}, [2]int{2, housing + 2}),
	})})
	b.G.Nodes[len(b.G.Nodes)-1].Outputs[0] = old
	undone.Graph.Nodes = append(b.G.Nodes, undone.Graph.Nodes...)
	undone.Graph.Inits = append(b.G.Inits, undone.Graph.Inits...)
	path := filepath.Join("..", "testdata", "loans", "test.csv")
	same := must.Get(task.Read(t.Context(), path, other, task.ReadOptions{}))(t)
	checkSameModel(t, m, tk, undone, other, people, few(same, 50))
}
