package task

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"cfq/internal/must"
)

func pictured(t *testing.T, keys string) *Task {
	t.Helper()
	task := must.Get(Parse("task.yaml", []byte("version: 1\ndata: {label: digit, favourable: 9}\nfeatures:\n"+
		"  - {name: pixel, kind: image, "+keys+"}\n")))(t)
	return task
}

func put(t *testing.T, folder, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(folder, name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, data, 0o644))
	return path
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	must.Get(z.Write(data))(t)
	must.Do(t, z.Close())
	return b.Bytes()
}

func idxBytes(data []byte, dims ...int) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

func pngOf(t *testing.T, data []byte, rows, columns, channels int) []byte {
	t.Helper()
	var picture image.Image
	if channels == 1 {
		picture = &image.Gray{Pix: data, Stride: columns, Rect: image.Rect(0, 0, columns, rows)}
	} else {
		colours := image.NewNRGBA(image.Rect(0, 0, columns, rows))
		for i := range rows * columns {
			c := data[3*i:]
			colours.SetNRGBA(i%columns, i/columns, color.NRGBA{R: c[0], G: c[1], B: c[2], A: 255})
		}
		picture = colours
	}
	var b bytes.Buffer
	must.Do(t, png.Encode(&b, picture))
	return b.Bytes()
}

func TestImagesAreReadFromEveryKindOfFile(t *testing.T) {
	task, dir := pictured(t, "shape: [1, 2, 3], mean: 100, std: 50"), t.TempDir()
	first, second := []byte{0, 50, 100, 150, 200, 250}, []byte{255, 1, 2, 3, 4, 5}
	both := slices.Concat(first, second)
	images, labels := idxBytes(both, 2, 2, 3), idxBytes([]byte{7, 9}, 2)
	put(t, dir, "train-labels-idx1-ubyte", labels)
	put(t, dir, "t10k-labels-idx1-ubyte.gz", zipped(t, labels))
	one, two := pngOf(t, first, 2, 3, 1), pngOf(t, second, 2, 3, 1)
	put(t, dir, "folder/7/a [1].png", one)
	put(t, dir, "folder/9/b.png", two)
	type row struct {
		Pixel string `parquet:"pixel"`
		Digit int    `parquet:"digit"`
	}
	parquetFile := func(name string, rows []row) string {
		path := filepath.Join(dir, name)
		must.Do(t, parquet.WriteFile(path, rows))
		return path
	}
	var names, numbered strings.Builder
	for i := range 6 {
		fmt.Fprintf(&names, "pixel.%d.%d,", i/3, i%3)
		fmt.Fprintf(&numbered, "pixel%d,", i+1)
	}
	rows := "digit\n0,50,100,150,200,250,7\n255,1,2,3,4,5,9\n"
	for _, path := range []string{
		put(t, dir, "train-images-idx3-ubyte", images),
		put(t, dir, "t10k-images-idx3-ubyte.gz", zipped(t, images)),
		filepath.Join(dir, "folder"),
		put(t, dir, "names.csv", []byte("digit,pixel\n7,folder/7/a [1].png\n9,folder/9/b.png\n")),
		put(t, dir, "pixels.csv", []byte(names.String()+rows)),
		put(t, dir, "numbered.csv", []byte(numbered.String()+rows)),
		parquetFile("names.parquet", []row{{"folder/7/a [1].png", 7}, {"folder/9/b.png", 9}}),
	} {
		p, err := Read(context.Background(), path, task, ReadOptions{Hash: true})
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		var want []float32
		for _, v := range both {
			want = append(want, float32((float64(v)-100)/50))
		}
		if !slices.Equal(p.X, want) || !slices.Equal(p.Labels, []int8{0, 1}) || p.Failed != 0 {
			t.Errorf("%s: people %v with labels %v, %d failed; want %v", path, p.X, p.Labels, p.Failed, want)
		}
		all := (&ReadOptions{}).CountRows(path)
		one, rest := (&ReadOptions{Only: []int{1}}).CountRows(path), (&ReadOptions{Except: []int{1}}).CountRows(path)
		if all != 2 || one != 1 || rest != 1 {
			t.Errorf("%s: %d rows, %d of one, %d without it", path, all, one, rest)
		}
	}
}

