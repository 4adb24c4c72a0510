package ptq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/allocate"
	"cfq/eval"
	"cfq/internal/must"
	"cfq/internal/statistics"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/ptq/taskmodel"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

func TestTargetNeed(t *testing.T) {
	t.Parallel()
	for _, vd := range []float64{0.5, 0.1, 0.03, 0.01, 0.001} {
		for _, confidence := range []float64{0.5, 0.9, 0.95, 0.99} {
			target := Target{VD: vd, Confidence: confidence}
			n := 1
			for statistics.ClopperPearsonUpper(0, n, target.level()) > vd {
				n++
			}
			must.Same(must.In(t, vd, confidence), n, target.need())
		}
	}
}

// A claim is false in at most one of twenty runs, though the best of several models that
// all break the target is looked for.
func TestTargetIsHonest(t *testing.T) {
	t.Parallel()
	const runs, people, vd = 4000, 600, 0.02
	rng := rand.New(rand.NewPCG(7, 7))
	target := Target{VD: vd, Confidence: 0.95}
	draw := func() Share {
		k := 0
		for range people {
			if rng.Float64() < vd*1.0001 {
				k++
			}
		}
		return target.share(k, people)
	}
	wrong := 0
	for range runs {
		for range targetTries {
			if (&Measured{VD: draw()}).bound() <= vd {
				wrong++
				break
			}
		}
	}
	if share := float64(wrong) / runs; share > 0.05 || share < 0.005 { // not by never claiming anything either
		t.Errorf("%v of the claims are false", share)
	}
}

// Rows are divided by their values, whatever their order; equal ones and those of one ID are on one side.
func TestHeldOut(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 4000
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = []float32{float32(rng.NormFloat64()), float32(rng.IntN(2))}
		if i%2 == 1 {
			rows[i] = rows[i-1] // a copy
		}
	}
	divideAll := divide
	divide := func(share float64, seed uint64) (count map[string]int, sides []bool) {
		_, held := divide(&task.People{N: n, Dim: 2, X: slices.Concat(rows...)}, share, seed)
		count, sides = map[string]int{}, make([]bool, n)
		for _, i := range held {
			count[fmt.Sprint(rows[i])]++
			sides[i] = true
		}
		return count, sides
	}
	held, sides := divide(0.3, 1)
	_, more := divide(0.5, 1)
	_, others := divide(0.3, 2)
	count, other := 0, 0
	for i, side := range sides {
		if side {
			count++
		}
		if side != others[i] {
			other++
		}
		if i%2 == 1 && side != sides[i-1] {
			t.Fatal("equal rows are on two sides")
		}
		if side && !more[i] {
			t.Fatal("a larger share leaves out people that a smaller one holds out")
		}
	}
	if count < n*27/100 || count > n*33/100 || other < n/3 {
		t.Errorf("%d of %d are held out, %d are on another side for another seed", count, n, other)
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa(i / 4)
	}
	own, _ := divideAll(&task.People{N: n, Dim: 2, X: slices.Concat(rows...), IDs: ids}, 0.3, 1)
	for k, i := range own {
		if i%4 == 3 && own[k-3] != i-3 {
			t.Fatal("rows of one person are on two sides")
		}
	}
	slices.Reverse(rows)
	if again, _ := divide(0.3, 1); !maps.Equal(held, again) {
		t.Error("the order of the rows makes a difference")
	}
	must.Same(t, len(heldOf(math.Copysign(0, -1))), len(heldOf(0)))
}

func heldOf(x float64) []int {
	_, held := divide(&task.People{N: 1, Dim: 1, X: []float32{float32(x)}}, 0.3, 1)
	return held
}

