package quant_test

import (
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/quant"
)

// grid is two inputs on a grid of quarters: the first in two segments, stretched twofold, the second as it is.
func grid() *quant.Input {
	return &quant.Input{Scale: 0.25, Columns: []quant.InputColumn{
		{Source: 0, Lo: -8, Hi: 22, Gain: 2},
		{Source: 0, Lo: 22, Hi: 30, Gain: 2},
		{Source: 1, Lo: 0, Hi: 1, Gain: 1},
	}}
}

func TestFold(t *testing.T) {
	in := grid()
	x := []float32{
		-6, 1, // code 2*2/0.25 = 16 in the first segment
		26, 0.5, // 30*2/0.25 = 240 and 4*2/0.25 = 32
		-100, 100, // below the range 0; above it what 255 codes hold
	}
	if got, want := in.Codes(x, 2), []uint8{16, 0, 4, 240, 32, 2, 0, 0, 255}; !slices.Equal(got, want) {
		t.Errorf("codes %v, want %v", got, want)
	}
	if got, want := in.Reads(x, 2), []float32{4, 1, 68, 0.5, 0, 63.75}; !slices.Equal(got, want) {
		t.Errorf("the kernel reads %v, want %v", got, want)
	}
	l := quant.LayerInfo{In: 2, Out: 1, Columns: 2, W: []float32{3, 5}, B: []float32{7}}
	f := in.Fold(l)
	if f.In != 2 || f.Columns != 3 || !slices.Equal(f.W, []float32{1.5, 5}) || !slices.Equal(f.B, []float32{7 - 24}) {
		t.Errorf("the folded layer is %+v", f)
	}
	// On the grid the folded layer is the layer: 3*26 + 5*0.5 + 7 = 1.5*68 + 5*0.5 - 17.
	if want, got := 3*26+5*0.5+7., 1.5*68+5*0.5-17; want != got || l.W[0] != 3 {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := in.Sources(), []int{0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("sources %v, want %v", got, want)
	}
	if plain := (&quant.Input{Scale: 1, Columns: in.Columns[1:]}); plain.Sources() != nil {
		t.Errorf("sources %v of columns that are the inputs", plain.Sources())
	}
}

func TestInputCheck(t *testing.T) {
	must.Do(t, grid().Check(2))
	for _, c := range []struct {
		want   string
		dim    int
		change func(in *quant.Input)
	}{
		{"scale 0", 2, func(in *quant.Input) { in.Scale = 0 }},
		{"source 2; the model has the inputs 0 to 1", 2, func(in *quant.Input) { in.Columns[2].Source = 2 }},
		{"input 2 of the model has no column", 3, func(*quant.Input) {}},
		{"gain 0", 2, func(in *quant.Input) { in.Columns[2].Gain = 0 }},
		{"range [1, 1]", 2, func(in *quant.Input) { in.Columns[2].Lo = 1 }},
		{
			"column 1 of the input has the gain 1; the segment before has 2", 2,
			func(in *quant.Input) { in.Columns[1].Gain = 1 },
		},
		{"begins at 21; the segment before ends at 22", 2, func(in *quant.Input) { in.Columns[1].Lo = 21 }},
		{"beyond code 255", 2, func(in *quant.Input) { in.Columns[0].Hi, in.Columns[1].Lo = 29, 29 }},
		{"not next to each other", 2, func(in *quant.Input) { in.Columns[1], in.Columns[2] = in.Columns[2], in.Columns[1] }},
	} {
		in := grid()
		c.change(in)
		if err := in.Check(c.dim); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v; it should say %q", err, c.want)
		}
	}
}
