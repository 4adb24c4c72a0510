package qdq

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// Rules returns the table of rules, in the order in which Lint applies them.
// All were measured on ONNX Runtime 1.24 to 1.30 with its CPU kernels.
func Rules() []Rule {
	return []Rule{
		{Name: "weight-type", Doc: "Weights that reach the kernel as uint8 run 4-5 times slower than int8 at large batches.", check: weightType},
		{Name: "weight-zero-point", Doc: "Weights without an int8 zero point 0 of the scale's shape do not fuse, or fail when run.", check: weightZeroPoint},
		{Name: "weight-axis", Doc: "Weight scales that are not one for each output are taken for that by the integer kernels: results are wrong, silently.", check: weightAxis},
		{Name: "float16", Doc: "A DequantizeLinear with a float16 scale makes float16, for which there are no integer kernels: scales may be stored so behind a Cast.", check: float16Scale},
		{Name: "native-sub-byte", Doc: "A DequantizeLinear on 2- or 4-bit integers is never fused with integer arithmetic: INT4 runs 15-40 times slower than float, INT2 does not load.", check: nativeSubByte},
		{Name: "int2-opset", Doc: "2-bit integers exist from opset 25 and IR version 13 on.", check: int2Opsets},
		{Name: "bias-scale", Doc: "The kernels add the int32 bias as it is: a scale other than input scale times weight scale, in float32, or a zero point other than an explicit 0, gives wrong results or no fusion.", check: biasScale},
		{Name: "bias-range", Doc: "A bias near the bounds of int32 has saturated, or overflows with the sum that it joins.", check: biasRange},
		{Name: "float-bias", Doc: "A float bias on a layer without output QuantizeLinear keeps it from fusing.", check: floatBias},
		{Name: "activation-type", Doc: "Activations in types other than uint8 are converted, or, below 8 bits, never fused: low bits are a Clip between uint8 quantizers.", check: activationType},
		{Name: "relu-zero-point", Doc: "Behind a Relu a zero point other than 0 keeps the Relu, and with it the layer, from fusing.", check: reluZeroPoint},
		{Name: "relu-float", Doc: "A Relu or Clip that alone reads a Gemm, and whose value stays in float or is bounded more than the QuantizeLinear behind it does, keeps the Gemm from fusing. A Max does not.", check: reluFloat},
		{Name: "quantized-beside", Doc: "A QuantizeLinear that reads a Gemm, which others read, too, keeps the Gemm from fusing.", check: quantizedBeside},
		{Name: "last-gemm", Doc: "Quantizing the output of the last Gemm rounds the margin of the decision for nothing.", check: lastGemm},
		{Name: "conv-output", Doc: "A Conv without output QuantizeLinear does not fuse.", check: convOutput},
		{Name: "gemm-attributes", Doc: "A Gemm with alpha, beta or transA does not fuse.", check: gemmAttributes},
		{Name: "float-layer", Doc: "Float weights behind a DequantizeLinear are quantized to int8 per tensor by the runtime, silently, when the output is quantized too.", check: floatLayer},
		{Name: "weight-only-dq", Doc: "A DequantizeLinear on the weights of a Gemm with transB, of a Conv or in front of a Transpose, with a float input, runs at every inference.", check: weightOnly},
		{Name: "weight-only-matmul", Doc: "With a float input, DequantizeLinear and MatMul become a kernel that quantizes activations at run time: results differ from the file's.", check: weightOnlyMatMul},
		{Name: "shared-scale", Doc: "Weight-only layers with equal scales of up to 8 elements share them after optimization and lose their kernels.", check: sharedScale},
		{Name: "block-size", Doc: "Blocks of sizes other than 16, 32, 64, 128 and 256 have no kernel.", check: blockSize},
		{Name: "container", Doc: "Large weights in wider containers than their codes need make the file larger than it has to be.", Advice: true, check: wideContainer},
		{Name: "reduced-range", Doc: "8-bit codes beyond +-64 can saturate on x64 CPUs without VNNI: results differ between machines.", Advice: true, check: reducedRange},
	}
}

func biasScale(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.bias == nil || d.data == nil || d.weight == nil {
			return ""
		}
		if t := v.dtype(d.bias.Input(0)); t != graph.Int32 {
			return fmt.Sprintf("the bias is %s, not int32", t)
		}
		want := product(v.floats(d.data.Input(1)), v.floats(d.weight.Input(1)))
		if want == nil || !slices.Equal(want, v.floats(d.bias.Input(1))) {
			return "the bias scale is not the product of the scales of input and weights"
		}
		if msg := v.zeroPoint(d.bias, graph.Int32); msg != "" {
			return "the bias: " + msg
		}
		return ""
	})
}

