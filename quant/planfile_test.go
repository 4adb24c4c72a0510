package quant

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

func planModel(rng *rand.Rand) []LayerInfo {
	layer := func(node, input string, out, in int) LayerInfo {
		l := LayerInfo{Node: node, Input: input, Out: out, In: in, W: make([]float32, out*in), B: make([]float32, out)}
		for i := range l.W {
			l.W[i] = float32(rng.NormFloat64())
		}
		for i := range l.B {
			l.B[i] = float32(rng.NormFloat64())
		}
		return l
	}
	conv := layer("conv", "image", 2, 4)
	conv.Conv = &Conv{}
	return []LayerInfo{
		layer("first", "x", 4, 3),
		{Node: "odd", Input: "y", Out: 4, In: 4, Fixed: "its weights are converted by a Cast"},
		layer("last", "h", 2, 4),
		layer("side", "h", 2, 4),
		conv,
	}
}

func planInput() *Input {
	return &Input{Value: "x", Scale: 0.01, Columns: []InputColumn{
		{Source: 0, Lo: -1, Hi: 1, Gain: 1},
		{Source: 0, Lo: 1, Hi: 3.5, Gain: 1},
		{Source: 1, Lo: 0, Hi: 1, Gain: 0.98},
		{Source: 2, Lo: -0.3, Hi: 2, Gain: 1.1},
	}}
}

func written(t *testing.T, p *Plan, infos []LayerInfo) []*Encoded {
	t.Helper()
	var out []*Encoded
	for i := range p.Layers {
		l := &p.Layers[i]
		for _, info := range infos {
			if info.Node != l.Node || l.Float {
				continue
			}
			var scale float32
			if in := p.Input.before(info, "x"); in != nil {
				info, scale = in.Fold(info), in.Scale
			} else if l.Act != nil {
				scale = l.Act.Scale
			}
			e := must.Get(l.Encode(info, scale))(t)
			out = append(out, e)
		}
	}
	return out
}

func TestPlanFileRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	infos := planModel(rng)
	act := &Act{Bits: 6, Scale: 0.1, Zero: 3}
	codes := []int8{-8, 7, 0, -1, 1, 2, 3, 4}
	for name, p := range map[string]*Plan{
		"nearest": {
			Input: planInput(),
			Layers: []Layer{
				{Node: "first", Bits: 4, Scales: []float32{0.3}},
				{Node: "last", Bits: 8, Scales: []float32{0.01, 0.02}, Act: act},
			},
		},
		"rows": {Layers: []Layer{{
			Node: "first", RowBits: []int{2, 3, 4, 8}, Scales: []float32{1, 0.5, 0.2, 0.01},
			Act: act, Reduced: true,
		}}},
		"given": {Layers: []Layer{{
			Node: "last", Bits: 4, Scales: []float32{0.1, 1e-5}, Codes: codes,
			Bias: []float32{float32(math.Copysign(0, -1)), 1e-20}, Act: act,
		}}},
		"convolution": {Layers: []Layer{{
			Node: "conv", Bits: 8, Scales: []float32{0.1, 0.2}, Act: act,
			Result: &Act{Bits: 8, Scale: 0.3, Zero: 9},
		}}},
		"weight only": {Layers: []Layer{{Node: "first", Bits: 3, Scales: []float32{0.5}}, {Node: "side", Float: true}}},
		"large bias": {Layers: []Layer{{
			Node: "last", Bits: 4, Scales: []float32{1e-7, 0.1}, Bias: []float32{1000, -1000},
			Act: act,
		}}},
		"nothing": {},
	} {
		f, err := NewPlanFile(p, infos, "x")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f.Model.SHA256 = strings.Repeat("0a", 32)
		f.Equalized = name == "rows"
		f.Recipe = map[string]string{"method": "ptq", "odd \"key\"": "a\nb<>&é\u2028"}
		if f.Model.Weights != 12+16+8+8+8 || len(f.Layers) != 4 {
			t.Errorf("%s: %d weights, %d layers", name, f.Model.Weights, len(f.Layers))
		}
		text := must.Get(MarshalPlan(f))(t)
		g, err := UnmarshalPlan(text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		again, err := MarshalPlan(g)
		if err != nil || !bytes.Equal(text, again) {
			t.Errorf("%s: read and written again (%v):\n%s\n%s", name, err, text, again)
		}
		if !reflect.DeepEqual(f.Recipe, g.Recipe) || f.Model != g.Model ||
			f.Equalized != g.Equalized || !reflect.DeepEqual(f.Input, g.Input) {
			t.Errorf("%s: %+v", name, g)
		}
		q, err := g.Plan(infos, "x")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, got := written(t, p, infos), written(t, q, infos)
		must.Same(must.In(t, name), want, got)
		for i := range q.Layers {
			l := p.Layer(q.Layers[i].Node)
			if !reflect.DeepEqual(l.Act, q.Layers[i].Act) || !reflect.DeepEqual(l.Result, q.Layers[i].Result) ||
				l.Reduced != q.Layers[i].Reduced {
				t.Errorf("%s: layer %+v, want %+v", name, q.Layers[i], l)
			}
		}
	}
}

