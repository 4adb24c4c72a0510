package ort

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/cpu"

	"cfq/onnxio/graph"
)

// SelfTest loads the library, runs a small quantized layer whose result is known exactly, and reports what differs.
func SelfTest(ctx context.Context, o Options) error {
	x := graph.FromFloats("x", []float32{1, -2, 3, 0.5}, 2, 2)
	out, err := Evaluate(ctx, selfTestModel(), o, []*graph.Tensor{x}, "y")
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	y, err := out[0].Floats()
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	// Relu(x W' + b) with W = [1 -0.5; 0.5 3] and b = [0.25 -1].
	want := []float32{2.25, 0, 3, 2}
	if !slices.Equal(y, want) {
		return fmt.Errorf("self-test: ONNX Runtime computed %v instead of %v (optimizations: %s)", y, want, o.Level)
	}
	return nil
}

// selfTestModel is Relu(Gemm) in the form that runs as the integer kernel QGemm. All scales are powers of two and all
// values lie on their grids, so that every correct kernel gives the same bits.
func selfTestModel() *graph.Model {
	batch := graph.Shape{{Size: -1, Param: "N"}, {Size: 2}}
	g := &graph.Graph{
		Name:    "selftest",
		Inputs:  []graph.Value{{Name: "x", DType: graph.Float, Shape: batch}},
		Outputs: []graph.Value{{Name: "y", DType: graph.Float, Shape: batch}},
	}
	b := graph.NewBuilder(g, "")
	int8s := func(name string, v ...int8) string {
		t := &graph.Tensor{Name: name, DType: graph.Int8, Dims: []int64{int64(len(v))}}
		for _, c := range v {
			t.Raw = append(t.Raw, byte(c))
		}
		return b.Const(t)
	}
	xs := b.Const(graph.FromFloats("x_scale", []float32{1. / 32}))
	xz := b.Const(&graph.Tensor{Name: "x_zero", DType: graph.Uint8, Raw: []byte{128}})
	x := b.Op("QuantizeLinear", []string{"x", xs, xz})
	x = b.Op("DequantizeLinear", []string{x, xs, xz})

	codes := int8s("w", 64, -32, 16, 96)
	g.Init(codes).Dims = []int64{2, 2}
	ws := b.Const(graph.FromFloats("w_scale", []float32{1. / 64, 1. / 32}, 2))
	w := b.Op("DequantizeLinear", []string{codes, ws, int8s("w_zero", 0, 0)}, graph.IntAttr("axis", 0))

	bias := b.Const(graph.FromInt32s("b", []int32{512, -1024}, 2))
	bs := b.Const(graph.FromFloats("b_scale", []float32{1. / 2048, 1. / 1024}, 2)) // x_scale * w_scale
	bz := b.Const(graph.FromInt32s("b_zero", []int32{0, 0}, 2))
	bias = b.Op("DequantizeLinear", []string{bias, bs, bz}, graph.IntAttr("axis", 0))

	h := b.Op("Gemm", []string{x, w, bias}, graph.IntAttr("transB", 1))
	b.Append(&graph.Node{Op: "Relu", Inputs: []string{h}, Outputs: []string{"y"}})
	return &graph.Model{IRVersion: 8, ProducerName: "cfq", Opsets: []graph.Opset{{Version: 13}}, Graph: g}
}

// Saturates reports whether this is an x64 processor without VNNI, on which ONNX Runtime adds two products of unsigned
// 8-bit activations and signed 8-bit weights in 16 bits: sums beyond them are cut off where weights have codes beyond
// 64, and the model gives other numbers than elsewhere.
func Saturates() bool {
	return runtime.GOARCH == "amd64" && !cpu.X86.HasAVXVNNI && !cpu.X86.HasAVX512VNNI && !cpu.X86.HasAMXInt8
}

// CPUFeatures names the features of this processor by which ONNX Runtime chooses its kernels, in the order of age. On
// processors that differ in them the same model can give other numbers: integer sums may saturate, see Saturates, and
// float sums are added in another order.
func CPUFeatures() []string {
	var names []string
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"SSE4.1", cpu.X86.HasSSE41},
		{"AVX", cpu.X86.HasAVX},
		{"FMA", cpu.X86.HasFMA},
		{"AVX2", cpu.X86.HasAVX2},
		{"AVX-VNNI", cpu.X86.HasAVXVNNI},
		{"AVX512F", cpu.X86.HasAVX512F},
		{"AVX512BW", cpu.X86.HasAVX512BW},
		{"AVX512DQ", cpu.X86.HasAVX512DQ},
		{"AVX512VL", cpu.X86.HasAVX512VL},
		{"AVX512-VNNI", cpu.X86.HasAVX512VNNI},
		{"AMX-INT8", cpu.X86.HasAMXInt8},
		{"ASIMD", cpu.ARM64.HasASIMD},
		{"FP16", cpu.ARM64.HasASIMDHP},
		{"DOTPROD", cpu.ARM64.HasASIMDDP},
		{"I8MM", cpu.ARM64.HasI8MM},
		{"SVE", cpu.ARM64.HasSVE},
	} {
		if f.has {
			names = append(names, f.name)
		}
	}
	return names
}
