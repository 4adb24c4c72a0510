package recourse

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/task"
)

type gaps []float64

func (g gaps) report(t *testing.T) (mean, most float64) {
	t.Helper()
	off := 0
	for _, v := range g {
		mean += v / float64(len(g))
		most = max(most, v)
		if v > 1e-3 {
			off++
		}
	}
	t.Logf("%d people: mean gap %.4f %%, maximum %.3f %%, above 0.1 %%: %.1f %%", len(g), 100*mean, 100*most,
		100*float64(off)/float64(len(g)))
	return mean, most
}

// linearGaps solves and compares with the optimum of everyone who must act.
func linearGaps(t *testing.T, tk *task.Task, m *affine, x []float32, margin float64) gaps {
	t.Helper()
	a := compile(t, tk)
	acts := solved(t, m, a, x, margin)
	best, methods := proved(t, m, a, x, ExactOptions{Margin: margin})
	var out gaps
	for i, act := range acts {
		if act.Status == AlreadyFavourable {
			continue
		}
		if methods[i] != Tree || best[i].Status != act.Status && best[i].Status == Found {
			t.Errorf("person %d: %v, exact %v by %q", i, act.Status, best[i].Status, methods[i])
			continue
		}
		if act.Status == Found {
			out = append(out, act.Cost/best[i].Cost-1)
			if act.Cost < best[i].Cost*(1-1e-3) {
				t.Errorf("person %d: cost %g below the optimum %g", i, act.Cost, best[i].Cost)
			}
		}
	}
	return out
}

func gridTask(rng *rand.Rand, limit int) *task.Task {
	var fs []task.Feature
	for i, step := range []float64{0.8, 0.5, 0.09, 0.05, 0.0004} {
		f := feature(string(rune('a'+i)), "numeric")
		f.Step, f.MaxChange = step, 3
		fs = append(fs, f)
	}
	fs = append(fs, feature("phone", "binary"), oneHot("job", "p", "q", "r"))
	rng.Shuffle(len(fs), func(i, j int) { fs[i], fs[j] = fs[j], fs[i] })
	return taskOf(limit, fs...)
}

// Where grids of different steps meet, rounding up the most worthwhile feature is
// not optimal: a finer, less worthwhile one fills what is left.
func TestSolveMixedGrids(t *testing.T) {
	t.Parallel()
	var all gaps
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 3))
		tk := gridTask(rng, 1+int(seed%4))
		m := drawLinear(rng, tk.Dim(), 1, -1.5)
		all = append(all, linearGaps(t, tk, m, randomPeople(rng, tk, 16), 0.1*float64(seed%2))...)
	}
	if mean, most := all.report(t); len(all) < 150 || mean > 0.002 || most > 0.1 {
		t.Errorf("mean gap %g, maximum %g of %d people", mean, most, len(all))
	}
}

func TestSolveGerman(t *testing.T) {
	t.Parallel()
	dir := realdata.Dir(t, "models", "german")
	tk := must.Get(task.Load("../reproduce/testdata/tasks/german.yaml"))(t)
	o := task.ReadOptions{}
	o.Only = must.Get(task.LoadRows(filepath.Join(dir, "split.json")))(t)
	people := must.Get(task.Read(t.Context(), realdata.Dir(t, "data", "german", "german.data"), tk, o))(t)
	model := must.Get(codec.ReadFile(filepath.Join(dir, "logreg-s0.onnx")))(t)
	// The margin of two logits is their difference.
	m, dim := &affine{w: make([]float64, tk.Dim())}, tk.Dim()
	for _, init := range model.Graph.Inits {
		v := must.Get(init.Floats())(t)
		switch len(v) {
		case 2:
			m.b = float64(v[1]) - float64(v[0])
		case 2 * dim:
			for j := range m.w {
				m.w[j] = float64(v[dim+j]) - float64(v[j])
			}
		default:
			t.Fatalf("%s has %d values: the model is not a logistic regression with two logits", init.Name, len(v))
		}
	}
	for _, margin := range []float64{0, 0.1} {
		mean, most := linearGaps(t, tk, m, people.X, margin).report(t)
		if mean > 0.001 || most > 0.02 {
			t.Errorf("margin %g: mean gap %g, maximum %g", margin, mean, most)
		}
	}
}
