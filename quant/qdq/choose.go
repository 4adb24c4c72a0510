package qdq

import (
	"maps"
	"slices"

	"cfq/onnxio/graph"
)

// planesFrom is the number of bytes that bit planes have to save, in all, to pay for
// the function that unpacks them, when no Size function says so exactly.
const planesFrom = 750

// choose fills in the containers of all layers and returns the model with them.
//
// With a Size function they are those with the fewest bytes in the file. What a
// layer's containers save does not depend on the other layers', except that the
// first bit planes bring the unpacking function. So every layer has its smallest
// containers with bit planes, taking the function for granted, and its smallest
// without; the file is written both ways.
func (p *prepared) choose(o Options) *graph.Model {
	layers := p.encoded()
	saved := 0 // bits
	for _, l := range layers {
		for _, f := range l.enc.Formats {
			saved += l.enc.In * (p.runtime.plain(f.Bits).bits - p.runtime.exact(f.Bits).bits)
		}
	}
	for _, l := range layers {
		l.stores = stores{}
		for _, bits := range l.widths() {
			switch {
			case p.plain:
				l.stores[bits] = container{bits: 8}
			case saved/8 >= planesFrom:
				l.stores[bits] = p.runtime.exact(bits)
			default:
				l.stores[bits] = p.runtime.plain(bits)
			}
		}
	}
	if o.Size == nil || p.plain {
		return p.write(false)
	}
	free := make([]stores, len(layers)) // of bit planes
	all := make([]stores, len(layers))
	for i, l := range layers {
		free[i], all[i] = p.best(l, o)
	}
	with := func(to []stores) *graph.Model {
		for i, l := range layers {
			l.stores = to[i]
		}
		return p.write(false)
	}
	least := with(free)
	if slices.EqualFunc(free, all, maps.Equal) {
		return least
	}
	if m := with(all); o.Size(m) < o.Size(least) {
		return m
	}
	return least
}

// best returns the smallest containers of l without bit planes and with or without.
func (p *prepared) best(l *layer, o Options) (free, all stores) {
	options := p.runtime.options(l)
	if len(options) == 1 {
		return options[0], options[0]
	}
	before := l.stores
	defer func() { l.stores = before }()
	freeSize, allSize := 0, 0
	for _, s := range options {
		l.stores = s
		n := o.Size(p.write(true))
		if !s.planes() && (free == nil || n < freeSize) {
			free, freeSize = s, n
		}
		if all == nil || n < allSize {
			all, allSize = s, n
		}
	}
	return free, all
}

// encoded returns the layers that are quantized, in the order of the plan's model.
func (p *prepared) encoded() []*layer {
	var out []*layer
	for _, n := range p.m.Graph.Nodes {
		if l := p.layers[n.Name]; l != nil && l.enc != nil && isLayer(n) {
			out = append(out, l)
		}
	}
	return out
}

// widths returns the widths of the rows of l, narrowest first.
func (l *layer) widths() []int {
	var out []int
	for _, f := range l.enc.Formats {
		if !slices.Contains(out, f.Bits) {
			out = append(out, f.Bits)
		}
	}
	slices.Sort(out)
	return out
}

// groupBytes is more than it can save to store rows of one width with those of another
// and not by themselves: a tensor, what unpacks it, a Concat and a Gather.
const groupBytes = 600

// options lists the ways to store the rows of l that may be the smallest: each width
// in the container of its own, in a plain one that holds it, or in that of a wider one
// of the layer.
func (r Runtime) options(l *layer) []stores {
	widths := l.widths()
	out := []stores{{}}
	for i, bits := range widths {
		candidates := []container{r.plain(bits)}
		add := func(c container) {
			if !slices.Contains(candidates, c) {
				candidates = append(candidates, c)
			}
		}
		for _, wider := range widths[i:] {
			add(r.exact(wider))
			add(r.plain(wider))
		}
		var next []stores
		for _, s := range out {
			for _, c := range candidates {
				with := maps.Clone(s)
				with[bits] = c
				if !r.wasteful(with, l) {
					next = append(next, with)
				}
			}
		}
		out = next
	}
	return out
}

// wasteful reports whether rows of a width of l take so many more bytes in s than by
// themselves that s cannot be the smallest.
func (r Runtime) wasteful(s stores, l *layer) bool {
	unpacks := s.planes()
	extra := map[int]int{} // bits, by width
	for _, f := range l.enc.Formats {
		c, ok := s[f.Bits]
		if !ok {
			continue
		}
		own := r.plain(f.Bits)
		if e := r.exact(f.Bits); unpacks && e.planes {
			own = e // the function is there
		}
		extra[f.Bits] += l.enc.In * (c.bits - own.bits)
	}
	for _, bits := range extra {
		if bits/8 > groupBytes+4*l.enc.Out {
			return true
		}
	}
	return false
}
