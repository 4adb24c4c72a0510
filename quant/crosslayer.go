package quant

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// CrossLayerEqualize equalizes the weight ranges of neighbouring layers (cross-layer equalization). Where layer a feeds
// layer b alone, directly, through activations with f(s x) = s f(x) for s > 0 or through pools, channel i of a (its row
// of weights and its bias) is divided by s_i and column i of b multiplied by it: the network computes the same.
//
// Channels of very unequal ranges, see uneven, are equalized always, by powers of two, so that the network computes the
// same to the bit. With all, every channel is, by s_i = sqrt(max|W_a,i| / max|W_b,i|): both have the same range. In
// chains of layers one pair changes the next, so this repeats until nothing changes. Channels whose weights are all
// zero on either side stay as they are then.
//
// It returns a model of the same graph and a line of text for each equalized pair; m itself when there is none. The
// canonical model m does not change.
//
// Reference: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, 2019, section 4.1.
func CrossLayerEqualize(m *graph.Model, all bool) (*graph.Model, []string, error) {
	pairs, numbers, err := equalPairs(m)
	if err != nil {
		return nil, nil, err
	}
	settle(pairs, numbers, uneven)
	if all {
		// What makes row and column equal, 1 for a dead channel.
		settle(pairs, numbers, func(rows, columns, _ []float64) []float64 {
			for i, r := range rows {
				if rows[i] = math.Sqrt(r / columns[i]); !(rows[i] > 0) || math.IsInf(rows[i], 0) {
					rows[i] = 1
				}
			}
			return rows
		})
	}
	var done []string
	touched := map[string]bool{}
	for _, p := range pairs {
		changed := len(lists.Filter(p.factor, func(s float64) bool { return math.Abs(math.Log(s)) > equalEnough }))
		if changed > 0 {
			touched[p.a.Weight], touched[p.a.Bias], touched[p.b.Weight] = true, true, true
			done = append(done, fmt.Sprintf("%q and %q: %d of %d channels", p.a.Node, p.b.Node, changed, p.a.Out))
		}
	}
	if done == nil {
		return m, nil, nil
	}
	c := m.Clone()
	for i, t := range c.Graph.Inits {
		if !touched[t.Name] {
			continue
		}
		c.Graph.Inits[i] = graph.FromNumbers(t.Name, graph.Float, numbers[t.Name], t.Dims...)
		if single, err := c.Graph.Inits[i].Floats(); err != nil || !finite(single) {
			return nil, nil, fmt.Errorf("the weights %q differ by too much to be equalized in single precision", t.Name)
		}
	}
	return c, done, nil
}

// Rounds go on until no channel is scaled by more than a factor of 1 +
// equalEnough, and equalRounds is their largest number.
const (
	equalRounds = 200
	equalEnough = 1e-5
)

// settle scales channels by what the ranges of rows and columns ask for, round by round.
func settle(pairs []*equalPair, numbers map[string][]float64, factors func(rows, columns, biases []float64) []float64) {
	for range equalRounds {
		change := 0.0
		for _, p := range pairs {
			rows, bias, columns := numbers[p.a.Weight], numbers[p.a.Bias], numbers[p.b.Weight]
			rowRanges, columnRanges := p.ranges(rows, columns)
			by := factors(rowRanges, columnRanges, bias)
			for i, s := range by {
				change = max(change, math.Abs(math.Log(s)))
				p.factor[i] *= s
			}
			for k := range rows {
				rows[k] /= by[k/p.a.In]
			}
			for i := range bias {
				bias[i] /= by[i]
			}
			for k := range columns {
				columns[k] *= by[p.reads(k)]
			}
		}
		if change < equalEnough {
			return
		}
	}
}

type equalPair struct {
	a, b   LayerInfo
	inner  int       // see soleReader
	factor []float64 // by which channels of a have been divided
}

