package task

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"cfq/internal/must"
)

const latentTask = `version: 1
data: {label: y, favourable: a}
features: [{name: image, kind: image, shape: [1, 1, 2], std: 255}]
`

// sums are codes of two numbers: their sum, and the first.
type sums struct{ fails, overflows bool }

func (s sums) String() string { return "sums" }

func (s sums) Codes(_ context.Context, x []float32) (z []float32, err error) {
	if s.fails {
		return nil, errors.New("it fails")
	}
	for i := 0; i < len(x); i += 2 {
		z = append(z, x[i]+x[i+1], x[i])
	}
	if s.overflows {
		z[3] = float32(math.NaN())
	}
	return z, nil
}

// Codes stand behind the model's inputs, which never change, and are those that the encoder makes of a row: columns of
// the same names, such as attributes of an image, are not those. Only promises have codes in the file.
func TestLatent(t *testing.T) {
	tk := parse(t, latentTask+"latent: {encoder: e.onnx, decoder: /d.onnx, size: 2, bounds: [-2, null], radius: 3}\n")
	if tk.Dim() != 4 || tk.ModelDim() != 2 || tk.Features[0].Mutable || !tk.Features[2].Actionable ||
		tk.Features[3].Name != "latent.1" || tk.Features[3].Bounds[0] != -2 ||
		tk.Cost.Norm != L2 || tk.Cost.Weights != "given" {
		t.Errorf("%+v", tk)
	}
	if e, d := tk.Latent.Files(); e != "e.onnx" || d != "/d.onnx" {
		t.Errorf("files %s and %s", e, d)
	}
	again, err := Parse("again", tk.JSON())
	if err != nil || !bytes.Equal(again.JSON(), tk.JSON()) {
		t.Errorf("%v\n%s", err, tk.JSON())
	}
	var o ReadOptions
	read := func(text string) (*People, error) {
		return ReadFrom(context.Background(), strings.NewReader(text), tk, o)
	}
	const rows = "image.0.0,image.0.1,y\n0,255,a\n51,0,b\n"
	_, err = read(rows)
	must.Fail(t, err, "encoder e.onnx is not open")
	tk.Latent.Use(sums{fails: true})
	_, err = read(rows)
	must.Fail(t, err, "encoder e.onnx: it fails")
	tk.Latent.Use(sums{overflows: true})
	_, err = read(rows)
	must.Fail(t, err, "encoder e.onnx makes NaN of row 1")
	tk.Latent.Use(sums{})
	p := must.Get(read(rows))(t)
	must.Same(t, []float32{0, 1, 1, 0, 0.2, 0, 0.2, 0.2}, p.X)
	for _, c := range []struct {
		own  bool
		want []float32
	}{{false, []float32{0, 1, 1, 0}}, {true, []float32{0, 1, 7, 8}}} {
		o.Codes = c.own
		if p, err = read("image.0.0,image.0.1,latent.0,latent.1,y\n0,255,7,8,a\n"); err != nil {
			t.Fatal(err)
		}
		must.Same(t, c.want, p.X)
	}
}

func TestLatentFeatures(t *testing.T) {
	tk := parse(t, latentTask+`latent:
  encoder: e.onnx
  decoder: d.onnx
  features:
    - {name: thickness, kind: numeric, bounds: [0, 1], weight: 2}
    - {name: tilt, kind: numeric, actionable: false}
cost: {norm: l1}
`)
	if f := tk.Features[2]; f.Name != "thickness" || f.Bounds[1] != 1 || f.Weight != 2 || tk.Features[3].Mutable ||
		tk.Cost.Norm != L1 {
		t.Errorf("%+v", tk.Features)
	}
	parse(t, latentTask+"latent: {encoder: e, decoder: d, size: 2}\ncost: {norm: mixed}\n")
	must.Same(t, 2, must.Get(Parse("again", tk.JSON()))(t).Features[2].Weight)
}
