// Package pass brings models into the form that the method works on, one rewrite a file.
//
// In: a model of any operator set. Out: the same function without functions and fused operators, in float32, at a newer
// operator set, and with every dense layer in one form. The invariant: what a model computes does not change.
package pass

import (
	"maps"
	"slices"

	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
)

func typesOf(g *graph.Graph, given graph.Types) graph.Types {
	types := graph.Types{}
	for _, v := range slices.Concat(g.Inputs, g.Outputs, g.Values) {
		if v.Shape != nil && v.DType != graph.Undefined {
			types[v.Name] = graph.Type{DType: v.DType, Shape: v.Shape}
		}
	}
	maps.Copy(types, given)
	_ = autodiff.Infer(g, types) // what stays unknown matters only to rewrites that ask for it
	return types
}

func permuted(v []float64, dims, perm []int64) []float64 {
	strides := make([]int, len(dims)) // of v along the axes of the result
	for i, p := range perm {
		strides[i] = 1
		for _, d := range dims[p+1:] {
			strides[i] *= int(d)
		}
	}
	out, at, place := make([]float64, len(v)), 0, make([]int64, len(dims))
	for k := range out {
		out[k] = v[at]
		for i := len(perm) - 1; i >= 0; i-- {
			at += strides[i]
			if place[i]++; place[i] < dims[perm[i]] {
				break
			}
			at -= strides[i] * int(place[i])
			place[i] = 0
		}
	}
	return out
}
