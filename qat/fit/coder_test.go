package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/task"
)

// scenes are rows of 12 numbers that two attributes, x0 from -3 to 3 and flag 0 or 1, decide but for noise.
func scenes(n int) *task.People {
	rng := rand.New(rand.NewPCG(3, 3))
	p := &task.People{Dim: 12, N: n, Reading: task.Reading{Total: n}}
	for i := range n {
		at, flag := 6*rng.Float64()-3, float64(rng.IntN(2))
		for j := range p.Dim {
			d := at - float64(j)/2 + 3
			v := 8*math.Exp(-d*d) - 4 + flag*math.Cos(float64(j)) + 0.1*rng.NormFloat64()
			p.X = append(p.X, float32(v))
		}
		p.Labels, p.Rows = append(p.Labels, -1), append(p.Rows, i)
		p.Kept = append(p.Kept, []string{strconv.FormatFloat(at, 'g', -1, 64), strconv.FormatFloat(flag, 'g', -1, 64)})
	}
	return p
}

func runFile(t *testing.T, file []byte, x []float32) []float32 {
	t.Helper()
	g := must.Get(codec.Read(file, ""))(t)
	f := &fit{o: Options{Engine: orttest.Need(t)}}
	return must.Get(f.through(context.Background(), g, x))(t)
}

// An autoencoder returns its inputs far better than their mean, from a code with the mean 0 and the deviation 1, within
// the bounds.
func TestAutoencoder(t *testing.T) {
	t.Parallel()
	p, tk := scenes(900), numbersTask(t, 12)
	o := Options{Arch: arch(t, "autoencoder:24,3"), Train: steps(500, 0.02, 64)}
	r := trained(t, tk, p, o)
	if v := r.Validation; v == nil || !(v.Error < 0.4*v.MeanError) || v.Decisions != nil {
		t.Fatalf("%+v", r.Validation)
	}
	codes := runFile(t, r.Model, p.X)
	own, held := &fit{o: Options{Validation: new(0.2), Arch: o.Arch}, task: tk, result: &Result{}}, 0
	must.Do(t, own.divide(p))
	held = own.held.N
	for j := range 3 {
		var of []float64
		for _, i := range own.own.Rows {
			of = append(of, float64(codes[3*i+j]))
		}
		if mean, deviation := stat.PopMeanStdDev(of, nil); math.Abs(mean) > 1e-4 || math.Abs(deviation-1) > 1e-4 {
			t.Errorf("number %d of the code has the mean %v and the deviation %v", j, mean, deviation)
		}
	}
	var squares float64
	for i, v := range runFile(t, r.Decoder, codes) {
		if row := i / 12; p.Uniform(splitSeed, row) < 0.2 {
			squares += math.Pow(float64(v-p.X[i])/18, 2)
		}
	}
	if e := math.Sqrt(squares / float64(held*12)); held != r.Validation.Rows || math.Abs(e-r.Validation.Error) > 1e-6 {
		t.Errorf("the files have the error %v on %d rows, and %+v is reported", e, held, r.Validation)
	}
	for _, far := range []float32{-1e6, 1e6} {
		for _, v := range runFile(t, r.Decoder, []float32{far, -far, far}) {
			if v < -9 || v > 9 {
				t.Errorf("%v is decoded from a code far away", v)
			}
		}
	}
}

// With attributes the code is these, in their units, and what is decoded from them are the inputs.
func TestAttributes(t *testing.T) {
	t.Parallel()
	p, tk := scenes(900), numbersTask(t, 12)
	o := Options{
		Arch: arch(t, "autoencoder:32,2"), Train: steps(800, 0.02, 64),
		Attributes: []string{"at", "flag"},
	}
	r := trained(t, tk, p, o)
	v := r.Validation
	if *v.Rendered > 0.5*v.MeanError || v.Error > 0.5*v.MeanError || len(v.Attributes) != 2 {
		t.Errorf("%+v", v.Coding)
	}
	for _, a := range v.Attributes {
		if a.Error > 0.35*a.Deviation {
			t.Errorf("%+v", a)
		}
	}
	if code := runFile(t, r.Model, p.X[:12]); p.Kept[0][0] == "" || len(code) != 2 {
		t.Fatal(code)
	} else if at, _ := strconv.ParseFloat(p.Kept[0][0], 64); math.Abs(float64(code[0])-at) > 1 {
		t.Errorf("the code is %v, the attributes %v", code, p.Kept[0])
	}
	g, err := codec.Read(r.Model, "")
	must.Do(t, err)
	if recipe, _ := g.Meta(RecipeKey); !strings.Contains(recipe, `"attributes":"at,flag"`) {
		t.Error(recipe)
	}
	for want, change := range map[string]func(o *Options, p *task.People){
		`row 7: attribute flag is "yes": want a number`: func(_ *Options, p *task.People) { p.Kept[7][1] = "yes" },
		"the code has 3 numbers, and there are 2 attributes": func(o *Options, _ *task.People) {
			o.Arch = arch(t, "autoencoder:3")
		},
		"attribute at is named twice": func(o *Options, _ *task.People) {
			o.Attributes = []string{"at", "at"}
		},
		"arch mlp:3 has no code that attributes could be": func(o *Options, _ *task.People) { o.Arch = arch(t, "mlp:3") },
		"there are no rows to train on":                   func(_ *Options, p *task.People) { *p = task.People{Dim: 12} },
		"attribute flag is the same in all rows": func(_ *Options, p *task.People) {
			for i := range p.Kept {
				p.Kept[i][1] = "1"
			}
		},
	} {
		o, p := o, scenes(50)
		for i := range p.Labels {
			p.Labels[i] = int8(i % 2)
		}
		o.Engine = ort.Options{}
		change(&o, p)
		_, err := Train(context.Background(), tk, p, o)
		var input *InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	free := numbersTask(t, 12)
	free.Features[3].Bounds[1] = math.Inf(1)
	_, err = Train(context.Background(), free, p, o)
	must.Fail(t, err, `feature "x3" is no number with two bounds`)
}
