package ptq_test

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/ptq"
	"cfq/quant/qdq"
	"cfq/quant/verify"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Sampled deployments are files of their own, each with the layers, widths and kernels
// of the nominal one, and the same for the same seed.
func TestDeployments(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 200)
	for _, o := range []ptq.Options{{Method: "ptq"}, {Method: "cf-ptq", Refine: 2}} {
		method := o.Method
		o.Workers = 1
		nominal, drawn, err := ptq.Deployments(
			ctx,
			loaded(t, m),
			tk,
			people,
			o,
			ptq.DeployOptions{Models: 3, Seed: 1, Batch: 300},
		)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := ptq.Quantize(ctx, loaded(t, m), tk, people, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(drawn) != 3 || !bytes.Equal(nominal.Model, plain.Model) {
			t.Fatalf("%s: %d deployments, or the nominal one is not that of Quantize", method, len(drawn))
		}
		o.Workers = 2
		_, again, err := ptq.Deployments(ctx, loaded(t, m), tk, people, o, ptq.DeployOptions{Models: 2, Seed: 1, Batch: 300})
		if err != nil {
			t.Fatal(err)
		}
		_, others, err := ptq.Deployments(ctx, loaded(t, m), tk, people, o, ptq.DeployOptions{Models: 1, Seed: 2, Batch: 300})
		if err != nil {
			t.Fatal(err)
		}
		probe := []*graph.Tensor{graph.FromFloats(m.Graph.Inputs[0].Name, people.X[:200*tk.Dim()], 200, int64(tk.Dim()))}
		for k, d := range drawn {
			if k < len(again) && !bytes.Equal(d.Model, again[k].Model) {
				t.Errorf("%s: deployment %d is another with two workers, or depends on how many are drawn", method, k)
			}
			for j, other := range append(drawn[:k:k], others...) {
				if cmp.Equal(d.Plan.Layers, other.Plan.Layers) {
					t.Errorf("%s: deployments %d and %d have the same plan", method, k, j)
				}
			}
			r, err := verify.Check(ctx, d.Model, verify.Options{
				Plan: d.Plan, Probes: probe,
				FloatBytes: nominal.FloatBytes,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Err(); err != nil {
				t.Errorf("%s: deployment %d: %v", method, k, err)
			}
			if got, want := containers(t, d.Model), containers(t, nominal.Model); got != want {
				t.Errorf("%s: deployment %d has the layers %s, the nominal file %s", method, k, got, want)
			}
			if d := cmp.Diff(nominal.Plan.Input, d.Plan.Input); d != "" {
				t.Errorf("%s: deployment %d: another input grid: %s", method, k, d)
			}
		}
	}
}

// containers describes the layers of a file.
func containers(t *testing.T, onnx []byte) string {
	t.Helper()
	m, err := codec.Read(onnx, "")
	if err != nil {
		t.Fatal(err)
	}
	notes, err := qdq.Describe(m)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range notes {
		b.WriteString(n.Node + " " + n.Container + " ")
	}
	return b.String()
}

// With nothing to vary, a deployment computes what the nominal file computes.
func TestDeploymentWithoutVariation(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 200)
	nominal, drawn, err := ptq.Deployments(context.Background(), loaded(t, m), tk, people, ptq.Options{},
		ptq.DeployOptions{Models: 1, Rounding: -1, Jitter: -1, Batch: -1})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(nominal.Plan, drawn[0].Plan); d != "" {
		t.Error(d)
	}
}

// Deployments differ from the quantized model by about as much as that from the
// original; more variation, more difference.
func TestDeploymentsStayNear(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 600)
	rms := func(d ptq.DeployOptions) (drift, quantization float64) {
		d.Models = 3
		if d.Batch == 0 {
			d.Batch = people.N // the default is for more people
		}
		f, err := ptq.OpenFleet(ctx, loaded(t, m), tk, people, ptq.Options{Refine: 2}, d)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		nominal := margins(t, f.Nominal, people.X)
		quantization = difference(margins(t, f.Full, people.X), nominal)
		for _, c := range f.Drawn {
			drift += difference(margins(t, c, people.X), nominal) / 3
		}
		return drift, quantization
	}
	little, _ := rms(ptq.DeployOptions{Rounding: -1, Jitter: 0.002, Batch: -1})
	usual, quantization := rms(ptq.DeployOptions{})
	much, _ := rms(ptq.DeployOptions{Rounding: 3, Jitter: 0.2})
	if !(0 < little && little < usual && usual < much) || usual > 4*quantization {
		t.Errorf("rms margin difference %v with little variation, %v as usual, %v with much; quantization makes %v",
			little, usual, much, quantization)
	}
}

func margins(t *testing.T, m recourse.Model, x []float32) []float32 {
	t.Helper()
	out, err := m.Margins(context.Background(), x)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// difference is the root mean square of a - b.
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
	f, err := ptq.OpenFleet(ctx, loaded(t, m), tk, few(train, 300), ptq.Options{Budget: 2.5, Refine: 1, Workers: 2},
		ptq.DeployOptions{Models: 8, Batch: 300})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	set, err := constraint.Compile(tk)
	if err != nil {
		t.Fatal(err)
	}
	o := ptq.RobustOptions{Sample: 60, Seed: 3, Seen: 5, Margins: []float64{0.1}}
	r, err := f.Robustness(ctx, set, test, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Refused < r.People || r.People != 60 || r.Seen != 5 || r.HeldOut != 3 || len(r.Rows) != 3 || !(r.Drift > 0) {
		t.Fatalf("%+v", r)
	}
	original, quantized, robust := r.Rows[0], r.Rows[1], r.Rows[2]
	share := func(row ptq.RobustRow) float64 { return float64(row.Found) / float64(r.People) }
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
	o.Workers = 2
	again, err := f.Robustness(ctx, set, test, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range again.Rows {
		again.Rows[i].Seconds = r.Rows[i].Seconds
	}
	if d := cmp.Diff(r, again); d != "" {
		t.Errorf("depends on workers: %s", d)
	}
}

func TestDeployErrors(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	for want, d := range map[string]ptq.DeployOptions{
		"-1 sampled deployments": {Models: -1},
		"dither of NaN codes":    {Rounding: math.NaN()},
		"jitter of 2":            {Jitter: 2},
	} {
		if _, _, err := ptq.Deployments(context.Background(), loaded(t, m), tk, people, ptq.Options{},
			d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", d, err)
		}
	}
	f := &ptq.Fleet{}
	if _, err := f.Robustness(context.Background(), nil, &task.People{}, ptq.RobustOptions{Seen: 1}); err == nil {
		t.Error("one of no deployments was seen")
	}
}
