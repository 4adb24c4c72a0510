package classifier

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// layers makes a network of dense layers of the given sizes, with an activation behind each but the last, and another
// behind that; "" is none. Its input is an image where sizes of one are given.
func layers(r *rand.Rand, between, last string, opset int64, image []int64, sizes ...int) *graph.Model {
	shape := graph.Shape{rows(), {Size: int64(sizes[0])}}
	if image != nil {
		shape = append(graph.Shape{rows()}, graph.Fixed(image...)...)
	}
	return build(shape, opset, func(b *graph.Builder) string {
		v := "x"
		if image != nil {
			v = b.Op("Flatten", []string{v})
		}
		for i := range sizes[1:] {
			in, out := sizes[i], sizes[i+1]
			draw := func(scale float64, dims ...int64) string {
				w := normals(r.Uint64(), graph.FromInts("", nil, dims...).Len())
				for k := range w {
					w[k] *= float32(scale)
				}
				return floats32(b, "w", w, dims...)
			}
			v = b.Op("Gemm", []string{v, draw(1/math.Sqrt(float64(in)), int64(in), int64(out)), draw(0.3, int64(out))})
			op := between
			if i == len(sizes)-2 {
				op = last
			}
			if op != "" {
				v = b.Op(op, []string{v})
			}
		}
		return v
	})
}

type decoded struct {
	step        *onnxio.Decoded
	all, plain  *Model
	codes, dims int
}

func openDecoded(t *testing.T, r *rand.Rand, step onnxio.Decoded, classes int, opset int64) *decoded {
	t.Helper()
	e, ctx := orttest.Need(t), context.Background()
	d := &decoded{codes: 3, dims: 6, step: &step}
	open := func(m *graph.Model) *onnxio.Map {
		out := must.Get(onnxio.OpenMap(ctx, m, e))(t)
		t.Cleanup(func() { out.Close() })
		return out
	}
	step.Encoder = open(layers(r, "Tanh", "", 13, []int64{1, 2, 3}, 6, 5, 3))
	step.Decoder = open(layers(r, "Tanh", "Sigmoid", 17, nil, 3, 7, 6))
	one := func(v float32, n int) []float32 { return slices.Repeat([]float32{v}, n) }
	step.Low, step.High, step.PixelWeights = one(0.1, 6), one(0.9, 6), one(0.7, 6)
	m, err := onnxio.FromGraph(ctx, layers(r, "Tanh", "", opset, nil, 6, 5, classes), e)
	must.Do(t, err)
	target := classes - 1
	o := Options{Target: &target, Output: onnxio.Logits} // a random network may stay in [0,1], as probabilities do
	if d.plain, err = New(m, o); err != nil {
		t.Fatal(err)
	}
	behind := must.Get(m.WithInputTransform(&step))(t)
	if d.all, err = New(behind, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.plain.Close(); d.all.Close() })
	return d
}

func (d *decoded) people(t *testing.T, r *rand.Rand, n int) (x, rows []float32) {
	t.Helper()
	for range n * d.dims {
		x = append(x, r.Float32())
	}
	z := must.Get(d.step.Codes(context.Background(), x))(t)
	for i := range n {
		rows = append(rows, x[i*d.dims:(i+1)*d.dims]...)
		rows = append(rows, z[i*d.codes:(i+1)*d.codes]...)
	}
	return x, rows
}

func TestDecoded(t *testing.T) {
	for seed := range 12 {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		step := onnxio.Decoded{}
		if seed%2 == 1 {
			step.Budget = 0.5 + 1.5*r.Float64()
		}
		d := openDecoded(t, r, step, 1+seed/2%3, []int64{13, 18, 21}[seed/4%3])
		x, rows := d.people(t, r, 8)
		d.checkAsTheyAre(t, x, rows)
		moved := slices.Clone(rows)
		for i := range moved {
			if i%(d.dims+d.codes) >= d.dims {
				moved[i] += float32(0.5 + r.Float64())
			}
		}
		d.checkLimit(t, moved)
		d.checkGradients(t, moved)
	}
}