func TestImageLayouts(t *testing.T) {
	dir := t.TempDir()
	picture := []byte{1, 101, 201, 2, 102, 202} // a row of two pixels
	file := put(t, dir, "names.csv", []byte("digit,pixel\n9,a.png\n"))
	put(t, dir, "a.png", pngOf(t, picture, 1, 2, 3))
	for keys, want := range map[string][]float32{
		"shape: [3, 1, 2], mean: [1, 101, 201], std: [1, 2, 4]":              {0, 1, 0, 0.5, 0, 0.25},
		"shape: [1, 2, 3], layout: hwc, mean: [1, 101, 201], std: [1, 2, 4]": {0, 0, 0, 1, 0.5, 0.25},
	} {
		p := must.Get(Read(context.Background(), file, pictured(t, keys), ReadOptions{}))(t)
		must.Same(must.In(t, keys), want, p.X)
	}
	names := pictured(t, "shape: [1, 2, 3], layout: hwc").InputNames()
	want := []string{"pixel.0.0.0", "pixel.1.0.0", "pixel.2.0.0", "pixel.0.0.1", "pixel.1.0.1", "pixel.2.0.1"}
	must.Same(t, want, names)
}

// drawn are the images of a row of inputs, as PNG files have them.
func drawn(t *Task, x []float32) []image.Image {
	var all []image.Image
	for i := range t.Images {
		f := &t.Images[i]
		shape := f.image()
		channels, rows, columns := shape.Axes()
		m := image.NewNRGBA(image.Rect(0, 0, columns, rows))
		for k, p := range f.pixels() {
			channel, row, column := shape.place(k)
			v := uint8(math.Round(min(255, max(0, p.FromInput(x[p.Offset])))))
			at := m.Pix[m.PixOffset(column, row):][:4]
			if channels == 1 || channels == 3 {
				at[3] = 255
			}
			switch {
			case channels < 3 && channel == 0: // grey
				at[0], at[1], at[2] = v, v, v
			case channels < 3: // its alpha
				at[3] = v
			default:
				at[channel] = v
			}
		}
		all = append(all, m)
	}
	return all
}

func TestDrawnImagesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 4), 3, 3).Draw(t, "shape")
		file := fmt.Sprintf("version: 1\nfeatures:\n- {name: age, kind: numeric}\n- {name: photo, kind: image, layout: %s, "+
			"shape: [%d, %d, %d], mean: 33, std: 71}\n", rapid.SampledFrom([]string{"chw", "hwc"}).Draw(t, "layout"), shape[0],
			shape[1], shape[2])
		task := must.Get(Parse("task.yaml", []byte(file)))(t)
		want := rapid.SliceOfN(rapid.Byte(), task.Dim()-1, task.Dim()-1).Draw(t, "bytes")
		x := make([]float32, task.Dim())
		for i, v := range want {
			x[i+1] = task.Features[i+1].ToInput(float64(v))
		}
		var b bytes.Buffer
		must.Do(t, png.Encode(&b, drawn(task, x)[0]))
		size := must.Get(png.DecodeConfig(bytes.NewReader(b.Bytes())))(t)
		must.Same(t, want, must.Get(task.Images[0].fromPNG(b.Bytes(), size))(t))
	})
}

func TestImagesKeepTheirForm(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 4), 3, 3).Draw(rt, "shape")
		file := fmt.Sprintf("version: 1\nfeatures:\n- {name: age, kind: numeric}\n- {name: photo, kind: image, layout: %s, "+
			"shape: [%d, %d, %d], step: %d, actionable: %v}\n- {name: sex, kind: onehot, values: [a, b]}\n",
			rapid.SampledFrom([]string{"chw", "hwc"}).Draw(rt, "layout"), shape[0], shape[1], shape[2],
			rapid.IntRange(1, 9).Draw(rt, "step"), rapid.Bool().Draw(rt, "actionable"))
		task := must.Get(Parse("task.yaml", []byte(file)))(rt)
		again := must.Get(Parse("task.json", task.JSON()))(rt)
		must.Same(rt, task, again)
		size := shape[0] * shape[1] * shape[2]
		if len(task.Features) != size+2 || task.Dim() != size+3 || len(task.Entries()) != 3 {
			rt.Fatalf("%d features, %d inputs and %d entries for a shape of %v", len(task.Features), task.Dim(),
				len(task.Entries()), shape)
		}
		var at []int
		for _, c := range task.Columns() {
			at = append(at, c.At...)
		}
		slices.Sort(at)
		for i, v := range at {
			must.Same(must.In(rt, at), v, i)
		}
	})
}

func TestImageFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	grey := pngOf(t, make([]byte, 6), 2, 3, 1)
	put(t, dir, "grey.png", grey)
	put(t, dir, "wide.png", pngOf(t, make([]byte, 8), 2, 4, 1))
	put(t, dir, "colours.png", pngOf(t, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 2, 3, 3))
	put(t, dir, "cut.png", grey[:40])
	put(t, dir, "text.png", []byte("no picture"))
	var deep bytes.Buffer
	must.Do(t, png.Encode(&deep, image.NewGray16(image.Rect(0, 0, 3, 2))))
	put(t, dir, "deep.png", deep.Bytes())
	put(t, dir, "few-labels-idx1", idxBytes([]byte{1}, 1))
	for _, c := range []struct{ path, want string }{
		{put(t, dir, "1.csv", []byte("pixel\nwide.png\n")), "has 4 x 2 pixels, and the task says 3 x 2"},
		{put(t, dir, "2.csv", []byte("pixel\ncolours.png\n")), "the image has colours"},
		{put(t, dir, "3.csv", []byte("pixel\ncut.png\n")), "column \"pixel\""},
		{put(t, dir, "4.csv", []byte("pixel\ntext.png\n")), "is no PNG file"},
		{put(t, dir, "5.csv", []byte("pixel\ndeep.png\n")), "16 bits"},
		{put(t, dir, "6.csv", []byte("pixel\n../grey.png\n")), "within it"},
		{put(t, dir, "7.csv", []byte("pixel\nnone.png\n")), "no such file"},
		{put(t, dir, "8.csv", []byte("digit\n1\n")), `there is no column "pixel" (image pixel)`},
		{put(t, dir, "9.csv", []byte("digit,pixel\n1,\"\"\n")), "the image is missing"},
		{put(t, dir, "10.csv", []byte("pixel\n"+strings.Repeat("x", 1025))), "1025 bytes are not the name of a PNG file"},
		{put(t, dir, "cut-idx3", idxBytes(make([]byte, 5), 1, 2, 3)), "ends 1 items early"},
		{put(t, dir, "short-idx3", idxBytes(nil, 1, 2)[:9]), "ends in its header"},
		{put(t, dir, "size-idx3", idxBytes(make([]byte, 4), 1, 2, 2)), "4 bytes are not the 6 numbers"},
		{put(t, dir, "huge-idx3", idxBytes(nil, 1, 1<<20, 1<<20)), "more than 1 MiB"},
		{put(t, dir, "only-labels", idxBytes([]byte{1}, 1)), "holds single numbers"},
		{put(t, dir, "few-images-idx3", idxBytes(make([]byte, 12), 2, 2, 3)), "1 labels of dimensions [] for 2 images"},
		{filepath.Dir(put(t, dir, "empty/readme.txt", nil)), "no .png files"},
		{filepath.Dir(filepath.Dir(put(t, dir, "mixed/1/a.JPG", nil))), "1/a.JPG is no PNG file: convert it"},
	} {
		_, err := Read(context.Background(), c.path, pictured(t, "shape: [1, 2, 3]"), ReadOptions{})
		must.Fail(t, err, c.want)
	}
	plain := must.Get(Parse("task.yaml", []byte("version: 1\nfeatures: [{name: a, kind: numeric}]\n")))(t)
	_, err := Read(context.Background(), dir, plain, ReadOptions{})
	must.Fail(t, err, "needs a feature of kind image")
}

// FuzzIDX reads damaged files of images.
func FuzzIDX(f *testing.F) {
	f.Add(idxBytes([]byte{1, 2, 3, 4, 5, 6}, 1, 2, 3))
	f.Add(idxBytes(nil, 1, 2, 3))
	f.Add([]byte(idxMagic + "\x04"))
	task := must.Get(Parse("task.yaml", []byte("version: 1\nfeatures: [{name: pixel, kind: image, shape: [1, 2, 3]}]")))(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		path := put(t, t.TempDir(), "images-idx3", append([]byte(idxMagic), data...))
		p, err := Read(context.Background(), path, task, ReadOptions{})
		if err == nil && len(p.X) != 6*p.N {
			t.Errorf("%d numbers for %d people", len(p.X), p.N)
		}
	})
}
