package autodiff_test

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"cfq/onnxio/graph"
)

func shapeGenerators() map[string]func(*rapid.T) sample {
	all := map[string]func(*rapid.T) sample{
		"Transpose": randomTranspose, "Concat": randomConcat,
		"Cast": func(t *rapid.T) sample {
			x := in(shape(t, 0, 3))
			x.dtype = oneOf(t, "type", graph.Float, graph.Double)
			return sample{op: "Cast", in: []operand{x}, attrs: attrs(number("to", int64(graph.Double))), single: true}
		},
		"CastLike": func(t *rapid.T) sample {
			x := in(shape(t, 0, 3))
			x.dtype = oneOf(t, "type", graph.Float, graph.Double)
			return sample{op: "CastLike", in: []operand{x, doubles([]float64{1})}, single: true}
		},
		"Reshape": func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			to := slices.Clone(dims)
			slices.Reverse(to)
			to[small(t, "free", 0, int64(len(to))-1)] = -1
			return sample{op: "Reshape", in: []operand{in(text(dims)), ints(append(to, 1)...)}}
		},
		"Flatten": func(t *rapid.T) sample {
			dims := sizes(t, 0, 4)
			axis := small(t, "axis", -int64(len(dims)), int64(len(dims)))
			return sample{op: "Flatten", in: []operand{in(batched(t, dims))}, attrs: attrs(number("axis", axis))}
		},
		"Squeeze": func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			axis := anAxis(t, len(dims)+1)
			at := axis
			if at < 0 {
				at += int64(len(dims)) + 1
			}
			return sample{op: "Squeeze", in: []operand{in(text(slices.Insert(dims, int(at), 1))), ints(axis)}}
		},
		"Unsqueeze": func(t *rapid.T) sample {
			dims := sizes(t, 0, 3)
			axes := rapid.SliceOfNDistinct(rapid.Int64Range(0, int64(len(dims))), 1, 1, rapid.ID[int64]).Draw(t, "axes")
			return sample{op: "Unsqueeze", in: []operand{in(batched(t, dims)), ints(append(axes, -1)[:1]...)}}
		},
		"Expand": func(t *rapid.T) sample {
			full := sizes(t, 1, 4)
			return sample{op: "Expand", in: []operand{in(text(broadcastable(t, full))), ints(broadcastable(t, full)...)}}
		},
		"Tile": func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			repeats := rapid.SliceOfN(rapid.Int64Range(1, 3), len(dims), len(dims)).Draw(t, "repeats")
			return sample{op: "Tile", in: []operand{in(batched(t, dims)), ints(repeats...)}}
		},
		"Split": func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			axis := small(t, "axis", 0, int64(len(dims))-1)
			parts := rapid.SliceOfN(rapid.Int64Range(1, 2), 2, 3).Draw(t, "parts")
			dims[axis] = 0
			for _, n := range parts {
				dims[axis] += n
			}
			return sample{
				op: "Split", in: []operand{in(text(dims)), ints(parts...)}, attrs: attrs(number("axis", axis)),
				outs: len(parts), use: []int{len(parts) - 1, 0}[:small(t, "used", 1, 2)],
			}
		},
	}
	for _, op := range []string{
		"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
		"ReduceLogSum", "ReduceLogSumExp", "ReduceProd",
	} {
		all[op] = func(t *rapid.T) sample {
			s := randomReduce(t)
			s.op = op
			return s
		}
	}
	return all
}

func indices(t *rapid.T, dims []int64, size int64, negative bool) operand {
	v := make([]int64, graph.FromInts("", nil, dims...).Len())
	for i := range v {
		v[i] = small(t, "index", 0, size-1)
		if negative && rapid.Bool().Draw(t, "from the end") {
			v[i] -= size
		}
	}
	return table(dims, v...)
}

func placeGenerators() map[string]func(*rapid.T) sample {
	return map[string]func(*rapid.T) sample{
		"Slice": randomSlice, "Gather": randomGather, "Pad": randomPad, "ScatterElements": randomScatter,
		"ScatterND": randomScatterND, "GatherND": randomGatherND, "Range": randomRange, "OneHot": randomOneHot,
		"GatherElements": func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			axis := small(t, "axis", 0, int64(len(dims))-1)
			at := slices.Clone(dims)
			at[axis] = small(t, "taken", 1, 3)
			return sample{
				op: "GatherElements", in: []operand{in(text(dims)), indices(t, at, dims[axis], true)},
				attrs: attrs(number("axis", axis)),
			}
		},
		"TopK": func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			axis := small(t, "axis", 0, int64(len(dims))-1)
			dims[axis] = small(t, "size", 1, 5)
			n := graph.FromInts("", nil, dims...).Len()
			x := in(text(dims))
			for _, i := range rapid.Permutation(count(n)).Draw(t, "order") {
				x.values = append(x.values, float64(i)/4)
			}
			return sample{
				op: "TopK", in: []operand{x, ints(small(t, "k", 1, dims[axis]))}, outs: 2, use: []int{0},
				attrs: attrs(number("axis", axis), number("largest", small(t, "largest", 0, 1)),
					number("sorted", small(t, "sorted", 0, 1))),
			}
		},
		"CumSum": func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			return sample{
				op: "CumSum", in: []operand{in(batched(t, dims)), index(anAxis(t, len(dims)))},
				attrs: attrs(number("reverse", small(t, "reverse", 0, 1)), number("exclusive", small(t, "exclusive", 0, 1))),
			}
		},
		"ReverseSequence": func(t *rapid.T) sample {
			dims := append(sizes(t, 2, 2), sizes(t, 0, 2)...)
			batch := small(t, "batch_axis", 0, 1)
			lens := make([]int64, dims[batch])
			for i := range lens {
				lens[i] = small(t, "length", 1, dims[1-batch])
			}
			return sample{
				op: "ReverseSequence", in: []operand{in(text(dims)), ints(lens...)},
				attrs: attrs(number("batch_axis", batch), number("time_axis", 1-batch)),
			}
		},
		"Trilu": func(t *rapid.T) sample {
			s := sample{op: "Trilu", in: []operand{in(shape(t, 2, 4))}, attrs: attrs(number("upper", small(t, "upper", 0, 1)))}
			if rapid.Bool().Draw(t, "diagonal") {
				s.in = append(s.in, index(small(t, "k", -3, 3)))
			}
			return s
		},
	}
}