// equalPairs finds the pairs, and the numbers of their layers' constants, in double precision, so that many rounds cost
// one rounding.
func equalPairs(m *graph.Model) (pairs []*equalPair, numbers map[string][]float64, err error) {
	layers, err := FindLayers(m)
	if err != nil {
		return nil, nil, err
	}
	g, numbers := m.Graph, map[string][]float64{}
	readers, inits := g.Consumers(), g.InitMap()
	alone := func(name string) bool { return name == "" || len(readers[name]) == 1 && !g.IsOutput(name) }
	byWeight := map[string]LayerInfo{}
	for _, l := range layers {
		if l.Fixed == "" && l.W != nil && alone(l.Weight) && alone(l.Bias) && l.Weight != l.Bias {
			byWeight[l.Weight] = l
			if numbers[l.Weight], err = inits[l.Weight].Doubles(); err == nil && l.Bias != "" {
				numbers[l.Bias], err = inits[l.Bias].Doubles()
			}
			if err != nil {
				return nil, nil, err
			}
		}
	}
	f := &finder{g: g, inits: inits}
	for _, l := range layers {
		a, ok := byWeight[l.Weight]
		weight, inner := f.soleReader(readers, alone, &l)
		b, next := byWeight[weight]
		if ok && next && (b.Conv != nil || b.In%(a.Out*inner) == 0) {
			pairs = append(pairs, &equalPair{a: a, b: b, inner: inner, factor: slices.Repeat([]float64{1}, a.Out)})
		}
	}
	return pairs, numbers, nil
}

// soleReader follows what layer a gives to the only layer that reads it, and returns the name of its weights, "" where
// there is no such layer. Number k of what that reads is one of channel k / inner of a, counted modulo a.Out.
func (f *finder) soleReader(readers map[string][]*graph.Node, alone func(string) bool, a *LayerInfo) (weight string,
	inner int,
) {
	value, inner := a.Output, 1
	if a.Conv != nil {
		inner = sizeBehind(f.shape(value), 1)
	}
	for inner > 0 && alone(value) {
		n := readers[value][0]
		if n.Input(0) != value || slices.Contains(n.Inputs[1:], value) || len(n.Outputs) != 1 || !n.Standard() {
			return "", 0
		}
		from := f.shape(value)
		axis := channelAxis(from, a.Out, inner)
		switch {
		case n.Op == "Gemm", n.Op == "Conv" && axis == 1:
			return n.Input(1), inner
		case Reshapes(n), n.Op == "Relu", n.Op == "LeakyRelu", n.Op == "PRelu", n.Op == "Abs":
		case f.zero(n.Input(1)) && (n.Op == "Max" && len(n.Inputs) == 2 || n.Op == "Clip" && n.Input(2) == ""):
		case n.Op == "Transpose" && axis > 0:
			inner = sizeBehind(f.shape(n.Outputs[0]), slices.Index(n.Ints("perm"), int64(axis)))
		case strings.HasSuffix(n.Op, "Pool") && axis == 1:
			inner = sizeBehind(f.shape(n.Outputs[0]), axis)
		case (n.Op == "ReduceMean" || n.Op == "ReduceSum" || n.Op == "ReduceMax") && axis > 0:
			inner = sizeBehind(f.reduced(n, from, axis), axis)
		default:
			return "", 0
		}
		value = n.Outputs[0]
	}
	return "", 0
}

func (f *finder) zero(constant string) bool {
	t := f.inits[constant]
	if t == nil || t.Len() != 1 {
		return false
	}
	v, err := t.Numbers()
	return err == nil && v[0] == 0
}

// channelAxis is the axis of so many channels, behind which there are inner numbers; 0 where there is none.
func channelAxis(shape graph.Shape, channels, inner int) int {
	for i := len(shape) - 1; i > 0; i-- {
		if shape[i].Size == int64(channels) && sizeBehind(shape, i) == inner {
			return i
		}
	}
	return 0
}

// sizeBehind is how many numbers there are behind one along an axis; 0 or less where that is not known.
func sizeBehind(shape graph.Shape, axis int) int {
	if axis < 0 || axis >= len(shape) {
		return 0
	}
	return int(shape[axis+1:].Elements().Size)
}

