package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/qat"
	"cfq/task"
)

// Coding is how well an encoder and a decoder return their inputs. Errors of inputs are shares of their bounds.
type Coding struct {
	Error     float64 `json:"error"`      // root mean square of what is decoded from the code less the inputs
	MeanError float64 `json:"mean_error"` // that of the mean of the rows trained on
	// Rendered is that of what is decoded from the true attributes; nil without attributes.
	Rendered   *float64         `json:"rendered_error,omitempty"`
	Attributes []AttributeError `json:"attributes,omitempty"`
}

// AttributeError is how well the code tells an attribute, in the attribute's unit.
type AttributeError struct {
	Name      string  `json:"name"`
	Error     float64 `json:"error"`     // root mean square
	Deviation float64 `json:"deviation"` // standard deviation of the attribute
}

type coder struct {
	low, high, mean []float32 // of each input: bounds, and the mean of the rows trained on
	// Attributes, rows x attributes, in units of deviations from their means; nil without.
	own, held         []float32
	means, deviations []float64
}

func (f *fit) code() (err error) {
	if !f.o.Arch.coder {
		if len(f.o.Attributes) > 0 {
			return fmt.Errorf("arch %s has no code that attributes could be: want autoencoder:SIZE", f.o.Arch)
		}
		return nil
	}
	c := &coder{}
	for i := range f.task.Features {
		p := &f.task.Features[i]
		if p.Number() == nil || math.IsInf(p.Bounds[0], 0) || math.IsInf(p.Bounds[1], 0) || p.Bounds[0] >= p.Bounds[1] {
			return fmt.Errorf("arch %s: feature %q is no number with two bounds, as those of images are", f.o.Arch, p.Name)
		}
		c.low, c.high = append(c.low, p.ToInput(p.Bounds[0])), append(c.high, p.ToInput(p.Bounds[1]))
	}
	if len(c.low) < 2 {
		return fmt.Errorf("arch %s: there is but one input", f.o.Arch)
	}
	sums := make([]float64, f.own.Dim)
	for i, v := range f.own.X {
		sums[i%len(sums)] += float64(v)
	}
	c.mean = lists.Map(sums, func(v float64) float32 { return float32(v / float64(f.own.N)) })
	f.coder = c
	f.net.Code = qat.Code{Value: codeName, Attributes: len(f.o.Attributes), Low: c.low, High: c.high}
	if len(f.o.Attributes) == 0 {
		return nil
	}
	if n := f.o.Arch.hidden[f.o.Arch.code()]; n != len(f.o.Attributes) {
		return fmt.Errorf("arch %s: the code has %d numbers, and there are %d attributes", f.o.Arch, n, len(f.o.Attributes))
	}
	return c.attributes(f.own, f.held, f.o.Attributes)
}

func (c *coder) attributes(own, held *task.People, names []string) (err error) {
	if c.own, err = numbersOf(own, names); err != nil {
		return err
	}
	if held != nil {
		if c.held, err = numbersOf(held, names); err != nil {
			return err
		}
	}
	for j, name := range names {
		if slices.Contains(names[:j], name) {
			return fmt.Errorf("attribute %s is named twice", name)
		}
		mean, deviation := columnMoments(c.own, j, len(names))
		if !(deviation > 0) {
			return fmt.Errorf("attribute %s is the same in all rows", name)
		}
		c.means, c.deviations = append(c.means, mean), append(c.deviations, deviation)
		for _, v := range [][]float32{c.own, c.held} {
			for i := j; i < len(v); i += len(names) {
				v[i] = float32((float64(v[i]) - mean) / deviation)
			}
		}
	}
	return nil
}

func columnMoments(x []float32, column, columns int) (mean, deviation float64) {
	var of []float64
	for i := column; i < len(x); i += columns {
		of = append(of, float64(x[i]))
	}
	return stat.PopMeanStdDev(of, nil)
}

