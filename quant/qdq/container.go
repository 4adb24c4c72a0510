package qdq

import (
	"maps"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
	"cfq/quant"
)

// stores says in which container the rows of each width stand: that of so many bits, integers of 2, 4 or 8 or else bit
// planes. Rows of several widths may share one.
type stores map[int]int

// planeBits is the width that no type of integers has.
const planeBits = 3

type rowGroup struct {
	bits int // of the container
	rows []int
}

func packed(l *plannedLayer, g rowGroup) *graph.Tensor {
	in := l.enc.In
	codes := l.enc.Codes
	if len(g.rows) < l.enc.Out {
		codes = lists.RowsAt(codes, in, g.rows)
	}
	if g.bits == planeBits { // uint8 [bits, bytes of a plane, 1]
		m := (len(codes) + 7) / 8
		raw := make([]byte, g.bits*m)
		for i, q := range codes {
			for b := range g.bits {
				raw[b*m+i/8] |= byte(q) >> b & 1 << (i % 8)
			}
		}
		return &graph.Tensor{Name: "w", DType: graph.Uint8, Dims: []int64{int64(g.bits), int64(m), 1}, Raw: raw}
	}
	t := &graph.Tensor{Name: "w", Dims: []int64{int64(len(g.rows)), int64(in)}}
	t.DType = map[int]graph.DType{2: graph.Int2, 4: graph.Int4, 8: graph.Int8}[g.bits]
	t.Raw = make([]byte, t.DType.RawSize(len(codes)))
	mask := byte(1<<g.bits - 1)
	for i, q := range codes {
		t.Raw[i*g.bits/8] |= (byte(q) & mask) << (i * g.bits % 8)
	}
	return t
}

// The function that unpacks bit planes, shared by all layers of a model.
const (
	functionDomain = pass.FunctionDomain
	functionName   = "Unpack"
)

// unpackFunction is the model-local function that turns bit planes into int8 codes. Inputs: the planes p, uint8 [bits,
// m, 1], bit k of byte j of a plane belonging to element 8j+k; the worth v of each plane, float [bits, 1]; the shape n
// of the result, int64 [2]. The runtime folds a call with constant inputs at load.
func unpackFunction(opset int64) *graph.Function {
	f := &graph.Function{
		Name: functionName, Domain: functionDomain,
		Inputs: []string{"p", "v", "n"}, Outputs: []string{"w"},
		Opsets: []graph.Opset{{Version: opset}},
	}
	op := func(name, out string, in []string, attrs ...graph.Attr) {
		f.Nodes = append(f.Nodes, &graph.Node{Op: name, Inputs: in, Outputs: []string{out}, Attrs: attrs})
	}
	bytes := func(out string, v ...byte) {
		t := &graph.Tensor{DType: graph.Uint8, Dims: []int64{int64(len(v))}, Raw: v}
		op("Constant", out, nil, graph.TensorAttr("value", t))
	}
	ints := func(out string, v ...int64) { op("Constant", out, nil, graph.IntsAttr("value_ints", v...)) }
	bytes("a", 0, 1, 2, 3, 4, 5, 6, 7)
	bytes("b", 1)
	ints("c", 0, -1)
	ints("d", 0)
	op("BitShift", "e", []string{"p", "a"}, graph.StringAttr("direction", "RIGHT"))
	op("BitwiseAnd", "f", []string{"e", "b"})
	op("Reshape", "g", []string{"f", "c"})
	op("Cast", "h", []string{"g"}, graph.IntAttr("to", int64(graph.Float)))
	op("Gemm", "i", []string{"h", "v"}, graph.IntAttr("transA", 1))
	op("Cast", "j", []string{"i"}, graph.IntAttr("to", int64(graph.Int8)))
	op("ReduceProd", "k", []string{"n"})
	op("Slice", "l", []string{"j", "d", "k"})
	op("Reshape", "w", []string{"l", "n"})
	return f
}

