package ptq

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

func profile(t *testing.T, people *task.People, o ProfileOptions) *Profile {
	t.Helper()
	m, tk, train := loans(t, "train.csv")
	if people == nil {
		people = train
	}
	return must.Get(Sensitivity(context.Background(), loaded(t, m), tk, people, o, Run{}))(t)
}

// The profile has the scores that quantize chooses bits by.
func TestProfileIsWhatQuantizeDoes(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 600)
	for method, at := range map[MethodName]string{CFPTQPaper: "recourse", MixedPTQ: "factual"} {
		o := mustRecipe(method, "allocate.budget=3.5")
		p := profile(t, people, ProfileOptions{Recipe: o, Probes: 4})
		r := must.Get(Quantize(context.Background(), loaded(t, m), tk, people, o, Run{}))(t)
		for i, l := range r.Layers {
			score := p.Layers[i].Factual.Gradient
			if at == "recourse" {
				score = p.Layers[i].Recourse.Gradient
			}
			if p.Layers[i].Node != l.Node || score.Value != l.Score {
				t.Errorf("%s: layer %s has score %v, %s in the profile %v", method, l.Node, l.Score, p.Layers[i].Node, score.Value)
			}
		}
	}
}

func TestProfileWithoutRecourse(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	f := must.Get(OpenFor(loaded(t, m), tk, 1))(t)
	defer f.Close()
	margins := must.Get(f.Margins(context.Background(), people.X))(t)
	happy := &task.People{Dim: people.Dim}
	for i, v := range margins {
		if v > 0 {
			happy.X = append(happy.X, people.X[i*people.Dim:(i+1)*people.Dim]...)
			happy.Labels, happy.Rows = append(happy.Labels, people.Labels[i]), append(happy.Rows, people.Rows[i])
			happy.N++
		}
	}
	p := profile(t, happy, ProfileOptions{Recipe: mustRecipe("ptq"), Probes: 2})
	if p.Recourse != 0 || p.Layers[0].Recourse != nil || p.Layers[0].Factual.MarginError[0] <= 0 {
		t.Errorf("profile %+v", p)
	}
}

func TestProfileOptions(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	o := ProfileOptions{Recipe: mustRecipe("ptq")}
	o.Recipe.Allocate.Budget = 9
	for part, probes := range map[string]int{"allocate.budget: want 2 to 8": 2, "1 probes": 1} {
		o.Probes = probes
		_, err := Sensitivity(t.Context(), loaded(t, m), tk, people, o, Run{})
		var input *InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q", err, part)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.Recipe.Allocate.Budget, o.Probes = 4, 0
	_, err := Sensitivity(ctx, loaded(t, m), tk, people, o, Run{Progress: func(ev Event) {
		if strings.HasPrefix(ev.Stage, "gradients at") {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
