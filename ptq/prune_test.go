package ptq

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/pass"
	"cfq/quant"
)

// Pruned weights, those with the least magnitude of all layers or with the least effect on margins at recourse points,
// are zero in the written file.
func TestPruned(t *testing.T) {
	t.Parallel()
	f := fortunate(t, 120, 6)
	canonical, _, err := pass.Canonical(f.g, nil)
	must.Do(t, err)
	layers := must.Get(quant.FindLayers(canonical))(t)
	var magnitudes []float64
	for _, l := range layers {
		for _, w := range l.W {
			magnitudes = append(magnitudes, math.Abs(float64(w)))
		}
	}
	slices.SortFunc(magnitudes, cmp.Compare)
	limit := magnitudes[len(magnitudes)*3/10]
	var files [][]byte
	for _, by := range []string{pruneMagnitude, pruneSensitivity} {
		r := f.quantize(t, mustRecipe("prune-qat",
			"train.sparsity=0.3", "train.prune-by="+by, "train.steps=64"), Run{})
		files = append(files, r.Model)
		if r.Recipe["train.sparsity"] != "0.3" || (r.Recipe["train.prune-by"] == by) != (by == pruneSensitivity) {
			t.Errorf("recipe %v", r.Recipe)
		}
		s := r.Sparsity
		if s == nil || s.By != by || s.Pruned != 0.3 || s.Zero < 0.2999 || s.Zero > 0.5 {
			t.Errorf("%+v of %d bytes", s, r.Bytes)
		}
		zero := 0
		for i, l := range r.Plan.Layers {
			for k, q := range l.Codes {
				if q == 0 {
					zero++
				} else if by == pruneMagnitude && math.Abs(float64(layers[i].W[k])) < limit {
					t.Errorf("weight %d of %s, %v, is pruned and has the code %d", k, l.Node, layers[i].W[k], q)
				}
			}
		}
		must.Near(t, s.Zero, float64(zero)/float64(len(magnitudes)), 1e-9)
	}
	if slices.Equal(files[0], files[1]) {
		t.Error("the rule makes no difference")
	}
}
