package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/optimize"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort/orttest"
	"cfq/qat"
	"cfq/quant"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

func numbersTask(t *testing.T, dim int) *task.Task {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\ndata: {label: y, favourable: \"1\"}\nfeatures:\n")
	for i := range dim {
		fmt.Fprintf(&b, "  - {name: x%d, kind: numeric, mean: 0, std: 1, bounds: [-9, 9]}\n", i)
	}
	return must.Get(task.Parse("task.yaml", []byte(b.String())))(t)
}

func people(n, dim int, label func(rng *rand.Rand, x []float32) bool) *task.People {
	rng := rand.New(rand.NewPCG(7, 7))
	p := &task.People{Dim: dim, N: n, Reading: task.Reading{Total: n}}
	for i := range n {
		for range dim {
			p.X = append(p.X, float32(rng.NormFloat64()))
		}
		var l int8
		if label(rng, p.X[i*dim:]) {
			l = 1
		}
		p.Labels, p.Rows = append(p.Labels, l), append(p.Rows, i)
	}
	return p
}

func xor(_ *rand.Rand, x []float32) bool { return (x[0] > 0) != (x[1] > 0) }

func arch(t *testing.T, s string) Arch {
	t.Helper()
	return must.Get(ParseArch(s))(t)
}

// steps is a training of so many steps.
func steps(n int, rate float64, batch int) qat.Spec {
	return qat.Spec{Optimizer: qat.Optimizer{Steps: n, LearningRate: rate, Batch: batch}}
}

func trained(t *testing.T, tk *task.Task, p *task.People, o Options) *Result {
	t.Helper()
	o.Engine = orttest.Need(t)
	return must.Get(Train(context.Background(), tk, p, o))(t)
}

// Logistic regression reaches the optimum that another solver finds on the same loss.
func TestLogisticRegression(t *testing.T) {
	t.Parallel()
	const n, dim, decay = 400, 5, 0.01
	p := people(n, dim, func(rng *rand.Rand, x []float32) bool {
		return float64(2*x[0]-x[1]+0.5*x[3]+0.7)+1.5*rng.NormFloat64() > 0
	})
	// The loss of two rows of weights and two biases, in double precision.
	loss := func(grad, w []float64) float64 {
		clear(grad)
		var sum float64
		for i := range n {
			x := p.X[i*dim : (i+1)*dim]
			m := w[2*dim+1] - w[2*dim]
			for j, v := range x {
				m += float64(v) * (w[dim+j] - w[j])
			}
			sign := float64(2*p.Labels[i] - 1)
			sum += math.Log1p(math.Exp(-sign*m)) / n
			g := -sign / (1 + math.Exp(sign*m)) / n
			for j, v := range x {
				grad[j] -= g * float64(v)
				grad[dim+j] += g * float64(v)
			}
			grad[2*dim] -= g
			grad[2*dim+1] += g
		}
		for k := range 2 * dim {
			sum += decay / 2 * w[k] * w[k]
			grad[k] += decay * w[k]
		}
		return sum
	}
	grad := make([]float64, 2*dim+2)
	best := must.Get(optimize.Minimize(optimize.Problem{
		Func: func(w []float64) float64 { return loss(make([]float64, len(w)), w) },
		Grad: func(g, w []float64) { loss(g, w) },
	}, make([]float64, 2*dim+2), nil, &optimize.LBFGS{}))(t)
	o := Options{Arch: arch(t, "logreg"), Validation: new(0.0), Train: steps(2000, 0.02, n)}
	o.Train.Decay = decay
	r := trained(t, numbersTask(t, dim), p, o)
	m := must.Get(onnxio.FromGraph(context.Background(), must.Get(codec.Read(r.Model, ""))(t), orttest.Need(t)))(t)
	w := make([]float64, 0, 2*dim+2)
	for _, init := range m.Graph().Graph.Inits {
		v := must.Get(init.Floats())(t)
		for _, x := range v {
			w = append(w, float64(x))
		}
	}
	if got := loss(grad, w); got > best.F+2e-4 || got < best.F-1e-9 {
		t.Errorf("the loss is %v, the least one %v", got, best.F)
	}
	if r.Validation != nil || r.Train.Rows != n || r.Parameters != 2*dim+2 || r.Chosen != qat.Rounds {
		t.Errorf("%+v", r)
	}
}

