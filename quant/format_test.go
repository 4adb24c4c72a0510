package quant_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/quant"
)

func TestFormats(t *testing.T) {
	for _, f := range quant.Formats() {
		if f.QMin != -1<<(f.Bits-1) || f.QMax != 1<<(f.Bits-1)-1 {
			t.Errorf("%d bits: range %d..%d", f.Bits, f.QMin, f.QMax)
		}
	}
	if f, err := quant.FormatOf(8, true); err != nil || f.QMin != -64 || f.QMax != 64 {
		t.Errorf("reduced 8 bits: %+v, %v", f, err)
	}
	for bits, largest := range map[int]int64{8: quant.ReducedMax, 7: 128, 4: 128, 32: 128} { // 255 x 2 x 64 fit 16 bits
		if quant.Saturates(bits, largest) || bits == 8 && !quant.Saturates(bits, largest+1) {
			t.Errorf("%d bits of activations, codes up to %d", bits, largest)
		}
	}
	for i, f := range quant.FormatsFor(true) {
		same := quant.Formats()[i]
		if got, err := quant.FormatOf(f.Bits, true); err != nil || got != f || f.Bits != same.Bits ||
			(f.Bits < 8) != (f == same) {
			t.Errorf("reduced format %d: %+v, %+v alone, %+v in full (%v)", i, f, got, same, err)
		}
	}
	must.Same(t, quant.Formats(), quant.FormatsFor(false))
	for _, bits := range []int{-1, 0, 1, 5, 16} {
		must.Fail(t, must.Err(quant.FormatOf(bits, false)), "")
	}
}

func anyFormat(t *rapid.T) quant.Format {
	f := must.Get(quant.FormatOf(rapid.SampledFrom([]int{2, 3, 4, 8}).Draw(t, "bits"), rapid.Bool().Draw(t, "reduced")))(t)
	return f
}

func TestQuantizeIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFormat(t)
		scale := rapid.Float32Range(1e-6, 1e6).Draw(t, "scale")
		x := rapid.Float32Range(2*float32(f.QMin), 2*float32(f.QMax)+2).Draw(t, "x/scale") * scale
		q := f.Quantize(x, scale)
		back := float64(quant.Dequantize(q, scale))
		lo, hi := float64(f.QMin)*float64(scale), float64(f.QMax)*float64(scale)
		want := math.Abs(math.Min(math.Max(float64(x), lo), hi) - float64(x))
		if want == 0 {
			want = float64(scale) / 2
		}
		if d := math.Abs(back - float64(x)); d > want*(1+1e-5) {
			t.Fatalf("%v becomes %v with scale %v, %d bits", x, back, scale, f.Bits)
		}
		if int(q) < f.QMin || int(q) > f.QMax {
			t.Fatalf("code %d is outside %d..%d", q, f.QMin, f.QMax)
		}
		must.Same(t, q, f.Quantize(quant.Dequantize(q, scale), scale))
	})
}

func TestQuantizeHalves(t *testing.T) {
	f, _ := quant.FormatOf(4, false)
	for x, want := range map[float32]int8{
		0.5: 0, 1.5: 2, 2.5: 2, -0.5: 0, -1.5: -2, -2.5: -2, 7.5: 7, 100: 7, -8.5: -8,
		-100: -8,
	} {
		must.Same(t, want, f.Quantize(x, 1))
	}
	must.Same(t, 0, f.Quantize(float32(math.NaN()), 1))
}

func TestFitAct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float32Range(-100, 100).Draw(t, "a")
		b := rapid.Float32Range(-100, 100).Draw(t, "b")
		lo, hi := min(a, b), max(a, b)
		act := quant.FitAct(rapid.IntRange(2, 8).Draw(t, "bits"), lo, hi)
		must.Do(t, act.Check())
		must.Same(t, 0, act.Apply(0))
		if lo >= 0 && act.Zero != 0 {
			t.Fatalf("%+v: zero point of an unsigned range", act)
		}
		x := lo + (hi-lo)*rapid.Float32Range(0, 1).Draw(t, "x")
		if d := math.Abs(float64(act.Apply(x) - x)); d > float64(act.Scale)*1.001 {
			t.Fatalf("%+v: %v becomes %v", act, x, act.Apply(x))
		}
	})
}

func TestBiasWidens(t *testing.T) {
	info := quant.LayerInfo{
		Node: "fc", In: 2, Out: 3, W: []float32{1e-12, -2e-12, 0.5, -0.25, 1, 1},
		B: []float32{3, 0.1, 1e4},
	}
	for _, l := range []quant.Layer{
		{Node: "fc", Bits: 4, Scales: []float32{1e-12, 0.1, 0.2}},
		{Node: "fc", Bits: 4, Scales: []float32{1e-12, 0.1, 0.2}, Codes: []int8{1, -2, 5, -2, 5, 5}},
		{Node: "fc", Bits: 8, Scales: []float32{1e-12}},
	} {
		e := must.Get(l.Encode(info, 0.01))(t)
		if e.Scale(0) <= l.Scales[0] {
			t.Errorf("the scale is still %v", e.Scale(0))
		}
		for o, code := range e.Bias {
			unit := float64(e.InScale * e.Scale(o))
			b := float64(code) * unit
			if d := math.Abs(b - float64(info.B[o])); d > unit+1e-6*math.Abs(float64(info.B[o])) {
				t.Errorf("bias %v becomes %v", info.B[o], b)
			}
			if math.Abs(float64(e.Bias[o])) > 1<<30 {
				t.Errorf("bias code %d", e.Bias[o])
			}
		}
		for i, code := range e.Codes {
			w := quant.Dequantize(code, e.Scale(i/2))
			s := float64(e.Scale(i / 2))
			if f := e.Formats[i/2]; math.Abs(float64(info.W[i])) < s*float64(f.QMax) &&
				math.Abs(float64(w-info.W[i])) > s/2*1.001 {
				t.Errorf("weight %v becomes %v at scale %v", info.W[i], w, s)
			}
		}
	}
	l := quant.Layer{Node: "fc", Bits: 8, Scales: []float32{1}}
	if _, err := l.Encode(quant.LayerInfo{In: 40000, Out: 1, W: make([]float32, 40000), B: []float32{0}}, 1); err == nil {
		t.Error("sums that overflow 32 bits are accepted")
	}
}

