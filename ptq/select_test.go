package ptq

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/qat"
	"cfq/quant"
)

func TestSelected(t *testing.T) {
	t.Parallel()
	layers := []quant.LayerInfo{
		{Node: "/layers.0/Gemm"},
		{Node: "/layers.2/Gemm"},
		{Node: "/head/Gemm"},
		{Node: "odd[name"},
	}
	for _, c := range []struct {
		keep  []string
		float []string // what stays in float
		fails string
	}{
		{float: nil},
		{keep: []string{"/head/Gemm"}, float: []string{"/head/Gemm"}},
		{keep: []string{"/layers.*/Gemm"}, float: []string{"/layers.0/Gemm", "/layers.2/Gemm"}},
		{keep: []string{"*"}, float: []string{"odd[name"}}, // * is no slash
		{keep: []string{"Gemm"}, fails: `keep in float "Gemm" matches no layer (* stands for anything but a slash); ` +
			`the layers are /layers.0/Gemm, /layers.2/Gemm, /head/Gemm, odd[name`},
		{keep: []string{"/head/[Gemm"}, fails: `keep in float "/head/[Gemm" is no pattern`},
	} {
		got, err := keptInFloat(layers, c.keep)
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("keep %q: error %v, want %q", c.keep, err, c.fails)
			continue
		}
		if names := slices.Sorted(maps.Keys(got)); err == nil && !slices.Equal(names, c.float) {
			t.Errorf("keep %q: %q stay in float, want %q", c.keep, names, c.float)
		}
	}
}

func TestSelectedOfNone(t *testing.T) {
	t.Parallel()
	_, err := keptInFloat(nil, []string{"head"})
	if err == nil || !strings.Contains(err.Error(), "matches no layer") {
		t.Errorf("a model without layers: %v", err)
	}
}

func TestKeepFloat(t *testing.T) {
	t.Parallel()
	m, tk, people := loans(t, "train.csv")
	ctx := context.Background()
	o := mustRecipe("ptq")
	for i, keep := range []string{"/layers.0/Gemm", "/layers.2/Gemm", "/layers.4/Gemm"} {
		o.Allocate.KeepFloat = []string{keep}
		r, err := Quantize(ctx, loaded(t, m), tk, people, o, Run{})
		if err != nil {
			t.Errorf("%s: %v", keep, err)
			continue
		}
		for k, l := range r.Layers {
			if (l.Float != "") != (k == i) || (l.Bits == 0) != (k == i) {
				t.Errorf("%s: %+v", keep, l)
			}
		}
		if len(r.Warnings) > 0 || r.Plan.Layer(keep) != nil || len(r.Plan.Layers) != 2 {
			t.Errorf("%s: warnings %q, %d planned layers", keep, r.Warnings, len(r.Plan.Layers))
		}
	}
	for want, o := range map[string]Recipe{
		"every layer is to stay in float": mustRecipe(CFPTQ, "allocate.keep-float=/*/Gemm"),
		`the layers are /layers.0/Gemm`:   mustRecipe(CFPTQ, "allocate.keep-float=/layers.9/Gemm"),
		"is no pattern":                   mustRecipe(CFPTQ, "allocate.keep-float=[]"),
	} {
		_, err := Quantize(ctx, loaded(t, m), tk, people, o, Run{})
		wantInputError(t, err, want)
	}
}

// Of many people some are calibrated on, evenly spread; where few of them are refused,
// refused ones are added until there are enough.
func TestWithRefused(t *testing.T) {
	t.Parallel()
	margins := make([]float32, 20000)
	for i := range margins {
		margins[i] = 1
		if i%10 == 7 {
			margins[i] = -1 // 2000 refused
		}
	}
	even := qat.Spread(len(margins), 4000)
	if len(even) != 4000 || even[0] != 0 || even[1]-even[0] != 5 || even[3999] != 19995 {
		t.Fatalf("%d rows, from %d to %d", len(even), even[0], even[len(even)-1])
	}
	rows := withRefused(slices.Clone(even), margins) // every fifth row: none of them refused
	refused := 0
	for k, r := range rows {
		if k > 0 && r <= rows[k-1] {
			t.Fatalf("row %d behind row %d", r, rows[k-1])
		}
		if margins[r] < 0 {
			refused++
		}
	}
	if len(rows) != 5000 || refused != 1000 {
		t.Errorf("%d rows, %d of them refused", len(rows), refused)
	}
	for i := range margins {
		margins[i] = -1
	}
	must.Same(t, even, withRefused(slices.Clone(even), margins))
	must.Same(t, []int{0, 1, 2, 4, 5}, withRefused([]int{1, 2, 4, 5}, []float32{-1, 1, 1, -1, 1, 1}))
}