// What Smallest says is what Quantize makes of the calibration part and what eval.Compare finds on the people held out.
func TestSmallest(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 130)
	ctx := context.Background()
	o := mustRecipe(CFPTQ, "refine.rounds=0", "target.vd=0.4")
	r := must.Get(Smallest(ctx, loaded(t, m), tk, people, o, Run{}))(t)
	c := r.Candidates[r.Chosen]
	if !r.Reached || !c.Holds || c.result != r.Result || float64(c.HeldOut.VD.Upper) > 0.4 ||
		float64(c.HeldOut.RVD.Upper) > 0.4 {
		t.Fatalf("reached %v: %+v", r.Reached, c.HeldOut)
	}
	if r.Result.HeldOut == nil {
		t.Error("the margin error of the result is not measured")
	}
	asked := 0
	for i, c := range r.Candidates {
		if c.result != nil && c.result != r.Result && c.result.HeldOut != nil {
			t.Errorf("the margin error of candidate %d, which is not written, is measured", i)
		}
		if c.HeldOut != nil {
			asked++
		}
		if i > 0 && c.Budget <= r.Candidates[i-1].Budget {
			t.Errorf("candidate %d has the budget %v", i, c.Budget)
		}
	}
	if asked < 1 || asked > targetTries {
		t.Errorf("people were asked about %d models", asked)
	}
	own, held := divide(people, 0.3, 1)
	if len(own) != r.Calibrated || len(held) != r.HeldOut {
		t.Fatalf("%d and %d people, want %d and %d", r.Calibrated, r.HeldOut, len(own), len(held))
	}
	direct := o
	direct.Allocate.Budget = c.Budget
	q, err := Quantize(ctx, loaded(t, m), tk, people.Subset(own), direct, Run{})
	if err != nil || !bytes.Equal(q.Model, r.Result.Model) {
		t.Errorf("Quantize of the calibration part gives other bytes (%v)", err)
	}
	full := must.Get(taskmodel.Open(loaded(t, m), tk, 1))(t)
	defer full.Close()
	file := must.Get(codec.Read(r.Result.Model, ""))(t)
	quantized := must.Get(taskmodel.Open(loaded(t, file), tk, 1))(t)
	defer quantized.Close()
	set := must.Get(constraint.Compile(tk))(t)
	want := must.Get(eval.Compare(ctx, full, quantized, &eval.Batch{People: people.Subset(held), Set: set}, eval.Options{
		Margins: []float64{0.1},
		Seed:    1, Solver: recourse.SolveOptions{Workers: 2},
	}))(t)
	vd, rvd := want.Margins[0].Rate("vd"), want.Margins[0].Rate("rvd")
	if got := c.HeldOut; got.VD.Num != vd.Num || got.VD.Den != vd.Den || got.RVD.Num != rvd.Num ||
		got.RVD.Den != rvd.Den || got.Accuracy != want.Rate("accuracy_quant") {
		t.Errorf("measured %+v, eval.Compare finds VD %+v, RVD %+v, accuracy %+v", got, vd, rvd, want.Rate("accuracy_quant"))
	}
	if !long() {
		return
	}
	again, err := Smallest(ctx, loaded(t, m), tk, people, o, Run{Workers: 3})
	if err != nil || again.Chosen != r.Chosen || !bytes.Equal(again.Result.Model, r.Result.Model) {
		t.Errorf("three workers chose another model (%v)", err)
	}
}

func TestSmallestFails(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 80)
	ctx := context.Background()
	// Two-bit activations break far more than two fifths; the best is kept.
	r, err := Smallest(ctx, loaded(t, m), tk, people, mustRecipe("ptq", "write.act-bits=2",
		"write.compute=integer", "target.vd=0.4", "target.sample=10", "target.seed=0"), Run{})
	must.Do(t, err)
	if r.Reached || r.Result == nil || r.Asked != 10 || r.Candidates[r.Chosen].Holds {
		t.Errorf("reached %v, asked %d, %+v", r.Reached, r.Asked, r.Candidates[r.Chosen])
	}
	for i, c := range r.Candidates {
		if c.HeldOut != nil && c.HeldOut.bound() < r.Candidates[r.Chosen].HeldOut.bound() {
			t.Errorf("candidate %d is better than the one kept", i)
		}
	}
	_, err = Smallest(ctx, loaded(t, m), tk, people, mustRecipe(CFPTQ, "target.vd=0.001"), Run{})
	if few := (*TooFew)(nil); !errors.As(err, &few) || few.Need != (Target{VD: 0.001, Confidence: 0.95}).need() ||
		few.Have >= few.Need {
		t.Errorf("too few people: %v", err)
	}
	all := mustRecipe(CFPTQ, "target.vd=0.4", "target.holdout=0.999999999")
	must.Fail(t, must.Err(Smallest(ctx, loaded(t, m), tk, people, all, Run{})), "80 people are held out")
	must.Fail(t, must.Err(Smallest(ctx, loaded(t, m), tk, people, mustRecipe(CFPTQ), Run{})), "")
	for setting, want := range map[string]string{
		"target.vd=0":           `invalid value "0" for target.vd`,
		"target.vd=1.5":         `invalid value "1.5"`,
		"target.holdout=1":      "a share above 0 and below 1, such as 0.3",
		"target.margin=-1":      "half of all promises break",
		"target.confidence=0.4": "0.5 or more",
		"target.sample=0":       "1 or more",
	} {
		r := mustRecipe(CFPTQ, "target.vd=0.1")
		must.Fail(t, r.Set(setting), want)
	}
}

