package qdq

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// Rules returns the table of rules, in the order in which Lint applies them.
// All were measured on ONNX Runtime 1.24 to 1.30 with its CPU kernels.
func Rules() []Rule {
	return slices.Concat(weightRules(), biasRules(), activationRules(), floatRules(), adviceRules())
}

func when(broken bool, format string, a ...any) string {
	if !broken {
		return ""
	}
	return fmt.Sprintf(format, a...)
}

func weightRules() []Rule {
	return []Rule{
		{
			Name: "weight-type",
			Doc:  "Weights that reach the kernel as uint8 run 4-5 times slower than int8 at large batches.",
			codes: func(v *view, d writtenLayer) string {
				t := v.dtype(d.weight.Input(0))
				return when(t.Bits() == 8 && t != graph.Int8, "the weights reach the kernel as %s, not int8", t)
			},
		},
		{
			Name:  "weight-zero-point",
			Doc:   "Weights without an int8 zero point 0 of the scale's shape do not fuse, or fail when run.",
			codes: func(v *view, d writtenLayer) string { return v.zeroPoint(d.weight, graph.Int8) },
		},
		{
			Name: "native-sub-byte",
			Doc: "A DequantizeLinear on 2- or 4-bit integers is never fused with integer arithmetic: INT4 runs 15-40 " +
				"times slower than float, INT2 does not load.",
			op: "DequantizeLinear", node: func(v *view, n *graph.Node) string {
				t := v.dtype(n.Input(0))
				return when(v.constant[n.Input(0)] && t.Bits() > 0 && t.Bits() < 8,
					"it reads %s without a Cast(int8) between", t)
			},
		},
		{
			Name: "int2-opset",
			Doc:  "2-bit integers exist from opset 25 and IR version 13 on.",
			op:   "Cast", node: func(v *view, n *graph.Node) string {
				t, opset, ir := v.dtype(n.Input(0)), v.m.Opset(""), v.m.IRVersion
				return when(t.Bits() == 2 && (opset < int2Opset || ir < int2IR),
					"it reads %s in a model of opset %d, IR version %d", t, opset, ir)
			},
		},
		{
			Name: "block-size",
			Doc:  "Blocks of sizes other than 16, 32, 64, 128 and 256 have no kernel.",
			op:   "DequantizeLinear", node: func(_ *view, n *graph.Node) string {
				b := n.Int("block_size", 0)
				return when(b != 0 && !slices.Contains([]int64{16, 32, 64, 128, 256}, b), "its block size is %d", b)
			},
		},
	}
}

func biasRules() []Rule {
	return []Rule{
		{
			Name: "bias-scale",
			Doc: "The kernels add the int32 bias as it is: a scale other than input scale times weight scale, in " +
				"float32, or a zero point other than an explicit 0, gives wrong results or no fusion.",
			codes: func(v *view, d writtenLayer) string {
				if d.bias == nil || d.data == nil {
					return ""
				}
				if t := v.dtype(d.bias.Input(0)); t != graph.Int32 {
					return fmt.Sprintf("the bias is %s, not int32", t)
				}
				want := product(v.floats(d.data.Input(1)), v.floats(d.weight.Input(1)))
				if want == nil || !slices.Equal(want, v.floats(d.bias.Input(1))) {
					return "the bias scale is not the product of the scales of input and weights"
				}
				message := v.zeroPoint(d.bias, graph.Int32)
				return when(message != "", "the bias: %s", message)
			},
		},
		{
			Name: "bias-range",
			Doc:  "A bias near the bounds of int32 has saturated, or overflows with the sum that it joins.",
			layer: func(v *view, d writtenLayer) string {
				if d.bias == nil || v.inits[d.bias.Input(0)] == nil {
					return ""
				}
				codes, _ := v.inits[d.bias.Input(0)].Ints()
				o := slices.IndexFunc(codes, func(q int64) bool { return q > 1<<30 || q < -1<<30 })
				return when(o >= 0, "the bias of output %d is out of bounds", o)
			},
		},
		{
			Name: "float-bias",
			Doc:  "A float bias on a layer without output QuantizeLinear keeps it from fusing.",
			layer: func(v *view, d writtenLayer) string {
				n := d.node
				return when(d.integer() && n.Op == "Gemm" && n.Input(2) != "" && d.bias == nil &&
					len(v.quantized(n.Outputs[0])) == 0, "its bias is float and its output is not quantized")
			},
		},
	}
}

