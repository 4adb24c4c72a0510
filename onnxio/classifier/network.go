package classifier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// maxUnits and maxInputs bound the networks that Network reads: its rows are dense.
const maxUnits, maxInputs = 2048, 4096

// Network returns the model as a network of Relu units: units values max(0, v), each v an affine function of the inputs
// and of earlier units, and margins that are affine functions of all, of which the smallest counts. The first rows are
// the weights of the units, of the inputs and then of the units; the others are those of the margins. Where the model
// is something else, as far as its operators tell, why says what; without units it is affine.
//
// The numbers are what ONNX Runtime gives when inputs and units are 0 but for one: exact to float32, the bias to the
// size of the terms that cancel in it. They are read once, and the caller does not change them.
func (c *Model) Network(ctx context.Context) (rows [][]float64, bias []float64, units int, why string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.network == nil {
		if c.network, err = c.readNetwork(ctx); err != nil {
			return nil, nil, 0, "", err
		}
	}
	return c.network.rows, c.network.bias, c.network.units, c.network.why, nil
}

type reluNetwork struct {
	rows  [][]float64
	bias  []float64
	units int
	why   string
}

func (c *Model) readNetwork(ctx context.Context) (*reluNetwork, error) {
	if c.Distance() != "" {
		return &reluNetwork{why: "a decoder stands in front of it"}, nil
	}
	if c.file != nil { // whose rounding is not the copy's
		return &reluNetwork{why: "its file works in " + strings.Join(c.FileTypes(), " and ")}, nil
	}
	units := 0
	cut, values, why := c.cut()
	if why != "" {
		return &reluNetwork{why: why}, nil
	}
	for _, u := range values {
		units += u.size
	}
	inputs := c.Dim()
	if units > maxUnits || inputs > maxInputs {
		why = fmt.Sprintf("it has %d inputs and %d units: more than %d or %d", inputs, units, maxInputs, maxUnits)
		return &reluNetwork{why: why}, nil
	}
	o := c.Engine()
	o.Level = ort.Disabled
	s, err := ort.Open(cut, o)
	if err != nil {
		return nil, fmt.Errorf("the model cut at its units: %w", err)
	}
	defer s.Close() //nolint:errcheck // nothing was written
	columns, err := c.columns(ctx, s, values, inputs+units)
	if err != nil {
		return nil, fmt.Errorf("the model cut at its units: %w", err)
	}
	rows := make([][]float64, len(columns[0]))
	for r := range rows {
		rows[r] = make([]float64, inputs+units)
		for j := range rows[r] {
			rows[r][j] = (columns[j+1][r] - columns[0][r]) / unitScale
		}
	}
	margins, offsets := c.marginRows(rows[units:], columns[0][units:])
	return &reluNetwork{
		rows: append(rows[:units], margins...), bias: append(columns[0][:units], offsets...), units: units,
	}, nil
}

// unitScale is the value of the one number that is not 0: so large that the bias leaves the digits of a weight.
const unitScale = 1 << 20

type reluUnit struct {
	name, before string // behind and in front of the Relu
	dims         []int64
	size         int
}