func sweepLoans(t *testing.T) (m *graph.Model, tk *task.Task, train, test *task.People, o SweepOptions) {
	t.Helper()
	m, tk, train = loans(t, "train.csv")
	_, _, test = loans(t, "test.csv")
	return m, tk, few(train, 40), few(test, 60), SweepOptions{
		Methods: []string{"ptq", "cf-ptq-calib"}, Budgets: []float64{4.5, 2, 4},
		Options: eval.Options{Margins: []float64{0.1, 0.25}, Sample: 4, Seed: 5},
	}
}

func sweepOf(t *testing.T, o SweepOptions) *SweepResult {
	t.Helper()
	m, tk, train, test, _ := sweepLoans(t)
	return must.Get(Sweep(t.Context(), loaded(t, m), tk, train, test, o))(t)
}

func numbers() cmp.Option {
	return cmp.Comparer(func(a, b eval.Float) bool { return a == b || !a.Defined() && !b.Defined() })
}

// Every point is what Quantize and a plain eval.Compare give.
func TestSweepIsQuantizeAndCompare(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	r := sweepOf(t, o)
	set := must.Get(constraint.Compile(tk))(t)
	must.Same(t, 6, len(r.Points))
	differ := 0
	for i, p := range r.Points {
		if i > 0 && !reflect.DeepEqual(p.Measured.Margins, r.Points[0].Measured.Margins) {
			differ++
		}
		if i != 1 && i != 5 { // the others come about in the same way
			continue
		}
		method, budget := o.Methods[i/3], []float64{2, 4, 4.5}[i%3]
		recipe := mustRecipe(method, fmt.Sprint("allocate.budget=", budget))
		q := quantized(t, m, tk, train, recipe)
		if p.Method != method || p.Budget != budget || p.Bytes != q.Bytes || p.Bits != q.Bits ||
			len(p.BitWidths) != len(q.Layers) || p.BitWidths[1] != float64(q.Layers[1].Bits) {
			t.Errorf("point %d: %s %v, %d bytes, %v bits, widths %v", i, p.Method, p.Budget, p.Bytes, p.Bits, p.BitWidths)
		}
		written := must.Get(codec.Read(q.Model, ""))(t)
		f := must.Get(taskmodel.Open(loaded(t, m), tk, 1))(t)
		g := must.Get(taskmodel.Open(loaded(t, written), tk, 1))(t)
		want, err := eval.Compare(t.Context(), f, g, &eval.Batch{People: test, Set: set}, eval.Options{
			Margins: o.Margins, Sample: o.Sample,
			Seed: o.Seed,
		})
		must.Do(t, errors.Join(err, f.Close(), g.Close()))
		want.Records = nil
		must.Same(must.In(t, method, budget), want, p.Measured, numbers())
	}
	if r.Points[2].Same != 4 || r.Points[1].Same != 0 || r.Points[2].Measured != r.Points[1].Measured {
		t.Error("uniform widths at 4.5 bits are those at 4, and that is not seen")
	}
	if differ == 0 {
		t.Error("all points are alike")
	}
}

