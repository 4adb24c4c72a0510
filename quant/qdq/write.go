// Package qdq writes quantized models: plan + canonical float model -> ONNX model with QuantizeLinear and
// DequantizeLinear nodes that ONNX Runtime fuses into integer kernels.
//
// In: a model from pass.Canonical and a plan for it. Out: a new model that has the size of its bits (sub-byte weights
// stand in packed containers in front of the DequantizeLinear, where the runtime folds them at load) and runs on int8
// kernels. The invariant: the integers in the file are those of quant.Encode, and everything the plan does not name is
// as it was. In the paper: section "Quantizer parameterization".
package qdq

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/quant"
)

// Options bound what is written.
type Options struct {
	// Size returns the bytes of a model's file. With it the containers of every layer's rows are chosen by the bytes of
	// the file; without, each width has the narrowest integers that hold it, and no bit planes.
	Size func(*graph.Model) int
	// Plain writes a model to run and throw away, which the runtime loads in about half the time: all
	// codes are int8, and vectors stand as they are. Size is not asked. Results are the same but for rounding.
	Plain bool
	// Ordered keeps hidden units in the order of the model.
	Ordered bool
}

// Opsets and IR versions that the containers need, and that ONNX Runtime 1.24 reads.
const (
	baseOpset, baseIR = 21, 10
	int2Opset, int2IR = 25, 13
)

// Write returns the quantized form of m, a model from pass.Canonical. Errors name the layers; all are reported at once.
func Write(m *graph.Model, plan *quant.Plan, o Options) (*graph.Model, error) {
	if err := CheckOpset(m); err != nil {
		return nil, err
	}
	p, err := prepare(m, plan)
	if err != nil {
		return nil, err
	}
	p.plain = o.Plain
	for _, l := range p.layers {
		l.free = l.free && !o.Ordered
	}
	return p.choose(o), nil
}

// CheckOpset reports a model whose operator set cannot be that of a written file.
func CheckOpset(m *graph.Model) error {
	switch v := m.Opset(""); {
	case v < baseOpset:
		return fmt.Errorf("the model has opset %d: quantized models need %d", v, baseOpset)
	case v > int2Opset:
		return fmt.Errorf("the model has opset %d, and ONNX Runtime 1.24, which must read the file, reads up to %d: "+
			"export the model with a lower opset", v, int2Opset)
	}
	return nil
}

type prepared struct {
	m       *graph.Model
	plain   bool // see Options
	input   *quant.Input
	value   string // the value that input covers
	layers  map[string]*plannedLayer
	outputs map[string]quant.Act // output quantizers by the values that they stand at
}

// plannedLayer is one planned layer; enc is nil when it stays in float.
type plannedLayer struct {
	info    quant.LayerInfo
	plan    *quant.Layer
	enc     *quant.Encoded
	sources []int  // input of each column of the kernel; nil when they are the same
	stores  stores // how its codes stand in the file
	// The order of its rows is free, since they are the columns of another layer alone; that of its columns follows that
	// of the rows of the layer before.
	free   bool
	before *plannedLayer
}

func prepare(m *graph.Model, plan *quant.Plan) (*prepared, error) {
	infos, err := quant.FindLayers(m)
	if err != nil {
		return nil, err
	}
	p := &prepared{m: m, input: plan.Input, layers: map[string]*plannedLayer{}, outputs: map[string]quant.Act{}}
	var errs []error
	if plan.Input != nil {
		p.value = cmp.Or(plan.Input.Value, m.Graph.DataInputs()[0].Name)
	}
	for _, info := range infos {
		// Only Gemms have names of their own: a fixed layer does not take one from them.
		first := p.layers[info.Node]
		if l := plan.Layer(info.Node); l != nil && (first == nil || first.info.Fixed != "") {
			p.layers[info.Node] = &plannedLayer{info: info, plan: l}
		}
	}
	for i := range plan.Layers {
		l := &plan.Layers[i]
		if e := p.layers[l.Node]; e == nil {
			errs = append(errs, fmt.Errorf("the plan names the layer %q, which the model does not have", l.Node))
		} else if !l.Float {
			errs = append(errs, p.encode(e))
		}
	}
	p.freeOrders()
	return p, errors.Join(errs...)
}

