package autodiff_test

import (
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"cfq/internal/must"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

func TestGolden(t *testing.T) {
	for name, list := range map[string][]sample{
		"arithmetic": arithmeticSamples(), "activation": activationSamples(), "selection": selectionSamples(),
		"linear": linearSamples(), "conv": convSamples(), "pool": poolSamples(),
		"reduce": reduceSamples(), "shape": shapeSamples(), "index": indexSamples(),
		"norm":         slices.Concat(normSamples(), moreNormSamples()),
		"trigonometry": trigonometrySamples(), "more": moreSamples(), "product": productSamples(), "resize": resizeSamples(),
		"scatter": scatterSamples(),
	} {
		t.Run(name, func(t *testing.T) {
			got := txtar.Archive{Comment: []byte("Gradients by all variable inputs, with the seed v. UPDATE=1 go test " +
				"rewrites " +
				"this file.\n\n")}
			for _, s := range oneEach(list) {
				got.Files = append(got.Files, txtar.File{Name: s.name(), Data: []byte(emitted(t, s))})
			}
			path := "testdata/" + name + ".txtar"
			if os.Getenv("UPDATE") == "1" {
				must.Do(t, os.WriteFile(path, txtar.Format(&got), 0o644))
			}
			want := must.Get(os.ReadFile(path))(t)
			if d := cmp.Diff(string(want), string(txtar.Format(&got))); d != "" {
				t.Errorf("UPDATE=1 go test accepts this (-file +now):\n%s", d)
			}
		})
	}
}

func oneEach(list []sample) []sample {
	var out []sample
	at := map[string]int{}
	for _, s := range list {
		i, ok := at[s.op]
		switch {
		case !ok:
			at[s.op] = len(out)
			out = append(out, s)
		case !out[i].dynamic() && s.dynamic():
			out[i] = s
		}
	}
	return out
}

// emitted returns the node of s, expanded where it is a composite, and what is
// added for its gradients.
func emitted(t *testing.T, s sample) string {
	b := newBench(t, ort.Options{}, graph.Double, s.opset, 2)
	vars, outs := b.add(s)
	y := outs[0]
	if len(outs) > 1 {
		y = b.join(outs)
	}
	b.declare("v", b.types[y], 0, in(""))
	inits := len(b.g.Inits)
	names := b.grads(y, vars, autodiff.Options{Seed: "v"})
	g := b.g.Clone()
	g.Inits = g.Inits[inits:]
	text := dump(g)
	for i, x := range vars {
		text += "d " + x + " = " + names[i] + "\n"
	}
	return text
}
