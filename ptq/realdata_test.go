package ptq

import (
	"context"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq/taskmodel"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/proof"
	"cfq/task"
)

func realPeople(t testing.TB, dir, name string) (*task.Task, *task.People) {
	t.Helper()
	tk, err := task.Load(filepath.Join("..", "reproduce", "testdata", "tasks", name+".yaml"))
	must.Do(t, err)
	file := map[string]string{
		"adult": "adult.test.gz", "german": "german.data", "compas": "compas-scores-two-years.csv.gz",
		"bank": "bank-full.csv.gz", "default": "UCI_Credit_Card.csv.gz",
	}[name]
	var o task.ReadOptions
	if name != "adult" {
		if o.Only, err = task.LoadRows(filepath.Join(dir, "models", name, "split.json")); err != nil {
			t.Fatal(err)
		}
	}
	people := must.Get(task.Read(context.Background(), filepath.Join(dir, "data", name, file), tk, o))(t)
	return tk, people
}

// From the CSV to the logits of ONNX Runtime: every exported model gives the outputs that its exporter recorded.
func TestExpectedOutputs(t *testing.T) {
	t.Parallel()
	dir := realdata.Dir(t)
	files, err := filepath.Glob(filepath.Join(dir, "models", "*", "expected-*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no expected outputs: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if name != "german" && name != "compas" && !long() {
			continue
		}
		model := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "expected-"), ".csv")
		t.Run(name+"/"+model, func(t *testing.T) {
			tk, people := realPeople(t, dir, name)
			m := must.Get(codec.ReadFile(filepath.Join(filepath.Dir(file), model+".onnx")))(t)
			c := must.Get(taskmodel.Open(loaded(t, m), tk, 2))(t)
			defer c.Close()
			f := must.Get(os.Open(file))(t)
			defer f.Close()
			want := must.Get(csv.NewReader(f).ReadAll())(t)
			got, classes, err := c.Logits(context.Background(), people.X[:len(want)*tk.Dim()])
			must.Do(t, err)
			for i, row := range want {
				for j, text := range row {
					w := must.Get(strconv.ParseFloat(text, 64))(t)
					v := float64(got[i*classes+j])
					if len(row) == 1 { // a probability; the logit stands in front of the sigmoid
						v = 1 / (1 + math.Exp(-v))
					}
					must.Near(must.In(t, i, j), w, v, 1e-4)
				}
			}
		})
	}
}

// The main job on Adult: size, accuracy, kernels, and promises kept.
func TestAdult(t *testing.T) {
	needLong(t)
	t.Parallel()
	dir := realdata.Dir(t)
	tk, test := realPeople(t, dir, "adult")
	ctx := context.Background()
	train := must.Get(task.Read(ctx, filepath.Join(dir, "data", "adult", "adult.data.gz"), tk, task.ReadOptions{}))(t)
	path := filepath.Join(dir, "models", "adult", "mlp2-s0.onnx")
	m := must.Get(codec.ReadFile(path))(t)
	r := quantized(t, m, tk, train, mustRecipe(CFPTQ), Run{Workers: 2})
	if r.Bytes > 7500 {
		t.Errorf("%d bytes", r.Bytes)
	}
	for _, l := range r.Verified.Layers {
		if l.Kernel != "FusedGemm" && l.Kernel != "Gemm" {
			t.Errorf("layer %s runs as %s", l.Node, l.Kernel)
		}
	}
	q := must.Get(codec.Read(r.Model, ""))(t)
	f := must.Get(taskmodel.Open(loaded(t, m), tk, 2))(t)
	defer f.Close()
	g := must.Get(taskmodel.Open(loaded(t, q), tk, 2))(t)
	defer g.Close()
	set := must.Get(constraint.Compile(tk))(t)
	res := must.Get(eval.Compare(ctx, f, g, &eval.Batch{People: test, Set: set},
		eval.Options{Sample: 200, Seed: 1, Margins: []float64{0.1}}))(t)
	full, quantized := float64(res.Rate("accuracy_full").Value), float64(res.Rate("accuracy_quant").Value)
	if math.Abs(full-0.8577) > 5e-5 || math.Abs(full-quantized) > 0.005 {
		t.Errorf("accuracy %v, quantized %v; want 0.8577 and within 0.005 of it", full, quantized)
	}
	if vd, rvd := res.Margins[0].Rate("vd").Value, res.Margins[0].Rate("rvd").Value; vd > 0.05 || rvd > 0.05 {
		t.Errorf("VD(0.1) %v, RVD(0.1) %v", vd, rvd)
	}
}

