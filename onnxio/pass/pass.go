// Package pass brings models into the form that the method works on, one rewrite a file.
//
// In: a model of any operator set. Out: the same function without functions and fused operators, in float32, at a newer
// operator set, and with every dense layer in one form. The invariant: what a model computes does not change.
package pass

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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

// Elements is the number of elements of a value of shape s: a size or, where one size is not known but has a name, a
// multiple of that, such as N*8. It is not known where two are not.
func Elements(s graph.Shape) graph.Dim {
	n, name, free := int64(1), "", 0
	for _, d := range s {
		if d.Size >= 0 {
			n *= d.Size
			continue
		}
		var times int64
		name, times = Multiple(d)
		n *= times
		free++
	}
	switch {
	case free == 0:
		return graph.Dim{Size: n}
	case free > 1 || name == "":
		return graph.Dim{Size: -1}
	case n == 1:
		return graph.Dim{Size: -1, Param: name}
	}
	return graph.Dim{Size: -1, Param: fmt.Sprintf("%s*%d", name, n)}
}

// Multiple takes the name of a size that is not known apart: N*8 is 8 times N.
func Multiple(d graph.Dim) (name string, times int64) {
	if i := strings.LastIndexByte(d.Param, '*'); i > 0 {
		if k, err := strconv.ParseInt(d.Param[i+1:], 10, 32); err == nil && k > 0 {
			return d.Param[:i], k
		}
	}
	return d.Param, 1
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
