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
	m, tk, _ := loans(t, "train.csv")
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
		r := quantized(t, m, tk, people, o)
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
	var favoured []int
	for i, v := range marginsOf(t, m, tk, people.X) {
		if v > 0 {
			favoured = append(favoured, i)
		}
	}
	p := profile(t, people.Subset(favoured), ProfileOptions{Recipe: mustRecipe("ptq"), Probes: 2})
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
		wantInputError(t, err, part)
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