// In ONNX Runtime too, what a person is told depends neither on who else is asked about, nor on the
// order, nor on the workers.
func TestSolveCompany(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "test.csv")
	people = few(people, 80)
	ctx := context.Background()
	c := must.Get(taskmodel.Open(loaded(t, m), tk, 2))(t)
	t.Cleanup(func() { _ = c.Close() })
	set := must.Get(constraint.Compile(tk))(t)
	all := must.Get(recourse.Solve(ctx, c, set, people.X, recourse.SolveOptions{Margin: 0.1, Workers: 1}))(t)
	order := rand.New(rand.NewPCG(1, 1)).Perm(people.N)
	for _, size := range []int{people.N, 41} {
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
		x := refused(t, f, people, 30)
		for _, norm := range []string{task.L1, task.L2} {
			in.Cost.Norm = norm
			for _, margin := range []float64{0, 0.1} {
				gaps := gapOf(t, f, in, x, margin)
				if mean := stat.Mean(gaps, nil); len(gaps) < 17 || mean > c.limit {
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
	acts := must.Get(recourse.Solve(t.Context(), f, set, x, recourse.SolveOptions{Margin: margin, Workers: 2}))(t)
	best, proofs, err := recourse.Exact(t.Context(), f, set, x, nil, recourse.ExactOptions{Margin: margin, Workers: 2})
	must.Do(t, err)
	for i, b := range best {
		switch {
		case b.Status == recourse.AlreadyFavourable:
		case !proofs[i].Method.Proved():
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

// vary adds random changes to d: of numbers within what the limit of costs lets them do alone, and often as far as they
// go next to the other changes.
func vary(rng *rand.Rand, a *constraint.Set, x, d []float32, limit float64) {
	for range 1 + rng.IntN(a.Limit()) {
		u := a.Free()[rng.IntN(len(a.Free()))]
		if moves := a.Switches(u, x); !u.Numeric() && len(moves) > 0 {
			a.Apply(moves[rng.IntN(len(moves))], x, d)
		} else if u.Numeric() {
			end := float64(u.Farthest(x[u.First], rng.IntN(2) == 0))
			share := min(1, 1.5*rng.Float64()) * min(1, limit/(a.Norm().Weight(u)*math.Abs(end)+1e-9))
			for lo, hi := 0.0, share; hi-lo > 1e-4; share = (lo + hi) / 2 {
				a.Apply(constraint.Move{Feature: u, To: u.Nearest(x[u.First], float32(end*share))}, x, d)
				if a.Cost(x, d) > limit {
					hi = share
				} else {
					lo = share
				}
			}
		}
	}
}

// attack returns the largest margin in the first model of n random actions up to the cost that the second one refuses.
func attack(t *testing.T, models []recourse.Model, a *constraint.Set, from [][]float32, limit float64, n int) (
	points []float32, worst float64,
) {
	x, d, rng := from[0], make([]float32, a.Dim()), rand.New(rand.NewPCG(uint64(n), 48))
	for tries := 0; tries < 12*n && len(points) < n*len(x); tries++ {
		constraint.Difference(d, x, from[rng.IntN(len(from))])
		vary(rng, a, x, d, limit)
		point := make([]float32, len(x))
		recourse.Point(point, x, d)
		if constraint.Difference(d, x, point); a.Cost(x, d) <= limit && a.Check(x, d) == nil {
			points = append(points, point...)
		}
	}
	own := must.Get(models[0].Margins(t.Context(), points))(t)
	for i, m := range must.Get(models[1].Margins(t.Context(), points))(t) {
		if m <= 0 {
			worst = max(worst, float64(own[i]))
		}
	}
	return points, worst
}

// No action of a million on real data breaks what is proved of a model and its file, as ONNX Runtime computes both.
func TestTransferUnderAttack(t *testing.T) {
	needLong(t)
	for name, factor := range map[string]float64{"adult": 1.5, "compas": 1.5, "german": 1, "bank": 1} {
		t.Run(name, func(t *testing.T) {
			m := must.Get(codec.ReadFile(realdata.Dir(t, "models", name, "mlp2-s0.onnx")))(t)
			tk, people := realPeople(t, realdata.Dir(t), name)
			q := quantized(t, m, tk, few(people, 200), mustRecipe("ptq", "allocate.budget=4"))
			f := must.Get(taskmodel.Open(loaded(t, m), tk, 1))(t)
			g := must.Get(taskmodel.Open(loaded(t, must.Get(codec.Read(q.Model, ""))(t)), tk, 1))(t)
			a, tried, bounds, reached := must.Get(constraint.Compile(tk))(t), 0, 0, 0.0
			for x := range slices.Chunk(refused(t, f, people, 40), a.Dim()) {
				for _, models := range [][]recourse.Model{{f, g}, {g, f}} {
					own, _, _ := recourse.NetworkOf(t.Context(), models[0])
					other, _, _ := recourse.NetworkOf(t.Context(), models[1])
					pair := must.Get(proof.NewPair(own, other))(t)
					least, err := pair.Alone().Cheapest(t.Context(), a, x, proof.Goal{
						Margin: 0.1, Aim: 0.1, Cost: math.Inf(1), Gap: 0.01, Nodes: 3000,
					}, func([]float32) (bool, error) { return true, nil })
					if must.Do(t, err); least.Point == nil {
						continue
					}
					limit := factor * least.Cost
					got := must.Get(pair.Transfer(t.Context(), a, x, limit, 0.002, 3000))(t)
					from := [][]float32{x, least.Point, got.Refuted}[:2+min(1, len(got.Refuted))]
					points, worst := attack(t, models, a, from, limit, 15_000)
					if worst > got.Upper {
						t.Errorf("an action with the margin %g is refused, proved %g", worst, got.Upper)
					}
					tried += len(points) / len(x)
					if worst > 0 && !math.IsInf(got.Upper, 1) {
						bounds, reached = bounds+1, reached+worst/got.Upper
					}
				}
			}
			if t.Logf("%d actions: %.2f of %d bounds", tried, reached/float64(bounds), bounds); tried < 500_000 || bounds < 5 {
				t.Error("too few")
			}
		})
	}
}