// A sweep that is stopped at any point and run again, with any number of workers, gives the
// result of one run; what was finished is not computed again.
func TestSweepResumes(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	o.Sample = 3
	want := sweepOf(t, o)
	for run, stop := range []int{2, 99} {
		ctx, cancel := context.WithCancel(t.Context())
		var computed []SweepPoint
		o.Solver.Workers = 1 + run
		o.Finished = func(p SweepPoint) error {
			if len(computed) == stop {
				return nil // came too late to be kept
			}
			if computed = append(computed, p); len(computed) == stop {
				cancel()
			}
			return nil
		}
		got, err := Sweep(ctx, loaded(t, m), tk, train, test, o)
		cancel()
		if stop < 99 && (!errors.Is(err, context.Canceled) || len(computed) != stop) {
			t.Fatalf("run %d: %d computed: %v", run, len(computed), err)
		}
		if o.Done = append(o.Done, computed...); stop < 99 {
			continue
		}
		if d := cmp.Diff(want, got, numbers()); err != nil || d != "" || len(o.Done) != len(want.Points) {
			t.Errorf("%d points computed, %v: %s", len(o.Done), err, d)
		}
	}
}

func TestSweepOfDamagedPoints(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	o.Methods, o.Budgets = o.Methods[:1], o.Budgets[:1]
	for _, p := range []SweepPoint{{}, {Same: 2}} {
		p.Method, p.Budget = o.Methods[0], o.Budgets[0]
		o.Done = []SweepPoint{p}
		_, err := Sweep(t.Context(), loaded(t, m), tk, train, test, o)
		wantInputError(t, err, "no measurement")
	}
}

// A budget that a method does not fit is a point that says what quantizing says, between others that are
// as without it; it is not tried again, and alone it is an error.
func TestSweepUnfit(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	o.Methods, o.Settings, o.Sample = []string{"ptq"}, []string{"allocate.cost=bops", "write.input=float"}, 2
	o.Budgets = []float64{8}
	fits := sweepOf(t, o)
	o.Budgets = []float64{2, 8}
	var told []SweepPoint
	o.Finished = func(p SweepPoint) error { told = append(told, p); return nil }
	r := sweepOf(t, o)
	of := mustRecipe("ptq", "allocate.cost=bops", "write.input=float", "allocate.budget=2")
	_, want := Quantize(t.Context(), loaded(t, m), tk, train, of, Run{})
	if !errors.Is(want, allocate.ErrBudget) || len(told) != 2 {
		t.Fatalf("%d points, and quantizing: %v", len(told), want)
	}
	must.Same(t, SweepPoint{Method: "ptq", Budget: 2, Unfit: want.Error()}, r.Points[0])
	must.Same(t, fits.Points[0], r.Points[1], numbers())
	o.Done, told = told, nil
	if d := cmp.Diff(r, sweepOf(t, o), numbers()); d != "" || len(told) != 0 {
		t.Errorf("%d points again: %s", len(told), d)
	}
	o.Budgets, o.Done = []float64{2}, nil
	_, err := Sweep(t.Context(), loaded(t, m), tk, train, test, o)
	if wantInputError(t, err, want.Error()); len(told) != 1 {
		t.Errorf("nothing fits: %d points", len(told))
	}
}

func TestSweepOptions(t *testing.T) {
	t.Parallel()
	m, tk, train, test, o := sweepLoans(t)
	for want, change := range map[string]func(*SweepOptions){
		"for method: want":     func(o *SweepOptions) { o.Methods = []string{"ptq", "gptq"} },
		"asked for twice":      func(o *SweepOptions) { o.Methods = []string{"ptq", "ptq"} },
		"budget 1":             func(o *SweepOptions) { o.Budgets = []float64{4, 1} },
		"for round.rule: want": func(o *SweepOptions) { o.Settings = []string{"round.rule=up"} },
		"for train.steps: wan": func(o *SweepOptions) { o.Settings = []string{"train.steps=3"} },
		"required margin":      func(o *SweepOptions) { o.Margins = []float64{-1} },
	} {
		bad := o
		change(&bad)
		_, err := Sweep(t.Context(), loaded(t, m), tk, train, test, bad)
		must.Fail(t, err, want)
	}
}
