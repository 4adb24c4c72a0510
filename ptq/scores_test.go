package ptq

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
)

func TestRanks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   []int
	}{
		{[]float64{3, 1, 2}, []int{1, 3, 2}},
		{[]float64{1, 5, 1, 5, 0}, []int{3, 1, 3, 1, 5}},
		{[]float64{-1}, []int{1}},
	} {
		if got := ranks(tt.values); !slices.Equal(got, tt.want) {
			t.Errorf("ranks of %v: %v, want %v", tt.values, got, tt.want)
		}
	}
}

// Estimated and measured quantization errors agree, ranks are ranks, and nothing depends on the workers.
func TestProfileMeasures(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	people = few(people, 600)
	ctx := context.Background()
	c := calibrated(t, m, tk, people, mustRecipe(CFPTQ), Run{})
	p := must.Get(c.profile(ctx, ProfileOptions{Probes: 8}))(t)
	first := must.Get(c.measureLayers(ctx, c.calibrationSet.Points(), false, ""))(t)
	if p.Errors != errorsExact {
		t.Errorf("errors are found by %s", p.Errors)
	}
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
	one, err := json.Marshal(p)
	if err != nil {
		t.Error(err)
	}
	again := must.Get(Sensitivity(ctx, loaded(t, m), tk, people, ProfileOptions{Recipe: mustRecipe(CFPTQ), Probes: 8},
		Run{Workers: 3}))(t)
	if three, _ := json.Marshal(again); !bytes.Equal(one, three) {
		t.Errorf("with one worker %s\nwith three %s", one, three)
	}
}
