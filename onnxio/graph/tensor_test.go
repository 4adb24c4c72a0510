package graph_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/onnxio/graph"
)

func TestTensorBytes(t *testing.T) {
	for _, c := range []struct {
		t    *graph.Tensor
		want []byte
	}{
		{graph.FromFloats("", []float32{1, -2}, 2), []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}},
		{graph.FromNumbers("", graph.Double, []float64{1}), []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
		{graph.FromInts("", []int64{-2}, 1), []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		{graph.FromInt32s("", []int32{258}, 1), []byte{2, 1, 0, 0}},
	} {
		if !bytes.Equal(c.t.Raw, c.want) {
			t.Errorf("%s: % x, want % x", c.t.DType, c.t.Raw, c.want)
		}
		must.Do(t, c.t.Check())
	}
}

func TestTensorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SliceOf(rapid.Float32()).Draw(t, "floats")
		if got := must.Get(graph.FromFloats("f", f, int64(len(f))).Floats())(t); !slices.Equal(got, f) {
			t.Fatalf("%v became %v", f, got)
		}
		d := rapid.SliceOf(rapid.Float64()).Draw(t, "doubles")
		if got := must.Get(graph.FromNumbers("d", graph.Double, d, int64(len(d))).Doubles())(t); !slices.Equal(got, d) {
			t.Fatalf("%v became %v", d, got)
		}
		i := rapid.SliceOf(rapid.Int64()).Draw(t, "ints")
		must.Same(must.In(t, i), i, must.Get(graph.FromInts("i", i, int64(len(i))).Ints())(t))
		s := rapid.SliceOf(rapid.Int32()).Draw(t, "int32s")
		got, err := graph.FromInt32s("s", s, int64(len(s))).Ints()
		if err != nil || !slices.EqualFunc(got, s, func(a int64, b int32) bool { return a == int64(b) }) {
			t.Fatalf("int32s %v became %v (%v)", s, got, err)
		}
	})
}

func TestTensorConversions(t *testing.T) {
	wide := graph.FromNumbers("", graph.Double, []float64{.1, math.Inf(1)}, 2)
	if v, err := wide.Floats(); err != nil || v[0] != float32(.1) || !math.IsInf(float64(v[1]), 1) {
		t.Errorf("doubles as floats: %v, %v", v, err)
	}
	must.Same(t, float64(float32(.1)), must.Get(graph.FromFloats("", []float32{.1}, 1).Doubles())(t)[0])
	for dtype, want := range map[graph.DType]int64{graph.Int8: -1, graph.Uint8: 255} {
		v := must.Get((&graph.Tensor{DType: dtype, Dims: []int64{2}, Raw: []byte{0xff, 0x01}}).Ints())(must.In(t, dtype))
		must.Same(must.In(t, dtype), []int64{want, 1}, v)
	}
	must.Fail(t, must.Err(graph.FromInts("i", nil).Floats()), "")
	must.Fail(t, must.Err(graph.FromFloats("f", nil).Ints()), "")
}

func TestDTypes(t *testing.T) {
	for d, name := range map[graph.DType]string{
		1: "float", 3: "int8", 7: "int64", 11: "double", 16: "bfloat16",
		22: "int4", 26: "int2", 17: "type17",
	} {
		if d.String() != name {
			t.Errorf("type %d is %q, want %q", int32(d), d, name)
		}
	}
	if !graph.BFloat16.IsFloat() || graph.Int8.IsFloat() || graph.DType(17).Bits() != 0 {
		t.Error("properties of types")
	}
}

func TestShapeString(t *testing.T) {
	for _, c := range []struct {
		shape graph.Shape
		want  string
	}{
		{nil, "*"},
		{graph.Shape{}, "[]"},
		{graph.Fixed(2, 0), "[2,0]"},
		{graph.Shape{{Size: -1, Param: "N"}, {Size: 104}, {Size: -1}}, "[N,104,?]"},
		{graph.Shape{{Size: -1, Param: "a,b"}}, `["a,b"]`},
		{graph.Shape{{Size: -1, Param: "a\nb"}}, `["a\nb"]`},
	} {
		must.Same(t, c.want, fmt.Sprint(c.shape))
	}
}
