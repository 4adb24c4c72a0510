package autodiff

import (
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
)

func concatType(q *query) ([]Type, error) {
	if err := q.need(1); err != nil {
		return nil, err
	}
	t := q.in[0]
	axis, err := normal(q.node.Int("axis", 0), len(t.Shape))
	if err != nil {
		return nil, err
	}
	sum := graph.Dim{}
	for i, u := range q.in {
		if len(u.Shape) != len(t.Shape) {
			return nil, fmt.Errorf("input %q is %v, which does not go with %v", q.node.Inputs[i], u, t)
		}
		if u.Shape[axis].Size < 0 {
			sum.Size = -1
		} else if sum.Size >= 0 {
			sum.Size += u.Shape[axis].Size
		}
	}
	if len(q.in) == 1 {
		sum = t.Shape[axis]
	}
	return []Type{{t.DType, replaced(t.Shape, axis, sum)}}, nil
}

func splitType(q *query) ([]Type, error) {
	if err := q.need(1); err != nil {
		return nil, err
	}
	s := q.in[0].Shape
	axis, err := normal(q.node.Int("axis", 0), len(s))
	if err != nil {
		return nil, err
	}
	parts, ok, err := q.constInts(1, "split")
	if err != nil {
		return nil, err
	}
	n := int64(len(q.node.Outputs))
	if !ok {
		total := s[axis].Size
		if total < 0 {
			return nil, fmt.Errorf("the size of axis %d is %w", axis, errVariable)
		}
		each := (total + n - 1) / n
		for left := total; int64(len(parts)) < n; left -= each {
			parts = append(parts, max(0, min(each, left)))
		}
	}
	if int64(len(parts)) != n {
		return nil, fmt.Errorf("%d sizes for %d outputs", len(parts), n)
	}
	out := make([]Type, n)
	for i, k := range parts {
		out[i] = Type{q.in[0].DType, replaced(s, axis, graph.Dim{Size: k})}
	}
	return out, nil
}

// cut is what a Slice does to one axis of known size: it takes count elements
// from start on, step apart.
type cut struct {
	axis                     int
	start, count, step, size int64
}

// cuts returns what a Slice does, axis by axis, without axes that stay whole.
func (q *query) cuts() ([]cut, error) {
	if err := q.need(3); err != nil {
		return nil, err
	}
	s := q.in[0].Shape
	var lists [4][]int64
	for i, name := range []string{"starts", "ends", "axes", "steps"} {
		v, ok, err := q.constInts(i+1, name)
		if err != nil {
			return nil, err
		}
		if ok && i > 0 && len(v) != len(lists[0]) {
			return nil, fmt.Errorf("%d starts, but %d %s", len(lists[0]), len(v), name)
		}
		lists[i] = v
	}
	var out []cut
	for i, start := range lists[0] {
		k := cut{axis: i, step: 1}
		if lists[2] != nil {
			a, err := normal(lists[2][i], len(s))
			if err != nil {
				return nil, err
			}
			k.axis = a
		}
		if lists[3] != nil {
			k.step = lists[3][i]
		}
		if k.axis >= len(s) || k.step == 0 {
			return nil, fmt.Errorf("axis %d, step %d of a value of rank %d", k.axis, k.step, len(s))
		}
		end := lists[1][i]
		if k.size = s[k.axis].Size; k.size < 0 {
			if start == 0 && end >= math.MaxInt32 && k.step == 1 {
				continue
			}
			return nil, fmt.Errorf("the size of axis %d, which is cut, is %w", k.axis, errVariable)
		}
		k.fill(start, end)
		out = append(out, k)
	}
	return out, nil
}

// fill resolves negative and excessive bounds.
func (k *cut) fill(start, end int64) {
	bound := func(v, lo, hi int64) int64 {
		if v < 0 {
			v += k.size
		}
		return max(lo, min(v, hi))
	}
	if k.step > 0 {
		k.start, end = bound(start, 0, k.size), bound(end, 0, k.size)
		k.count = max(0, (end-k.start+k.step-1)/k.step)
		return
	}
	k.start, end = bound(start, 0, k.size-1), bound(end, -1, k.size-1)
	k.count = max(0, (end-k.start+k.step+1)/k.step)
}

func sliceType(q *query) ([]Type, error) {
	cuts, err := q.cuts()
	if err != nil {
		return nil, err
	}
	s := slices.Clone(q.in[0].Shape)
	for _, k := range cuts {
		s[k.axis] = graph.Dim{Size: k.count}
	}
	return []Type{{q.in[0].DType, s}}, nil
}

// pads returns the padding before each axis, then that after each axis.
func (q *query) pads() ([]int64, error) {
	if err := q.need(2); err != nil {
		return nil, err
	}
	r := len(q.in[0].Shape)
	v, _, err := q.constInts(1, "pads")
	if err != nil {
		return nil, err
	}
	axes, ok, err := q.constInts(3, "axes")
	if err != nil {
		return nil, err
	}
	if !ok {
		if len(v) != 2*r {
			return nil, fmt.Errorf("%d pads for a value of rank %d", len(v), r)
		}
		return v, nil
	}
	out := make([]int64, 2*r)
	if len(v) != 2*len(axes) {
		return nil, fmt.Errorf("%d pads for %d axes", len(v), len(axes))
	}
	for i, a := range axes {
		n, err := normal(a, r)
		if err != nil {
			return nil, err
		}
		out[n], out[r+n] = v[i], v[len(axes)+i]
	}
	return out, nil
}

func padType(q *query) ([]Type, error) {
	pads, err := q.pads()
	if err != nil {
		return nil, err
	}
	s := slices.Clone(q.in[0].Shape)
	for i := range s {
		more := pads[i] + pads[len(s)+i]
		switch {
		case s[i].Size >= 0:
			s[i].Size += more
		case more != 0:
			s[i] = graph.Dim{Size: -1}
		}
	}
	return []Type{{q.in[0].DType, s}}, nil
}

func gatherType(q *query) ([]Type, error) {
	if err := q.need(2); err != nil {
		return nil, err
	}
	s := q.in[0].Shape
	axis, err := normal(q.node.Int("axis", 0), len(s))
	if err != nil {
		return nil, err
	}
	return []Type{{q.in[0].DType, slices.Concat(graph.Shape{}, s[:axis], q.in[1].Shape, s[axis+1:])}}, nil
}

func gatherElementsType(q *query) ([]Type, error) {
	if err := q.need(2); err != nil {
		return nil, err
	}
	return []Type{{q.in[0].DType, q.in[1].Shape}}, nil
}