func numbersOf(p *task.People, names []string) (all []float32, err error) {
	for i, fields := range p.Kept {
		for j, field := range fields {
			v, err := strconv.ParseFloat(field, 64)
			switch {
			case field == "":
				return nil, fmt.Errorf("%s: attribute %s is empty, or the data has no such column", p.Place(i), names[j])
			case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
				return nil, fmt.Errorf("%s: attribute %s is %s: want a number", p.Place(i), names[j], message.Quote(field))
			}
			all = append(all, float32(v))
		}
	}
	return all, nil
}

// units are those of the code in the files: a number of the code is scale times that of the network, plus offset.
type units struct{ scale, offset []float64 }

// units are those of the attributes; without any, those of the network.
func (c *coder) units() units { return units{c.deviations, c.means} }

func (f *fit) coders(now []qat.Trained, u units) (encoder, decoder *graph.Model) {
	to := f.o.Arch.code()
	if now = slices.Clone(now); u.scale != nil {
		in, out := &now[to], &now[to+1]
		in.W, in.Bias = slices.Clone(in.W), slices.Clone(in.Bias)
		out.W, out.Bias = slices.Clone(out.W), slices.Clone(out.Bias)
		n := len(u.scale)
		for j, scale := range u.scale {
			width := len(in.W) / n
			for i := range width {
				in.W[j*width+i] *= float32(scale)
			}
			in.Bias[j] = float32(float64(in.Bias[j])*scale + u.offset[j])
		}
		for o := range out.Bias {
			bias := float64(out.Bias[o])
			for j, scale := range u.scale {
				w := float64(out.W[o*n+j]) / scale
				out.W[o*n+j] = float32(w)
				bias -= w * u.offset[j]
			}
			out.Bias[o] = float32(bias)
		}
	}
	whole := f.member(now, 0)
	code := value(codeName, f.o.Arch.hidden[to])
	input := whole.Graph.Inputs[0]
	encoder, decoder = model("encoder", input, code), model("decoder", code, input)
	into := encoder
	for _, n := range whole.Graph.Nodes {
		into.Graph.Nodes = append(into.Graph.Nodes, n)
		for _, in := range n.Inputs {
			if t := whole.Graph.Init(in); t != nil {
				into.Graph.Inits = append(into.Graph.Inits, t)
			}
		}
		if n.Outputs[0] == codeName {
			into = decoder
		}
	}
	f.coder.ends(decoder.Graph)
	return encoder, decoder
}

// ends appends to a decoder what makes inputs, within their bounds, of logits.
func (c *coder) ends(g *graph.Graph) {
	span := make([]float32, len(c.low))
	for i, low := range c.low {
		for span[i] = c.high[i] - low; low+span[i] > c.high[i]; {
			span[i] = math.Nextafter32(span[i], 0)
		}
	}
	constant := func(name string, v []float32) *graph.Tensor {
		if slices.Max(v) == slices.Min(v) {
			return graph.FromFloats(name, v[:1], 1)
		}
		return graph.FromFloats(name, v, int64(len(v)))
	}
	b := graph.NewBuilder(g, "/")
	share := b.Op("Sigmoid", []string{logitsName})
	scaled := b.Op("Mul", []string{share, b.Const(constant("span", span))})
	b.Append(&graph.Node{
		Op: "Add", Name: "/low", Inputs: []string{scaled, b.Const(constant("low", c.low))}, Outputs: []string{inputName},
	})
}

func (f *fit) through(ctx context.Context, g *graph.Model, x []float32) (_ []float32, err error) {
	m, err := onnxio.OpenMap(ctx, g, f.o.Engine)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return m.Run(ctx, x)
}

// mostCoded is how many rows an autoencoder is measured on after each round: a cross-entropy takes time for each pixel.
const mostCoded = 2048

// codingOf measures an autoencoder on the first rows trained on, and on as many of those held out if there are any.
func (f *fit) codingOf(ctx context.Context, now []qat.Trained, u units, most int) (Metrics, *Metrics, error) {
	encoder, decoder := f.coders(now, u)
	return f.onBoth(func(p *task.People) (Metrics, error) {
		attributes := f.coder.own
		if p == f.held {
			attributes = f.coder.held
		}
		return f.coded(ctx, encoder, decoder, p, attributes, most)
	})
}

