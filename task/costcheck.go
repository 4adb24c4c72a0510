package task

import (
	"math"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/message"
)

func (d *decoder) cost(n ast.Node, c *Cost) mapping {
	m := d.mapping(n, "cost", d.costKeys(c))
	if c.Eps <= 0 {
		d.errorf(m.Place("eps"), "eps must be above 0: it bounds the weight 1/(std+eps) of an input that never varies")
	}
	if m.Has("l1_ratio") && c.Norm != Mixed {
		d.errorf(m.Place("l1_ratio"), "l1_ratio means nothing with norm %s; remove it, or set norm: mixed", c.Norm)
	}
	if c.L1Ratio < 0 || c.L1Ratio > 1 {
		d.errorf(m.Place("l1_ratio"), "l1_ratio lies between 0 (squares only) and 1 (sizes only), not at %v", c.L1Ratio)
	}
	return m
}

// checkCost reports features whose cost needs figures that the file does not give.
func (d *decoder) checkCost(t *Task, m mapping, features []mapping) {
	var lacking []string
	need := ""
	for i := range t.Features {
		f := &t.Features[i]
		if what := t.Cost.lacks(f, features[i]); f.Actionable && what != "" {
			need = what
			lacking = append(lacking, f.Name)
		}
	}
	if lacking != nil {
		d.errorf(m.Place("weights"), "%s needs %s of every number that people can change, and these have none: %s; "+
			"`cfq task init` makes them from data", string(t.Cost.Weights), need, clause(message.List(lacking, 20)))
	}
}

// lacks says which figures the weight of f needs that f does not have; "" when none.
func (c *Cost) lacks(f *Feature, m mapping) (need string) {
	switch {
	case !f.Kind.IsNumber():
	case c.Weights == InverseMAD && f.MAD == 0 && !m.Has("mad"):
		return "the mad"
	case c.Weights == InverseRange && f.Quantiles == nil && len(f.Levels) < 2 &&
		(math.IsInf(f.Bounds[0], 0) || math.IsInf(f.Bounds[1], 0)):
		return "quantiles, or bounds on both sides,"
	}
	return ""
}