func TestPlanFileDiffs(t *testing.T) {
	infos := planModel(rand.New(rand.NewPCG(1, 2)))
	text := func(last float32) []string {
		infos[0].W[11] = last
		f := must.Get(NewPlanFile(&Plan{Layers: []Layer{{
			Node: "first", Bits: 4, Scales: []float32{0.1},
			Act: &Act{Bits: 8, Scale: 1},
		}}}, infos, "x"))(t)
		b := must.Get(MarshalPlan(f))(t)
		return strings.Split(string(b), "\n")
	}
	a, b := text(0.5), text(-0.5)
	var changed []string
	for i := range a {
		if a[i] != b[i] {
			changed = append(changed, a[i], b[i])
		}
	}
	if len(a) != len(b) || len(changed) != 2 || !strings.Contains(changed[0], `5"}`) ||
		!strings.Contains(changed[1], `b"}`) {
		t.Errorf("changed lines %q", changed)
	}
}

func TestPlanNumbers(t *testing.T) {
	f := must.Get(UnmarshalPlan([]byte(smallPlan)))(t)
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float32().Draw(t, "x")
		f.Layers[0].Rows[0].Bias = &x
		text := must.Get(MarshalPlan(f))(t)
		g := must.Get(UnmarshalPlan(text))(t)
		if y := *g.Layers[0].Rows[0].Bias; math.Float32bits(x) != math.Float32bits(y) {
			t.Fatalf("%v is read as %v from %s", x, y, text)
		}
	})
	nan := float32(math.NaN())
	f.Layers[0].Rows[0].Bias = &nan
	must.Fail(t, must.Err(MarshalPlan(f)), "")
}

func TestPlanUTF8(t *testing.T) {
	f := must.Get(UnmarshalPlan([]byte(smallPlan)))(t)
	f.Layers[0].Node = "\ufffd"
	must.Get(MarshalPlan(f))(t)
	f.Layers[0].Node = "\xff"
	must.Fail(t, must.Err(MarshalPlan(f)), "")
}

func TestPlanCodes(t *testing.T) {
	for _, c := range []struct {
		bits  int
		codes []int8
		text  string
	}{
		{2, []int8{-2, -1, 0, 1}, "ef01"},
		{3, []int8{-4, -1, 0, 3}, "cf03"},
		{4, []int8{-8, -1, 0, 7, 5}, "8f075"},
		{8, []int8{-128, -1, 0, 1, 16, 127}, "80ff0001107f"},
	} {
		must.Same(t, c.text, encodeCodes(c.codes, c.bits))
		f, _ := FormatOf(c.bits, false)
		must.Same(t, c.codes, must.Get(decodeCodes(c.text, f))(t))
	}
	reduced, _ := FormatOf(8, true)
	must.Fail(t, must.Err(decodeCodes("4041", reduced)), `code 1: "41" is 65, outside -64..64`)
}

