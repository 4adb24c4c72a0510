package autodiff

import (
	"fmt"
	"slices"
	"strings"

	"cfq/onnxio/graph"
)

// Types maps the name of a value to its type.
type Types map[string]Type

// Type is the element type and shape of a value. A dimension that the batch
// decides has Size -1 and a name in Param; dimensions of the same name are equal.
// A dimension of Size -1 without a name is unknown; two of them in the same place
// are taken to be equal.
type Type struct {
	DType graph.DType
	Shape graph.Shape
}

// String returns the type as "float[N,3]".
func (t Type) String() string {
	return t.DType.String() + t.Shape.String()
}

func compareNames(a, b string) int {
	return strings.Compare(strings.ToLower(a), strings.ToLower(b))
}

// fixed reports whether all sizes of s are known.
func fixed(s graph.Shape) bool {
	return !slices.ContainsFunc(s, func(d graph.Dim) bool { return d.Size < 0 })
}

// sizes returns the sizes of s, with -1 where they are not known.
func sizes(s graph.Shape) []int64 {
	out := make([]int64, len(s))
	for i, d := range s {
		out[i] = d.Size
	}
	return out
}

func sameDim(a, b graph.Dim) bool {
	return a.Size == b.Size && (a.Size >= 0 || a.Param == b.Param)
}

func sameShape(a, b graph.Shape) bool { return slices.EqualFunc(a, b, sameDim) }

// compatible reports whether a and b can be types of one value.
func compatible(a, b Type) bool {
	return a.DType == b.DType && slices.EqualFunc(a.Shape, b.Shape, func(x, y graph.Dim) bool {
		return x.Size < 0 || y.Size < 0 || x.Size == y.Size
	})
}

func one() graph.Dim { return graph.Dim{Size: 1} }

// broadcast returns the shape of an elementwise operation on a and b.
func broadcast(a, b graph.Shape) (graph.Shape, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	lead := len(a) - len(b)
	for i, d := range b {
		e := out[lead+i]
		switch {
		case sameDim(d, e) || sameDim(d, one()):
		case sameDim(e, one()) || (e.Size < 0 && d.Size >= 0):
			out[lead+i] = d
		case d.Size < 0 && e.Size >= 0:
		case d.Size < 0 && e.Size < 0 && (d.Param == "" || e.Param == ""):
			out[lead+i] = graph.Dim{Size: -1}
		case d.Size < 0:
			return nil, fmt.Errorf("whether the sizes %s and %s of axis %d are equal is %w", d, e, lead+i, errVariable)
		default:
			return nil, fmt.Errorf("sizes %s and %s of axis %d do not broadcast", d, e, lead+i)
		}
	}
	return out, nil
}

// product multiplies sizes: a number, the one name that is left beside ones, or
// unknown.
func product(s graph.Shape) graph.Dim { return quotient(s, nil) }

// quotient is the product of s divided by the product of by; names cancel.
func quotient(s, by graph.Shape) graph.Dim {
	n, d := int64(1), int64(1)
	var names []string
	for _, x := range s {
		if x.Size >= 0 {
			n *= x.Size
		} else {
			names = append(names, x.Param)
		}
	}
	for _, x := range by {
		if x.Size >= 0 {
			d *= x.Size
			continue
		}
		i := slices.Index(names, x.Param)
		if i < 0 || x.Param == "" {
			return graph.Dim{Size: -1}
		}
		names = slices.Delete(names, i, i+1)
	}
	switch {
	case d == 0 || n%d != 0:
		return graph.Dim{Size: -1}
	case len(names) == 0:
		return graph.Dim{Size: n / d}
	case len(names) == 1 && n == d:
		return graph.Dim{Size: -1, Param: names[0]}
	}
	return graph.Dim{Size: -1}
}

// normal turns a possibly negative axis of a value of rank r into 0..r-1.
func normal(axis int64, r int) (int, error) {
	if axis < 0 {
		axis += int64(r)
	}
	if axis < 0 || axis >= int64(r) {
		return 0, fmt.Errorf("axis %d of a value of rank %d", axis, r)
	}
	return int(axis), nil
}

// normals turns a list of axes into sorted ones of 0..r-1.
func normals(axes []int64, r int) ([]int, error) {
	out := make([]int, len(axes))
	for i, a := range axes {
		n, err := normal(a, r)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func int64s(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}
