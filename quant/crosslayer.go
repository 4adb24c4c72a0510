package quant

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"cfq/onnxio/graph"
)

// CrossLayerEqualize equalizes the weight ranges of neighbouring dense layers (cross-layer
// equalization). Where layer a feeds layer b alone, directly or through activations with
// f(s x) = s f(x) for s > 0, channel i of a (its row of weights and its bias) is divided by
// s_i and column i of b multiplied by it: the network computes the same, and with
// s_i = sqrt(max|W_a,i| / max|W_b,i|) both have the same range. In chains of layers one pair
// changes the next, so this repeats until nothing changes. Channels whose weights are all
// zero on either side stay as they are.
//
// It returns a model of the same graph and a line of text for each equalized pair. The
// canonical model m does not change.
//
// Reference: Nagel et al., Data-Free Quantization Through Weight Equalization and
// Bias Correction, 2019, section 4.1.
func CrossLayerEqualize(m *graph.Model) (*graph.Model, []string, error) {
	layers, err := FindLayers(m)
	if err != nil {
		return nil, nil, err
	}
	c := m.Clone()
	pairs := equalPairs(m.Graph, layers)
	for range equalRounds {
		change := 0.0
		for _, p := range pairs {
			change = max(change, p.step())
		}
		if change < equalEnough {
			break
		}
	}
	var done []string
	for _, p := range pairs {
		if p.changed() == 0 {
			continue
		}
		if err := p.write(c.Graph); err != nil {
			return nil, nil, err
		}
		done = append(done, fmt.Sprintf("%q and %q: %d of %d channels", p.a.Node, p.b.Node, p.changed(), p.a.Out))
	}
	return c, done, nil
}

// Rounds go on until no channel is scaled by more than a factor of 1 +
// equalEnough, and equalRounds is their largest number.
const (
	equalRounds = 200
	equalEnough = 1e-5
)

// equalPair is a layer and the only one that reads what it makes.
type equalPair struct {
	a, b   *equalLayer
	factor []float64 // by which channels of a have been divided
}

// equalLayer holds the numbers of a layer in double precision, so that many
// rounds cost one rounding.
type equalLayer struct {
	LayerInfo
	w, b []float64
}

// equalPairs finds the pairs of layers that can be equalized.
func equalPairs(g *graph.Graph, layers []LayerInfo) []*equalPair {
	readers := g.Consumers()
	outputs := map[string]bool{}
	for _, v := range g.Outputs {
		outputs[v.Name] = true
	}
	alone := func(name string) bool { return name == "" || len(readers[name]) == 1 && !outputs[name] }
	byWeight := map[string]*equalLayer{}
	for _, l := range layers {
		if l.Fixed == "" && l.Conv == nil && l.W != nil && alone(l.Weight) && alone(l.Bias) && l.Weight != l.Bias {
			byWeight[l.Weight] = &equalLayer{LayerInfo: l, w: doubles(l.W), b: doubles(l.B)}
		}
	}
	var pairs []*equalPair
	for _, l := range layers {
		a := byWeight[l.Weight]
		if a == nil {
			continue
		}
		if b := byWeight[soleReader(readers, alone, l.Output)]; b != nil && b.In == a.Out {
			pairs = append(pairs, &equalPair{a: a, b: b, factor: slices.Repeat([]float64{1}, a.Out)})
		}
	}
	return pairs
}

// soleReader returns the weight of the Gemm that alone reads the value, through
// activations that let positive factors pass; "" when there is none.
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
func (p *equalPair) step() float64 {
	largest := 0.0
	for i := range p.factor {
		row := p.a.w[i*p.a.In : (i+1)*p.a.In]
		var rb float64
		for o := range p.b.Out {
			rb = max(rb, math.Abs(p.b.w[o*p.b.In+i]))
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
		p.a.b[i] /= s
		for o := range p.b.Out {
			p.b.w[o*p.b.In+i] *= s
		}
	}
	return largest
}

// changed counts the channels that have been scaled.
func (p *equalPair) changed() int {
	n := 0
	for _, s := range p.factor {
		if math.Abs(math.Log(s)) > equalEnough {
			n++
		}
	}
	return n
}

// write puts the numbers of the pair into the graph.
func (p *equalPair) write(g *graph.Graph) error {
	for _, l := range []*equalLayer{p.a, p.b} {
		w, b := singles(l.w), singles(l.b)
		if !finite(w) || !finite(b) {
			return fmt.Errorf("layers %q and %q: their weights differ by too much to be equalized in single precision",
				p.a.Node, p.b.Node)
		}
		for i, t := range g.Inits {
			switch {
			case t.Name == l.Weight:
				g.Inits[i] = graph.FromFloats(t.Name, w, t.Dims...)
			case t.Name == l.Bias && l.Bias != "":
				g.Inits[i] = graph.FromFloats(t.Name, b, t.Dims...)
			}
		}
	}
	return nil
}

func singles(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}

func doubles(v []float32) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}
