package qdq

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
	"cfq/quant"
)

// Rules returns the table of rules, in the order in which Lint applies them.
// All were measured on ONNX Runtime 1.24 to 1.30 with its CPU kernels.
func Rules() []Rule {
	return slices.Concat(
		weightRules(), containerRules(), biasRules(), activationRules(),
		outputRules(), floatRules(), adviceRules(),
	)
}

func weightRules() []Rule {
	return []Rule{
		{
			Name: "weight-type",
			Doc:  "Weights that reach the kernel as uint8 run 4-5 times slower than int8 at large batches.",
			layer: func(v *view, d dense) string {
				if d.weight == nil {
					return ""
				}
				if t := v.dtype(d.weight.Input(0)); t.Bits() == 8 && t != graph.Int8 {
					return fmt.Sprintf("the weights reach the kernel as %s, not int8", t)
				}
				return ""
			},
		},
		{
			Name: "weight-zero-point",
			Doc:  "Weights without an int8 zero point 0 of the scale's shape do not fuse, or fail when run.",
			layer: func(v *view, d dense) string {
				if d.weight == nil {
					return ""
				}
				return v.zeroPoint(d.weight, graph.Int8)
			},
		},
		{
			Name: "weight-axis",
			Doc: "Integer kernels assume one weight scale for each output: with scales along another axis results " +
				"are wrong, silently.",
			layer: func(v *view, d dense) string {
				if d.weight == nil || len(v.floats(d.weight.Input(1))) < 2 || d.weight.Int("block_size", 0) != 0 {
					return ""
				}
				axis, want := d.weight.Int("axis", 1), int64(1)
				if axis < 0 && d.node.Op != "Conv" {
					axis += 2
				}
				if d.node.Op == "Conv" || d.node.Int("transB", 0) != 0 {
					want = 0
				}
				if p := v.producers[d.node.Input(1)]; p != d.weight { // a Transpose
					want = 1 - want
				}
				if axis != want && axis >= 0 {
					return fmt.Sprintf("its weight scales lie along axis %d, its outputs along axis %d", axis, want)
				}
				return ""
			},
		},
	}
}

func containerRules() []Rule {
	return []Rule{
		{
			Name: "float16",
			Doc: "A DequantizeLinear with a float16 scale makes float16, for which there are no integer kernels: " +
				"scales may be stored so behind a Cast.",
			op: "DequantizeLinear", node: func(v *view, n *graph.Node) string {
				if t := v.inits[n.Input(1)]; t != nil && (t.DType == graph.Float16 || t.DType == graph.BFloat16) {
					return fmt.Sprintf("its scale is %s", t.DType)
				}
				return ""
			},
		},
		{
			Name: "native-sub-byte",
			Doc: "A DequantizeLinear on 2- or 4-bit integers is never fused with integer arithmetic: INT4 runs 15-40 " +
				"times slower than float, INT2 does not load.",
			op: "DequantizeLinear", node: func(v *view, n *graph.Node) string {
				if t := v.dtype(n.Input(0)); v.constant[n.Input(0)] && t.Bits() > 0 && t.Bits() < 8 {
					return fmt.Sprintf("it reads %s without a Cast(int8) between", t)
				}
				return ""
			},
		},
		{
			Name:  "int2-opset",
			Doc:   "2-bit integers exist from opset 25 and IR version 13 on.",
			check: int2Opsets,
		},
	}
}

