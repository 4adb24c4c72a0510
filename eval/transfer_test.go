package eval

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// hinged is a network of one hidden layer of Relu units: the margin is out.max(0, in x + at) + b.
type hinged struct {
	in      [][]float64
	at, out []float64
	b       float64
}

func (m *hinged) Dim() int { return len(m.in[0]) }

func (m *hinged) Margins(ctx context.Context, x []float32) ([]float32, error) {
	out, _, err := m.MarginGrads(ctx, x)
	return out, err
}

func (m *hinged) MarginGrads(_ context.Context, x []float32) (margins, grads []float32, err error) {
	dim := m.Dim()
	grads = make([]float32, len(x))
	for i := range len(x) / dim {
		sum := m.b
		for u, w := range m.in {
			z := m.at[u]
			for j := range w {
				z += w[j] * float64(x[i*dim+j])
			}
			for j := range w {
				if z > 0 {
					grads[i*dim+j] += float32(m.out[u] * w[j])
				}
			}
			sum += m.out[u] * max(0, z)
		}
		margins = append(margins, float32(sum))
	}
	return margins, grads, nil
}

func (m *hinged) LossGrads(ctx context.Context, x []float32) (margins, grads []float32, err error) {
	margins, grads, err = m.MarginGrads(ctx, x)
	for k := range grads {
		grads[k] = -grads[k]
	}
	return margins, grads, err
}

func (m *hinged) Network(context.Context) (rows [][]float64, bias []float64, units int, why string, err error) {
	units = len(m.in)
	for _, w := range m.in {
		rows = append(rows, append(append([]float64{}, w...), make([]float64, units)...))
	}
	return append(rows, append(make([]float64, m.Dim()), m.out...)), append(append(bias, m.at...), m.b), units, "", nil
}

// rounded is the network with weights on a grid.
func (m *hinged) rounded(step float64) *hinged {
	on := func(v []float64) (out []float64) {
		for _, x := range v {
			out = append(out, step*math.Round(x/step))
		}
		return out
	}
	g := &hinged{at: on(m.at), out: on(m.out), b: m.b}
	for _, w := range m.in {
		g.in = append(g.in, on(w))
	}
	return g
}

// stepwise are three numbers that a person can change by up to three steps.
func stepwise(t testing.TB) *constraint.Set {
	t.Helper()
	tk := &task.Task{
		Version: 1, Target: task.Target{Class: "favourable", Index: 1}, Cost: task.Cost{Norm: "l1", Weights: "uniform"},
	}
	for i, name := range []string{"a", "b", "c"} {
		f := task.Feature{
			Name: name, Column: name, Encoding: &task.Standardized{Std: 1}, Action: task.Free(), Offset: i, Width: 1,
		}
		f.Step, f.MaxChange = 0.5, 1.5
		tk.Features = append(tk.Features, f)
	}
	return must.Get(constraint.Compile(tk))(t)
}

// listedActions are all actions of a person.
func listedActions(set *constraint.Set, x []float32) (points [][]float32, costs []float64) {
	for i := range 7 * 7 * 7 {
		d := []float32{float32(i%7-3) / 2, float32(i/7%7-3) / 2, float32(i/49-3) / 2}
		if set.Check(x, d) == nil {
			points = append(points, []float32{x[0] + d[0], x[1] + d[1], x[2] + d[2]})
			costs = append(costs, set.Cost(x, d))
		}
	}
	return points, costs
}

