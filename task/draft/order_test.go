package draft

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cfq/task"
)

// TestOrder: the order of codes is found by scores, whether all orders can be tried or not; what they do not tell is
// asked, and scores of another model give none.
func TestOrder(t *testing.T) {
	t.Parallel()
	for seed, sizes := range [][]int{{2, 3}, {5, 3, 2}, {5, 6, 4}, {9, 4}, {3}} {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		var text strings.Builder
		text.WriteString("version: 1\nfeatures:\n  - {name: x, kind: numeric}\n")
		var columns []string
		truth := map[string][]string{}
		for k, n := range sizes {
			name := fmt.Sprint("c", k)
			var values []string
			for v := range n {
				values = append(values, fmt.Sprint("v", v))
			}
			columns, truth[name] = append(columns, name), slices.Clone(values)
			r.Shuffle(n, func(i, j int) { truth[name][i], truth[name][j] = truth[name][j], truth[name][i] })
			shares := strings.Repeat(", 0.1", n)[2:]
			fmt.Fprintf(&text, "  - {name: %s, kind: onehot, values: [%s], shares: [%s]}\n", name,
				strings.Join(values, ", "), shares)
		}
		tk, err := task.Parse("t.yaml", []byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		dim := tk.Dim()
		weights, hidden := make([]float64, 4*dim), make([]float64, 4)
		for i := range weights {
			weights[i] = r.NormFloat64()
		}
		blind := ""
		if seed == 1 { // a model that one column does not matter to
			blind = columns[1]
			for h := range hidden {
				clear(weights[h*dim+tk.Features[2].Offset:][:sizes[1]])
			}
		}
		model := func(_ context.Context, x []float32) (logits []float32, classes int, err error) {
			for row := range slices.Chunk(x, dim) {
				z := 0.0
				for h := range hidden {
					hidden[h] = 0
					for i, v := range row {
						hidden[h] += weights[h*dim+i] * float64(v)
					}
					z += math.Tanh(hidden[h]) * float64(h+1) / 2
				}
				logits = append(logits, float32(z))
			}
			return logits, 1, nil
		}
		data := "x," + strings.Join(columns, ",") + "\n"
		var real []float32 // inputs by the true order
		for range 90 {
			v := math.Round(r.NormFloat64()*100) / 100
			data += fmt.Sprint(v)
			real = append(real, float32(v))
			for k, n := range sizes {
				value := fmt.Sprint("v", r.IntN(n))
				data += "," + value
				hot := make([]float32, n)
				hot[slices.Index(truth[columns[k]], value)] = 1
				real = append(real, hot...)
			}
			data += "\n"
		}
		people, err := task.ReadFrom(t.Context(), strings.NewReader(data), tk, task.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		logits, _, _ := model(t.Context(), real)
		s := &Scores{Columns: 1, Probabilities: true}
		for i, z := range logits {
			s.Rows, s.Values = append(s.Rows, i), append(s.Values, 1/(1+math.Exp(-float64(z))))
		}
		have, asked, err := Order(t.Context(), s, tk, people, columns, model)
		if (asked[blind] != "") != (blind != "") {
			t.Errorf("%v: questions %v, want one about %q", sizes, asked, blind)
		}
		delete(asked, blind)
		delete(have, blind)
		delete(truth, blind)
		if err != nil || len(asked) > 0 || fmt.Sprint(have) != fmt.Sprint(truth) {
			t.Errorf("%v: %v, want %v; questions %v, %v", sizes, have, truth, asked, err)
		}
		for i := range s.Values {
			s.Values[i] = 1 - s.Values[i]
		}
		if have, _, err := Order(t.Context(), s, tk, people, columns, model); have != nil || err != nil {
			t.Errorf("%v: %v from scores of another model, %v", sizes, have, err)
		}
	}
}
