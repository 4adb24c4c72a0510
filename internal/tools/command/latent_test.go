package command

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
)

func gemms(t *testing.T, path string, sizes []int, image bool, weight func(layer, in, out int) float32,
	bias func(layer, out int) float32,
) {
	t.Helper()
	batch := graph.Dim{Size: -1, Param: "n"}
	g := &graph.Graph{Name: "g"}
	b := graph.NewBuilder(g, "")
	shape, v := graph.Shape{batch, {Size: int64(sizes[0])}}, "x"
	if image {
		shape, v = graph.Shape{batch, {Size: 1}, {Size: side}, {Size: side}}, b.Op("Flatten", []string{"x"})
	}
	g.Inputs = []graph.Value{{Name: "x", DType: graph.Float, Shape: shape}}
	for l := range sizes[1:] {
		in, out := sizes[l], sizes[l+1]
		var w, c []float32
		for i := range in {
			for o := range out {
				w = append(w, weight(l, i, o))
			}
		}
		for o := range out {
			c = append(c, bias(l, o))
		}
		if l > 0 {
			v = b.Op("Relu", []string{v})
		}
		v = b.Op("Gemm", []string{
			v, b.Const(graph.FromFloats("w", w, int64(in), int64(out))), b.Const(graph.FromFloats("b", c, int64(out))),
		})
	}
	g.Outputs = []graph.Value{{Name: v, DType: graph.Float, Shape: graph.Shape{batch, {Size: int64(sizes[len(sizes)-1])}}}}
	put(t, path, must.Get(codec.Marshal(&graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}))(t))
}

// latentFiles writes an encoder to brightness and the difference of left and right, its decoder, and a classifier that
// likes bright images.
func latentFiles(t *testing.T, dir string) {
	t.Helper()
	const pixels = side * side
	rng := rand.New(rand.NewPCG(3, 9))
	tilt := func(pixel int) float32 { return float32(pixel%side)/(side-1) - 0.5 }
	none := func(int, int) float32 { return 0 }
	gemms(t, filepath.Join(dir, "encoder.onnx"), []int{pixels, 2}, true, func(_, in, out int) float32 {
		return []float32{1, 8 * tilt(in)}[out] / pixels
	}, none)
	gemms(t, filepath.Join(dir, "decoder.onnx"), []int{2, pixels}, false, func(_, in, out int) float32 {
		return []float32{1, tilt(out)}[in]
	}, none)
	gemms(t, filepath.Join(dir, "model.onnx"), []int{pixels, 64, 2}, true, func(layer, in, out int) float32 {
		if layer == 0 {
			return (3 + float32(rng.NormFloat64())) / pixels
		}
		return (1.5 + 0.2*float32(rng.NormFloat64())) * []float32{-1, 1}[out] / 8
	}, func(layer, out int) float32 {
		if layer == 0 {
			return float32(rng.NormFloat64()) / 2
		}
		return []float32{16, -16}[out]
	})
}

const latentTask = `version: 1
data: {label: label, favourable: "1"}
features: [{name: image, kind: image, shape: [1, 6, 6], std: 255}]
latent: {encoder: encoder.onnx, decoder: decoder.onnx, `