// Certificates are what the list of all actions says, in both directions.
func TestTransferByEnumeration(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 8))
	f := &hinged{b: -1}
	for range 6 {
		f.in = append(f.in, []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()})
		f.at, f.out = append(f.at, rng.NormFloat64()), append(f.out, rng.NormFloat64())
	}
	g := f.rounded(0.25)
	people, set := crowd(40, 3), stepwise(t)
	for i := range people.X {
		people.X[i] = float32(math.Round(2*float64(people.X[i])) / 2)
	}
	o := Options{Margins: []float64{0, 0.1, 0.5}, Factor: 1.5, Solver: recourse.SolveOptions{Workers: 1}}
	o.Solver.Restarts = -1
	r := compareBatch(t, f, g, &Batch{People: people, Set: set}, o)
	seen := map[string]int{}
	for _, x := range listed(t, r) {
		points, costs := listedActions(set, x.X)
		var margins [2][]float32
		for _, p := range points {
			own, _ := f.Margins(t.Context(), p)
			other, _ := g.Margins(t.Context(), p)
			margins[0], margins[1] = append(margins[0], own[0]), append(margins[1], other[0])
		}
		for i := range x.Steps {
			for side, got := range []*Transfer{x.Steps[i].Transfer, x.Steps[i].Back} {
				if side == 1 && !x.reverse() {
					continue
				}
				seen[transferOf(must.In(t, x.Row, o.Margins[i], side), set, &x, got, o.Margins[i], costs,
					margins[side], margins[1-side])]++
			}
		}
	}
	if seen["proved"] < 10 || seen["refuted"] < 10 || seen["none"] < 3 || seen["open"] > 0 {
		t.Errorf("%v", seen)
	}
	o.Solver.Workers = 3
	again := compareBatch(t, f, g, &Batch{People: people, Set: set}, o)
	must.Same(t, asJSON(t, r), asJSON(t, again))
	must.Same(t, listed(t, r), listed(t, again), sameFloat)
}

// transferOf says what a certificate says, which must be what the actions with these costs and margins do.
func transferOf(t must.TB, set *constraint.Set, x *Record, got *Transfer, required float64, costs []float64,
	own, other []float32,
) string {
	least := math.Inf(1)
	reaches := func(m float32) bool { return m > 0 && m >= float32(required) }
	for i, m := range own {
		if reaches(m) {
			least = min(least, costs[i])
		}
	}
	if got == nil || math.IsInf(least, 1) {
		must.Same(t, got == nil, math.IsInf(least, 1))
		return "none"
	}
	d := 0.0
	refuted := false
	for i, m := range own {
		if costs[i] <= 1.5*least*(1+1e-6) && other[i] <= 0 {
			d, refuted = max(d, float64(m)), refuted || reaches(m)
		}
	}
	must.Near(t, d+0.001, float64(got.Upper), 0.00101+1e-4)
	switch {
	case got.Refuted != nil:
		delta := make([]float32, len(x.X))
		constraint.Difference(delta, x.X, got.Refuted)
		must.Do(t, set.Check(x.X, delta))
		must.Same(t, true, refuted && !got.Proved(required) && set.Cost(x.X, delta) <= 1.5*least*(1+1e-6))
		return "refuted"
	case got.Proved(required):
		must.Same(t, false, refuted)
		return "proved"
	}
	return "open"
}

// A file that answers wrongly off the promises keeps all of these, and is refuted.
func TestTransferFindsBackDoor(t *testing.T) {
	t.Parallel()
	f := &hinged{in: [][]float64{{1, 0.5, 0.25}, {1, 1, 1}}, at: []float64{9, -0.25}, out: []float64{1, 0}, b: -9.5}
	g := &hinged{in: f.in, at: f.at, out: []float64{1, -9}, b: f.b}
	people := &task.People{Dim: 3, N: 1, X: []float32{0, 0, -1}, Reading: task.Reading{Total: 1}}
	for k, refuted := range map[float64]int{1: 0, 1.5: 1} {
		r := compareBatch(t, f, g, &Batch{People: people, Set: stepwise(t)}, Options{Margins: []float64{0.1}, Factor: k})
		must.Same(t, 0, r.Margins[0].Rate("vd").Num)
		must.Same(t, refuted, r.Margins[0].Rate("transfer_refuted").Num)
		must.Same(t, 1-refuted, r.Margins[0].Rate("transfer").Num)
	}
}

// A model that is not a network of Relu units has no proof; that is no error.
func TestTransferWithoutNetwork(t *testing.T) {
	t.Parallel()
	g := original
	g.bend = func([]float32) float64 { return 0 }
	r := compare(t, original, g, crowd(20, 1), Options{Margins: []float64{0.1}, Factor: 2})
	must.Has(t, r.Settings.NoProof, "the quantized model is not a network of Relu units: ")
	must.Has(t, r.Settings.NoProof, "node bend is neither affine nor Relu")
	must.Same(t, 0, r.Margins[0].Rate("transfer").Den)
	_, err := Compare(t.Context(), original, g, &Batch{People: crowd(5, 1), Set: threeInputs(t)}, Options{Factor: 0.5})
	must.Fail(t, err, "factor 0.5: it must be a number >= 1")
}
