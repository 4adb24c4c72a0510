package qdq

import (
	"maps"
	"slices"
)

// planesFrom is the number of bytes that bit planes have to save, in all, to pay for
// the function that unpacks them, when no Size function says so exactly.
const planesFrom = 750

// choose fills in the containers of all layers.
//
// With a Size function they are those with the fewest bytes in the file. What a
// layer's containers save does not depend on the other layers', except that the
// first bit planes bring the unpacking function. So every layer has its smallest
// containers with bit planes, taking the function for granted, and its smallest
// without; the file is written both ways.
func (p *prepared) choose(o Options) {
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
			l.stores[bits] = p.runtime.plain(bits)
			if saved/8 >= planesFrom {
				l.stores[bits] = p.runtime.exact(bits)
			}
		}
	}
	if o.Size == nil {
		return
	}
	free := make([]stores, len(layers)) // of bit planes
	all := make([]stores, len(layers))
	for i, l := range layers {
		free[i], all[i] = p.best(l, o)
	}
	set := func(to []stores) int {
		for i, l := range layers {
			l.stores = to[i]
		}
		return o.Size(p.write(false))
	}
	if a, b := set(all), set(free); a < b {
		set(all)
	}
}

// best returns the smallest containers of l without bit planes and with or without.
func (p *prepared) best(l *layer, o Options) (free, all stores) {
	options := p.runtime.options(l.widths())
	if len(options) == 1 {
		return options[0], options[0]
	}
	before := l.stores
	defer func() { l.stores = before }()
	freeSize, allSize := 0, 0
	for _, s := range options {
		l.stores = s
		n := o.Size(p.write(true))
		planes := slices.ContainsFunc(slices.Collect(maps.Values(s)), func(c container) bool { return c.planes })
		if !planes && (free == nil || n < freeSize) {
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

// options lists the ways to store rows of the given widths that may be the
// smallest: each width in the container of its own, in a plain one that holds it,
// or in that of a wider one of the layer.
func (r Runtime) options(widths []int) []stores {
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
				next = append(next, with)
			}
		}
		out = next
	}
	return out
}