// TestLatent: with an autoencoder in the task, every command works in its codes, the classifier alone is quantized, and
// promises are codes.
func TestLatent(t *testing.T) {
	w := newWorkdir(t, "CFQ_LOOKS_FILE=none", "CFQ_SET=refine.rounds=0", "CFQ_MARGINS=0.1")
	dir, call := w.dir, w.call
	brightImages(t, dir, 200, false)
	latentFiles(t, dir)
	w.put("task.yaml", []byte(latentTask+"size: 2, bounds: [-3, 3], radius: 2, pixels: 30}\n"))
	w.put("rows.json", []byte("[1,2,3,5,7,11,13,17,19,23,29,31,37,41,43,47,53,59,61,67,71,73,79,83]"))
	w.put("some.json", []byte("[1,2,3,5,7,11,13,17]"))
	people := []string{"-t", "task.yaml", "-d", "images-idx3-ubyte"}
	with := func(args ...string) []string { return append(args, people...) }
	call(0, with("quantize", "model.onnx", "--rows", "!rows.json", "--allow-larger", "-o", "q.onnx")...)
	call(0, with("quantize", "model.onnx", "--allow-larger", "--method", "cfq-qat", "--set", "train.steps=16", "--rows",
		"some.json", "-o", "t.onnx")...)
	for _, q := range []string{"q.onnx", "t.onnx"} {
		if v := must.Get(codec.ReadFile(w.path(q)))(t).Graph.Inputs[0]; len(v.Shape) != 4 || v.Name != "x" {
			t.Errorf("%s: the input is %v", q, v)
		}
		var doc struct {
			Result struct {
				Margins []struct {
					Margin float64
					VD     struct{ Value, Den float64 }
					Pixels struct{ Value, N float64 } `json:"pixel_distance"`
				}
			}
		}
		w.result(&doc, with("eval", "model.onnx", q, "--rows", "rows.json", "--margins", "0,0.25", "--noise", "0")...)
		for _, m := range doc.Result.Margins {
			if m.VD.Den == 0 || !(m.Pixels.Value > 0 && m.Pixels.Value < 30) ||
				m.Pixels.N != m.VD.Den || m.Margin >= 0.25 && m.VD.Value > 0.2 {
				t.Errorf("%s: VD of %+v", q, m)
			}
		}
	}
	said := call(0, with("recourse", "model.onnx", "--rows", "rows.json", "--margin", "0.1", "-o", "p.csv")...)
	if strings.Contains(said, "found               0") || !strings.Contains(said, "latent.0") {
		t.Error(said)
	}
	must.Has(t, w.read("p.csv"), ",latent.0,latent.1\n")
	w.tells(0, "(100.0 %)", with("recourse", "model.onnx", "--rows", "rows.json", "--promises", "p.csv")...)
	for limit, detail := range map[string]string{
		"radius: 0.01": "latent.radius: the action costs ", "pixels: 0.1": "latent.pixels: the image is ",
	} {
		w.put("tight.yaml", []byte(latentTask+"size: 2, bounds: [-3, 3], "+limit+"}\n"))
		by := []string{"-t", "tight.yaml", "-d", "images-idx3-ubyte", "--rows", "rows.json", "--promises", "p.csv"}
		said = call(0, slices.Concat([]string{"recourse", "model.onnx"}, by)...)
		if !strings.Contains(said, detail) || !strings.Contains(said, "the task allows          0 of") ||
			!strings.Contains(said, "(100.0 %)") { // the model keeps them all the same
			t.Errorf("%s: %s", limit, said)
		}
		said = call(0, slices.Concat([]string{"eval", "model.onnx", "q.onnx", "--margins", "0"}, by)...)
		if !regexp.MustCompile(`Of (\d+) promises issued, \d+ (is|are) forbidden by the task`).MatchString(said) {
			t.Errorf("%s: %s", limit, said)
		}
	}
	said = call(2, with("eval", "model.onnx", "q.onnx", "--rows", "rows.json", "--stress", "noise:0.1")...)
	shifts := call(0, with("eval", "model.onnx", "q.onnx", "--rows", "rows.json", "--stress", "shifts", "--noise", "0")...)
	for _, text := range []string{said, shifts} {
		must.Has(t, strings.Join(strings.Fields(text), " "), "people with noise in their codes would be judged")
	}
	call(0, with("eval", "model.onnx", "q.onnx", "--rows", "rows.json", "--records", "records/")...)
	call(0, with("eval", "model.onnx", "q.onnx", "--rows", "rows.json", "--records", "records/", "--resume")...)
	said = call(5, "gate", "model.onnx", "q.onnx", "-t", "task.yaml", "--records", "records/", "--max-vd", "0.05")
	whole := call(5, with("gate", "model.onnx", "q.onnx", "--rows", "rows.json", "--max-vd", "0.05")...)
	if line := check(whole, "vd<=0.05"); line == "" || check(said, "vd<=0.05") != line {
		t.Errorf("of records:\n%s\nin one piece:\n%s", said, whole)
	}
	w.tells(0, "VD(0.1)",
		with("compare", "model.onnx", "q=q.onnx", "t=t.onnx", "--rows", "rows.json")...)
	sums := with("summarize", "model.onnx", "q.onnx", "records/")
	call(0, sums[:len(sums)-2]...)
	other := w.read("decoder.onnx")
	gemms(t, filepath.Join(dir, "decoder.onnx"), []int{2, side * side}, false, func(_, in, out int) float32 {
		return []float32{1, 0.5 * float32(out%2)}[in]
	}, func(int, int) float32 { return 0 })
	w.tells(2, "version at hand: decoder: ", sums[:len(sums)-2]...)
	// A decoder that makes all images brighter has some people approved without any action.
	target := func() (held, own int) {
		var r struct {
			Refused    int
			Candidates []struct {
				Search struct{ VD struct{ Den int } }
			}
		}
		w.result(&r, with("quantize", "model.onnx", "--allow-larger", "--target-vd", "0.3", "--method", "ptq",
			"-o", "target.onnx",
			"--overwrite")...)
		return r.Refused, r.Candidates[0].Search.VD.Den
	}
	heldBefore, ownBefore := target()
	gemms(t, filepath.Join(dir, "decoder.onnx"), []int{2, side * side}, false, func(_, in, _ int) float32 {
		return []float32{1.3, 0.5}[in]
	}, func(int, int) float32 { return 0 })
	const why = "people are left out: model.onnx refuses them as they are"
	said = call(0, with("recourse", "model.onnx", "-o", "bright.csv")...)
	n := 0
	if at := strings.Index(said, " "+why); at > 0 {
		n, _ = strconv.Atoi(said[strings.LastIndexAny(said[:at], " \n")+1 : at])
	}
	if n == 0 {
		t.Error(said)
	}
	w.stdin = regexp.MustCompile(`pixel\d+`).ReplaceAllFunc([]byte(w.read("table.csv")), func(name []byte) []byte {
		k, _ := strconv.Atoi(string(name[len("pixel"):]))
		return fmt.Appendf(nil, "image.%d.%d", k/side, k%side)
	})
	for _, args := range [][]string{{"recourse", "model.onnx"}, {"eval", "model.onnx", "q.onnx", "--margins", "0"}} {
		said = call(0, append(args, "-t", "task.yaml", "--stream")...)
		if strings.Count(said, "filtered,") != n || !strings.Contains(said, fmt.Sprint(n, " ", why)) {
			t.Errorf("%v: want %d rows filtered\n%.3000s", args, n, said)
		}
	}
	w.tells(0, why, with("eval", "model.onnx", "q.onnx", "--promises", "p.csv", "--margins", "0", "--noise", "0")...)
	said = call(0, with("sweep", "model.onnx", "--rows", "!rows.json", "--test-rows", "rows.json", "--methods", "ptq",
		"--budgets", "4", "--margin", "0", "-o", "sweep")...)
	some := call(0, with("recourse", "model.onnx", "--rows", "rows.json")...)
	if line := leftOut(some); line == "" || leftOut(said) != line {
		t.Errorf("sweep and recourse leave out other people:\n%s\n%s", said, some)
	}
	if held, own := target(); held == 0 || held >= heldBefore || own == 0 || own >= ownBefore {
		t.Errorf("--target-vd asks %d people held out and %d others, %d and %d with the other decoder", held, own, heldBefore,
			ownBefore)
	}
	w.put("decoder.onnx", []byte(other))
	w.tells(2, "decoder", with("recourse", "model.onnx", "--rows", "rows.json", "--exact")...)
}

