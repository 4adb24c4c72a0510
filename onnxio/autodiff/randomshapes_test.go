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
		"Reshape": func(t *rapid.T) sample {
			dims := sizes(t, 1, 3)
			to := slices.Clone(dims)
			slices.Reverse(to)
			to[small(t, "free", 0, int64(len(to))-1)] = -1
			return sample{op: "Reshape", in: []operand{in(text(dims)), ints(append(to, 1)...)}}
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
			dims := sizes(t, 1, 4)
			axes := rapid.SliceOfNDistinct(rapid.Int64Range(0, int64(len(dims)-1)), 1, len(dims), rapid.ID[int64])
			return sample{
				op: op, in: []operand{in(text(dims)).within(0.5, 2), ints(axes.Draw(t, "axes")...)},
				attrs: attrs(number("keepdims", small(t, "keepdims", 0, 1))),
			}
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
		"ScatterND": randomScatterND, "GatherND": randomGatherND,
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
	depth := small(t, "depth", 1, int64(len(dims)))
	at := sizes(t, 1, 2)
	var v []int64
	for range graph.FromInts("", nil, at...).Len() {
		for _, n := range dims[:depth] {
			v = append(v, small(t, "place", -n, n-1))
		}
	}
	return sample{op: "GatherND", in: []operand{in(text(dims)), table(append(at, depth), v...)}}
}
