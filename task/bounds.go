package task

import (
	"math"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
	"cfq/internal/message"
)

// percents are the sides of bounds that are given as percentiles, until the quantiles are known.
type percents [2]struct {
	at    ast.Node // nil: this side is no percentile
	value float64  // 0 to 100
}

// span stores [lo, hi]; null and infinities leave a side open.
func (d *decoder) span(dst *[2]float64, b *percents) value {
	return value{Read: func(n ast.Node) {
		seq, ok := n.(*ast.SequenceNode)
		if !ok || len(seq.Values) != 2 {
			d.errorf(n, "this must be a pair [lo, hi]; null leaves a side open")
			return
		}
		for i, v := range seq.Values {
			d.side(v, i, dst, b)
		}
	}, Form: pairForm}
}

// side stores one side of bounds: null, a number, or a percentile such as 99%.
func (d *decoder) side(n ast.Node, i int, dst *[2]float64, b *percents) {
	if _, open := n.(*ast.NullNode); open {
		return
	}
	if s, ok := n.(*ast.StringNode); ok && strings.HasSuffix(s.Value, "%") {
		p, ok := Number(strings.TrimSpace(strings.TrimSuffix(s.Value, "%")))
		if !ok || p < 0 || p > 100 {
			d.errorf(n, "%q is no percentile; write one from \"0%%\" to \"100%%\"", s.Value)
			return
		}
		b[i].at, b[i].value = n, p
		return
	}
	if f, ok := d.float(n); ok {
		dst[i] = f
	}
}

// settle turns percentiles into raw values and reports bounds that nothing lies between.
func (d *decoder) settle(f *Feature, b *percents, m mapping) {
	for i, p := range b {
		switch {
		case p.at == nil:
		case len(f.Quantiles) < 2:
			d.errorf(p.at, "feature %q: the percentile %s needs the feature's quantiles; `cfq task init` makes them from data, or give a number",
				f.Name, message.Quote(config.ScalarText(p.at)))
		default:
			f.Bounds[i] = f.quantile(p.value / 100)
		}
	}
	if f.Bounds[0] > f.Bounds[1] || math.IsInf(f.Bounds[0], 1) || math.IsInf(f.Bounds[1], -1) {
		d.errorf(m.Place("bounds"), "no value lies between %v and %v; write [lo, hi] with lo <= hi", f.Bounds[0], f.Bounds[1])
	}
}

// quantile returns the raw value at a rank between 0 and 1, linear between the Quantiles.
func (f *Feature) quantile(rank float64) float64 {
	at := rank * float64(len(f.Quantiles)-1)
	i := min(int(at), len(f.Quantiles)-2)
	w := at - float64(i)
	return f.Quantiles[i]*(1-w) + f.Quantiles[i+1]*w // not lo + w*(hi-lo), which can overflow
}