func count(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func randomPad(t *rapid.T) sample {
	dims := sizes(t, 1, 3)
	for i := range dims {
		dims[i]++ // room to reflect
	}
	mode := oneOf(t, "mode", "constant", "constant", "edge", "reflect", "wrap")
	least := int64(0)
	if mode == "constant" {
		least = -1
	}
	pads := make([]int64, 2*len(dims))
	for i := range pads {
		pads[i] = small(t, "pad", least, dims[i%len(dims)]-1)
		if i >= len(dims) && pads[i]+pads[i-len(dims)]+dims[i-len(dims)] < 1 {
			pads[i] = 0
		}
	}
	s := sample{op: "Pad", note: fmt.Sprint(pads), in: []operand{in(text(dims)), ints(pads...)}, opset: 19}
	s.attrs = attrs(word("mode", mode))
	if mode == "constant" && rapid.Bool().Draw(t, "value") {
		s.in = append(s.in, in(""))
	}
	return s
}

func randomScatter(t *rapid.T) sample {
	dims := sizes(t, 1, 3)
	axis := small(t, "axis", 0, int64(len(dims))-1)
	at := slices.Clone(dims)
	s := sample{op: "ScatterElements", attrs: attrs(number("axis", axis))}
	var idx operand
	if rapid.Bool().Draw(t, "add") {
		at[axis] = small(t, "updates", 1, 4)
		idx = indices(t, at, dims[axis], true)
		s.attrs = append(s.attrs, word("reduction", "add"))
	} else { // the same permutation everywhere
		order := rapid.Permutation(count(int(dims[axis]))).Draw(t, "order")
		at[axis] = small(t, "updates", 1, dims[axis])
		inner := int64(1)
		for _, n := range at[axis+1:] {
			inner *= n
		}
		v := make([]int64, graph.FromInts("", nil, at...).Len())
		for i := range v {
			v[i] = int64(order[int64(i)/inner%at[axis]])
		}
		idx = table(at, v...)
	}
	s.in = []operand{in(text(dims)), idx, in(text(at))}
	return s
}

func randomScatterND(t *rapid.T) sample {
	dims := sizes(t, 1, 3)
	depth := small(t, "depth", 1, int64(len(dims)))
	s := sample{op: "ScatterND"}
	all := int64(1)
	for _, n := range dims[:depth] {
		all *= n
	}
	var places []int
	if rapid.Bool().Draw(t, "add") {
		s.attrs = attrs(word("reduction", "add"))
		places = rapid.SliceOfN(rapid.IntRange(0, int(all)-1), 1, 4).Draw(t, "places")
	} else {
		places = rapid.Permutation(count(int(all))).Draw(t, "places")[:small(t, "updates", 1, all)]
	}
	var v []int64
	for _, p := range places {
		at := make([]int64, depth)
		for k := depth - 1; k >= 0; k-- {
			at[k] = int64(p) % dims[k]
			p /= int(dims[k])
		}
		v = append(v, at...)
	}
	n := int64(len(places))
	s.in = []operand{in(text(dims)), table([]int64{n, depth}, v...), in(text(append([]int64{n}, dims[depth:]...)))}
	return s
}

func randomGatherND(t *rapid.T) sample {
	dims := sizes(t, 1, 4)
	batch := small(t, "batch_dims", 0, min(2, int64(len(dims))-1))
	depth := small(t, "depth", 1, int64(len(dims))-batch)
	at := append(slices.Clone(dims[:batch]), sizes(t, 1, 2)...)
	var v []int64
	for range graph.FromInts("", nil, at...).Len() {
		for _, n := range dims[batch : batch+depth] {
			v = append(v, small(t, "place", -n, n-1))
		}
	}
	return sample{
		op: "GatherND", in: []operand{in(text(dims)), table(append(at, depth), v...)},
		attrs: attrs(number("batch_dims", batch)),
	}
}

func randomRange(t *rapid.T) sample {
	sign := oneOf(t, "sign", 1., -1)
	steps := float64(small(t, "steps", 1, 4)) - 0.5 // the last one does not reach the limit
	return sample{op: "Range", in: []operand{
		in("").having(0.3), doubles([]float64{0.3 + sign*0.7*steps}), in("").having(sign * 0.7),
	}}
}

func randomOneHot(t *rapid.T) sample {
	dims := sizes(t, 1, 2)
	return sample{
		op: "OneHot", in: []operand{indices(t, dims, 3, true), index(3), in("2")}, single: true, grid: grid,
		attrs: attrs(number("axis", anAxis(t, len(dims)+1))),
	}
}
