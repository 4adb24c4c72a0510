package ptq

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq/taskmodel"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// In ONNX Runtime too, what a person is told depends neither on who else is asked about, nor on the
// order, nor on the workers.
func TestSolveCompany(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "test.csv")
	people = few(people, 200)
	ctx := context.Background()
	c := must.Get(taskmodel.Open(loaded(t, m), tk, 2))(t)
	t.Cleanup(func() { _ = c.Close() })
	set := must.Get(constraint.Compile(tk))(t)
	all := must.Get(recourse.Solve(ctx, c, set, people.X, recourse.SolveOptions{Margin: 0.1, Workers: 1}))(t)
	order := rand.New(rand.NewPCG(1, 1)).Perm(people.N)
	for _, size := range []int{people.N, 101} {
		for lo := 0; lo < people.N; lo += size {
			rows := order[lo:min(lo+size, people.N)]
			some := must.Get(recourse.Solve(ctx, c, set.Select(rows), people.Subset(rows).X, recourse.SolveOptions{
				Margin:  0.1,
				Workers: 2,
			}))(t)
			for i, row := range rows {
				// The last bit of a margin may depend on the batch; the promise may not.
				a, b := all[row], some[i]
				a.Margin, b.Margin = 0, 0
				if d := cmp.Diff(a, b); d != "" {
					t.Fatalf("row %d in company of %d: %s", row, len(rows), d)
				}
			}
		}
	}
}

// On real data the search is within 2 % of the least cost under logistic regressions, and within 5 % under networks
// whose actionable features are discrete, on average, and finds an action for everybody who has one.
func TestGap(t *testing.T) {
	orttest.Need(t)
	for _, c := range []struct {
		data, model string
		limit       float64
	}{
		{"adult", "logreg-s0.onnx", .02},
		{"german", "logreg-s0.onnx", .02},
		{"compas", "mlp2-s0.onnx", .05},
		{"compas", "mlp2-s4.onnx", .05},
	} {
		if (c.data == "adult" || c.model == "mlp2-s4.onnx") && !long() {
			continue
		}
		in, people := realPeople(t, realdata.Dir(t), c.data)
		m := must.Get(onnxio.Load(t.Context(), realdata.Dir(t, "models", c.data, c.model), ort.Options{}))(t)
		f := must.Get(taskmodel.Open(m, in, 2))(t)
		t.Cleanup(func() { _ = f.Close() })
		x := refused(t, f, people, 120)
		for _, norm := range []task.Norm{task.L1, task.L2} {
			in.Cost.Norm = norm
			for _, margin := range []float64{0, 0.1} {
				gaps := gapOf(t, f, in, x, margin)
				if mean := stat.Mean(gaps, nil); len(gaps) < 70 || mean > c.limit {
					t.Errorf("%s/%s, %s, margin %g: mean gap %g of %d people", c.data, c.model, norm, margin, mean, len(gaps))
				}
			}
		}
	}
}

func refused(t *testing.T, f recourse.Model, people *task.People, n int) (x []float32) {
	t.Helper()
	margins := must.Get(f.Margins(t.Context(), people.X))(t)
	for i, v := range margins {
		if v <= 0 && len(x) < n*people.Dim {
			x = append(x, people.X[i*people.Dim:(i+1)*people.Dim]...)
		}
	}
	return x
}

func gapOf(t *testing.T, f recourse.Model, in *task.Task, x []float32, margin float64) (gaps []float64) {
	t.Helper()
	set := must.Get(constraint.Compile(in))(t)
	best, methods, err := recourse.Exact(t.Context(), f, set, x, recourse.ExactOptions{Margin: margin, Workers: 2})
	must.Do(t, err)
	acts := must.Get(recourse.Solve(t.Context(), f, set, x, recourse.SolveOptions{Margin: margin, Workers: 2}))(t)
	for i, b := range best {
		switch {
		case b.Status == recourse.AlreadyFavourable:
		case !methods[i].Proved():
			t.Errorf("person %d: no proof", i)
		case (b.Status == recourse.Found) != (acts[i].Status == recourse.Found):
			t.Errorf("person %d: %s by the search, exactly %s", i, acts[i].Status, b.Status)
		case b.Status == recourse.Found:
			gaps = append(gaps, acts[i].Cost/b.Cost-1)
			if acts[i].Cost < b.Cost*(1-1e-6) {
				t.Errorf("person %d: the solver's action costs %g, the cheapest %g", i, acts[i].Cost, b.Cost)
			}
		}
	}
	return gaps
}