// Two layers learn what one cannot; the same arguments give the same bytes for any number of workers.
func TestTrain(t *testing.T) {
	t.Parallel()
	p, tk := people(600, 2, xor), numbersTask(t, 2)
	o := Options{Arch: arch(t, "mlp:16,8"), Train: steps(500, 0.01, 0)}
	r := trained(t, tk, p, o)
	if r.Validation == nil || r.Validation.Accuracy < 0.95 || r.Validation.AUC < 0.98 || r.Train.Accuracy < 0.95 {
		t.Errorf("train %+v, validation %+v", r.Train, r.Validation)
	}
	if n := r.Train.Rows + r.Validation.Rows; n != p.N || r.Validation.Rows < 60 || r.Validation.Rows > 180 {
		t.Errorf("%d rows are held out, %d in all", r.Validation.Rows, n)
	}
	for i := range r.Rounds {
		if r.Rounds[i].Validation.Loss < r.Rounds[r.Chosen-1].Validation.Loss {
			t.Errorf("round %d is better than round %d, which was chosen", i+1, r.Chosen)
		}
	}
	if line := trained(t, tk, p, Options{Arch: arch(t, "logreg"), Train: o.Train}); line.Train.Accuracy > 0.65 {
		t.Errorf("a line decides %+v", line.Train)
	}
	o.Workers = 3
	again := trained(t, tk, p, o)
	if !bytes.Equal(again.Model, r.Model) {
		t.Error("three workers train other bytes")
	}
	if !cmp.Equal(again.Rounds, r.Rounds) || again.Chosen != r.Chosen {
		t.Error("three workers report other rounds")
	}
	o.Train.Seed = 2
	if bytes.Equal(trained(t, tk, p, o).Model, r.Model) {
		t.Error("the seed makes no difference")
	}
}

func TestConvolutions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		arch string
		dim  int
	}{{"cnn:4x3", 8}, {"cnn:4x4x2/4x3,6x3", 32}} {
		p := people(400, c.dim, func(_ *rand.Rand, x []float32) bool {
			var sum float32
			for _, v := range x[:c.dim/2] {
				sum += v
			}
			return sum > 0
		})
		r := trained(t, numbersTask(t, c.dim), p, Options{Arch: arch(t, c.arch), Train: steps(240, 0.02, 64)})
		if r.Train.Accuracy < 0.85 {
			t.Errorf("%s: %+v", c.arch, r.Train)
		}
		m := must.Get(onnxio.FromGraph(context.Background(), must.Get(codec.Read(r.Model, ""))(t), orttest.Need(t)))(t)
		canonical := must.Get(m.Canonical())(t)
		layers := must.Get(quant.FindLayers(canonical.Graph()))(t)
		for _, l := range layers {
			must.Same(must.In(t, c.arch), "", l.Fixed)
		}
		must.Same(t, strings.Count(c.arch, ",")+2, len(layers))
	}
}