// groupBytes is more than it can save to store rows of one width with those of another
// and not by themselves: a tensor, what unpacks it, a Concat and a Gather.
const groupBytes = 600

// plainBits are those of the narrowest integers that hold codes of so many bits.
func plainBits(bits int) int {
	if bits == planeBits {
		return 4
	}
	return bits
}

func (l *plannedLayer) has(bits int) bool {
	return slices.ContainsFunc(l.enc.Formats, func(f quant.Format) bool { return f.Bits == bits })
}

// options lists the ways to store the rows of l that may be the smallest: each width in the container of its own, in
// integers that hold it, or in that of a wider one of the layer. Bit planes are among them if the function that unpacks
// those is there.
func (l *plannedLayer) options(unpacks bool) []stores {
	rows := map[int]int{}
	for _, f := range l.enc.Formats {
		rows[f.Bits]++
	}
	widths, out := slices.Sorted(maps.Keys(rows)), []stores{{}}
	for i, bits := range widths {
		own := plainBits(bits)
		candidates := []int{own}
		if unpacks {
			own = bits
		}
		for _, wider := range widths[i:] {
			candidates = append(candidates, wider, plainBits(wider))
		}
		var next []stores
		for _, s := range out {
			for k, c := range candidates {
				more := rows[bits] * l.enc.In * (c - own) / 8
				if more > groupBytes+4*l.enc.Out || c == planeBits && !unpacks || slices.Contains(candidates[:k], c) {
					continue
				}
				with := maps.Clone(s)
				with[bits] = c
				next = append(next, with)
			}
		}
		out = next
	}
	return out
}

// Overhead is what a file needs to hold the rows of a layer in a set of widths.
type Overhead struct {
	Formats []int // indices among quant.Formats
	Bytes   int   // besides the codes: tensors, nodes, the order of the rows
	Planes  bool  // they need the function that unpacks bit planes, which all layers share
}

// Overheads writes a plan with the rows of each group of layers, which share their weights, in every set of widths. The
// file has base bytes besides these and the codes, and unpack bytes more with the function that unpacks bit planes.
func Overheads(m *graph.Model, plan *quant.Plan, groups [][]string, size func(*graph.Model) int) (
	sets [][]Overhead, base, unpack int, err error,
) {
	p, err := prepare(m, plan)
	if err != nil {
		return nil, 0, 0, err
	}
	formats, containers := quant.Formats(), stores{}
	for _, f := range formats {
		containers[f.Bits] = f.Bits
	}
	give := func(l *plannedLayer, widths ...int) (codes int) {
		l.enc.Formats = lists.Make(l.enc.Out, func(r int) quant.Format { return formats[widths[r%len(widths)]] })
		for _, f := range l.enc.Formats {
			codes += l.enc.In * f.Bits
		}
		return codes / 8
	}
	widest := len(formats) - 1
	for _, l := range p.layers {
		if l.enc != nil {
			l.stores = containers
			give(l, widest)
		}
	}
	whole := size(p.write(false))
	base, unpack = whole, size(p.write(true))-whole
	for _, names := range groups {
		layers := lists.Map(names, func(n string) *plannedLayer { return p.layers[n] })
		all := give(layers[0], widest)
		base -= all
		var of []Overhead
		for set := 1; set < 1<<len(formats); set++ {
			h := Overhead{Formats: lists.Where(len(formats), func(f int) bool { return set>>f&1 > 0 })}
			if len(h.Formats) > layers[0].enc.Out {
				continue
			}
			codes := 0
			for _, l := range layers {
				codes = give(l, h.Formats...)
			}
			h.Planes = layers[0].has(planeBits)
			if h.Bytes = size(p.write(h.Planes)) - whole - codes + all; h.Planes {
				h.Bytes -= unpack
			}
			of = append(of, h)
		}
		for _, l := range layers {
			give(l, widest)
		}
		sets = append(sets, of)
	}
	return sets, base, unpack, nil
}