func leftOut(text string) string {
	return regexp.MustCompile(`\d+ (people are|person is) left out: model.onnx refuses`).FindString(text)
}

func check(text, name string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), name+" ") {
			return line
		}
	}
	return ""
}

func TestLatentMistakes(t *testing.T) {
	w := newWorkdir(t)
	dir := w.dir
	brightImages(t, dir, 40, false)
	latentFiles(t, dir)
	for key, want := range map[string]string{
		"size: 3}":                        "latent.encoder encoder.onnx makes 2 numbers of 36; the task has",
		"size: 2}\ncost: {norm: linf}":    `"linf" is not known`,
		"size: 2, features: []}":          "latent needs the number of codes",
		"size: 2, decoder: encoder.onnx}": "decoder",
		"size: 2, encoder: absent.onnx}":  "encoder",
	} {
		w.put("task.yaml", []byte(latentTask+key+"\n"))
		out := w.call(2, "recourse", "model.onnx", "-t", "task.yaml", "-d", "images-idx3-ubyte")
		must.Has(must.In(t, key), out, want)
	}
	// Codes smaller than their grid, and images in other units.
	w.put("task.yaml", []byte(latentTask+"size: 2}\n"))
	for file, c := range map[string]struct {
		sizes []int
		by    float32
		want  []string
	}{
		"encoder.onnx": {[]int{side * side, 2}, 1e-6, []string{"problem: latent: codes vary by "}},
		"decoder.onnx": {[]int{2, side * side}, 255, []string{
			"problem: latent: what the decoder makes of people is ", "of what the decoder makes is beyond the bounds",
		}},
	} {
		latentFiles(t, dir)
		gemms(t, filepath.Join(dir, file), c.sizes, file == "encoder.onnx", func(_, in, out int) float32 {
			return c.by * float32((in+out)%2)
		}, func(int, int) float32 { return 0 })
		code, out := w.run("task", "check", "task.yaml", "-d", "images-idx3-ubyte", "model.onnx")
		for _, want := range c.want {
			if code == 0 || !strings.Contains(out, want) {
				t.Errorf("%s: want %q\n%s", file, want, out)
			}
		}
	}
}
