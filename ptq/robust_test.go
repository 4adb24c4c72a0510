package ptq

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/calib"
	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/quant/verify"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

func calibratedLoans(t *testing.T, n int, r Recipe, workers int) (*calibration, *task.People) {
	t.Helper()
	m, tk, people := loans(t, "train.csv")
	people = few(people, n)
	c := must.Get(calibrate(t.Context(), loaded(t, m), tk, people, r, Run{Workers: workers}))(t)
	t.Cleanup(func() { c.Close() })
	return c, people
}

func drawnOf(t *testing.T, c *calibration, v calib.Variation, rows, k int) ([]byte, *quant.Plan) {
	t.Helper()
	candidates, _, err := c.allocate(t.Context(), 4)
	must.Do(t, err)
	made := must.Get(c.better(t.Context(), candidates))(t)
	r := must.Get(made.from.draw(t.Context(), made.widths, v, rows, k))(t)
	return r.Model, r.Plan
}

// Sampled deployments are files of their own, each with the layers, widths and kernels
// of the nominal one, and the same for the same seed.
func TestDeployments(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	vary := calib.Variation{Rounding: 1, Jitter: 0.02, Seed: 1}
	recipes := []Recipe{mustRecipe(CFPTQ, "refine.rounds=1")}
	if long() {
		recipes = append(recipes, mustRecipe("ptq"))
	}
	for _, o := range recipes {
		a, people := calibratedLoans(t, 30, o, 1)
		nominal := must.Get(a.quantize(ctx, 4))(t)
		other := vary
		other.Seed = 2
		_, plan := drawnOf(t, a, other, 300, 0)
		plans := []*quant.Plan{plan}
		var files [][]byte
		for k := range 2 {
			file, plan := drawnOf(t, a, vary, 300, k)
			for j, other := range plans {
				if cmp.Equal(plan.Layers, other.Layers) {
					t.Errorf("%s: deployments %d and %d have the same plan", o.Method, k, j)
				}
			}
			plans, files = append(plans, plan), append(files, file)
			probes := must.Get(a.net.probes(ctx, people.X))(t)
			r := must.Get(verify.Check(ctx, file, verify.Options{Plan: plan, Probes: probes, FloatBytes: nominal.FloatBytes}))(t)
			must.Do(must.In(t, o.Method, k), r.Err())
			if got, want := containers(t, file), containers(t, nominal.Model); got != want {
				t.Errorf("%s: deployment %d has the layers %s, the nominal file %s", o.Method, k, got, want)
			}
			must.Same(must.In(t, o.Method, k), nominal.Plan.Input, plan.Input)
		}
		two, _ := calibratedLoans(t, 30, o, 2)
		if again, _ := drawnOf(t, two, vary, 300, 1); !bytes.Equal(again, files[1]) {
			t.Errorf("%s: a deployment is another with two workers, or depends on those before", o.Method)
		}
	}
}

func containers(t *testing.T, onnx []byte) string {
	t.Helper()
	m := must.Get(codec.Read(onnx, ""))(t)
	notes := must.Get(qdq.Describe(m))(t)
	var b strings.Builder
	for _, n := range notes {
		b.WriteString(n.Node + " " + n.Container + " ")
	}
	return b.String()
}

func TestDeploymentWithoutVariation(t *testing.T) {
	t.Parallel()
	a, _ := calibratedLoans(t, 40, mustRecipe(CFPTQ, "refine.rounds=1"), 1)
	nominal := must.Get(a.quantize(context.Background(), 4))(t)
	_, plan := drawnOf(t, a, calib.Variation{Seed: 1}, 0, 0)
	must.Same(t, nominal.Plan, plan)
}

// Deployments differ from the quantized model by about as much as that from the
// original; more variation, more difference.
func TestDeploymentsStayNear(t *testing.T) {
	t.Parallel()
	a, people := calibratedLoans(t, 120, mustRecipe(CFPTQ, "refine.rounds=0"), 1)
	run := func(onnx []byte) []float32 {
		c := must.Get(openFile(context.Background(), onnx, a.net.task, a.net.full.Model, 1))(t)
		defer c.Close()
		return margins(t, c, people.X)
	}
	r := must.Get(a.quantize(context.Background(), 4))(t)
	nominal := run(r.Model)
	quantization := difference(margins(t, a.net.full, people.X), nominal)
	rms := func(rounding, jitter float64, rows int) float64 {
		file, _ := drawnOf(t, a, calib.Variation{Rounding: rounding, Jitter: jitter}, rows, 0)
		return difference(run(file), nominal)
	}
	little, common, much := rms(0, 0.002, 0), rms(drawRounding, drawJitter, people.N), rms(3, 0.2, people.N)
	if !(0 < little && little < common && common < much) || common > 4*quantization {
		t.Errorf("rms margin difference %v with little variation, %v as usual, %v with much; quantization makes %v",
			little, common, much, quantization)
	}
}

func margins(t *testing.T, m recourse.Model, x []float32) []float32 {
	t.Helper()
	return must.Get(m.Margins(context.Background(), x))(t)
}

func difference(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]-b[i]) * float64(a[i]-b[i])
	}
	return math.Sqrt(sum / float64(len(a)))
}

// What the robust solver finds holds under all that it saw; it costs more than what
// one model asks for and holds more often elsewhere.
func TestRobustness(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m, tk, train := loans(t, "train.csv")
	_, _, test := loans(t, "test.csv")
	recipe := mustRecipe(CFPTQ, "allocate.budget=2.5", "allocate.cost=bits", "refine.rounds=0")
	f := must.Get(OpenFleet(ctx, loaded(t, m), tk, few(train, 80),
		Draws{Recipe: recipe, Models: 5}, Run{Workers: 2}))(t)
	defer f.Close()
	set := must.Get(constraint.Compile(tk))(t)
	o := recourse.SolveOptions{Seed: 3, Margin: 0.1}
	r := must.Get(f.Robustness(ctx, set, test, 3, 10, o))(t)
	if r.Refused < r.People || r.People != 10 || r.Seen != 3 || r.HeldOut != 2 || len(r.Rows) != 3 || !(r.Drift > 0) {
		t.Fatalf("%+v", r)
	}
	original, quantized, robust := r.Rows[0], r.Rows[1], r.Rows[2]
	share := func(row RobustRow) float64 { return float64(row.Found) / float64(r.People) }
	if original.Original != share(original) || robust.Original != share(robust) || robust.SeenAll != share(robust) ||
		robust.Seen < robust.SeenAll {
		t.Errorf("a model refuses what was solved on it: %+v", r.Rows)
	}
	if !(quantized.Quantized >= share(quantized)) {
		t.Errorf("the quantized model refuses what was solved on it: %+v", quantized)
	}
	if !(robust.HeldOutAll > original.HeldOutAll && robust.HeldOut > original.HeldOut && robust.CostRatio > 1 &&
		original.CostRatio == 1) {
		t.Errorf("robust actions are no better at held-out deployments, or cost nothing: %+v", r.Rows)
	}
	must.Fail(t, must.Err(f.Robustness(ctx, set, test, 6, 0, o)), "")
	if !long() {
		return
	}
	o.Workers = 2
	again := must.Get(f.Robustness(ctx, set, test, 3, 10, o))(t)
	for i := range again.Rows {
		again.Rows[i].Seconds = r.Rows[i].Seconds
	}
	must.Same(t, r, again)
}
