package main

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"cfq/onnxio"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq/taskmodel"
	"cfq/qat"
	"cfq/qat/fit"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

func names() []string {
	return []string{"square", "size", "thickness", "brightness", "rotation", "across", "down", "framed"}
}

// generated makes files in a folder of their own, and reads the task and the images of one.
func generated(t *testing.T, n int, seed uint64) (string, *task.Task, *task.People) {
	t.Helper()
	dir := t.TempDir()
	if err := run(dir, n, seed); err != nil {
		t.Fatal(err)
	}
	tk, err := task.Parse("task.yaml", taskFile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "train.csv")
	p, err := task.Read(context.Background(), path, tk, task.ReadOptions{Keep: names()})
	if err != nil || p.N != n || p.Failed > 0 {
		t.Fatalf("%v: %+v", err, p)
	}
	return path, tk, p
}

// The same seed gives the same bytes; the files have what was drawn.
func TestFiles(t *testing.T) {
	t.Parallel()
	one, _, p := generated(t, 100, 1)
	again, _, _ := generated(t, 100, 1)
	other, _, _ := generated(t, 100, 2)
	content := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if !bytes.Equal(content(one), content(again)) || bytes.Equal(content(one), content(other)) {
		t.Error("bytes do not depend on the seed, and on it alone")
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range p.N {
		r := draw(rng)
		for j, v := range r.Image {
			if got := p.X[i*p.Dim+j]; math.Abs(float64(got)*255-float64(v)) > 1e-4 {
				t.Fatalf("image %d: pixel %d is %v, want %d", i, j, got*255, v)
			}
		}
		for j, v := range []float64{
			r.Square, r.Size, r.Thickness, r.Brightness, r.Rotation, r.Across, r.Down, r.Framed,
		} {
			if got, err := strconv.ParseFloat(p.Kept[i][j], 64); err != nil || got != v {
				t.Fatalf("image %d: %s is %s, want %v", i, names()[j], p.Kept[i][j], v)
			}
		}
		if int32(p.Labels[i]) != r.Accepted {
			t.Fatalf("image %d: label %d", i, p.Labels[i])
		}
	}
	if run(t.TempDir(), 3, 1) == nil {
		t.Error("3 images are none too few")
	}
}

// An image shows what its attributes say.
func TestImage(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	sum := func(image []byte) (sum, across, down float64) {
		for i, v := range image {
			sum += float64(v)
			across += float64(v) * (float64(i%side) - (side-1)/2.)
			down += float64(v) * (float64(i/side) - (side-1)/2.)
		}
		return sum, across / sum, down / sum
	}
	for range 200 {
		a := draw(rng).attributes
		a.Framed = 0
		grey, across, down := sum(a.image())
		if math.Abs(across-a.Across) > 0.3 || math.Abs(down-a.Down) > 0.3 {
			t.Fatalf("%+v: the centre is at %v %v", a, across, down)
		}
		for i, v := range a.image() {
			if v > 0 && min(i%side, i/side, side-1-i%side, side-1-i/side) == 0 {
				t.Fatalf("%+v: the shape touches the border", a)
			}
		}
		for name, change := range map[string]func(b *attributes){
			"size":       func(b *attributes) { b.Size++ },
			"thickness":  func(b *attributes) { b.Thickness += 0.5 },
			"brightness": func(b *attributes) { b.Brightness += 0.1 },
			"square":     func(b *attributes) { b.Square++ },
			"framed":     func(b *attributes) { b.Framed = 1 },
		} {
			b := a
			if change(&b); b.Square > 1 || b.Brightness > 1 {
				continue
			}
			if more, _, _ := sum(b.image()); more <= grey {
				t.Errorf("%+v: more of %s is darker", a, name)
			}
			if name == "framed" && a.score() != b.score() {
				t.Error("the frame decides")
			}
		}
	}
}

// The attributes can be told from an image, and an image be made of them. People are judged by their image, although
// the table has attributes, too, and move among those that the task allows.
func TestAttributesCanBeLearned(t *testing.T) {
	t.Parallel()
	path, tk, p := generated(t, 400, 1)
	a, err := fit.ParseArch("autoencoder:64,8")
	if err != nil {
		t.Fatal(err)
	}
	r, err := fit.Train(context.Background(), tk, p, fit.Options{
		Arch: a, Attributes: names(), Engine: orttest.Need(t),
		Train: qat.Spec{Optimizer: qat.Optimizer{Steps: 220, LearningRate: 0.02, Batch: 64}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Validation; *v.Rendered > 0.8*v.MeanError || v.Error > 0.8*v.MeanError {
		t.Errorf("%+v", v.Coding)
	}
	for _, a := range r.Validation.Attributes {
		if a.Name != "square" && a.Error > 0.8*a.Deviation {
			t.Errorf("%+v", a)
		}
	}
	moves(t, path, tk, p, r)
}

func moves(t *testing.T, path string, tk *task.Task, p *task.People, coder *fit.Result) {
	t.Helper()
	ctx, engine := t.Context(), orttest.Need(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	arch, err := fit.ParseArch("mlp:16")
	must(err)
	r, err := fit.Train(ctx, tk, p, fit.Options{
		Arch: arch, Engine: engine,
		Train: qat.Spec{Optimizer: qat.Optimizer{Steps: 240, LearningRate: 0.01, Batch: 64}},
	})
	must(err)
	dir := filepath.Dir(path)
	for name, content := range map[string][]byte{
		"shapes.encoder.onnx": coder.Model, "shapes.decoder.onnx": coder.Decoder, "model.onnx": r.Model,
	} {
		must(os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	m, err := onnxio.Load(ctx, filepath.Join(dir, "model.onnx"), engine)
	must(err)
	among, err := task.Load(filepath.Join(dir, "attributes.yaml"))
	must(err)
	must(taskmodel.OpenLatent(ctx, among, engine))
	people, err := task.Read(ctx, path, among, task.ReadOptions{Only: task.AllRows(80)})
	must(err)
	plain, err := taskmodel.Open(m, tk, 1)
	must(err)
	defer plain.Close()
	c, err := taskmodel.Open(m, among, 1)
	must(err)
	defer c.Close()
	want, err := plain.Margins(ctx, p.X[:80*p.Dim])
	must(err)
	got, err := c.Margins(ctx, people.X)
	must(err)
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > 1e-4 {
			t.Fatalf("image %d: margin %v, and %v of the image alone", i, got[i], want[i])
		}
	}
	set, err := constraint.Compile(among)
	must(err)
	actions, err := recourse.Solve(ctx, c, set, people.X, recourse.SolveOptions{Margin: 0.1})
	must(err)
	found := 0
	for i := range actions {
		if actions[i].Status != recourse.Found {
			continue
		}
		found++
		for j, d := range actions[i].Delta[:p.Dim+1] {
			if d != 0 {
				t.Fatalf("image %d: input %d changes by %v", i, j, d)
			}
		}
		for j, d := range actions[i].Delta[p.Dim+4:] {
			if d != 0 {
				t.Fatalf("image %d: %s changes by %v", i, names()[4+j], d)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d of %d have recourse", found, len(actions))
	}
}