// freeOrders finds the layers whose units may change places: another layer alone reads them, through functions of
// single numbers.
func (p *prepared) freeOrders() {
	readers := p.m.Graph.Consumers()
	dense := func(l *plannedLayer) bool {
		return l != nil && l.enc != nil && l.info.Conv == nil && len(readers[l.info.Weight]) == 1
	}
	for _, a := range p.layers {
		for v := a.info.Output; len(readers[v]) == 1 && !p.m.Graph.IsOutput(v); v = readers[v][0].Outputs[0] {
			n := readers[v][0]
			if b := p.encodedAt(n); dense(a) && dense(b) && b.sources == nil && n.Input(0) == v {
				a.free, b.before = true, a
			}
			if !slices.Contains(strings.Fields("Relu LeakyRelu Elu Selu Softplus Gelu HardSwish Tanh Sigmoid"), n.Op) {
				break
			}
		}
	}
}

func (p *prepared) encode(l *plannedLayer) error {
	var scale float32
	if l.plan.Act != nil {
		scale = l.plan.Act.Scale
	}
	if p.input != nil && l.info.Input == p.value {
		if l.plan.Act != nil {
			return fmt.Errorf("layer %q: the plan's input quantizes what it reads: it cannot have an activation quantizer",
				l.plan.Node)
		}
		if err := p.input.Check(l.info.In); err != nil {
			return fmt.Errorf("layer %q: %w", l.plan.Node, err)
		}
		l.info, l.sources = p.input.Fold(l.info), p.input.Sources()
		scale = p.input.Scale
	}
	if l.plan.Result != nil {
		p.outputs[l.info.Behind.Value] = *l.plan.Result
	}
	var err error
	l.enc, err = l.plan.Encode(l.info, scale)
	return err
}

// write makes the quantized model with the containers of the layers; with the
// unpacking function in any case if unpacks is set.
func (p *prepared) write(unpacks bool) *graph.Model {
	m := p.m.Clone()
	w := &graphWriter{
		prepared: p, unpacks: unpacks, g: m.Graph, names: graph.NewBuilder(m.Graph, ""),
		values: map[string]string{},
	}
	nodes := m.Graph.Nodes
	m.Graph.Nodes = nil
	for _, n := range nodes {
		if l := p.encodedAt(n); l != nil {
			w.layer(n, l.inOrder())
		} else {
			w.append(n)
		}
		w.result(n)
	}
	w.isolate()
	w.sweep()
	if w.int2 {
		// From opset 21 to 25 operators gain types; none changes its meaning.
		m.SetOpset("", max(m.Opset(""), int2Opset))
		m.IRVersion = max(m.IRVersion, int2IR)
	}
	// Newer IR versions add element types, which come with newer opsets, and notes on devices.
	m.IRVersion = min(max(m.IRVersion, baseIR), int2IR)
	if w.unpacks {
		m.SetOpset(functionDomain, 1)
		m.Functions = append(m.Functions, unpackFunction(m.Opset("")))
	}
	return m
}

// choose fills in the containers of all layers and returns the model with them.
//
// With a Size function they are those with the fewest bytes in the file. What a layer's containers save does not depend
// on the other layers', except that the first bit planes bring the unpacking function. So the file is written without
// bit planes and, taking the function for granted, with them, and each time every layer has its smallest containers.
func (p *prepared) choose(o Options) *graph.Model {
	var layers, unpacked []*plannedLayer // all, and those that may have bit planes
	for _, n := range p.m.Graph.Nodes {
		l := p.encodedAt(n)
		if l == nil {
			continue
		}
		layers, l.stores = append(layers, l), stores{}
		for _, f := range quant.Formats() {
			if l.stores[f.Bits] = plainBits(f.Bits); p.plain {
				l.stores[f.Bits] = 8
			}
		}
		if l.has(planeBits) {
			unpacked = append(unpacked, l)
		}
	}
	if o.Size == nil || p.plain {
		return p.write(false)
	}
	smallest := p.shrink(layers, false, o.Size)
	if len(unpacked) > 0 {
		if m := p.shrink(unpacked, true, o.Size); o.Size(m) < o.Size(smallest) {
			return m
		}
	}
	return smallest
}

