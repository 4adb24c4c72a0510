package classifier

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/graph"
)

// Place is a row in a batch.
type Place struct {
	Batch []float32 // rows x Dim
	At    int       // the row
}

// agreement is how far, relative to the largest number of a value, float32 may round it differently.
const agreement = 1e-5

// Divergence is how one row's outputs in two batches part.
type Divergence struct {
	// Nodes are those from which the logits begin to differ: a node whose outputs differ by more than rounding although
	// its inputs do not. A quantizer whose code is another by one does so by rounding and is not among them.
	Nodes []string
	// Same says that the logits agree, so that the graph as it is written does not depend on the batch.
	Same bool
}

// Diverging compares rows, each in two batches, with every value of the graph exposed and nothing fused.
func (c *Model) Diverging(ctx context.Context, pairs [][2]Place) ([]Divergence, error) {
	s, err := c.Exposed()
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	out := make([]Divergence, len(pairs))
	producers := c.Graph().Graph.Producers()
	for k, pair := range pairs {
		var values [2]map[string]*graph.Tensor
		for i, p := range pair {
			all, err := s.Run(ctx, []*graph.Tensor{c.feed(p.Batch)})
			if err != nil {
				return nil, fmt.Errorf("a batch of %d rows: %w", len(p.Batch)/c.Dim(), err)
			}
			values[i] = map[string]*graph.Tensor{}
			for _, t := range all {
				values[i][t.Name] = t
			}
		}
		d := divergence{c: c, a: pair[0], b: pair[1], in: values, seen: map[string]bool{}, producers: producers}
		if out[k].Same = d.apart(c.logits) == 0; !out[k].Same {
			d.trace(c.logits)
			out[k].Nodes = d.nodes
		}
	}
	return out, nil
}

type divergence struct {
	c         *Model
	a, b      Place
	in        [2]map[string]*graph.Tensor
	producers map[string]*graph.Node
	seen      map[string]bool
	nodes     []string
}

func (d *divergence) trace(value string) {
	n := d.producers[value]
	if d.seen[value] || n == nil {
		return
	}
	d.seen[value] = true
	from := slices.DeleteFunc(slices.Clone(n.Inputs), func(in string) bool { return d.apart(in) == 0 })
	for _, in := range from {
		d.trace(in)
	}
	jumps := n.Is("QuantizeLinear") && d.apart(value) <= 1 // at the middle between two codes
	if label := n.Label(); len(from) == 0 && !jumps && !slices.Contains(d.nodes, label) {
		d.nodes = append(d.nodes, label)
	}
}

// apart returns by how much the row's part of a value differs, 0 when by rounding only. Values that no node makes do
// not differ.
func (d *divergence) apart(value string) float64 {
	a, b := d.in[0][value], d.in[1][value]
	if a == nil || b == nil {
		return 0
	}
	x, errX := a.Numbers()
	y, errY := b.Numbers()
	if errX != nil || errY != nil {
		return 0
	}
	x, y = d.part(a, x, d.a), d.part(b, y, d.b)
	if len(x) != len(y) {
		return math.Inf(1)
	}
	var largest, apart float64
	for i := range x {
		if math.IsNaN(x[i]) != math.IsNaN(y[i]) {
			return math.Inf(1)
		}
		largest, apart = max(largest, math.Abs(x[i])), max(apart, math.Abs(x[i]-y[i]))
	}
	if float := a.DType == graph.Float || a.DType == graph.Double; float && apart <= agreement*largest {
		return 0
	}
	return apart
}

func (d *divergence) part(t *graph.Tensor, v []float64, p Place) []float64 {
	rows := max(len(p.Batch)/d.c.Dim(), d.c.Fixed())
	inner := len(v)
	for k, size := range d.c.Types()[t.Name].Shape {
		have := int(t.Dims[k])
		if inner /= max(have, 1); size.Size >= 0 && d.c.Fixed() != have || have%rows != 0 {
			continue
		}
		each := have / rows * inner // numbers of one row in each of the outer parts
		var own []float64
		for from := p.At * each; from < len(v); from += have * inner {
			own = append(own, v[from:from+each]...)
		}
		return own
	}
	return v
}
