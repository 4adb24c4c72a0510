package ptq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/quant"
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
	for method, at := range map[string]string{"cf-ptq-paper": "recourse", "mixed-ptq": "factual"} {
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
	_, err := Sensitivity(ctx, loaded(t, m), tk, people, o, Run{Progress: func(ev eval.Event) {
		if strings.HasPrefix(ev.Stage, "gradients at") {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestRanks(t *testing.T) {
	t.Parallel()
	layers := slices.Repeat([]quant.LayerInfo{{In: 2, Out: 1, W: []float32{1, 1}}}, 5)
	for i, s := range scores(layers, []float64{1, 5, 1, 5, 0}, nil) {
		must.Same(t, []int{3, 1, 3, 1, 5}[i], s.PerWeightRank)
	}
}

// Estimated and measured quantization errors agree, ranks are ranks, and nothing depends on the workers.
func TestProfileMeasures(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 300)
	ctx := context.Background()
	c := calibrated(t, m, tk, people, mustRecipe(CFPTQ), Run{})
	p := must.Get(c.profile(ctx, ProfileOptions{Probes: 8}))(t)
	first := must.Get(c.measureLayers(ctx, c.calibrationSet.Points(), false, ""))(t)
	must.Same(t, errorsExact, p.Errors)
	ranks := map[int]bool{}
	for i, l := range p.Layers {
		ranks[l.Recourse.Gradient.PerWeightRank] = true
		for f, d := range l.Recourse.MarginError {
			if ratio := first[i][f] / d; !(ratio > 0.7 && ratio < 1.4) {
				t.Errorf("layer %s, %d bits: error %v, to first order %v", l.Node, p.BitWidths[f], d, first[i][f])
			}
		}
		if s := l.Factual.Trace; s.Err <= 0 || math.Abs(s.PerWeight-s.Value/float64(l.Weights)) > 1e-12 {
			t.Errorf("layer %s: trace %+v", l.Node, s)
		}
	}
	if len(ranks) != 3 || !ranks[1] || !ranks[2] || !ranks[3] {
		t.Errorf("ranks %v", ranks)
	}
	one := must.Get(json.Marshal(p))(t)
	again := must.Get(Sensitivity(ctx, loaded(t, m), tk, people, ProfileOptions{Recipe: mustRecipe(CFPTQ), Probes: 8},
		Run{Workers: 3}))(t)
	if three, _ := json.Marshal(again); !bytes.Equal(one, three) {
		t.Errorf("with one worker %s\nwith three %s", one, three)
	}
}