func biasRules() []Rule {
	return []Rule{
		{
			Name: "bias-scale",
			Doc: "The kernels add the int32 bias as it is: a scale other than input scale times weight scale, in " +
				"float32, or a zero point other than an explicit 0, gives wrong results or no fusion.",
			layer: func(v *view, d dense) string {
				if d.bias == nil || !d.integer() {
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
			},
		},
		{
			Name: "bias-range",
			Doc:  "A bias near the bounds of int32 has saturated, or overflows with the sum that it joins.",
			layer: func(v *view, d dense) string {
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
			},
		},
		{
			Name: "float-bias",
			Doc:  "A float bias on a layer without output QuantizeLinear keeps it from fusing.",
			layer: func(v *view, d dense) string {
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
				if p != nil && p.Is("Relu") && z != nil && z.DType == graph.Uint8 && !allZero(z) {
					return fmt.Sprintf("its zero point is %d behind a Relu", z.Raw[0])
				}
				return ""
			},
		},
		{
			Name: "relu-float",
			Doc: "A Relu or Clip that alone reads a Gemm keeps the Gemm from fusing when its value stays in float, " +
				"or when it bounds more than the QuantizeLinear behind it does. A Max does not.",
			layer: func(v *view, d dense) string {
				if !d.integer() || d.node.Op != "Gemm" {
					return ""
				}
				act := v.alone(d.node.Outputs[0])
				if act == nil || !act.Is("Relu") && !act.Is("Clip") {
					return ""
				}
				switch q := v.alone(act.Outputs[0]); {
				case q == nil || quant.Moves(q):
				case !q.Is("QuantizeLinear"):
					return fmt.Sprintf("its %s stays in float", act.Op)
				case act.Is("Clip") && !covers(v.m.Graph, act, q):
					return "its Clip lets less through than the quantizer behind it covers"
				}
				return ""
			},
		},
		{
			Name: "shared-output",
			Doc: "A QuantizeLinear on the output of a Gemm keeps the Gemm from fusing when other nodes read that " +
				"output, too.",
			layer: func(v *view, d dense) string {
				y := d.node.Outputs[0]
				reads := func(n *graph.Node) bool { return n.Is("QuantizeLinear") }
				return when(d.integer() && d.node.Op == "Gemm" && v.alone(y) == nil &&
					slices.ContainsFunc(v.consumers[y], reads), "its output is quantized, and other nodes read it, too")
			},
		},
	}
}

func outputRules() []Rule {
	return []Rule{
		{
			Name: "last-gemm",
			Doc:  "Quantizing the output of the last Gemm rounds the margin of the decision for nothing.",
			layer: func(v *view, d dense) string {
				if !d.integer() || d.node.Op == "Conv" {
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
			},
		},
		{
			Name: "conv-output",
			Doc:  "A Conv without output QuantizeLinear does not fuse.",
			layer: func(v *view, d dense) string {
				return when(d.node.Op == "Conv" && d.integer() && len(v.quantized(d.node.Outputs[0])) == 0,
					"its output is not quantized")
			},
		},
		{
			Name: "gemm-attributes",
			Doc:  "A Gemm with alpha, beta or transA does not fuse.",
			layer: func(v *view, d dense) string {
				n := d.node
				plain := n.Float("alpha", 1) == 1 && n.Float("beta", 1) == 1 && n.Int("transA", 0) == 0
				return when(n.Op == "Gemm" && d.weight != nil && !plain, "it has alpha, beta or transA")
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
			layer: func(v *view, d dense) string {
				return when(d.data != nil && d.weight == nil && d.node.Op != "MatMul" && v.constant[d.node.Input(1)],
					"its weights are float and its input is dequantized")
			},
		},
		{
			Name: "weight-only-dq",
			Doc: "A DequantizeLinear on the weights of a Gemm with transB, of a Conv or in front of a Transpose, " +
				"with a float input, runs at every inference.",
			layer: func(v *view, d dense) string {
				if d.data != nil || d.weight == nil {
					return ""
				}
				p := v.producers[d.node.Input(1)]
				return when(d.node.Op == "Conv" || d.node.Int("transB", 0) != 0 || p.Is("Transpose"),
					"its weights are dequantized at every inference")
			},
		},
		{
			Name: "weight-only-matmul",
			Doc: "With a float input, DequantizeLinear and MatMul become a kernel that quantizes activations at run " +
				"time: results differ from the file's.",
			layer: func(v *view, d dense) string {
				return when(d.data == nil && d.weight != nil && d.node.Op != "Conv" && d.node.Int("transB", 0) == 0,
					"its activations are quantized at run time")
			},
		},
		{
			Name: "shared-scale",
			Doc: "Weight-only layers with equal scales of up to 8 elements share them after optimization and lose " +
				"their kernels.",
			layer: func(v *view, d dense) string {
				scales := func(d dense) []float32 {
					if d.data != nil || d.weight == nil {
						return nil
					}
					return v.floats(d.weight.Input(1))
				}
				s := scales(d)
				for _, first := range v.dense {
					if first.node == d.node || len(s) == 0 || len(s) > 8 {
						break
					}
					if slices.Equal(scales(first), s) {
						return "its scales are those of " + first.node.Label()
					}
				}
				return ""
			},
		},
		{
			Name: "block-size",
			Doc:  "Blocks of sizes other than 16, 32, 64, 128 and 256 have no kernel.",
			op:   "DequantizeLinear", node: func(v *view, n *graph.Node) string {
				if b := n.Int("block_size", 0); b != 0 && !slices.Contains([]int64{16, 32, 64, 128, 256}, b) {
					return fmt.Sprintf("its block size is %d", b)
				}
				return ""
			},
		},
	}
}

func adviceRules() []Rule {
	return []Rule{
		{
			Name: "container", Advice: true,
			Doc:   "Large weights in wider containers than their codes need make the file larger than it has to be.",
			check: wideContainer,
		},
		{
			Name: "reduced-range", Advice: true,
			Doc: "8-bit codes beyond +-64 can saturate on x64 CPUs without VNNI: results differ between machines.",
			layer: func(v *view, d dense) string {
				if !d.integer() {
					return ""
				}
				var worst int64
				for _, t := range v.codeTensors(d.weight.Input(0)) {
					if t.DType != graph.Int8 {
						continue
					}
					codes, err := t.Ints()
					if err != nil {
						return ""
					}
					for _, q := range codes {
						worst = max(worst, q, -q)
					}
				}
				if worst > quant.ReducedMax {
					return fmt.Sprintf("its codes reach %d", worst)
				}
				return ""
			},
		},
	}
}

func int2Opsets(v *view) []Finding {
	var out []Finding
	opset, ir := v.m.Opset(""), v.m.IRVersion
	for _, t := range v.m.Graph.Inits {
		if t.DType.Bits() == 2 && (opset < int2Opset || ir < int2IR) {
			message := fmt.Sprintf("it is %s in a model of opset %d, IR version %d", t.DType, opset, ir)
			out = append(out, Finding{Node: t.Name, Message: message})
		}
	}
	return out
}

// wasteFrom is the number of bytes from which a container may be called wasteful:
// what unpacks narrower codes takes some hundred.
const wasteFrom = 1024

func wideContainer(v *view) []Finding {
	var out []Finding
	seen := map[string]bool{}
	for _, d := range v.dense {
		if d.weight == nil {
			continue
		}
		for _, t := range v.codeTensors(d.weight.Input(0)) {
			if seen[t.Name] || t.DType != graph.Int8 && t.DType != graph.Int4 {
				continue
			}
			seen[t.Name] = true
			n, need := t.Len(), codeBits(t)
			if less := (n*need + 7) / 8; len(t.Raw)-less > wasteFrom {
				message := fmt.Sprintf("its codes fit %d bits: %d bytes would do for its %d", need, less, len(t.Raw))
				out = append(out, Finding{Node: t.Name, Message: message})
			}
		}
	}
	return out
}
