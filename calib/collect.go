package calib

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Collect runs the set through the classifier of the canonical graph, twice unless it is small
// (ranges, then sums), and returns the statistics of each layer's input; logits adds those that
// weigh by the gradient of the margin, for ranges of the kind Logits. layers are
// folded already where input, the layout of the model's input (or nil), feeds them.
func Collect(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, set *Set, input *quant.Input,
	logits bool,
) ([]Stats, error) {
	if set.Weights != nil && len(set.Weights) != set.Rows() {
		return nil, fmt.Errorf("%d weights of %d calibration rows", len(set.Weights), set.Rows())
	}
	k := &collector{
		layers: layers, set: set, input: input, stats: make([]Stats, len(layers)), costs: make([][]float64, len(layers)),
		weight: make([]float64, len(layers)), logitWeight: make([][]float64, len(layers)),
	}
	for i, l := range layers {
		k.stats[i], k.logitWeight[i] = newStats(l, logits), make([]float64, groups(l))
		if logits {
			k.grads = append(k.grads, l.Input, l.Output)
		}
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
		for g, weight := range k.logitWeight[i] {
			part := k.stats[i].part(l, g)
			part.finish(k.weight[i], weight)
		}
	}
	return k.stats, nil
}

type collector struct {
	layers      []quant.LayerInfo
	set         *Set
	input       *quant.Input
	grads       []string // wanted by input and output of each layer, or none
	stats       []Stats
	costs       [][]float64 // of each layer, see costs
	weight      []float64   // of the rows in each layer's sums
	logitWeight [][]float64 // of the rows in each group's sums with gradients
	products    *product    // where a row is wide
}

func (k *collector) run(ctx context.Context, c *classifier.Model,
	add func(ctx context.Context, i, from, rows int, values, grads [][]float32) error,
) error {
	p := classifier.Probe{Margin: true}
	for _, l := range k.layers {
		p.Values = append(p.Values, l.Input)
	}
	sum := func(from, rows int, values, grads [][]float32) error {
		for i := range k.layers {
			if err := add(ctx, i, from, rows, values, grads); err != nil {
				return err
			}
		}
		return nil
	}
	numbers := 0
	var again []func() error // the batches, if their numbers are few
	err := c.Observe(ctx, k.set.X, p, func(from, rows int, values, _ [][]float32) error {
		for _, v := range values {
			numbers += len(v)
		}
		if numbers <= maxKept {
			again = append(again, func() error { return sum(from, rows, values, nil) })
		} else {
			again = nil
		}
		return k.bound(values)
	})
	if err != nil {
		return err
	}
	if numbers > maxKept || k.grads != nil {
		p.Grads = k.grads
		return c.Observe(ctx, k.set.X, p, sum)
	}
	for _, f := range again {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// maxKept bounds the numbers that are kept from the first run for the second.
const maxKept = 1 << 21

func (k *collector) bound(values [][]float32) error {
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
}

// sum adds rows of layer i: second moments and means of its input or, for a convolution, of
// the patches of its input, group by group.
func (k *collector) sum(ctx context.Context, i, from, rows int, values, grads [][]float32) error {
	l, s := k.layers[i], &k.stats[i]
	v := values[i]
	weights := k.rowWeights(from, rows)
	var by, out []float32 // the margin's gradients by the layer's input and output
	if s.LogitHist != nil {
		by, out = grads[2*i], grads[2*i+1]
	}
	size, width, n, step := len(v)/rows, len(out)/rows, places(l), rows
	if k.costs[i] == nil {
		k.costs[i] = costs(l, size)
	}
	s.count(v, by, weights, k.costs[i])
	if l.Conv != nil {
		step = max(1, chunkNumbers/(n*l.In))
	}
	for g, part := range l.Groups() {
		p := patcher{layer: part, n: n, from: from}
		at := s.part(l, g)
		for r := 0; r < rows; r += step {
			to := min(r+step, rows)
			patches := func() []float64 { // add overwrites them
				if l.Conv == nil {
					return k.reads(v, rows, l)
				}
				return p.patches(v[r*size:to*size], r, to)
			}
			weight, err := k.moments(ctx, at.Moments, patches(), p.weights(weights[r:to]))
			if err != nil {
				return err
			}
			if g == 0 {
				k.weight[i] += weight
			}
			if out != nil {
				by := p.squares(out[r*width:to*width], r, to, g*part.Out, weights[r:to])
				weight, err := k.moments(ctx, at.Logits, patches(), by)
				if err != nil {
					return err
				}
				k.logitWeight[i][g] += weight
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

// reads returns what a layer's integer kernel reads: v itself, or, for a layer
// that the input feeds, what the grid makes of it.
func (k *collector) reads(v []float32, rows int, l quant.LayerInfo) []float64 {
	var input *quant.Input
	if k.input != nil && l.Input == k.input.Value {
		input = k.input
	}
	h := make([]float64, len(v))
	for i, x := range quant.Reads(nil, input, v, rows) {
		h[i] = float64(x)
	}
	return h
}

// A convolution multiplies, at each position of its output, what lies under its
// kernel: its patches stand for the rows of a dense layer's input. Statistics look
// at maxPlaces positions of each row at most, and at fewer where the patches are
// long: patchWork bounds the products of one row, minPlaces the places from below.
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

// patcher makes patches of a convolution in one group, n of each row. What a dense layer reads are patches
// already.
type patcher struct {
	layer   quant.LayerInfo
	n, from int // patches of a row, first row of the batch
}

// weights returns the weights of rows for each of their patches.
func (p patcher) weights(rows []float64) []float64 {
	out := make([]float64, 0, len(rows)*p.n)
	for _, w := range rows {
		out = append(out, slices.Repeat([]float64{w}, p.n)...)
	}
	return out
}

// patches returns the patches of the rows r to end of a batch, whose inputs are v.
func (p patcher) patches(v []float32, r, end int) []float64 {
	rows := end - r
	size, all, in := len(v)/rows, p.layer.Positions, p.layer.In
	out := make([]float64, rows*p.n*in)
	for j := range rows {
		for k := range p.n {
			at := (j*p.n + k) * in
			p.layer.Conv.Patch(out[at:at+in], v[j*size:(j+1)*size], 0, place(k, p.n, all, p.from+r+j))
		}
	}
	return out
}

// squares returns, for each patch, the row's weight times the squared gradient by
// what the outputs, those from first on, make of it.
func (p patcher) squares(grads []float32, r, end, first int, weights []float64) []float64 {
	rows, all := end-r, p.layer.Positions
	size := len(grads) / rows
	out := make([]float64, rows*p.n)
	for j := range rows {
		for k := range p.n {
			at := place(k, p.n, all, p.from+r+j)
			for o := first; o < first+p.layer.Out; o++ {
				i := o*all + at
				if p.layer.Conv == nil { // one vector after the other
					i = at*p.layer.Out + o
				}
				g := float64(grads[j*size+i])
				out[j*p.n+k] += weights[j] * g * g
			}
		}
	}
	return out
}

// costs is what an error of each of the size elements of a row of the input does to the
// outputs, squared: ||W_:,i||^2 for input i of a dense layer, and for a convolution that of
// its channel's weights, borders not counted.
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