func activationRules() []Rule {
	return []Rule{
		{
			Name: "activation-type",
			Doc: "Activations in types other than uint8 are converted, or, below 8 bits, never fused: low bits are a " +
				"Clip between uint8 quantizers.",
			op: "QuantizeLinear", node: func(v *view, n *graph.Node) string {
				switch z := v.inits[n.Input(2)]; {
				case n.Input(2) == "":
					return "it has no zero point"
				case z != nil && z.DType != graph.Uint8:
					return fmt.Sprintf("it quantizes to %s, not uint8", z.DType)
				}
				return ""
			},
		},
		{
			Name: "relu-zero-point",
			Doc:  "Behind a Relu a zero point other than 0 keeps the Relu, and with it the layer, from fusing.",
			op:   "QuantizeLinear", node: func(v *view, n *graph.Node) string {
				p, z := v.producers[n.Input(0)], v.inits[n.Input(2)]
				return when(p != nil && p.Is("Relu") && z != nil && z.DType == graph.Uint8 && !allZero(z),
					"its zero point is not 0 behind a Relu")
			},
		},
		{
			Name: "last-gemm",
			Doc:  "Quantizing the output of the last Gemm rounds the margin of the decision for nothing.",
			layer: func(v *view, d writtenLayer) string {
				if !d.integer() || d.node.Op == "Conv" {
					return ""
				}
				last := func(n *graph.Node) bool { return n.Is("DequantizeLinear") && !v.feeds[n.Outputs[0]] }
				return when(slices.ContainsFunc(v.quantized(d.node.Outputs[0]), func(q *graph.Node) bool {
					return slices.ContainsFunc(v.consumers[q.Outputs[0]], last)
				}), "its output is quantized and no other layer reads it")
			},
		},
		{
			Name: "conv-output",
			Doc:  "A Conv without output QuantizeLinear does not fuse.",
			layer: func(v *view, d writtenLayer) string {
				return when(d.node.Op == "Conv" && d.integer() && len(v.quantized(d.node.Outputs[0])) == 0,
					"its output is not quantized")
			},
		},
		{
			Name: "gemm-attributes",
			Doc:  "A Gemm with alpha, beta or transA does not fuse.",
			codes: func(_ *view, d writtenLayer) string {
				n := d.node
				plain := n.Float("alpha", 1) == 1 && n.Float("beta", 1) == 1 && n.Int("transA", 0) == 0
				return when(n.Op == "Gemm" && !plain, "it has alpha, beta or transA")
			},
		},
	}
}

func floatRules() []Rule {
	return []Rule{
		{
			Name: "float-layer",
			Doc: "Float weights behind a DequantizeLinear are quantized to int8 per tensor by the runtime, silently, " +
				"when the output is quantized too.",
			layer: func(v *view, d writtenLayer) string {
				return when(d.data != nil && d.weight == nil && d.node.Op != "MatMul" && v.constant[d.node.Input(1)],
					"its weights are float and its input is dequantized")
			},
		},
		{
			Name: "weight-only-dq",
			Doc: "A DequantizeLinear on the weights of a Gemm with transB, of a Conv or in front of a Transpose, " +
				"with a float input, runs at every inference.",
			codes: func(v *view, d writtenLayer) string {
				p := v.producers[d.node.Input(1)]
				return when(d.data == nil && (d.node.Op == "Conv" || d.node.Int("transB", 0) != 0 || p.Is("Transpose")),
					"its weights are dequantized at every inference")
			},
		},
		{
			Name: "weight-only-matmul",
			Doc: "With a float input, DequantizeLinear and MatMul become a kernel that quantizes activations at run " +
				"time: results differ from the file's.",
			codes: func(_ *view, d writtenLayer) string {
				return when(d.data == nil && d.node.Op != "Conv" && d.node.Int("transB", 0) == 0,
					"its activations are quantized at run time")
			},
		},
		{
			Name: "shared-scale",
			Doc: "Weight-only layers with equal scales of up to 8 elements share them after optimization and lose " +
				"their kernels.",
			codes: func(v *view, d writtenLayer) string {
				s := v.floats(d.weight.Input(1))
				for _, first := range v.dense {
					if first.node == d.node || d.data != nil || len(s) == 0 || len(s) > 8 {
						break
					}
					if first.data == nil && first.weight != nil && slices.Equal(v.floats(first.weight.Input(1)), s) {
						return "its scales are those of " + first.node.Label()
					}
				}
				return ""
			},
		},
	}
}

// wasteFrom is the number of bytes from which a container may be called wasteful:
// what unpacks narrower codes takes some hundred.
const wasteFrom = 1024

func adviceRules() []Rule {
	return []Rule{
		{
			Name: "container", Advice: true,
			Doc: "Large weights in wider containers than their codes need make the file larger than it has to be.",
			codes: func(v *view, d writtenLayer) string {
				for _, t := range v.codeTensors(d.weight.Input(0)) {
					need := codeBits(t)
					if less := (t.Len()*need + 7) / 8; len(t.Raw)-less > wasteFrom {
						return fmt.Sprintf("its codes fit %d bits: %d bytes would do for its %d", need, less, len(t.Raw))
					}
				}
				return ""
			},
		},
		{
			Name: "saturation", Advice: true,
			Doc: "8-bit codes beyond +-64 can saturate on x64 CPUs without VNNI: results differ between machines.",
			codes: func(v *view, d writtenLayer) string {
				worst := v.saturating(v.activation(d.node.Input(0)), d.weight.Input(0))
				return when(worst > 0, "its codes reach %d", worst)
			},
		},
	}
}
