package calib

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Collect runs the set through the classifier of the canonical graph, twice (ranges, then sums), and returns the
// statistics of each layer's input. layers are folded already where input, the layout of the model's input (or nil),
// feeds them.
func Collect(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, set *Set, input *quant.Input) (
	[]Stats, error,
) {
	k := &collector{
		layers: layers, set: set, input: input, stats: make([]Stats, len(layers)), costs: make([][]float64, len(layers)),
		weight: make([]float64, len(layers)),
	}
	for i, l := range layers {
		k.stats[i] = newStats(l)
	}
	if slices.ContainsFunc(layers, func(l quant.LayerInfo) bool { return l.In >= wideRow }) {
		p, err := newProduct(c.Engine(), true)
		if err != nil {
			return nil, err
		}
		defer p.session.Close() //nolint:errcheck // nothing is lost
		k.products = p
	}
	if err := k.run(ctx, c, k.sum); err != nil {
		return nil, fmt.Errorf("statistics of the layers: %w", err)
	}
	for i, l := range layers {
		for g := range groups(l) {
			k.stats[i].group(g, groups(l)).divide(k.weight[i])
		}
	}
	return k.stats, nil
}

type collector struct {
	layers   []quant.LayerInfo
	set      *Set
	input    *quant.Input
	stats    []Stats
	costs    [][]float64 // of each layer, see costs
	weight   []float64   // of the rows in each layer's sums
	products *product    // where a row is wide
}