func TestRowBits(t *testing.T) {
	info := quant.LayerInfo{Node: "fc", In: 2, Out: 4, W: []float32{9, -9, 9, -9, 9, -9, 90, -90}, B: make([]float32, 4)}
	rows := func(change func(l *quant.Layer)) *quant.Layer {
		l := &quant.Layer{Node: "fc", RowBits: []int{2, 3, 4, 8}, Scales: []float32{1, 1, 1, 1}}
		if change != nil {
			change(l)
		}
		return l
	}
	e, err := rows(nil).Encode(info, 0.1)
	must.Do(t, err)
	must.Same(t, []int8{1, -2, 3, -4, 7, -8, 90, -90}, e.Codes)
	must.Same(t, 4.25, rows(nil).MeanBits())
	if e, err = rows(func(l *quant.Layer) { l.Reduced = true }).Encode(info, 0.1); err != nil || e.Codes[6] != 64 ||
		e.Codes[7] != -64 {
		t.Errorf("reduced: %v, %v", e.Codes, err)
	}
	for _, c := range []struct {
		want   string
		change func(l *quant.Layer)
	}{
		{"3 widths of rows for 4 outputs", func(l *quant.Layer) { l.RowBits = l.RowBits[:3] }},
		{"both 4 bits and bits by row", func(l *quant.Layer) { l.Bits = 4 }},
		{"1 scales for 4 outputs", func(l *quant.Layer) { l.Scales = l.Scales[:1] }},
		{"row 1: 5-bit", func(l *quant.Layer) { l.RowBits[1] = 5 }},
		{"0 widths", func(l *quant.Layer) { l.RowBits = []int{} }},
		{"code 2 is 4, outside -4..3", func(l *quant.Layer) { l.Codes = []int8{1, 1, 4, 1, 1, 1, 1, 1} }},
		{"7 codes for 4 x 2", func(l *quant.Layer) { l.Codes = make([]int8, 7) }},
	} {
		if _, err := rows(c.change).Encode(info, 0.1); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "fc") {
			t.Errorf("the error is %v; it should say %q", err, c.want)
		}
	}
	wide := info
	wide.Columns = 40000
	must.Fail(t, must.Err(rows(nil).Encode(wide, 0.1)), "")
}

func TestHalf(t *testing.T) {
	for _, c := range []struct{ scale, want float32 }{
		{1, 1},
		{0x1p-14, 0x1p-14},
		{65504, 65504},
		{1.0 / 3, 0x1.554p-2},
		{1 + 0x1p-11, 1}, // halves go to even
		{1 + 3*0x1p-11, 1 + 0x1p-9},
		{2 - 0x1p-23, 2}, // into the next power of two
		{65519, 65504},   // into the range
		{0x1.fff8p-15, 0x1p-14},
		{65520, 0},
		{0x1.ff8p-15, 0},
		{1e-6, 0},
		{0, 0},
		{-1, -1},
		{float32(math.Inf(1)), 0},
		{math.MaxFloat32, 0},
	} {
		got, ok := quant.Half(c.scale)
		if got != c.want || ok != (c.want != 0) {
			t.Errorf("%v becomes %v (%v), want %v", c.scale, got, ok, c.want)
		}
	}
	if got, ok := quant.Half(float32(math.NaN())); ok {
		t.Errorf("NaN becomes %v", got)
	}
}

func TestHalfBiases(t *testing.T) {
	b := []float32{0, 1e-5, 5e-5, -1e-5, -5e-5, -1. / 3}
	quant.HalfBiases(b)
	must.Same(t, []float32{0, 0, 0x1p-14, 0, -0x1p-14, -0x1.554p-2}, b)
}

// TestHalfIsNearest: no float16 number, all of which are multiples of 2^-10 of a power of two here, is nearer.
func TestHalfIsNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.Float32Range(0x1p-14, 65504).Draw(t, "scale")
		got, ok := quant.Half(s)
		if !ok {
			t.Fatalf("%v is out of range", s)
		}
		fraction, exp := math.Frexp(float64(s))
		unit := math.Ldexp(1, exp-11)
		down := math.Floor(fraction*0x1p11) * unit
		want := math.Min(math.Abs(float64(s)-down), math.Abs(float64(s)-down-unit))
		must.Same(t, want, math.Abs(float64(got)-float64(s)))
		if again, ok := quant.Half(got); !ok || again != got {
			t.Fatalf("%v is not its own nearest: %v", got, again)
		}
	})
}

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
	if got, want := in.Reads(x, 2), []float32{4, 1, 68, 0.5, 0, 63.75}; !slices.Equal(got, want) {
		t.Errorf("the kernel reads %v, want %v", got, want)
	}
	l := quant.LayerInfo{In: 2, Out: 1, LayerUse: quant.LayerUse{Columns: 2}, W: []float32{3, 5}, B: []float32{7}}
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
		must.Fail(t, in.Check(c.dim), c.want)
	}
}
