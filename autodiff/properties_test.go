package autodiff_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/engine/enginetest"
	"cfq/graph"
)

// TestRandomShapes holds operators whose rules depend on shapes against central
// differences, for shapes, axes and indices that nobody thought of.
func TestRandomShapes(t *testing.T) {
	ort := enginetest.Need(t)
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]func(*rapid.T) sample{
			randomBroadcast, randomMatMul, randomReduce, randomSlice, randomGather, randomConcat, randomTranspose,
		}).Draw(t, "kind")
		s := kind(t)
		t.Log(s.name(), attributes(&graph.Node{Attrs: s.attrs}))
		checkSample(t, ort, s, 2)
	})
}

func sizes(t *rapid.T, lo, hi int) []int64 {
	return rapid.SliceOfN(rapid.Int64Range(1, 3), lo, hi).Draw(t, "shape")
}

func text(dims []int64) string { return strings.Trim(fmt.Sprint(dims), "[]") }

// broadcastable returns dims with some axes set to one and some leading ones left out.
func broadcastable(t *rapid.T, dims []int64) []int64 {
	out := slices.Clone(dims[rapid.IntRange(0, len(dims)).Draw(t, "dropped"):])
	for i := range out {
		if rapid.Bool().Draw(t, "repeated") {
			out[i] = 1
		}
	}
	return out
}

func randomBroadcast(t *rapid.T) sample {
	full := sizes(t, 0, 4)
	a, b := broadcastable(t, full), broadcastable(t, full)
	op := rapid.SampledFrom([]string{"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"}).Draw(t, "op")
	return sample{op: op, in: []operand{in(text(a)).within(0.5, 2), in(text(b)).within(0.52, 2)}}
}

func randomMatMul(t *rapid.T) sample {
	batch := sizes(t, 0, 2)
	n := rapid.SliceOfN(rapid.Int64Range(1, 3), 3, 3).Draw(t, "n, k, m")
	a := append(broadcastable(t, batch), n[0], n[1])
	b := append(broadcastable(t, batch), n[1], n[2])
	if rapid.IntRange(0, 3).Draw(t, "vector a") == 0 {
		a = n[1:2]
	}
	if rapid.IntRange(0, 3).Draw(t, "vector b") == 0 {
		b = n[1:2]
	}
	return sample{op: "MatMul", in: []operand{in(text(a)), in(text(b))}}
}

func randomReduce(t *rapid.T) sample {
	dims := sizes(t, 1, 4)
	axes := rapid.SliceOfNDistinct(rapid.Int64Range(0, int64(len(dims)-1)), 1, len(dims), rapid.ID[int64]).Draw(t, "axes")
	op := rapid.SampledFrom([]string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceSumSquare", "ReduceL2", "ReduceLogSumExp"}).Draw(t, "op")
	return sample{
		op: op, in: []operand{in(text(dims)).within(0.5, 2), ints(axes...)},
		attrs: []graph.Attr{graph.IntAttr("keepdims", rapid.Int64Range(0, 1).Draw(t, "keepdims"))},
	}
}

func randomSlice(t *rapid.T) sample {
	n := rapid.Int64Range(1, 6).Draw(t, "size")
	dims := slices.Insert(sizes(t, 0, 2), 0, n)
	start := rapid.Int64Range(0, n-1).Draw(t, "start")
	step := rapid.Int64Range(1, 3).Draw(t, "step")
	end := rapid.Int64Range(start+1, n+2).Draw(t, "end")
	if rapid.Bool().Draw(t, "backwards") {
		step = -step
		end = rapid.Int64Range(-n-2, start-n-1).Draw(t, "end")
	}
	if end > 0 && end < n && rapid.Bool().Draw(t, "from the end") {
		start, end = start-n, end-n
	}
	return sample{op: "Slice", note: fmt.Sprint(start, end, step), in: []operand{in(text(dims)), ints(start), ints(end), ints(0), ints(step)}}
}

func randomGather(t *rapid.T) sample {
	dims := sizes(t, 1, 3)
	axis := rapid.IntRange(0, len(dims)-1).Draw(t, "axis")
	at := rapid.SliceOfN(rapid.Int64Range(-dims[axis], dims[axis]-1), 1, 4).Draw(t, "indices")
	return sample{op: "Gather", note: fmt.Sprint(at), in: []operand{in(text(dims)), ints(at...)}, attrs: []graph.Attr{graph.IntAttr("axis", int64(axis))}}
}

func randomConcat(t *rapid.T) sample {
	dims := sizes(t, 1, 3)
	axis := rapid.IntRange(0, len(dims)-1).Draw(t, "axis")
	s := sample{op: "Concat", attrs: []graph.Attr{graph.IntAttr("axis", int64(axis))}}
	for range rapid.IntRange(1, 3).Draw(t, "inputs") {
		dims[axis] = rapid.Int64Range(1, 3).Draw(t, "size")
		s.in = append(s.in, in(text(dims)))
	}
	return s
}

func randomTranspose(t *rapid.T) sample {
	dims := sizes(t, 1, 4)
	perm := make([]int64, len(dims))
	for i := range perm {
		perm[i] = int64(i)
	}
	perm = rapid.Permutation(perm).Draw(t, "perm")
	return sample{op: "Transpose", in: []operand{in(text(dims))}, attrs: []graph.Attr{graph.IntsAttr("perm", perm...)}}
}
