package qdq

import (
	"fmt"
	"slices"

	"cfq/onnxio/graph"
	"cfq/quant"
)

func weightType(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.weight == nil {
			return ""
		}
		if t := v.dtype(d.weight.Input(0)); t.Bits() == 8 && t != graph.Int8 {
			return fmt.Sprintf("the weights reach the kernel as %s, not int8", t)
		}
		return ""
	})
}

func weightZeroPoint(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.weight == nil {
			return ""
		}
		return v.zeroPoint(d.weight, graph.Int8)
	})
}

// zeroPoint says what is wrong with the zero point of a DequantizeLinear on
// constants of type t.
func (v *view) zeroPoint(n *graph.Node, t graph.DType) string {
	z, s := v.zeros(n.Input(2)), v.floats(n.Input(1))
	switch {
	case n.Input(2) == "":
		return "it has no zero point"
	case z == nil:
		return "its zero point is not a constant"
	case z.DType != t && z.DType.Bits() >= 8:
		return fmt.Sprintf("its zero point is %s, not %s", z.DType, t)
	case s != nil && z.Len() != len(s):
		return fmt.Sprintf("it has %d scales and %d zero points", len(s), z.Len())
	case slices.ContainsFunc(z.Raw, func(b byte) bool { return b != 0 }):
		return "its zero point is not 0"
	}
	return ""
}

// zeros returns the zero point called name if it is a constant or made from one of
// one number by Expand.
func (v *view) zeros(name string) *graph.Tensor {
	if t := v.inits[name]; t != nil {
		return t
	}
	n := v.producers[name]
	if n == nil || !n.Is("Expand") {
		return nil
	}
	t, shape := v.inits[n.Input(0)], v.inits[n.Input(1)]
	if t == nil || shape == nil || t.Len() != 1 {
		return nil
	}
	dims, err := shape.Ints()
	if err != nil || shape.DType != graph.Int64 {
		return nil
	}
	return &graph.Tensor{DType: t.DType, Dims: dims, Raw: t.Raw}
}

func nativeSubByte(v *view) []Finding {
	var out []Finding
	for _, n := range v.m.Graph.Nodes {
		if n.Is("DequantizeLinear") && v.constant[n.Input(0)] {
			if t := v.dtype(n.Input(0)); t.Bits() > 0 && t.Bits() < 8 {
				out = append(out, Finding{Node: n.Label(), Message: fmt.Sprintf("it reads %s without a Cast(int8) between", t)})
			}
		}
	}
	return out
}

func int2Opsets(v *view) []Finding {
	var out []Finding
	for _, t := range v.m.Graph.Inits {
		if t.DType.Bits() == 2 && (v.m.Opset("") < int2Opset || v.m.IRVersion < int2IR) {
			out = append(out, Finding{Node: t.Name, Message: fmt.Sprintf("it is %s in a model of opset %d, IR version %d", t.DType, v.m.Opset(""), v.m.IRVersion)})
		}
	}
	return out
}

func blockSize(v *view) []Finding {
	var out []Finding
	for _, n := range v.m.Graph.Nodes {
		if b := n.Int("block_size", 0); n.Is("DequantizeLinear") && b != 0 && !slices.Contains([]int64{16, 32, 64, 128, 256}, b) {
			out = append(out, Finding{Node: n.Label(), Message: fmt.Sprintf("its block size is %d", b)})
		}
	}
	return out
}

func weightAxis(v *view) []Finding {
	return v.each(func(d dense) string {
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
	})
}

func float16Scale(v *view) []Finding {
	var out []Finding
	for _, n := range v.m.Graph.Nodes {
		if t := v.inits[n.Input(1)]; n.Is("DequantizeLinear") && t != nil && (t.DType == graph.Float16 || t.DType == graph.BFloat16) {
			out = append(out, Finding{Node: n.Label(), Message: fmt.Sprintf("its scale is %s", t.DType)})
		}
	}
	return out
}

// codeTensors returns the stored tensors that the codes called name are put
// together from, through Casts if those are asked for.
func (v *view) codeTensors(name string, casts bool) []*graph.Tensor {
	var out []*graph.Tensor
	seen := map[string]bool{}
	todo := []string{name}
	for len(todo) > 0 {
		name, todo = todo[0], todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		if t := v.inits[name]; t != nil {
			out = append(out, t)
			continue
		}
		switch n := v.producers[name]; {
		case n == nil:
		case n.Is("Concat"):
			todo = append(todo, n.Inputs...)
		case n.Is("Gather") || n.Is("Reshape") || n.Is("Identity") || n.Is("Transpose") || casts && n.Is("Cast"):
			todo = append(todo, n.Input(0))
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
		for _, t := range v.codeTensors(d.weight.Input(0), true) {
			if seen[t.Name] || t.DType != graph.Int8 && t.DType != graph.Int4 {
				continue
			}
			seen[t.Name] = true
			n, need := t.Len(), codeBits(t)
			if less := (n*need + 7) / 8; len(t.Raw)-less > wasteFrom {
				out = append(out, Finding{Node: t.Name, Message: fmt.Sprintf("its codes fit %d bits: %d bytes would do for its %d", need, less, len(t.Raw))})
			}
		}
	}
	return out
}

func reducedRange(v *view) []Finding {
	return v.each(func(d dense) string {
		if d.data == nil || d.weight == nil {
			return ""
		}
		var worst int64
		for _, t := range v.codeTensors(d.weight.Input(0), false) {
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
	})
}