// shrink gives each of the layers the smallest of its options, and returns the model with them.
func (p *prepared) shrink(layers []*plannedLayer, unpacks bool, size func(*graph.Model) int) *graph.Model {
	for _, l := range layers {
		options := l.options(unpacks)
		best, least := options[0], math.MaxInt
		for _, s := range options {
			if l.stores = s; len(options) == 1 {
				break
			}
			if n := size(p.write(unpacks)); n < least {
				best, least = s, n
			}
		}
		l.stores = best
	}
	return p.write(false)
}

func (p *prepared) encodedAt(n *graph.Node) *plannedLayer {
	if l := p.layers[n.Name]; l != nil && l.enc != nil && isLayer(n) {
		return l
	}
	return nil
}

// groups collects the rows of l by their container, in the order in which those occur, and returns where in that order
// each row of the layer stands; nil when it stands in its place.
func (l *plannedLayer) groups() (groups []rowGroup, place []int) {
	for o, f := range l.enc.Formats {
		c := l.stores[f.Bits]
		g := slices.IndexFunc(groups, func(g rowGroup) bool { return g.bits == c })
		if g < 0 {
			g = len(groups)
			groups = append(groups, rowGroup{bits: c})
		}
		groups[g].rows = append(groups[g].rows, o)
	}
	place = make([]int, len(l.enc.Formats))
	at := 0
	for _, g := range groups {
		for _, o := range g.rows {
			place[o] = at
			at++
		}
	}
	if slices.IsSorted(place) {
		return groups, nil
	}
	return groups, place
}

// order lists the rows of l as the file has them: by container where it is free, nil where they stay.
func (l *plannedLayer) order() []int {
	groups, place := l.groups()
	if !l.free || place == nil {
		return nil
	}
	return lists.Join(groups, func(g rowGroup) []int { return g.rows })
}

// inOrder is l with its rows and columns as the file has them.
func (l *plannedLayer) inOrder() *plannedLayer {
	c, enc := *l, *l.enc
	c.enc = &enc
	if at := l.order(); at != nil {
		enc.Codes, enc.Formats = lists.RowsAt(enc.Codes, enc.In, at), lists.RowsAt(enc.Formats, 1, at)
		for _, v := range []*[]float32{&enc.Scales, &enc.FloatB} {
			if len(*v) > 1 {
				*v = lists.RowsAt(*v, 1, at)
			}
		}
		if enc.Bias != nil {
			enc.Bias = lists.RowsAt(enc.Bias, 1, at)
		}
	}
	if l.before != nil {
		if at, from := l.before.order(), enc.Codes; at != nil {
			enc.Codes = lists.Make(len(from), func(i int) int8 { return from[i-i%enc.In+at[i%enc.In]] })
		}
	}
	return &c
}

// Shorten gives all values but inputs and outputs of a written model short names. Layers keep theirs, by which messages
// and plans call them; other nodes have none. A model with subgraphs, which name values, too, stays as it is.
func Shorten(m *graph.Model, layers []quant.LayerInfo) {
	g, short, next := m.Graph, map[string]string{"": ""}, int64(0)
	if slices.ContainsFunc(g.Nodes, (*graph.Node).HasGraphs) {
		return
	}
	for _, v := range slices.Concat(g.Inputs, g.Outputs) {
		short[v.Name] = v.Name
	}
	for i := range layers { // one without a name is called after its value
		short[layers[i].Node] = layers[i].Node
	}
	rename := func(name string) string {
		for ; short[name] == "" && name != ""; next++ {
			if s := strconv.FormatInt(next, 36); short[s] != s {
				short[name] = s
			}
		}
		return short[name]
	}
	for _, n := range g.Nodes {
		n.Inputs, n.Outputs = lists.Map(n.Inputs, rename), lists.Map(n.Outputs, rename)
		if short[n.Name] != n.Name {
			n.Name = ""
		}
	}
	for _, t := range g.Inits {
		t.Name = rename(t.Name)
	}
	for i := range g.Values {
		g.Values[i].Name = rename(g.Values[i].Name)
	}
}