func (d *decoded) checkAsTheyAre(t *testing.T, x, rows []float32) {
	t.Helper()
	ctx := context.Background()
	got := must.Get(d.all.Margins(ctx, rows))(t)
	want := must.Get(d.plain.Margins(ctx, x))(t)
	for i := range got {
		must.Near(must.In(t, i), want[i], got[i], 1e-6)
	}
}

func (d *decoded) checkLimit(t *testing.T, rows []float32) {
	t.Helper()
	ctx, width := context.Background(), d.dims+d.codes
	var z, x []float32
	for i := range len(rows) / width {
		x, z = append(x, rows[i*width:i*width+d.dims]...), append(z, rows[i*width+d.dims:(i+1)*width]...)
	}
	images := must.Get(d.step.Decoder.Run(ctx, z))(t)
	for i, v := range images {
		images[i] = min(max(v, 0.1), 0.9)
	}
	want := must.Get(d.plain.Margins(ctx, images))(t)
	got, limits, err := d.all.Limits(ctx, rows)
	must.Do(t, err)
	if limits == nil {
		limits = slices.Repeat([]float32{float32(math.Inf(1))}, len(got))
	}
	for i := range got {
		distance := 0.0
		for k := range d.dims {
			distance += 0.7 * math.Abs(float64(images[i*d.dims+k]-x[i*d.dims+k]))
		}
		limit := math.Inf(1)
		if b := d.step.Budget; b > 0 {
			limit = 1e4 * (b - distance) / b
		}
		for _, c := range [][2]float64{{float64(got[i]), float64(want[i])}, {float64(limits[i]), limit}} {
			if c != [2]float64{limit, limit} && math.Abs(c[0]-c[1]) > 1e-3*max(1, math.Abs(c[1])) {
				t.Errorf("person %d: margin %v, want %v; limit %v, want %v", i, got[i], want[i], limits[i], limit)
			}
		}
	}
}

// checkGradients compares gradients of the lesser of margin and limit by the codes with central differences. A row
// where two parts of the limit meet is left out.
func (d *decoded) checkGradients(t *testing.T, rows []float32) {
	t.Helper()
	ctx, width := context.Background(), d.dims+d.codes
	_, g, err := d.all.MarginGrads(ctx, rows)
	must.Do(t, err)
	const h = 1e-2
	for k := d.dims; k < width; k++ {
		var sides [3][]float32
		for s := range sides {
			x := slices.Clone(rows)
			for i := k; i < len(x); i += width {
				x[i] += float32(h * float64(s-1))
			}
			var limits []float32
			if sides[s], limits, err = d.all.Limits(ctx, x); err != nil {
				t.Fatal(err)
			}
			for i, v := range limits {
				sides[s][i] = min(sides[s][i], v)
			}
		}
		for i := range len(rows) / width {
			up, down := float64(sides[2][i]-sides[1][i])/h, float64(sides[1][i]-sides[0][i])/h
			if math.Abs(up-down) > 0.02*max(1, math.Abs(up)) {
				continue // a kink between them, or a curve
			}
			if got := float64(g[i*width+k]); math.Abs(got-(up+down)/2) > 0.03*max(1, math.Abs(got)) {
				t.Errorf("person %d, code %d: gradient %v, and differences %v and %v", i, k-d.dims, got, up, down)
			}
		}
	}
}

func TestDecodedGradientAsTheyAre(t *testing.T) {
	r, ctx := rand.New(rand.NewPCG(5, 6)), context.Background()
	d := openDecoded(t, r, onnxio.Decoded{}, 2, 17)
	_, rows := d.people(t, r, 4)
	m, g, err := d.all.MarginGrads(ctx, rows)
	must.Do(t, err)
	plain := must.Get(d.all.Margins(ctx, rows))(t)
	width := d.dims + d.codes
	for i := range m {
		must.Near(must.In(t, i), plain[i], m[i], 1e-6)
		for k, v := range g[i*width : (i+1)*width] {
			if k >= d.dims && v == 0 {
				t.Errorf("person %d: no gradient by code %d", i, k-d.dims)
			}
		}
	}
}
