package autodiff_test

import "cfq/onnxio/graph"

func reduceSamples() []sample {
	var out []sample
	for _, k := range []struct {
		op string
		x  operand
	}{
		{"ReduceSum", in("")},
		{"ReduceMean", in("")},
		{"ReduceMax", in("")},
		{"ReduceMin", in("")},
		{"ReduceL1", in("").avoid(0)},
		{"ReduceL2", in("")},
		{"ReduceSumSquare", in("")},
		{"ReduceLogSum", in("").within(0.3, 2)},
		{"ReduceLogSumExp", in("")},
	} {
		add := func(note, shape string, axes []int64, attrs ...graph.Attr) {
			ops := []operand{k.x.of(shape)}
			if axes != nil {
				ops = append(ops, ints(axes...))
			}
			out = append(out, sample{op: k.op, note: note, in: ops, attrs: attrs})
		}
		keep := func(v int64) graph.Attr { return graph.IntAttr("keepdims", v) }
		add("axis -1, dropped", "N 3", []int64{-1}, keep(0))
		add("axes 2 0", "2 3 2", []int64{2, 0})
		if k.op != "ReduceSum" && k.op != "ReduceMax" {
			continue // the axes are read alike
		}
		add("all", "N 3", nil)
		add("all, dropped", "N 3", nil, keep(0))
		add("axis 1", "N 3", []int64{1})
		add("axis 0, dropped", "N 3", []int64{0}, keep(0))
		add("axes 0 2, dropped", "2 3 2", []int64{0, 2}, keep(0))
	}
	return append(out, sample{
		op: "ReduceSum", note: "no axes", in: []operand{in("N 3")},
		attrs: []graph.Attr{graph.IntAttr("noop_with_empty_axes", 1)},
	})
}

func shapeSamples() []sample {
	half := []graph.Attr{graph.IntAttr("to", int64(graph.Double))}
	single := in("N 3")
	single.dtype = graph.Float
	perm := func(p ...int64) []graph.Attr { return []graph.Attr{graph.IntsAttr("perm", p...)} }
	axis := func(a int64) []graph.Attr { return []graph.Attr{graph.IntAttr("axis", a)} }
	return []sample{
		{op: "Identity", in: []operand{in("N 3")}},
		{op: "Dropout", in: []operand{in("N 3")}},
		{op: "Dropout", note: "not training", in: []operand{in("N 3"), absent(), mask([]byte{0})}},
		{op: "Cast", in: []operand{in("N 3")}, attrs: half},
		{op: "Cast", note: "from float", in: []operand{single}, attrs: half, single: true},
		{op: "Reshape", in: []operand{in("N 4"), ints(-1, 2, 2)}},
		{op: "Reshape", note: "copied", in: []operand{in("N 2 3"), ints(0, -1)}},
		{op: "Reshape", note: "merged", in: []operand{in("N 4"), ints(-1)}},
		{op: "Reshape", in: []operand{in("2 3"), ints(3, 2)}},
		{op: "Flatten", in: []operand{in("N 2 3")}},
		{op: "Flatten", note: "axis 0", in: []operand{in("N 2")}, attrs: axis(0)},
		{op: "Flatten", note: "axis -1", in: []operand{in("2 2 3")}, attrs: axis(-1)},
		{op: "Squeeze", in: []operand{in("N 1 3"), ints(1)}},
		{op: "Squeeze", note: "all", in: []operand{in("2 1 1")}},
		{op: "Squeeze", note: "to scalar", in: []operand{in("1 1"), ints(0, -1)}},
		{op: "Unsqueeze", in: []operand{in("N 3"), ints(0, -1)}},
		{op: "Transpose", in: []operand{in("N 3")}},
		{op: "Transpose", note: "cycle", in: []operand{in("2 3 4")}, attrs: perm(1, 2, 0)},
		{op: "Expand", in: []operand{in("N 1"), ints(1, 3)}},
		{op: "Expand", note: "new axes", in: []operand{in("3"), ints(2, 1, 3)}},
		{op: "Expand", note: "both", in: []operand{in("2 1"), ints(4, 1, 3)}},
		{op: "Tile", in: []operand{in("N 3"), ints(1, 2)}},
		{op: "Tile", note: "all axes", in: []operand{in("2 2 1"), ints(2, 3, 4)}},
	}
}

func indexSamples() []sample {
	axis := func(a int64) []graph.Attr { return []graph.Attr{graph.IntAttr("axis", a)} }
	matrix := func(v ...int64) operand { return operand{constant: graph.FromInts("", v, 2, int64(len(v)/2))} }
	wide := make([]int64, 100)
	for i := range wide {
		wide[i] = int64(i * 7 % 90)
	}
	value := operand{constant: graph.FromNumbers("", graph.Double, []float64{0.5})}
	return []sample{
		{op: "Concat", in: []operand{in("N 2"), in("N 3"), in("N 1")}, attrs: axis(1)},
		{op: "Concat", note: "last", in: []operand{in("2 2"), in("1 2")}, attrs: axis(-2)},
		{op: "Concat", note: "one", in: []operand{in("N 2")}, attrs: axis(0)},
		{op: "Split", in: []operand{in("N 5"), ints(2, 1, 2)}, attrs: axis(1), outs: 3, use: []int{0, 2}},
		{
			op: "Split", note: "equal", in: []operand{in("5 2")}, outs: 2, use: []int{1, 0},
			attrs: []graph.Attr{graph.IntAttr("num_outputs", 2)},
		},
		{op: "Slice", in: []operand{in("N 5"), ints(1), ints(3), ints(1)}},
		{op: "Slice", note: "all rows", in: []operand{in("N 5"), ints(0, -2), ints(1<<40, 1<<40), ints(0, 1)}},
		{op: "Slice", note: "steps", in: []operand{in("N 6"), ints(1), ints(6), ints(1), ints(2)}},
		{op: "Slice", note: "reversed", in: []operand{in("4 3"), ints(-1, 1), ints(-1<<40, 3), ints(0, 1), ints(-1, 1)}},
		{op: "Slice", note: "no axes", in: []operand{in("4 3"), ints(1, 0), ints(-1, 2)}},
		{op: "Pad", in: []operand{in("N 2"), ints(0, 1, 0, 2)}},
		{op: "Pad", note: "axes", in: []operand{in("N 2"), ints(1, 1), value, ints(-1)}},
		{op: "Gather", note: "scalar", in: []operand{in("N 3"), index(1)}, attrs: axis(1)},
		{op: "Gather", note: "run", in: []operand{in("N 4"), ints(1, 2)}, attrs: axis(1)},
		{op: "Gather", note: "repeats", in: []operand{in("N 4"), ints(3, 0, -1, 2, 0)}, attrs: axis(1)},
		{op: "Gather", note: "axis 0", in: []operand{in("4 3"), ints(2, 0, 2)}},
		{op: "Gather", note: "matrix", in: []operand{in("N 4"), matrix(0, 3, -4, 1)}, attrs: axis(-1)},
		{op: "Gather", note: "rows of a batch", in: []operand{in("N 2"), ints(0, -1, 0)}},
		{op: "Gather", note: "vector", in: []operand{in("4"), ints(2, 2, 0)}},
		{op: "Gather", note: "wide", in: []operand{in("2 90"), ints(wide...)}, attrs: axis(1), linear: true},
		{op: "GatherElements", in: []operand{in("2 3"), matrix(0, 2, 2, -1)}, attrs: axis(1)},
	}
}