// reduced is the shape with sizes of 1 where n reduces it; nil if that may be the axis that is to stay.
func (f *finder) reduced(n *graph.Node, shape graph.Shape, stays int) graph.Shape {
	axes, shape := n.Ints("axes"), slices.Clone(shape)
	if t := f.inits[n.Input(1)]; t != nil {
		axes, _ = t.Ints() // none of other types
	}
	for _, x := range axes {
		shape[(int(x)+len(shape))%len(shape)].Size = 1
	}
	if len(axes) == 0 || shape[stays].Size == 1 {
		return nil
	}
	return shape
}

// reads returns the channel of a that weight k of b multiplies: of a convolution's group, or one that was reshaped.
func (p *equalPair) reads(k int) int {
	if p.b.Conv == nil {
		return k % p.b.In / p.inner % p.a.Out
	}
	groups := p.b.Conv.Group
	channels := p.a.Out / groups
	return k/p.b.In/(p.b.Out/groups)*channels + k%p.b.In/(p.b.In/channels)
}

// ranges returns the largest weight of each channel in the rows of a and the columns of b.
func (p *equalPair) ranges(rows, columns []float64) (ofRows, ofColumns []float64) {
	ofRows, ofColumns = make([]float64, p.a.Out), make([]float64, p.a.Out)
	for k, w := range rows {
		ofRows[k/p.a.In] = max(ofRows[k/p.a.In], math.Abs(w))
	}
	for k, w := range columns {
		i := p.reads(k)
		ofColumns[i] = max(ofColumns[i], math.Abs(w))
	}
	return ofRows, ofColumns
}

// MayBeUneven says whether some channel of a canonical model differs by more than any of an ordinary network, so that
// equalizing all may help.
func MayBeUneven(m *graph.Model) (bool, error) {
	pairs, numbers, err := equalPairs(m)
	return slices.ContainsFunc(pairs, func(p *equalPair) bool {
		rows, columns := p.ranges(numbers[p.a.Weight], numbers[p.b.Weight])
		_, far := unevenBy(rows, columns, numbers[p.a.Bias])
		return far > ordinaryRange
	}), err
}

// unevenRange is the ratio of row to column from which a channel is equalized always, and levelRange that from which
// others of its pair are, too. No channel of ordinary networks comes to ordinaryRange by the measure of uneven.
const unevenRange, levelRange, ordinaryRange = 50, 4, 5

func uneven(rows, columns, biases []float64) []float64 {
	factors, far := unevenBy(rows, columns, biases)
	if far > unevenRange {
		return factors
	}
	return slices.Repeat([]float64{1}, len(rows))
}

// unevenBy returns powers of two, and the largest ratio. A channel is uneven where its row or its column is much larger
// than those of other channels, which then lose their bits to it, and the other of the two is not. Ranges are compared
// with their median, and the bias counts as a weight: values between the layers have its size, too.
func unevenBy(rows, columns, biases []float64) (factors []float64, far float64) {
	factors = slices.Repeat([]float64{1}, len(rows))
	for i, b := range biases {
		rows[i] = max(rows[i], math.Abs(b))
	}
	usualRow, usualColumn := usual(rows), usual(columns)
	for i := range rows {
		u, v := rows[i]/usualRow, columns[i]/usualColumn
		s := math.Sqrt(u / v)
		d := min(max(u, v), max(s, 1/s))
		switch {
		case !(d*d > levelRange): // also of channels that are all zero
			continue
		case v == 0:
			s = u
		case u == 0:
			s = 1 / v
		}
		factors[i], far = math.Exp2(math.Round(math.Log2(s))), max(far, d*d)
	}
	return factors, far
}

// usual is the median of those that are not zero.
func usual(ranges []float64) float64 {
	ranges = slices.DeleteFunc(slices.Sorted(slices.Values(ranges)), func(r float64) bool { return r == 0 })
	if len(ranges) == 0 {
		return 1
	}
	return ranges[len(ranges)/2]
}
