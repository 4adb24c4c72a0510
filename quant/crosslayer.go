package quant

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"cfq/onnxio/graph"
)

// CrossLayerEqualize equalizes the weight ranges of neighbouring dense layers (cross-layer equalization). Where layer a
// feeds layer b alone, directly or through activations with f(s x) = s f(x) for s > 0, channel i of a (its row of
// weights and its bias) is divided by s_i and column i of b multiplied by it: the network computes the same, and with
// s_i = sqrt(max|W_a,i| / max|W_b,i|) both have the same range. In chains of layers one pair changes the next, so this
// repeats until nothing changes. Channels whose weights are all zero on either side stay as they are.
//
// It returns a model of the same graph and a line of text for each equalized pair. The canonical model m does not
// change.
//
// Reference: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, 2019, section 4.1.
func CrossLayerEqualize(m *graph.Model) (*graph.Model, []string, error) {
	layers, err := FindLayers(m)
	if err != nil {
		return nil, nil, err
	}
	numbers := map[string][]float64{}
	pairs, err := equalPairs(m.Graph, layers, numbers)
	if err != nil {
		return nil, nil, err
	}
	for range equalRounds {
		change := 0.0
		for _, p := range pairs {
			change = max(change, p.step(numbers))
		}
		if change < equalEnough {
			break
		}
	}
	c := m.Clone()
	var done []string
	touched := map[string]bool{}
	for _, p := range pairs {
		changed := 0
		for _, s := range p.factor {
			if math.Abs(math.Log(s)) > equalEnough {
				changed++
			}
		}
		if changed > 0 {
			touched[p.a.Weight], touched[p.a.Bias], touched[p.b.Weight] = true, true, true
			done = append(done, fmt.Sprintf("%q and %q: %d of %d channels", p.a.Node, p.b.Node, changed, p.a.Out))
		}
	}
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

type equalPair struct {
	a, b   LayerInfo
	factor []float64 // by which channels of a have been divided
}

// equalPairs finds the pairs, and fills in the numbers of their layers' constants, in double precision, so that many
// rounds cost one rounding.
func equalPairs(g *graph.Graph, layers []LayerInfo, numbers map[string][]float64) (pairs []*equalPair, err error) {
	readers, inits := g.Consumers(), g.InitMap()
	alone := func(name string) bool { return name == "" || len(readers[name]) == 1 && !g.IsOutput(name) }
	byWeight := map[string]LayerInfo{}
	for _, l := range layers {
		if l.Fixed == "" && l.Conv == nil && l.W != nil && alone(l.Weight) && alone(l.Bias) && l.Weight != l.Bias {
			byWeight[l.Weight] = l
			if numbers[l.Weight], err = inits[l.Weight].Doubles(); err == nil && l.Bias != "" {
				numbers[l.Bias], err = inits[l.Bias].Doubles()
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for _, l := range layers {
		a, ok := byWeight[l.Weight]
		b, next := byWeight[soleReader(readers, alone, l.Output)]
		if ok && next && b.In == a.Out {
			pairs = append(pairs, &equalPair{a: a, b: b, factor: slices.Repeat([]float64{1}, a.Out)})
		}
	}
	return pairs, nil
}

func soleReader(readers map[string][]*graph.Node, alone func(string) bool, value string) string {
	for alone(value) {
		n := readers[value][0]
		switch {
		case n.Input(0) != value || slices.Contains(n.Inputs[1:], value) || len(n.Outputs) != 1:
			return ""
		case n.Is("Gemm"):
			return n.Input(1)
		case !n.Is("Relu") && !n.Is("LeakyRelu") && !n.Is("PRelu"):
			return ""
		}
		value = n.Outputs[0]
	}
	return ""
}

// step equalizes the pair once and returns how far the largest factor is from 1.
func (p *equalPair) step(numbers map[string][]float64) float64 {
	largest := 0.0
	bias, next := numbers[p.a.Bias], numbers[p.b.Weight]
	for i := range p.factor {
		row := numbers[p.a.Weight][i*p.a.In : (i+1)*p.a.In]
		var rb float64
		for o := range p.b.Out {
			rb = max(rb, math.Abs(next[o*p.b.In+i]))
		}
		s := math.Sqrt(floats.Norm(row, math.Inf(1)) / rb)
		if !(s > 0) || math.IsInf(s, 0) {
			continue // a dead channel
		}
		largest = max(largest, math.Abs(math.Log(s)))
		p.factor[i] *= s
		for j := range row {
			row[j] /= s
		}
		if bias != nil {
			bias[i] /= s
		}
		for o := range p.b.Out {
			next[o*p.b.In+i] *= s
		}
	}
	return largest
}
