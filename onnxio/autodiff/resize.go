package autodiff

import (
	"fmt"
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

func resizes() []Operator {
	return []Operator{
		{Name: "Resize", infer: func(c *Call) []graph.Type {
			axes := c.resizes()
			s := slices.Clone(c.types[0].Shape)
			for _, r := range axes {
				s[r.axis] = graph.Dim{Size: r.out}
			}
			return single(c.types[0].DType, s)
		}, expand: func(c *Call) string {
			axes := c.resizes()
			c.failIf(c.Node.Int("antialias", 0) != 0, "antialias has no gradient rule")
			y, mode := c.x(), c.Node.Text("mode", "nearest")
			for _, r := range axes {
				at := c.coordinates(r)
				switch mode {
				case "nearest":
					from := lists.Map(at, func(x float64) int64 { return min(max(c.nearest(x), 0), r.in-1) })
					y = c.Op("Gather", []string{y, c.b.vector(from...)}, graph.IntAttr("axis", r.axis))
				case "linear", "cubic":
					y = c.along(y, r.axis, c.weights(mode, r, at), r.out)
				default:
					return c.Fail("mode %s", mode)
				}
			}
			return y
		}},
		{Name: "DepthToSpace", infer: blocksType, expand: func(c *Call) string {
			s, b, to := c.blocks()
			if c.Node.Text("mode", "DCR") == "CRD" {
				return c.rearranged(to, []int64{to[0], b, b, s[2].Size, s[3].Size}, []int64{0, 1, 4, 2, 5, 3})
			}
			return c.rearranged(to, []int64{b, b, to[0], s[2].Size, s[3].Size}, []int64{0, 3, 4, 1, 5, 2})
		}},
		{Name: "SpaceToDepth", infer: blocksType, expand: func(c *Call) string {
			s, b, to := c.blocks()
			return c.rearranged(to, []int64{s[1].Size, to[1], b, to[2], b}, []int64{0, 3, 5, 1, 2, 4})
		}},
		{Name: "LpPool", infer: averagePoolType, expand: func(c *Call) string {
			p := c.norm()
			attrs := slices.DeleteFunc(slices.Clone(c.Node.Attrs), func(a graph.Attr) bool { return a.Name == "p" })
			attrs = append(attrs, graph.IntAttr("count_include_pad", 1))
			mean := c.Op("AveragePool", []string{c.power(c.x(), p)}, attrs...)
			count := graph.Fixed(c.Node.Ints("kernel_shape")...).Elements().Size
			return c.power(c.scale(mean, float64(count)), 1/p)
		}},
		{Name: "GlobalLpPool", infer: globalPoolType, expand: func(c *Call) string {
			p := c.norm()
			return c.power(c.reduce("ReduceSum", c.power(c.x(), p), 1, axesFrom(2, c.Type(c.x()))...), 1/p)
		}},
	}
}

type resized struct {
	axis, in, out int64
	scale         float64
}

func (c *Call) resizes() []resized {
	s := c.types[0].Shape
	axes := c.Node.Ints("axes")
	if axes == nil {
		axes = axesFrom(0, c.types[0])
	}
	c.failIf(c.Node.Text("keep_aspect_ratio_policy", "stretch") != "stretch",
		"keep_aspect_ratio_policy: only stretch is differentiated")
	scales, err := c.floats(2)
	if err != nil {
		panic(failure{err})
	}
	to := elements{}
	if len(scales) == 0 {
		var ok bool
		if to, ok = c.ints(3); !ok {
			c.Fail("sizes (input %q) is %w", c.Node.Input(3), errVariable)
		}
	}
	c.failIf(len(scales)+len(to.dims) != len(axes), "%d sizes for %d axes", len(scales)+len(to.dims), len(axes))
	var out []resized
	for i, a := range axes {
		axis := normal(a, len(s))
		r := resized{axis: axis, in: s[axis].Size, scale: 1}
		if len(scales) > 0 {
			r.scale = scales[i]
			r.out = int64(math.Floor(float64(r.in) * r.scale))
			if r.scale == 1 {
				continue
			}
		} else if r.out = to.dims[i].Size; sameDim(s[axis], to.dims[i]) {
			continue
		} else {
			r.scale = float64(float32(r.out) / float32(r.in))
		}
		c.failIf(r.in < 0 || r.out < 0, "the size of axis %d, which changes, is %w", axis, errVariable)
		c.failIf(r.in == 0 || r.out < 1 || r.scale <= 0 || r.out > largestConstant/r.in,
			"axis %d of size %d becomes one of size %d", axis, r.in, r.out)
		out = append(out, r)
	}
	return out
}

func (c *Call) floats(i int) ([]float64, error) {
	name := c.Node.Input(i)
	if name == "" {
		return nil, nil
	}
	if t := c.b.inits[name]; t != nil {
		return t.Numbers()
	}
	return nil, fmt.Errorf("input %d (%q) is %w", i, name, errVariable)
}

func (c *Call) coordinates(r resized) []float64 {
	at := make([]float64, r.out)
	in, out := float64(r.in), float64(r.out)
	mode := c.Node.Text("coordinate_transformation_mode", "half_pixel")
	for i := range at {
		x := float64(i)
		switch mode {
		case "half_pixel":
			x = (x+0.5)/r.scale - 0.5
		case "half_pixel_symmetric":
			x = in/2*(1-out/(r.scale*in)) + (x+0.5)/r.scale - 0.5
		case "pytorch_half_pixel":
			if r.out > 1 { // the only x is 0 already
				x = (x+0.5)/r.scale - 0.5
			}
		case "align_corners":
			if r.out > 1 {
				x = x * (in - 1) / (out - 1)
			}
		case "asymmetric":
			x /= r.scale
		default:
			c.Fail("coordinate_transformation_mode %s", mode)
		}
		at[i] = float64(float32(x)) // as the runtimes compute it
	}
	return at
}

func (c *Call) nearest(x float64) int64 {
	switch c.Node.Text("nearest_mode", "round_prefer_floor") {
	case "round_prefer_ceil":
		return int64(math.Floor(x + 0.5))
	case "floor":
		return int64(math.Floor(x))
	case "ceil":
		return int64(math.Ceil(x))
	}
	return int64(math.Ceil(x - 0.5))
}

// weights returns the matrix, out x in, of an interpolation: two or four neighbours, those outside of the
// image being its border or, with exclude_outside, nothing.
func (c *Call) weights(mode string, r resized, at []float64) []float64 {
	m := make([]float64, r.out*r.in)
	a := c.float("cubic_coeff_a", -0.75)
	exclude := c.Node.Int("exclude_outside", 0) != 0 && mode == "cubic"
	for i, x := range at {
		if mode == "linear" {
			x = min(max(x, 0), float64(r.in-1))
		}
		base := int64(math.Floor(x))
		t := x - float64(base)
		taps, from := []float64{1 - t, t}, base
		if mode == "cubic" {
			taps, from = []float64{
				((a*(t+1)-5*a)*(t+1)+8*a)*(t+1) - 4*a,
				((a+2)*t-(a+3))*t*t + 1,
				((a+2)*(1-t)-(a+3))*(1-t)*(1-t) + 1,
				((a*(2-t)-5*a)*(2-t)+8*a)*(2-t) - 4*a,
			}, base-1
		}
		var sum float64
		row := m[int64(i)*r.in : int64(i+1)*r.in]
		for k, w := range taps {
			p := from + int64(k)
			if exclude && (p < 0 || p >= r.in) {
				continue
			}
			row[min(max(p, 0), r.in-1)] += w
			sum += w
		}
		if exclude {
			for k := range row {
				row[k] /= sum
			}
		}
	}
	return m
}

// blocks returns the shape of the input, the size of a block, and the output's sizes after the rows.
func (c *Call) blocks() (s graph.Shape, b int64, to []int64) {
	s, b = c.types[0].Shape, c.Node.Int("blocksize", 0)
	c.failIf(len(s) != 4 || b < 1 || b > 1<<15 || !fixed(s[1:]),
		"blocksize %d of %v: rows x channels x height x width of constant sizes is needed", b, c.types[0])
	n, h, w := s[1].Size, s[2].Size, s[3].Size
	if to = []int64{n / (b * b), h * b, w * b}; c.Node.Op == "SpaceToDepth" {
		to = []int64{n * b * b, h / b, w / b}
	}
	c.failIf(to[0]*to[1]*to[2] != n*h*w, "blocksize %d of %v", b, c.types[0])
	return s, b, to
}

func blocksType(c *Call) []graph.Type {
	s, _, to := c.blocks()
	return single(c.types[0].DType, append(graph.Shape{s[0]}, graph.Fixed(to...)...))
}

func (c *Call) rearranged(to, parts, perm []int64) string {
	x := c.Op("Reshape", []string{c.x(), c.b.vector(append([]int64{0}, parts...)...)})
	return c.Op("Reshape", []string{c.transpose(x, perm...), c.b.vector(append([]int64{0}, to...)...)})
}

// power is |x|^p.
func (c *Call) power(x string, p float64) string { return c.op("Pow", c.op("Abs", x), c.Scalar(x, p)) }

func (c *Call) norm() float64 {
	p := c.Node.Int("p", 2)
	c.failIf(p < 1, "p %d", p)
	return float64(p)
}
