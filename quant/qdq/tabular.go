package qdq

import "cfq/onnxio/graph"

// passLength is the number of columns from which a run that needs no arithmetic
// is passed on by itself: its nodes are shorter than constants for its columns.
const passLength = 8

// tabular lays value x on the plan's input grid and returns it dequantized.
func (w *writer) tabular(x string) string {
	return w.once("tabular", func() string {
		var parts []string
		for _, p := range w.parts() {
			parts = append(parts, w.part(x, p))
		}
		u := parts[0]
		if len(parts) > 1 {
			u = w.op("Concat", "u", parts, graph.IntAttr("axis", 1))
		}
		scale, zero := w.scalar("s", w.input.Scale), w.uint8(0)
		q := w.op("QuantizeLinear", "q", []string{u, scale, zero})
		return w.op("DequantizeLinear", "d", []string{q, scale, zero})
	})
}

// part is a run of input columns that are computed together.
type part struct {
	from, to int
	pass     bool // neighbouring model inputs that need no arithmetic
}

// parts splits the columns at the longest run that can be passed on as it is.
func (w *writer) parts() []part {
	cols := w.input.Columns
	plain := func(j int) bool {
		return cols[j].Lo == 0 && cols[j].Gain == 1 && !w.input.Inner(j)
	}
	best := part{pass: true}
	for from := 0; from < len(cols); {
		to := from
		for to < len(cols) && plain(to) && (to == from || cols[to].Source == cols[to-1].Source+1) {
			to++
		}
		if to-from > best.to-best.from {
			best.from, best.to = from, to
		}
		from = max(to, from+1)
	}
	if best.to-best.from < passLength && best.to-best.from < len(cols) {
		return []part{{from: 0, to: len(cols)}}
	}
	var out []part
	for _, p := range []part{{from: 0, to: best.from}, best, {from: best.to, to: len(cols)}} {
		if p.from < p.to {
			out = append(out, p)
		}
	}
	return out
}

// part writes (min(x,hi)-lo)*gain for the columns of p. The maximum with lo and
// the last segments' upper bound are the saturation of QuantizeLinear.
func (w *writer) part(x string, p part) string {
	cols := w.input.Columns[p.from:p.to]
	dim := w.dim()
	neighbours := true
	for j, c := range cols {
		neighbours = neighbours && c.Source == cols[0].Source+j
	}
	first := int64(cols[0].Source)
	switch {
	case neighbours && len(cols) == dim:
	case neighbours && len(cols) >= passLength:
		one := w.tensor(graph.FromInts("i", []int64{1}, 1))
		x = w.op("Slice", "u", []string{
			x, w.tensor(graph.FromInts("i", []int64{first}, 1)),
			w.tensor(graph.FromInts("i", []int64{first + int64(len(cols))}, 1)), one,
		})
	default:
		sources := make([]int, len(cols))
		for j, c := range cols {
			sources[j] = c.Source
		}
		x = w.op("Gather", "u", []string{x, w.indices(sources)}, graph.IntAttr("axis", 1))
	}
	if p.pass {
		return x
	}
	lo, hi, gain := make([]float32, len(cols)), make([]float32, len(cols)), make([]float32, len(cols))
	inner, shifted, gained := false, false, false
	for j, c := range cols {
		lo[j], hi[j], gain[j] = c.Lo, unbounded, c.Gain
		if w.input.Inner(p.from + j) {
			hi[j], inner = c.Hi, true
		}
		shifted, gained = shifted || c.Lo != 0, gained || c.Gain != 1
	}
	if inner {
		x = w.op("Min", "u", []string{x, w.perColumn(hi)})
	}
	if shifted {
		x = w.op("Sub", "u", []string{x, w.perColumn(lo)})
	}
	if gained {
		x = w.op("Mul", "u", []string{x, w.perColumn(gain)})
	}
	return x
}

// unbounded is an upper bound that no input reaches.
const unbounded = 3.4028234663852886e38

// dim is the number of model inputs that the columns are made from.
func (w *writer) dim() int {
	dim := 0
	for _, c := range w.input.Columns {
		dim = max(dim, c.Source+1)
	}
	return dim
}

// perColumn adds one value per column, or one for all when they are equal.
func (w *writer) perColumn(v []float32) string {
	for _, x := range v {
		if x != v[0] {
			return w.tensor(graph.FromFloats("u", v, int64(len(v))))
		}
	}
	return w.scalar("u", v[0])
}