// Training for recourse changes what it is about: the margin at recourse points, and how far members differ there.
func TestRecourseObjectives(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	tk := numbersTask(t, 3)
	p := people(300, 3, func(rng *rand.Rand, x []float32) bool {
		return float64(x[0]+x[1]*x[2])+rng.NormFloat64() > 0.5
	})
	set := must.Get(constraint.Compile(tk))(t)
	teacher := func(ctx context.Context, m *classifier.Model, people *task.People) ([]float32, error) {
		d, err := recourse.Teacher(ctx, m, set, people.X, recourse.TeacherOptions{})
		for i := range d {
			d[i] += people.X[i]
		}
		return d, err
	}
	run := func(objective qat.Objective, eta, beta float64) *fit {
		f := must.Get(train(ctx, tk, p, Options{
			Arch: arch(t, "mlp:8"), Engine: orttest.Need(t), Teacher: teacher,
			Train: qat.Spec{
				Objective: objective, Optimizer: qat.Optimizer{Steps: 320, LearningRate: 0.02},
				Weights: qat.Weights{"eta": eta, "beta": beta, "gamma": 0.5},
			},
		}))(t)
		return f
	}
	margins := func(f *fit, member int, x []float32) []float32 {
		m := must.Get(f.classifier(ctx, f.member(f.best, member)))(t)
		defer m.Close() //nolint:errcheck // there is nothing to lose
		return must.Get(m.Margins(ctx, x))(t)
	}
	plain := run(qat.RMargin, 0, 1e-9)
	m := must.Get(plain.classifier(ctx, plain.member(plain.best, 0)))(t)
	x, err := plain.recourse(ctx, m, 0)
	if err != nil || m.Close() != nil {
		t.Fatal(err)
	}
	if plain.result.Recourse == 0 || plain.result.Members != 0 {
		t.Fatalf("%+v", plain.result)
	}
	// The hinge moves the points of a network that was trained without it away from the boundary.
	shortfall := func(f *fit) (sum float64) {
		for _, v := range margins(f, 0, x) {
			sum += max(0, 0.5-float64(v))
		}
		return sum
	}
	robust := run(qat.RMargin, 0, 0.2)
	if with, without := shortfall(robust), shortfall(plain); !(with < 0.8*without) {
		t.Errorf("%.3g of the margin is missing at recourse points, %.3g without the hinge", with, without)
	}
	// Members that are told to agree at recourse points do.
	disagreement := func(f *fit) (sum float64) {
		one, two := margins(f, 0, x), margins(f, 1, x)
		for i := range one {
			sum += math.Abs(float64(one[i] - two[i]))
		}
		return sum
	}
	apart, together := run(qat.RConsistency, 1e-9, 0), run(qat.RConsistency, 0.5, 0)
	if with, without := disagreement(together), disagreement(apart); !(with < 0.7*without) {
		t.Errorf("members differ by %.3g at recourse points, by %.3g when that costs nothing", with, without)
	}
	for _, f := range []*fit{robust, together} {
		if f.result.Train.AUC < plain.result.Train.AUC-0.1 {
			t.Errorf("%s decides %+v, %+v without recourse", f.result.Objective, f.result.Train, plain.result.Train)
		}
	}
	must.Same(t, 3, together.result.Members)
}

// The same people are held out for every seed.
func TestDivide(t *testing.T) {
	t.Parallel()
	divided := func(p *task.People, seed uint64) *fit {
		o := Options{Validation: new(0.2)}
		o.Train.Seed = seed
		f := &fit{o: o, task: numbersTask(t, 2), result: &Result{}}
		must.Do(t, f.divide(p))
		return f
	}
	p := people(300, 2, xor)
	one, two := divided(p, 1), divided(p, 2)
	if !slices.Equal(one.held.Rows, two.held.Rows) || one.held.N < 30 || one.held.N > 90 {
		t.Errorf("seed 1 holds %v out, seed 2 %v", one.held.Rows, two.held.Rows)
	}
}

// More steps than a training may have are an error of what was asked for, whatever the number.
func TestEpochs(t *testing.T) {
	t.Parallel()
	for _, epochs := range []float64{1e9, 1e300} {
		_, err := Train(context.Background(), numbersTask(t, 2), people(300, 2, xor), Options{
			Arch: arch(t, "logreg"), Epochs: epochs, Engine: orttest.Need(t),
		})
		var input *InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), fmt.Sprintf("invalid epochs %v: ", epochs)) {
			t.Errorf("%v epochs: %v", epochs, err)
		}
	}
	o := qat.Spec{Optimizer: qat.Optimizer{Steps: qat.MostSteps}}
	must.Do(t, o.Check())
	if o.Steps++; o.Check() == nil {
		t.Errorf("%d steps are none too many", o.Steps)
	}
}

func TestConstant(t *testing.T) {
	t.Parallel()
	for _, labels := range [][]int8{{1, 1, 0, 1}, {0, 1, 0, 0}} {
		must.Same(t, 0.75, measured(make([]float32, 4), labels).Constant)
	}
}

// A task whose model gets other inputs than the features' own is refused: the network would have the features' own.
func TestTaskWithOtherInputs(t *testing.T) {
	t.Parallel()
	tk := numbersTask(t, 2)
	tk.Features[0].Number().Clip = []float64{0, 1}
	o := Options{Arch: arch(t, "logreg"), Engine: orttest.Need(t)}
	_, err := Train(context.Background(), tk, people(300, 2, xor), o)
	var input *InputError
	if !errors.As(err, &input) || !strings.Contains(err.Error(), "remove clip, log, spread, inputs and latent") {
		t.Error(err)
	}
}