const smallPlan = `{
  "cfq_plan": 1,
  "model": {"sha256": "0000000000000000000000000000000000000000000000000000000000000000", "weights": 12},
  "recipe": {"method": "ptq"},
  "layers": [
    {
      "node": "last",
      "shape": [2, 4],
      "bits": 2,
      "activation": {"bits": 8, "scale": 0.5, "zero": 0},
      "rows": [
        {"scale": 0.5, "bias": 1, "codes": "01ef"},
        {"scale": 0.25, "bias": -1, "codes": "1111"}
      ]
    }
  ]
}
`

func TestPlanFileMistakes(t *testing.T) {
	infos := planModel(rand.New(rand.NewPCG(1, 2)))
	for _, c := range []struct{ old, by, want string }{
		{"", "", ""},
		{smallPlan, "{}", `this is not a plan that --save-plan wrote`},
		{smallPlan, "", `this is not a plan`},
		{`"cfq_plan": 1`, `"cfq_plan": 2`, `this is version 2 of the format: want version 1`},
		{`"0000`, `"000`, `model: sha256 "000`},
		{`"bias": 1,`, `"bais": 1,`, `unknown field "bais"`},
		{`"bias": 1,`, `"bias": null,`, `layer "last": row 0: it has no "bias"`},
		{`"ptq"`, `7`, `line 4: json: cannot unmarshal number`},
		{`"bits": 2`, `"bits": 5`, `layer "last": row 0: 5-bit weights are not supported`},
		{`"1111"`, `"1131"`, `layer "last": row 1: code 2: "3" is 3, outside -2..1`},
		{`"1111"`, `"11x1"`, `layer "last": row 1: code 2: "x" is not a code`},
		{`"1111"`, `"111"`, `layer "last": row 1: 3 codes for 4 inputs`},
		{`,
        {"scale": 0.25, "bias": -1, "codes": "1111"}`, ``, `layer "last": 1 rows for 2 outputs`},
		{`"scale": 0.25`, `"scale": -0.25`, `layer "last": scale 1 is -0.25, not a positive number`},
		{`"scale": 0.25, `, ``, `layer "last": row 1: want a "scale" either in the layer or`},
		{`"zero": 0`, `"zero": 256`, `line 10: json: cannot unmarshal number 256`},
		{
			`{"bits": 8, "scale": 0.5, "zero": 0}`, `{"bits": 4, "scale": 0.5, "zero": 16}`,
			`layer "last": zero point 16 does not fit 4 bits`,
		},
		{
			`"activation": {"bits": 8, "scale": 0.5, "zero": 0}`, `"reads": "input"`,
			`layer "last": it reads "h": want "reads": "input" if the plan's input covers that`,
		},
		{
			`"activation": {"bits": 8, "scale": 0.5, "zero": 0}`, `"reads": "it"`,
			`layer "last": "reads": "it": want "input" or "float"`,
		},
		{`"activation":`, `"reads": "float", "activation":`, `layer "last": "reads": "float": want`},
		{`"last"`, `"least"`, `the model has no layer "least"`},
		{`"last"`, `"odd"`, `layer "odd": it must stay in float: its weights are converted`},
		{`"shape": [2, 4]`, `"shape": [2, 5]`, `layer "last": shape [2 5]: the model's layer has [2 4]`},
		{`      "bits": 2,
`, ``, `layer "last": row 0: want "bits" either in the layer or`},
		{`{"scale": 0.25`, `{"bits": 2, "scale": 0.25`, `layer "last": row 1: want "bits" either in the layer or`},
		{`"codes": "01ef"},`, `"codes": "01ef"}`, `line 13: invalid character`},
		{"  ]\n}\n", "  ]\n}\n{}", `something follows its end`},
		{"  ]\n}\n", `, {"node": "last", "float": true}]}`, `duplicate layer "last"`},
	} {
		text := smallPlan
		if c.old != "" {
			must.Has(t, text, c.old)
			text = strings.Replace(text, c.old, c.by, 1)
		}
		f, err := UnmarshalPlan([]byte(text))
		if err == nil {
			_, err = f.Plan(infos, "x")
		}
		var mistake PlanError
		if (err == nil) != (c.want == "") || err != nil &&
			(!errors.As(err, &mistake) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q for %q: %v, want %q", c.by, c.old, err, c.want)
		}
	}
}

