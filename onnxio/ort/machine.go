package ort

import (
	"context"
	_ "embed"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/cpu"

	"cfq/onnxio/graph"
)

// SelfTest loads the library, runs a small quantized layer whose result is known exactly, and reports what differs.
func SelfTest(ctx context.Context, o Options) error {
	x := graph.FromFloats("x", []float32{1, -2, 3, 0.5}, 2, 2)
	s, err := OpenBytes(selfTest, o)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	defer s.Close() //nolint:errcheck // nothing was written
	out, err := s.Run(ctx, []*graph.Tensor{x})
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

// selfTest is Relu(Gemm) with two inputs and two outputs in the form that runs as the integer kernel QGemm. All scales
// are powers of two and all values lie on their grids, so that every correct kernel gives the same bits.
//
//go:embed selftest.onnx
var selfTest []byte

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