// coded measures an encoder and a decoder on the first rows, whose attributes are in the units of the network.
func (f *fit) coded(ctx context.Context, encoder, decoder *graph.Model, p *task.People, attributes []float32,
	most int,
) (m Metrics, err error) {
	m = Metrics{Rows: min(p.N, most), Coding: &Coding{}}
	x, size := p.X[:m.Rows*p.Dim], f.o.Arch.hidden[f.o.Arch.code()]
	codes, err := f.through(ctx, encoder, x)
	if err != nil {
		return m, err
	}
	back, err := f.through(ctx, decoder, codes)
	if err != nil {
		return m, err
	}
	m.Loss, m.Error, m.MeanError = f.coder.loss(x, back), f.coder.deviation(x, back), f.coder.deviation(x, f.coder.mean)
	if attributes == nil {
		return m, nil
	}
	truth := slices.Clone(attributes[:m.Rows*size])
	squares := make([]float64, size)
	for i := range truth {
		j := i % size
		truth[i] = float32(float64(truth[i])*f.coder.deviations[j] + f.coder.means[j])
		e := float64(codes[i] - truth[i])
		squares[j] += e * e / float64(m.Rows)
	}
	for j, name := range f.o.Attributes {
		m.Attributes = append(m.Attributes, AttributeError{name, math.Sqrt(squares[j]), f.coder.deviations[j]})
		m.Loss += squares[j] / f.coder.deviations[j] / f.coder.deviations[j] / float64(size)
	}
	if back, err = f.through(ctx, decoder, truth); err != nil {
		return m, err
	}
	rendered := f.coder.deviation(x, back)
	m.Rendered = &rendered
	return m, nil
}

func (c *coder) share(x []float32, i int) float64 {
	j := i % len(c.low)
	return float64(x[i%len(x)]-c.low[j]) / float64(c.high[j]-c.low[j])
}

func (c *coder) loss(x, back []float32) (sum float64) {
	const least = 1e-7 // as float32 has the sigmoid near 1
	for i := range x {
		truth, p := c.share(x, i), min(max(c.share(back, i), least), 1-least)
		if truth != 0 { // black takes one logarithm
			sum -= truth * math.Log(p)
		}
		if truth != 1 {
			sum -= (1 - truth) * math.Log(1-p)
		}
	}
	return sum / float64(len(x))
}

// deviation returns the root mean square of the error of what is decoded, repeated where it is shorter.
func (c *coder) deviation(x, back []float32) float64 {
	var sum float64
	for i := range x {
		e := c.share(back, i) - c.share(x, i)
		sum += e * e
	}
	return math.Sqrt(sum / float64(len(x)))
}

// writeCoder makes the two files of the best round and measures them. A code that is found in training has the mean 0
// and the deviation 1 over the rows trained on.
func (f *fit) writeCoder(ctx context.Context) (err error) {
	u := f.coder.units()
	if u.scale == nil {
		encoder, _ := f.coders(f.best, u)
		codes, err := f.through(ctx, encoder, f.own.X)
		if err != nil {
			return err
		}
		u = standard(codes, len(codes)/f.own.N)
	}
	encoder, decoder := f.coders(f.best, u)
	if f.result.Model, err = f.marshal(encoder); err != nil {
		return err
	}
	if f.result.Decoder, err = f.marshal(decoder); err != nil {
		return err
	}
	f.result.Train, f.result.Validation, err = f.codingOf(ctx, f.best, u, math.MaxInt)
	return err
}

// standard are the units in which codes, of size numbers each, have the mean 0 and the deviation 1. A number that is
// the same everywhere stays so.
func standard(codes []float32, size int) (u units) {
	for j := range size {
		mean, deviation := columnMoments(codes, j, size)
		if deviation == 0 {
			deviation = 1
		}
		u.scale, u.offset = append(u.scale, 1/deviation), append(u.offset, -mean/deviation)
	}
	return u
}