func FuzzUnmarshalPlan(f *testing.F) {
	infos := planModel(rand.New(rand.NewPCG(1, 2)))
	f.Add([]byte(smallPlan))
	full := must.Get(NewPlanFile(&Plan{
		Input: planInput(),
		Layers: []Layer{
			{Node: "first", RowBits: []int{2, 3, 4, 8}, Scales: []float32{1, 1, 1, 1}},
			{Node: "conv", Bits: 8, Scales: []float32{1}, Act: &Act{Bits: 4, Scale: 1}, Result: &Act{Bits: 8, Scale: 1}},
		},
	}, infos, "x"))(f)
	full.Model.SHA256 = strings.Repeat("0", 64)
	text := must.Get(MarshalPlan(full))(f)
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := UnmarshalPlan(data)
		if err != nil {
			return
		}
		text, err := MarshalPlan(p)
		if err != nil {
			return // such as names that are not UTF-8
		}
		again := must.Get(UnmarshalPlan(text))(must.In(t, text))
		if second, err := MarshalPlan(again); err != nil || !bytes.Equal(text, second) {
			t.Fatalf("written again: %v\n%s\n%s", err, text, second)
		}
		plan, err := p.Plan(infos, "x")
		if err != nil {
			return
		}
		for i := range plan.Layers {
			for _, info := range infos {
				if info.Node == plan.Layers[i].Node {
					_, _ = plan.Layers[i].Encode(info, 1)
				}
			}
		}
	})
}

// reference is QuantizeLinear as its definition says it, in float64 behind the division in float32.
func reference(x, scale float32, zero, lo, hi int) int {
	r := float64(x / scale)
	if math.IsNaN(r) {
		return int(math.Min(math.Max(float64(zero), float64(lo)), float64(hi)))
	}
	return int(math.Min(math.Max(math.RoundToEven(r)+float64(zero), float64(lo)), float64(hi)))
}

func TestQuantizeEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	negative := float32(math.Copysign(0, -1))
	numbers := []float32{
		0, negative, inf, -inf, nan, 0.5, -0.5, 1.5, 2.5, -2.5, 7.5, 8.5, -8.5, -9,
		127.5, 254.5, 255.5, -0.49999997, 0.50000006,
		math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32,
		1 << 24, 1 << 31, -(1 << 31), 1 << 62, 1 << 63, 0x1p100,
	}
	scales := []float32{
		1, 0.3, 3, 0x1p-126, 0x1p100, math.MaxFloat32, math.SmallestNonzeroFloat32, 0, negative, -1,
		inf, nan,
	}
	ranges := [][3]int{ // zero point, smallest and largest code
		{0, -8, 7},
		{0, -2, 1},
		{0, -128, 127},
		{0, -64, 64},
		{0, 0, 255},
		{7, 0, 255},
		{255, 0, 255},
		{15, 0, 15},
		{200, 0, 15},
		{-3, 0, 15},
		{0, 0, 1 << 20},
		{3, 3, 3},
	}
	check := func(x, s float32, r [3]int) {
		if got, want := quantize(x, s, r[0], r[1], r[2]), reference(x, s, r[0], r[1], r[2]); got != want {
			t.Errorf("%v with scale %v and %v has the code %d, want %d", x, s, r, got, want)
		}
	}
	for _, r := range ranges {
		for _, s := range scales {
			for _, x := range numbers {
				check(x, s, r)
			}
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200000 { // any bits are a number
		check(math.Float32frombits(rng.Uint32()), math.Float32frombits(rng.Uint32()), ranges[rng.IntN(len(ranges))])
	}
}
