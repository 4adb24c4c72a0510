package certify

import (
	"math"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

// ONNX Runtime's activation functions are as near to the curves as is claimed, and those are enclosed by their bounds.
func TestCurves(t *testing.T) {
	t.Parallel()
	o := orttest.Need(t)
	for _, c := range []curve{
		{kind: curveElu, alpha: 1},
		{kind: curveElu, alpha: 0.4},
		{kind: curveErf},
		{kind: curveGelu},
		{kind: curveGelu, alpha: 1},
		{kind: curveHardSigmoid, alpha: 0.2, beta: 0.5},
		{kind: curveHardSwish},
		{kind: curveSoftplus},
		{kind: curveSilu, alpha: 1},
		{kind: curveSilu, alpha: 1.702},
	} {
		c.factor = 1
		if c.kind != curveSilu {
			m := tiny(string(c.kind))
			m.Opsets[0].Version, m.IRVersion = 21, 10
			switch {
			case c.kind == curveElu:
				m.Graph.Nodes[0].Attrs = []graph.Attr{graph.FloatAttr("alpha", float32(c.alpha))}
			case c.kind == curveGelu && c.alpha != 0:
				m.Graph.Nodes[0].Attrs = []graph.Attr{graph.StringAttr("approximate", "tanh")}
			}
			var x []float32
			for v := float32(-25); v < 25; v += 0.0013 {
				x = append(x, v)
			}
			y := must.Get(orttest.Run(t, m, o, graph.FromFloats("x", x, int64(len(x)), 1))[0].Floats())(t)
			for i, v := range x {
				if off := math.Abs(float64(y[i]) - c.at(float64(v))); off > c.rounding(math.Abs(float64(v)))*0.8 {
					t.Fatalf("%+v: ONNX Runtime is off by %v at %v, more than %v", c, off, v, c.rounding(math.Abs(float64(v))))
				}
			}
		}
		c.factor = -1.5
		for _, b := range [][2]float64{
			{-3, -1}, {-1, 2}, {-0.1, 5}, {0.5, 0.6}, {-20, 20}, {-4, 4}, {-2, -0.2}, {2.5, 3.5}, {-1.5, -1.3}, {1, 1},
		} {
			slope, from, to := c.relax(b[0], b[1])
			low, high := c.extremes(b[0], b[1])
			least, most := c.slopes(b[0], b[1])
			before, tightest := math.NaN(), math.Inf(1)
			for i := range 4000 {
				x := b[0] + (b[1]-b[0])*float64(i)/3999
				v := c.at(x)
				if r := v - slope*x; r < from || r > to || v < low || v > high {
					t.Errorf("%+v at %v: %v is not in [%v, %v], or %v not in [%v, %v]", c, x, r, from, to, v, low, high)
				}
				if s := (v - before) / (b[1] - b[0]) * 3999; s < least-1e-9 || s > most+1e-9 {
					t.Errorf("%+v at %v: slope %v is not in [%v, %v]", c, x, s, least, most)
				}
				before, tightest = v, min(tightest, v-low, high-v)
			}
			if tightest > 1e-3 {
				t.Errorf("%+v: [%v, %v] is too wide by %v", c, low, high, tightest)
			}
		}
	}
}
