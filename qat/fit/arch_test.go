package fit

import (
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/task"
)

// Every architecture of the table is read back as written, and its network has the layers that it names.
func TestParseArch(t *testing.T) {
	t.Parallel()
	for _, row := range Archs() {
		a := arch(t, row.Example)
		if a.String() != row.Example || row.Doc == "" || !strings.HasPrefix(row.Form, row.Name) {
			t.Errorf("%+v", row)
		}
	}
	for _, c := range []struct {
		arch   string
		dim    int
		params int
	}{
		{"logreg", 104, 210},
		{"mlp:64,32", 104, 104*64 + 64 + 64*32 + 32 + 32*2 + 2},
		{"cnn:8x3", 10, 8*3 + 8 + 8*5*2 + 2},
		{"autoencoder:64,8", 104, 104*64 + 64 + 64*8 + 8 + 8*64 + 64 + 64*104 + 104},
		{"autoencoder:8", 104, 104*8 + 8 + 8*104 + 104},
		{"cnn:28x28/8x3,16x5", 784, 8*9 + 8 + 16*8*25 + 16 + 16*7*7*2 + 2},
	} {
		a := arch(t, c.arch)
		layers, err := a.layers(c.dim)
		total := 0
		for _, l := range layers {
			total += l.params()
		}
		must.Do(t, err)
		must.Same(t, c.params, total)
	}
	for in, want := range map[string]string{
		"": `invalid value "" for arch: want logreg, mlp:SIZE,..., cnn:`, "svm": "want logreg,",
		"logreg:3": `unexpected sizes "3"; want logreg`, "logreg:": "nothing stands behind the colon",
		"mlp": `invalid size ""`, "mlp:": `invalid size ""`, "mlp:64,": `invalid size ""`, "mlp:0": `invalid size "0"`,
		"mlp:064": `invalid size "064"`, "mlp:64,x": "such as mlp:64,32", "mlp:8x3": `"8x3" has 2 sizes`,
		"mlp:70000": "from 1 to 65536", "mlp:" + strings.Repeat("1,", 64) + "1": "more than 64 layers",
		"cnn:8": `"8" has 1 size`, "autoencoder:": `invalid size ""`,
		"cnn:8x2": "even", "cnn:28/8x3": `"28" has 1 size`, "cnn:1x1x1x1/8x3": "4 sizes",
	} {
		must.Fail(t, must.Err(ParseArch(in)), want)
	}
	for _, row := range Archs() {
		if strings.Contains(row.Usage(), row.Form+", such as "+row.Form) {
			t.Errorf("the example of %q is the form itself", row.Usage())
		}
	}
	for in, want := range map[string]string{
		"cnn:4x4/8x3": "the image has 16 numbers, but the task's features make 10", "cnn:2x3,2x3,2x3,2x3": "nothing is left",
		"mlp:65536,65536": "more than 67108864 parameters",
	} {
		a := arch(t, in)
		must.Fail(must.In(t, in), must.Err(a.layers(10)), want)
	}
	first := &task.Pixels{Shape: []int{3, 8, 4}, Layout: "chw"}
	last := &task.Pixels{Shape: []int{8, 4, 3}, Layout: "hwc"}
	for _, c := range []struct {
		arch  string
		image *task.Pixels
		want  string // "" is no error
	}{
		{"cnn:8x4x3/2x3", first, ""},
		{"cnn:4x8x3/2x3", first, "the task's image is 8x4x3"},
		{"mlp:4", last, ""},
		{"cnn:8x12/2x3", first, "the task's image is 8x4x3"},
		{"cnn:8x4x3/2x3", last, "channels last"},
		{"cnn:2x3", last, ""},
		{"cnn:8x4/2x3", &task.Pixels{Shape: []int{8, 4, 1}, Layout: "hwc"}, ""},
	} {
		a := arch(t, c.arch)
		err := a.suits(&task.Task{Images: []task.Feature{{Encoding: c.image}}})
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of an image %v: %v, want %q", c.arch, c.image, err, c.want)
		}
	}
}

// Whatever is read is written as it was, and makes a network or an error.
func FuzzParseArch(f *testing.F) {
	for _, row := range Archs() {
		f.Add(row.Example)
	}
	f.Add("cnn:4x4x2/4x3,6x3")
	f.Add("mlp:64,,")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseArch(s)
		if err != nil {
			return
		}
		must.Same(t, s, a.String())
		layers, err := a.layers(12)
		if err != nil {
			return
		}
		n := len(a.convs) + len(a.hidden) + 1
		if a.Autoencoder() {
			n = 2 * len(a.hidden)
		}
		must.Same(must.In(t, s), len(layers), n)
		for i := range layers {
			if layers[i].params() < 1 {
				t.Errorf("%q: %+v", s, layers[i])
			}
		}
	})
}
