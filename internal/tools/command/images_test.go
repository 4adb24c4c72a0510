package command

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

// side is that of the images of the tests, and brightness the mean byte above which one has the label 1.
const (
	side       = 6
	brightness = 90
)

func brightModel(t *testing.T, path string, mean, std float32, sizes ...int64) {
	t.Helper()
	g := &graph.Graph{Name: "g"}
	shape := []graph.Dim{{Size: -1, Param: "n"}}
	for _, s := range sizes {
		shape = append(shape, graph.Dim{Size: s})
	}
	g.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: shape}}
	g.Outputs = []graph.Value{{Name: "z", DType: graph.Float, Shape: []graph.Dim{shape[0], {Size: 2}}}}
	b := graph.NewBuilder(g, "")
	w := make([]float32, side*side*2)
	for i := range side * side {
		w[2*i], w[2*i+1] = -1, 1
	}
	limit := side * side * (brightness - mean) / std
	flat := b.Op("Flatten", []string{"x"})
	b.Append(&graph.Node{Op: "Gemm", Name: "head", Outputs: []string{"z"}, Inputs: []string{
		flat, b.Const(graph.FromFloats("w", w, side*side, 2)), b.Const(graph.FromFloats("b", []float32{limit, -limit}, 2)),
	}})
	put(t, path, must.Get(codec.Marshal(&graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}))(t))
}

func put(t testing.TB, path string, data []byte) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, data, 0o644))
}

func brightImages(t *testing.T, dir string, n int, files bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 1))
	images := []byte{0, 0, 8, 3, 0, 0, byte(n >> 8), byte(n), 0, 0, 0, side, 0, 0, 0, side}
	labels := []byte{0, 0, 8, 1, 0, 0, byte(n >> 8), byte(n)}
	table := "label"
	for k := range side * side {
		table += fmt.Sprintf(",pixel%d", k)
	}
	for i := range n {
		grey := image.NewGray(image.Rect(0, 0, side, side))
		sum, middle := 0, rng.IntN(256)
		for k := range grey.Pix {
			grey.Pix[k] = byte(min(max(middle+rng.IntN(41)-20, 0), 255))
			sum += int(grey.Pix[k])
		}
		label := 0
		if sum > brightness*side*side {
			label = 1
		}
		if files {
			var b bytes.Buffer
			must.Do(t, png.Encode(&b, grey))
			put(t, filepath.Join(dir, "folder", fmt.Sprint(label), fmt.Sprintf("%04d.png", i)), b.Bytes())
			put(t, filepath.Join(dir, "named", []string{"dark", "light"}[label], fmt.Sprintf("%04d.png", i)), b.Bytes())
		}
		images, labels = append(images, grey.Pix...), append(labels, byte(label))
		table += fmt.Sprintf("\n%d", label)
		for _, v := range grey.Pix {
			table += fmt.Sprintf(",%d", v)
		}
	}
	put(t, filepath.Join(dir, "images-idx3-ubyte"), images)
	put(t, filepath.Join(dir, "labels-idx1-ubyte"), labels)
	put(t, filepath.Join(dir, "table.csv"), []byte(table+"\n"))
	var b bytes.Buffer
	must.Do(t, png.Encode(&b, image.NewRGBA(image.Rect(0, 0, side, side))))
	put(t, filepath.Join(dir, "colour", "0.png"), b.Bytes())
}

// TestImageDrafts: init finds the shape and the layout of images in every kind of file and asks for the scaling; check
// says with which one the model decides as labelled.
func TestImageDrafts(t *testing.T) {
	w := newWorkdir(t)
	dir, call := w.dir, w.call
	brightImages(t, dir, 250, true)
	for i, x := range []struct {
		data, better string
		mean, std    float32
		sizes        []int64
		want         string
	}{
		{"images-idx3-ubyte", "", 0, 255, []int64{1, side, side}, "[1, 6, 6]"},
		{"folder", "with pixels as bytes (std: 1)", 0, 1, []int64{side, side, 1}, "[6, 6, 1], layout: hwc"},
		{"folder", "with pixels between -1 and 1", 127.5, 127.5, []int64{side, side, 1}, "[6, 6, 1], layout: hwc"},
		{"images-idx3-ubyte", "with pixels standardised by these data", 127, 76, []int64{1, side, side}, "[1, 6, 6]"},
	} {
		model, task := fmt.Sprintf("%d.onnx", i), fmt.Sprintf("%d.yaml", i)
		brightModel(t, filepath.Join(dir, model), x.mean, x.std, x.sizes...)
		said := call(0, "task", "init", "-d", x.data, model, "--label", "label", "--favourable", "1", "-o", task)
		text := w.read(task)
		if !strings.Contains(said, "the draft has 1 open question") ||
			!strings.Contains(text, "kind: image, shape: "+x.want+", mean: 0, std: 255") ||
			!strings.Contains(text, "index: 1") || strings.Contains(said, "counts as unfavourable") {
			t.Errorf("%s:\n%s\n%s", x.data, said, text)
		}
		w.put("answered-"+task, []byte(strings.ReplaceAll(text, "QUESTION: ", "")))
		_, out := w.run("task", "check", "answered-"+task, "-d", x.data, model)
		right := strings.Contains(out, "0 problems, 0 warnings")
		if right != (x.better == "") || !strings.Contains(out, x.better) {
			t.Errorf("%s:\n%s", x.data, out)
		}
	}
	// What the labels do not tell is asked.
	said := call(0, "task", "init", "-d", "named", "0.onnx", "--favourable", "light", "-o", "named.yaml")
	if !strings.Contains(said, "classes in the order of the labels") || !strings.Contains(said, "between 0 and 1") {
		t.Error(said)
	}
	if !slices.Contains(strings.Fields(call(2, "task", "check", "named.yaml", "-d", "named", "0.onnx")), "question") {
		t.Error("an open question is no problem")
	}
	w.tells(0, "which value of the outcome", "task", "init", "-d", "images-idx3-ubyte", "0.onnx", "-o", "open.yaml")
	// Grey images of a known size need no model; one is trained on them, and it decides and codes.
	for _, data := range []string{"images-idx3-ubyte", "folder"} {
		call(0, "task", "init", "-d", data, "--favourable", "1", "-o", "none.yaml", "--overwrite")
		call(0, "task", "check", "none.yaml", "-d", data)
		said := call(0, "train", "-d", data, "-t", "none.yaml", "--arch", "mlp:8", "-o", "trained.onnx", "--train-steps",
			"160", "--learning-rate", "0.01", "--overwrite")
		if strings.Contains(said, "decide nearly everyone alike") {
			t.Error(said)
		}
		call(0, "train", "-d", data, "-t", "none.yaml", "--arch", "autoencoder:4", "-o", "code.onnx", "--train-steps", "16",
			"--overwrite")
	}
	w.tells(2, "name the model", "task", "init", "-d", "colour")
	// Images of another size are no input of the model.
	brightModel(t, filepath.Join(dir, "wide.onnx"), 0, 1, 1, 3, 12)
	w.tells(2, "have 6 x 6 pixels", "task", "init", "-d", "folder", "wide.onnx")
}
