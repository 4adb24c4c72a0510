package graph

import "strconv"

// Shape is a list of dimensions. A nil Shape has unknown rank, an empty one is a scalar.
type Shape []Dim

// Dim is a size: Size >= 0, or -1 with the symbol in Param ("" if it has none).
type Dim struct {
	Size  int64
	Param string
}

// Fixed makes a shape of known sizes.
func Fixed(sizes ...int64) Shape {
	s := make(Shape, len(sizes))
	for i, n := range sizes {
		s[i].Size = n
	}
	return s
}

// String writes s as "[N,3]", and a shape of unknown rank as "*".
func (s Shape) String() string {
	if s == nil {
		return "*"
	}
	return list(s, Dim.String)
}

// String writes d as its size or else its symbol, quoted when it is not plain, and
// an unknown size without a symbol as "?".
func (d Dim) String() string {
	switch {
	case d.Size >= 0:
		return strconv.FormatInt(d.Size, 10)
	case d.Param != "":
		return plain(d.Param)
	}
	return "?"
}
