package lower

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
)

// encoded are pipelines of one column of k categories whose product with a table is a look-up in the file.
func encoded() map[string]func(p *pipeline, k int64) {
	table := func(p *pipeline, v string, k int64) {
		w := p.b.Const(graph.FromFloats("table", p.floats(3*k), k, 3))
		p.part(p.b.Op("MatMul", []string{v, w}), 3)
	}
	return map[string]func(p *pipeline, k int64){
		"own": func(p *pipeline, k int64) { p.embeddings("x", false, k) },
		// Of two columns of one table, the other one's rows are behind the last and before the first.
		"shared": func(p *pipeline, k int64) { p.embeddings("x", true, k, 2) },
		"plain": func(p *pipeline, k int64) {
			x := p.b.Op("Reshape", []string{p.input("x", graph.Int32, 1), p.ints(-1)})
			p.part(p.b.Op("Gather", []string{p.b.Const(graph.FromFloats("table", p.floats(3*k), k, 3)), x}), 3)
		},
		"one-hot": func(p *pipeline, k int64) { // integers from -2 on, of which others are none
			x := p.b.Op("Reshape", []string{p.input("x", graph.Int64, 1), p.ints(-1)})
			keys := places(int(k))
			for i := range keys {
				keys[i] -= 2
			}
			hot := p.ml("OneHotEncoder", []string{x}, graph.IntsAttr("cats_int64s", keys...), graph.IntAttr("zeros", 1))
			table(p, hot, k)
		},
		"sparse": func(p *pipeline, k int64) { // integers in another order
			x := p.b.Op("Reshape", []string{p.input("x", graph.Int64, 1), p.ints(-1)})
			keys := places(int(k))
			for i := range keys {
				keys[i] = 7 * (k - keys[i])
			}
			hot := p.ml("OneHotEncoder", []string{x}, graph.IntsAttr("cats_int64s", keys...), graph.IntAttr("zeros", 0))
			table(p, hot, k)
		},
		"large": func(p *pipeline, k int64) { // integers that a float64 does not tell apart
			x := p.b.Op("Reshape", []string{p.input("x", graph.Int64, 1), p.ints(-1)})
			keys := places(int(k))
			for i := range keys {
				keys[i] += large
			}
			hot := p.ml("OneHotEncoder", []string{x}, graph.IntsAttr("cats_int64s", keys...), graph.IntAttr("zeros", 0))
			table(p, hot, k)
		},
		"texts": func(p *pipeline, k int64) {
			x := p.b.Op("Reshape", []string{p.input("x", graph.String, 1), p.ints(-1)})
			hot := p.ml("OneHotEncoder", []string{x}, texts4(int(k)), graph.IntAttr("zeros", p.rng.Int64N(2)))
			table(p, hot, k)
		},
	}
}

// large is a number behind which a float64 has no odd ones.
const large = 1 << 53

func TestLookUps(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	for name, build := range encoded() {
		for seed := range uint64(4) {
			p := newPipeline(seed)
			k := 2 + p.rng.Int64N(4)
			build(p, k)
			m := p.model(false)
			low, f, err := lowered(t, m)
			must.Do(must.In(t, name, seed), err)
			if tables := f.Tables(low.Graph); len(tables) == 0 {
				t.Errorf("%s: no value is a column of categories", name)
			}
			back := restored(f, low)
			for _, n := range back.Graph.Nodes {
				if n.Op == "OneHotEncoder" || n.Op == "MatMul" {
					t.Errorf("%s: the file has %s", name, n.Label())
				}
			}
			values := []string{"value a", "value z", ""}
			from := int64(0)
			if name == "large" {
				from = large
			}
			for v := -2*k - 2; f.Columns[0].DType != graph.String && v < 8*k+2; v++ {
				values = append(values, strconv.FormatInt(from+v, 10))
			}
			original, file := must.Get(ort.Open(m, ort.Options{}))(t), must.Get(ort.Open(back, ort.Options{}))(t)
			same := 0
			for _, v := range values {
				want, wantErr := one(t, original, m, f.Columns, v)
				got, gotErr := one(t, file, back, f.Columns, v)
				if gotErr == nil && (wantErr != nil || !slices.Equal(got, want)) {
					t.Errorf("%s, seed %d: of %q the file makes %v, the model %v, %v", name, seed, v, got, want, wantErr)
				}
				if gotErr == nil {
					same++
				}
			}
			must.Do(t, errors.Join(original.Close(), file.Close()))
			least := int(k)
			switch name { // a table of their own has the rows counted from the end, and a one-hot zeros for all others
			case "own", "plain":
				least = 2 * int(k)
			case "one-hot":
				least = len(values) - 3
			case "texts":
				least = 1
			}
			if same < least {
				t.Errorf("%s, seed %d: the file takes %d values, want %d", name, seed, same, least)
			}
		}
	}
}

func one(t *testing.T, s *ort.Session, m *graph.Model, columns []Column, value string) ([]float64, error) {
	t.Helper()
	var in []*graph.Tensor
	for _, v := range m.Graph.DataInputs() {
		tensor, err := feed(v, columns, 1, func(_, column int) string {
			if column == 0 {
				return value
			}
			return columns[column].base()
		})
		if err != nil {
			return nil, err
		}
		in = append(in, tensor)
	}
	out, err := s.Run(t.Context(), in)
	if err != nil {
		return nil, err
	}
	return numbers(t, out[len(out)-1]), nil
}

func TestSharedTable(t *testing.T) {
	t.Parallel()
	orttest.Need(t)
	p := newPipeline(5)
	table := p.b.Const(graph.FromFloats("table", p.floats(12), 4, 3))
	x := p.input("x", graph.Int64, 2)
	for i := range int64(2) {
		at := p.b.Op("Gather", []string{x, p.b.Const(graph.FromInts("at", []int64{i}))}, graph.IntAttr("axis", 1))
		v := p.b.Op("Gather", []string{table, at})
		p.part(v, 3)
		p.part(p.b.Op("Relu", []string{v}), 3)
	}
	m := p.model(false)
	low, f, err := lowered(t, m)
	must.Do(t, err)
	hot, count := restored(f, low), map[string]int{}
	for _, n := range hot.Graph.Nodes {
		count[n.Op]++
	}
	if got, want := fmt.Sprint(count["Gather"], count["OneHotEncoder"]), "4 0"; got != want {
		t.Errorf("%s Gather and OneHotEncoder, want %s", got, want)
	}
}