// cut returns the graph of which the values behind all Relu nodes are inputs, and those in front of them outputs, next
// to the logits.
func (c *Model) cut() (cut *graph.Model, units []reluUnit, why string) {
	cut = c.Graph().Clone()
	g := cut.Graph
	needed := g.Needed(c.logits)
	moves, products := map[string]bool{c.Input().Name: true}, map[string]bool{} // since the last Relu
	kept := g.Nodes[:0:0]
	g.Outputs = nil
	for _, n := range g.Nodes {
		// The node's inputs that depend on the model's.
		moving := lists.Where(len(n.Inputs), func(i int) bool { return moves[n.Inputs[i]] })
		if !needed[n] {
			continue
		}
		if len(moving) == 0 && !n.HasGraphs() {
			kept = append(kept, n)
			continue
		}
		for _, out := range n.Outputs {
			moves[out] = out != ""
		}
		if !n.Is("Relu") {
			if n.HasGraphs() || !n.Standard() || !affineNode(n, moving) {
				return nil, nil, n.Label() + " is neither affine nor Relu"
			}
			if n.Op == "BatchNormalization" && !smallShifts(g, n) {
				return nil, nil, n.Label() + " shifts by numbers that cancel: their rounding has no bound"
			}
			product := slices.Contains([]string{"MatMul", "Gemm", "Conv", "ConvTranspose"}, n.Op)
			multiplied := len(lists.Where(len(n.Inputs), func(i int) bool { return products[n.Inputs[i]] }))
			if multiplied > 1 || product && multiplied > 0 { // what cancels in the product of weights has been rounded
				return nil, nil, n.Label() + " follows another layer without a Relu between them"
			}
			products[n.Outputs[0]] = product || multiplied > 0
			kept = append(kept, n)
			continue
		}
		t := c.Types()[n.Outputs[0]]
		u := reluUnit{name: n.Outputs[0], before: n.Inputs[0], size: 1}
		for i, d := range t.Shape {
			batch := i == 0 && (d.Size < 0 || c.Fixed() > 0)
			if batch == (i > 0) || i > 0 && d.Size < 1 || t.DType != graph.Float {
				return nil, nil, fmt.Sprintf("%s has values of shape %v, %s", n.Label(), t.Shape, t.DType)
			}
			if i > 0 {
				u.dims, u.size = append(u.dims, d.Size), u.size*int(d.Size)
			}
		}
		units = append(units, u)
		g.Inputs = append(g.Inputs, graph.Value{Name: u.name, DType: t.DType, Shape: t.Shape})
		g.Outputs = append(g.Outputs, graph.Value{Name: u.before})
	}
	g.Nodes = kept
	g.Outputs = append(g.Outputs, graph.Value{Name: c.logits})
	return cut, units, ""
}

// maxShift bounds what a batch normalization adds: larger terms may cancel with those in front of it, and then the
// network's bias says too little about rounding.
const maxShift = 8

func smallShifts(g *graph.Graph, n *graph.Node) bool {
	var p [4][]float64 // scale, bias, mean, variance
	for k := range p {
		if t := g.Init(n.Input(k + 1)); t != nil {
			p[k], _ = t.Doubles()
		}
	}
	if len(p[0]) != len(p[3]) || len(p[1]) != len(p[3]) || len(p[2]) != len(p[3]) {
		return false
	}
	for c, v := range p[3] {
		scale := p[0][c] / math.Sqrt(v+float64(n.Float("epsilon", 1e-5)))
		if !(math.Abs(p[2][c]*scale) <= maxShift && math.Abs(p[1][c]) <= maxShift) {
			return false
		}
	}
	return p[3] != nil
}

func (c *Model) columns(ctx context.Context, s *ort.Session, units []reluUnit, numbers int) ([][]float64, error) {
	rows := cmp.Or(c.Fixed(), 64) // of a run
	out := make([][]float64, numbers+1)
	for from := 0; from <= numbers; from += rows {
		feed := func(first, size int) []float32 {
			x := make([]float32, rows*size)
			for i := range rows {
				if k := from + i - 1 - first; k >= 0 && k < size {
					x[i*size+k] = unitScale
				}
			}
			return x
		}
		in := []*graph.Tensor{c.Feed(feed(0, c.Dim()))}
		first := c.Dim()
		for _, u := range units {
			in = append(in, graph.FromFloats(u.name, feed(first, u.size), append([]int64{int64(rows)}, u.dims...)...))
			first += u.size
		}
		values, err := s.Run(ctx, in)
		if err != nil {
			return nil, err
		}
		for k, t := range values {
			size := c.classes
			if k < len(units) {
				size = units[k].size
			}
			v, err := t.Doubles()
			if err != nil || len(v) != rows*size {
				return nil, errors.Join(fmt.Errorf("value %q has %d numbers for %d rows of %d", t.Name, len(v), rows, size), err)
			}
			for i := range min(rows, numbers+1-from) {
				out[from+i] = append(out[from+i], v[i*size:(i+1)*size]...)
			}
		}
	}
	return out, nil
}

func (c *Model) marginRows(logits [][]float64, bias []float64) (rows [][]float64, offsets []float64) {
	if c.classes == 1 {
		sign := float64(2*c.target - 1)
		floats.Scale(sign, logits[0])
		return logits, []float64{sign * bias[0]}
	}
	for j, other := range logits {
		if j != c.target {
			rows = append(rows, floats.SubTo(make([]float64, len(other)), logits[c.target], other))
			offsets = append(offsets, bias[c.target]-bias[j])
		}
	}
	return rows, offsets
}
