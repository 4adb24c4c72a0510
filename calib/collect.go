package calib

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

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
	k := &collector{layers: layers, set: set, input: input, stats: make([]Stats, len(layers))}
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
			k.stats[i].group(g, groups(l)).divide(set.Rows() * places(l))
		}
	}
	return k.stats, nil
}

type collector struct {
	layers   []quant.LayerInfo
	set      *Set
	input    *quant.Input
	stats    []Stats
	products *product // where a row is wide
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
	size, step := len(v)/rows, rows
	s.count(v)
	if l.Conv != nil {
		step = max(1, chunkNumbers/(places(l)*l.In))
	}
	for g, part := range l.Groups() {
		for r := 0; r < rows; r += step {
			to := min(r+step, rows)
			h := k.reads(v[r*size:to*size], to-r, part, from+r)
			if err := k.moments(ctx, s.group(g, groups(l)), h); err != nil {
				return err
			}
		}
	}
	return nil
}

// moments adds the sums of the rows h and of h^T h to m; h is overwritten.
func (k *collector) moments(ctx context.Context, m Moments, h []float64) error {
	n := len(m.Mean)
	for row := range slices.Chunk(h, n) {
		floats.Add(m.Mean, row)
	}
	if n >= wideRow {
		return k.products.addGram(ctx, m.Gram, h, n)
	}
	m.add(h)
	return nil
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

// Outputs are the output quantizers of convolutions, by the layer's node.
type Outputs map[string]output

type output struct {
	act    quant.Act
	behind quant.Behind
}

// FitOutputs fits the output quantizers of the convolutions among the layers on what the set makes of them, behind
// their Relu or Clip, as Activation does for inputs; other layers have none.
func FitOutputs(ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, set *Set, bits int) (
	Outputs, error,
) {
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
	err := k.run(ctx, c, func(_ context.Context, i, _, _ int, v []float32) error {
		k.stats[i].count(v)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("statistics of the convolutions' outputs: %w", err)
	}
	out := Outputs{}
	for i, l := range k.layers {
		out[l.Node] = output{Activation(&k.stats[i], bits), l.Behind}
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

// Stats describes the input h of one layer over a calibration set. Its size does not depend on the rows.
type Stats struct {
	Moments
	// Min and Max of all elements of h, and how they are spread between: Hist holds their number in histBins equal bins
	// of [Min, Max], but for those that are exactly 0, which lies on every grid.
	Min, Max float32
	Hist     []float64
}

// Moments are Gram = E[h h^T], In x In, row-major, and Mean = E[h], or the sums that become
// them. For a layer that the input feeds, h is what Input.Reads gives; for a convolution,
// a patch of its input, and the moments of its groups follow one another.
type Moments struct{ Gram, Mean []float64 }

const histBins = 4096

func newStats(l quant.LayerInfo) Stats {
	s := emptyStats()
	n := groups(l) * l.In
	s.Moments = Moments{make([]float64, n*l.In), make([]float64, n)}
	return s
}

func groups(l quant.LayerInfo) int {
	if l.Conv == nil {
		return 1
	}
	return l.Conv.Group
}

func emptyStats() Stats {
	return Stats{Min: float32(math.Inf(1)), Max: float32(math.Inf(-1)), Hist: make([]float64, histBins)}
}

// count adds values to the histogram.
func (s *Stats) count(v []float32) {
	width := float64(s.Max) - float64(s.Min)
	for _, x := range v {
		if x != 0 && width > 0 {
			s.Hist[min(int((float64(x)-float64(s.Min))/width*histBins), histBins-1)]++
		}
	}
}

// add adds h^T h. The general product is used for a symmetric result because gonum computes it in blocks and on all
// cores, and Syrk on one.
func (m Moments) add(h []float64) {
	k := len(m.Mean)
	rows := blas64.General{Rows: len(h) / k, Cols: k, Stride: k, Data: h}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, rows, rows, 1, blas64.General{Rows: k, Cols: k, Stride: k, Data: m.Gram})
}

// divide divides sums by the number of their terms, and makes the second moments symmetric to the bit.
func (m Moments) divide(terms int) {
	floats.Scale(1/float64(max(1, terms)), m.Gram)
	floats.Scale(1/float64(max(1, terms)), m.Mean)
	n := len(m.Mean)
	for i := range n {
		for j := range i {
			m.Gram[i*n+j] = m.Gram[j*n+i]
		}
	}
}

// Join gives all of several statistics the weighted mean of their moments.
func Join(stats []*Stats, weights []float64) {
	mean := func(of func(s *Stats) []float64) {
		sum := make([]float64, len(of(stats[0])))
		for k, s := range stats {
			floats.AddScaled(sum, weights[k]/floats.Sum(weights), of(s))
		}
		for _, s := range stats {
			copy(of(s), sum)
		}
	}
	mean(func(s *Stats) []float64 { return s.Gram })
	mean(func(s *Stats) []float64 { return s.Mean })
}

func (m Moments) group(g, groups int) Moments {
	cut := func(v []float64) []float64 {
		n := len(v) / groups
		return v[g*n : (g+1)*n : (g+1)*n]
	}
	return Moments{cut(m.Gram), cut(m.Mean)}
}
