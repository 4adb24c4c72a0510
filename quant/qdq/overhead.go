package qdq

import (
	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/quant"
)

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