func biasRange(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.bias == nil || v.inits[d.bias.Input(0)] == nil {
			return ""
		}
		codes, err := v.inits[d.bias.Input(0)].Ints()
		if err != nil {
			return ""
		}
		for o, q := range codes {
			if q > 1<<30 || q < -1<<30 {
				return fmt.Sprintf("the bias of output %d has the code %d", o, q)
			}
		}
		return ""
	})
}

func floatBias(v *view) []Finding {
	return v.each(func(d dense) string {
		n := d.node
		if d.data != nil && d.weight != nil && n.Op == "Gemm" && n.Input(2) != "" && d.bias == nil && len(v.quantized(n.Outputs[0])) == 0 {
			return "its bias is float and its output is not quantized"
		}
		return ""
	})
}

func activationType(v *view) []Finding {
	var out []Finding
	for _, n := range v.m.Graph.Nodes {
		if !n.Is("QuantizeLinear") {
			continue
		}
		switch z := v.inits[n.Input(2)]; {
		case n.Input(2) == "":
			out = append(out, Finding{Node: n.Label(), Message: "it has no zero point"})
		case z != nil && z.DType != graph.Uint8:
			out = append(out, Finding{Node: n.Label(), Message: fmt.Sprintf("it quantizes to %s, not uint8", z.DType)})
		}
	}
	return out
}

func reluZeroPoint(v *view) []Finding {
	var out []Finding
	for _, n := range v.m.Graph.Nodes {
		p, z := v.producers[n.Input(0)], v.inits[n.Input(2)]
		if n.Is("QuantizeLinear") && p != nil && p.Is("Relu") && z != nil &&
			z.DType == graph.Uint8 && slices.ContainsFunc(z.Raw, func(b byte) bool { return b != 0 }) {
			out = append(out, Finding{Node: n.Label(), Message: fmt.Sprintf("its zero point is %d behind a Relu", z.Raw[0])})
		}
	}
	return out
}

func lastGemm(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.data == nil || d.weight == nil || d.node.Op == "Conv" {
			return ""
		}
		for _, q := range v.quantized(d.node.Outputs[0]) {
			for _, n := range v.consumers[q.Outputs[0]] {
				if n.Is("DequantizeLinear") && !v.feeds[n.Outputs[0]] {
					return "its output is quantized and no other layer reads it"
				}
			}
		}
		return ""
	})
}

func convOutput(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.node.Op == "Conv" && d.data != nil && d.weight != nil && len(v.quantized(d.node.Outputs[0])) == 0 {
			return "its output is not quantized"
		}
		return ""
	})
}

func gemmAttributes(v *view) []Finding {
	return v.each(func(d dense) string {
		n := d.node
		if n.Op == "Gemm" && d.weight != nil && (n.Float("alpha", 1) != 1 || n.Float("beta", 1) != 1 || n.Int("transA", 0) != 0) {
			return "it has alpha, beta or transA"
		}
		return ""
	})
}

func floatLayer(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.data != nil && d.weight == nil && d.node.Op != "MatMul" && v.constant[d.node.Input(1)] {
			return "its weights are float and its input is dequantized"
		}
		return ""
	})
}

func weightOnly(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.data != nil || d.weight == nil {
			return ""
		}
		p := v.producers[d.node.Input(1)]
		if d.node.Op == "Conv" || d.node.Int("transB", 0) != 0 || p.Is("Transpose") {
			return "its weights are dequantized at every inference"
		}
		return ""
	})
}

func weightOnlyMatMul(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.data == nil && d.weight != nil && d.node.Op != "Conv" && d.node.Int("transB", 0) == 0 {
			return "its activations are quantized at run time"
		}
		return ""
	})
}

func sharedScale(v *view) []Finding {
	seen := map[string]string{}
	return v.each(func(d dense) string {
		if d.data != nil || d.weight == nil {
			return ""
		}
		s := v.floats(d.weight.Input(1))
		if len(s) == 0 || len(s) > 8 {
			return ""
		}
		key := fmt.Sprintf("%x", s)
		if first, ok := seen[key]; ok {
			return "its scales are those of " + first
		}
		seen[key] = d.node.Label()
		return ""
	})
}
