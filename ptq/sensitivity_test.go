package ptq_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cfq/calib"
	"cfq/onnxio/codec"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

func profile(t *testing.T, people *task.People, o ptq.Options, po ptq.ProfileOptions) *ptq.Profile {
	t.Helper()
	m, tk, train := loans(t, "train.csv")
	if people == nil {
		people = train
	}
	p, err := ptq.Sensitivity(context.Background(), loaded(t, m), tk, people, o, po)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func rule(t *testing.T, p *ptq.Profile, name ptq.Allocator, at string) ptq.Rule {
	t.Helper()
	i := slices.IndexFunc(p.Rules, func(r ptq.Rule) bool { return r.Name == name && r.At == at })
	if i < 0 {
		t.Fatalf("no rule %s %s among %+v", name, at, p.Rules)
	}
	return p.Rules[i]
}

// The profile tells of the paper's method what quantize does by it: the same scores and bits.
func TestProfileIsWhatQuantizeDoes(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	for method, at := range map[ptq.MethodName]string{ptq.CFPTQPaper: "recourse", ptq.MixedPTQ: "factual"} {
		o := ptq.Options{Method: method, Budget: 3.5}
		p := profile(t, nil, o, ptq.ProfileOptions{Probes: 4})
		r, err := ptq.Quantize(context.Background(), loaded(t, m), tk, people, o)
		if err != nil {
			t.Fatal(err)
		}
		paper := rule(t, p, ptq.AllocatorPaper, at)
		for i, l := range r.Layers {
			score := p.Layers[i].Factual.Gradient
			if at == "recourse" {
				score = p.Layers[i].Recourse.Gradient
			}
			if p.Layers[i].Node != l.Node || score.Value != l.Score || float64(paper.Bits[i]) != l.Bits {
				t.Errorf("%s: layer %s has score %v and %v bits, %s in the profile %v and %d", method, l.Node, l.Score, l.Bits,
					p.Layers[i].Node, score.Value, paper.Bits[i])
			}
		}
		if math.Abs(paper.MeanBits-r.Bits) > 1e-9 {
			t.Errorf("%s: %v bits per weight, in the profile %v", method, r.Bits, paper.MeanBits)
		}
	}
}

// The margin error of a rule is that of the file with its bits, and no rule spends more than there is.
func TestProfileRules(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m, tk, people := loans(t, "train.csv")
	o := ptq.Options{Method: "ptq", Budget: 4, Workers: 2}
	p := profile(t, nil, o, ptq.ProfileOptions{Probes: 4})
	r, err := ptq.Quantize(ctx, loaded(t, m), tk, people, o)
	if err != nil {
		t.Fatal(err)
	}
	q, err := codec.Read(r.Model, "")
	if err != nil {
		t.Fatal(err)
	}
	f, err := ptq.OpenFor(loaded(t, m), tk, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := ptq.OpenFor(loaded(t, q), tk, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	set, err := constraint.Compile(tk)
	if err != nil {
		t.Fatal(err)
	}
	cal, err := calib.Counterfactual(ctx, f, set, people.X, recourse.TeacherOptions{Margin: tk.Target.Margin})
	if err != nil {
		t.Fatal(err)
	}
	if cal.Recourse != p.Recourse || p.Recourse == 0 {
		t.Fatalf("%d recourse points, in the profile %d", cal.Recourse, p.Recourse)
	}
	before, err := f.Margins(ctx, cal.Points())
	if err != nil {
		t.Fatal(err)
	}
	after, err := g.Margins(ctx, cal.Points())
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for i := range before {
		d := float64(after[i]) - float64(before[i])
		sum += d * d
	}
	uniform := rule(t, p, ptq.AllocatorUniform, "")
	if want := math.Sqrt(sum / float64(len(before))); math.Abs(uniform.MarginError-want) > 1e-3*want {
		t.Errorf("margin error %v, of the file %v", uniform.MarginError, want)
	}
	for _, r := range p.Rules {
		if r.MarginError <= 0 || r.MeanBits > 4 || r.Error != "" {
			t.Errorf("rule %+v", r)
		}
	}
	if len(p.Rules) != 7 {
		t.Errorf("%d rules: %+v", len(p.Rules), p.Rules)
	}
}

// Estimated and measured quantization errors agree, ranks are ranks, and nothing depends on the workers.
func TestProfileMeasures(t *testing.T) {
	t.Parallel()
	_, _, people := loans(t, "train.csv")
	people = few(people, 600)
	exact := profile(t, people, ptq.Options{Workers: 1}, ptq.ProfileOptions{Probes: 8, Errors: ptq.ErrorsExact})
	first := profile(t, people, ptq.Options{Workers: 1}, ptq.ProfileOptions{Probes: 8, Errors: ptq.ErrorsFirstOrder})
	auto := profile(t, people, ptq.Options{Workers: 3}, ptq.ProfileOptions{Probes: 8})
	if !reflect.DeepEqual(exact, auto) {
		t.Errorf("with one worker %+v\nwith three %+v", exact, auto)
	}
	if first.Errors != ptq.ErrorsFirstOrder {
		t.Errorf("errors are found by %s", first.Errors)
	}
	ranks := map[int]bool{}
	for i := range exact.Layers {
		a, b := exact.Layers[i], first.Layers[i]
		ranks[a.Recourse.Gradient.PerWeightRank] = true
		for f, d := range a.Recourse.MarginError {
			if ratio := b.Recourse.MarginError[f] / d; !(ratio > 0.7 && ratio < 1.4) {
				t.Errorf("layer %s, %d bits: error %v, to first order %v", a.Node, exact.BitWidths[f], d, b.Recourse.MarginError[f])
			}
		}
		if s := a.Factual.Trace; s.Err <= 0 || math.Abs(s.PerWeight-s.Value/float64(a.Weights)) > 1e-12 {
			t.Errorf("layer %s: trace %+v", a.Node, s)
		}
	}
	if len(ranks) != 3 || !ranks[1] || !ranks[2] || !ranks[3] {
		t.Errorf("ranks %v", ranks)
	}
	if _, err := json.Marshal(exact); err != nil {
		t.Error(err)
	}
}

// Where no person is refused there is nothing to say about recourse.
func TestProfileWithoutRecourse(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	f, err := ptq.OpenFor(loaded(t, m), tk, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	margins, err := f.Margins(context.Background(), people.X)
	if err != nil {
		t.Fatal(err)
	}
	happy := &task.People{Dim: people.Dim}
	for i, v := range margins {
		if v > 0 {
			happy.X = append(happy.X, people.X[i*people.Dim:(i+1)*people.Dim]...)
			happy.Labels, happy.Rows = append(happy.Labels, people.Labels[i]), append(happy.Rows, people.Rows[i])
			happy.N++
		}
	}
	p := profile(t, happy, ptq.Options{Method: "ptq"}, ptq.ProfileOptions{Probes: 2})
	if p.Recourse != 0 || p.Layers[0].Recourse != nil || rule(t, p, ptq.AllocatorExact, "factual").MarginError <= 0 {
		t.Errorf("profile %+v", p)
	}
}

func TestProfileOptions(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	o := ptq.Options{Method: "ptq", Budget: 9}
	_, err := ptq.Sensitivity(
		context.Background(),
		loaded(t, m),
		tk,
		people,
		o,
		ptq.ProfileOptions{Probes: 1, Errors: "guess"},
	)
	var input *ptq.InputError
	if !errors.As(err, &input) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{
		"invalid budget 9", "1 probes",
		`invalid value "guess" for margin-error: want auto, exact or first-order`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %v lacks %q", err, part)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.Budget, o.Progress = 4, func(ev ptq.Event) {
		if strings.HasPrefix(ev.Stage, "gradients at") {
			cancel()
		}
	}
	if _, err := ptq.Sensitivity(
		ctx,
		loaded(t, m),
		tk,
		people,
		o,
		ptq.ProfileOptions{},
	); !errors.Is(
		err,
		context.Canceled,
	) {
		t.Errorf("cancelled: %v", err)
	}
}