func (k *collector) run(ctx context.Context, c *classifier.Model,
	add func(ctx context.Context, i, from, rows int, v []float32) error,
) error {
	p := classifier.Probe{Values: lists.Map(k.layers, func(l quant.LayerInfo) string { return l.Input })}
	err := c.Observe(ctx, k.set.X, p, func(_, _ int, values, _ [][]float32) error {
		for i, l := range k.layers {
			s := &k.stats[i]
			for _, x := range values[i] {
				s.Min, s.Max = min(s.Min, x), max(s.Max, x)
			}
			if !(s.Max-s.Min < math.MaxFloat32) { // also when one of them is not a number
				return fmt.Errorf("the input of layer %q is not finite on these rows (%v to %v)", l.Node, s.Min, s.Max)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.Observe(ctx, k.set.X, p, func(from, rows int, values, _ [][]float32) error {
		for i, v := range values {
			if err := add(ctx, i, from, rows, v); err != nil {
				return err
			}
		}
		return nil
	})
}

// sum adds rows of layer i: second moments and means of its input or, for a convolution, of
// the patches of its input, group by group.
func (k *collector) sum(ctx context.Context, i, from, rows int, v []float32) error {
	l, s := k.layers[i], &k.stats[i]
	weights := k.rowWeights(from, rows)
	size, n, step := len(v)/rows, places(l), rows
	if k.costs[i] == nil {
		k.costs[i] = costs(l, size)
	}
	s.count(v, weights, k.costs[i])
	if l.Conv != nil {
		step = max(1, chunkNumbers/(n*l.In))
	}
	for g, part := range l.Groups() {
		for r := 0; r < rows; r += step {
			to := min(r+step, rows)
			h := k.reads(v[r*size:to*size], to-r, part, from+r)
			// The weights of the rows, for each of their patches.
			each := lists.Join(weights[r:to], func(w float64) []float64 { return slices.Repeat([]float64{w}, n) })
			weight, err := k.moments(ctx, s.group(g, groups(l)), h, each)
			if err != nil {
				return err
			}
			if g == 0 {
				k.weight[i] += weight
			}
		}
	}
	return nil
}

// moments adds the weighted sums of h and h^T h to m, and returns the sum of the weights; h is overwritten.
func (k *collector) moments(ctx context.Context, m Moments, h, weights []float64) (float64, error) {
	total := m.weigh(h, weights)
	if n := len(m.Mean); n >= wideRow {
		return total, k.products.addGram(ctx, m.Gram, h, n)
	}
	m.add(h)
	return total, nil
}

// reads returns what a layer's integer kernel reads of rows, the first being row first of the set: v itself, or, for a
// layer that the input feeds, what the grid makes of it; of a convolution in one group, the patches at some places.
func (k *collector) reads(v []float32, rows int, l quant.LayerInfo, first int) []float64 {
	if l.Conv != nil {
		size, n := len(v)/rows, places(l)
		h := make([]float64, rows*n*l.In)
		for j := range rows * n {
			at := place(j%n, n, l.Positions, first+j/n)
			l.Conv.Patch(h[j*l.In:(j+1)*l.In], v[j/n*size:(j/n+1)*size], 0, at)
		}
		return h
	}
	var input *quant.Input
	if k.input != nil && l.Input == k.input.Value {
		input = k.input
	}
	return lists.Map(quant.Reads(nil, input, v, rows), func(x float32) float64 { return float64(x) })
}

// A convolution multiplies, at each position of its output, what lies under its kernel: its patches stand for the rows
// of a dense layer's input. Statistics look at maxPlaces positions of each row at most, and at fewer where the patches
// are long: patchWork bounds the products of one row, minPlaces the places from below.
const (
	maxPlaces = 64
	minPlaces = 4
	patchWork = 1 << 20
)

// places is the number of positions of each row that statistics look at.
func places(l quant.LayerInfo) int {
	if l.Conv == nil {
		return l.Positions
	}
	n := patchWork / (l.In * l.In * l.Conv.Group)
	return min(max(n, minPlaces), maxPlaces, l.Conv.Positions())
}

// place is the k-th of n positions out of all to look at in a row: evenly spread,
// and from row to row one further, so that the rows together show every position.
func place(k, n, all, row int) int {
	return (k*all/n + row%((all+n-1)/n)) % all
}

// chunkNumbers bounds the numbers of patches that are held at once.
const chunkNumbers = 1 << 20

func (k *collector) rowWeights(from, rows int) []float64 {
	if k.set.Weights != nil {
		return k.set.Weights[from : from+rows]
	}
	return slices.Repeat([]float64{1}, rows)
}

// costs is what an error of each of the size elements of a row of the input does to the outputs, squared: ||W_:,i||^2
// for input i of a dense layer, and for a convolution that of its channel's weights, borders not counted.
func costs(l quant.LayerInfo, size int) []float64 {
	channels, perGroup := l.In, l.Out
	if l.Conv != nil {
		channels, perGroup = l.Conv.Channels, l.Out/l.Conv.Group
	}
	n := channels / groups(l) // of the channels that a row of weights reads
	sums := make([]float64, channels)
	for k, w := range l.W {
		sums[k/l.In/perGroup*n+k%l.In/(l.In/n)] += float64(w) * float64(w)
	}
	out := make([]float64, size)
	for k := range out {
		if l.Conv == nil { // one vector after the other
			out[k] = sums[k%channels]
			continue
		}
		out[k] = sums[k/(size/channels)]
	}
	return out
}

// Outputs are the output quantizers of convolutions, by the layer's node.
type Outputs map[string]output

type output struct {
	act    quant.Act
	behind quant.Behind
}

// FitOutputs fits the output quantizers of the convolutions among the layers on what the set makes of them, behind
// their Relu or Clip, as Activation does for inputs; other layers have none.
func FitOutputs(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, set *Set, bits int,
	kind Range,
) (Outputs, error) {
	k := &collector{set: set}
	for _, l := range layers {
		if l.Conv == nil {
			continue
		}
		l.Input = l.Behind.Value // what is looked at
		k.layers = append(k.layers, l)
		k.stats = append(k.stats, emptyStats())
	}
	if len(k.layers) == 0 {
		return nil, nil
	}
	err := k.run(ctx, c, func(_ context.Context, i, from, rows int, v []float32) error {
		k.stats[i].count(v, k.rowWeights(from, rows), slices.Repeat([]float64{1}, len(v)/rows))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("statistics of the convolutions' outputs: %w", err)
	}
	out := Outputs{}
	for i, l := range k.layers {
		out[l.Node] = output{Activation(&k.stats[i], bits, kind), l.Behind}
	}
	return out, nil
}

// Result returns the output quantizer of the layer called node, nil when it has none.
func (o Outputs) Result(node string, vary Variation) *quant.Act {
	r, ok := o[node]
	if !ok {
		return nil
	}
	a := r.behind.Within(vary.Clip(node, r.act))
	return &a
}

// Act returns the quantizer of a layer's input: where a convolution's output comes
// straight to it that one, so that nothing is rounded twice, else the one fitted.
func (o Outputs) Act(l quant.LayerInfo, vary Variation, fitted quant.Act) quant.Act {
	if r := o.Result(l.Source, vary); r != nil && r.Bits == fitted.Bits {
		return *r
	}
	return vary.Clip(l.Node, fitted)
}
