package ptq

import (
	"context"
	"fmt"
	"math"

	"cfq/allocate"
	"cfq/sensitivity"
)

// Rule is what one way of giving bits to layers makes of the budget.
type Rule struct {
	// Name is a name of Allocators, or RuleHAWQ.
	Name string `json:"rule"`
	// At is "factual" or "recourse", where the rule looks; "" where it looks nowhere.
	At string `json:"at,omitempty"`
	// Bits are those of each layer, nil where the rule has none: Error says why.
	Bits     []int   `json:"bits,omitempty"`
	MeanBits float64 `json:"mean_bits,omitempty"`
	// MarginError is the root mean square of the margin error, at recourse points or,
	// where there are none, at factual rows, of the model with these bits, written and run
	// with nothing refined.
	MarginError float64 `json:"margin_error,omitempty"`
	Error       string  `json:"error,omitempty"`
}

// RuleHAWQ is the rule of HAWQ-V2: the exact knapsack over the trace per weight times the
// squared change of the weights.
const RuleHAWQ = "hawq-v2"

// ruler asks rules for their bits and measures what comes of them.
type ruler struct {
	*profiler

	weights []int // of each layer
	total   int   // of all
	budget  int64
	x       []float32 // where whole models are run, and the margins there
	margins []float32
	known   map[string]float64 // damage of assignments
}

func (p *profiler) rules(ctx context.Context) ([]Rule, error) {
	r := &ruler{profiler: p, weights: p.params(), x: p.points.Points(), known: map[string]float64{}}
	for _, n := range r.weights {
		r.total += n
	}
	r.budget = int64(math.Floor(p.o.Budget*float64(r.total) + 1e-6))
	if p.points.Recourse == 0 {
		r.x = p.points.Facts()
	}
	r.x = thin(r.x, p.full.Dim(), damageRows)
	var err error
	if r.margins, err = p.full.Margins(ctx, r.x); err != nil {
		return nil, err
	}
	list := []Rule{{Name: AllocatorUniform}}
	picks, err := allocate.Uniform(r.choices(nil), r.budget)
	if err := r.fill(ctx, &list[0], picks, err); err != nil {
		return nil, err
	}
	for _, at := range []string{"factual", "recourse"} {
		m := p.factual
		if at == "recourse" {
			m = p.recourse
		}
		if m == nil {
			continue
		}
		for _, name := range []string{AllocatorPaper, RuleHAWQ, AllocatorExact} {
			picks, ok, err := r.pick(name, m)
			if !ok {
				continue
			}
			rule := Rule{Name: name, At: at}
			if err := r.fill(ctx, &rule, picks, err); err != nil {
				return nil, err
			}
			list = append(list, rule)
		}
	}
	return list, nil
}

// pick asks the rule called name for its choices; it is not ok where the rule lacks its measure.
func (r *ruler) pick(name string, m *measures) (picks []int, ok bool, err error) {
	switch {
	case name == AllocatorPaper && m.gradient != nil:
		picks, err = allocate.Paper(r.choices(nil), perWeight(m.gradient, r.weights), r.budget)
	case name == RuleHAWQ && m.trace != nil:
		var d [][]float64
		if d, err = r.curved(m.trace); err == nil {
			picks, err = allocate.Exact(r.choices(d), r.budget)
		}
	case name == AllocatorExact:
		picks, err = allocate.Exact(r.choices(m.damage), r.budget)
	default:
		return nil, false, nil
	}
	return picks, true, err
}

// choices are those of each layer, their cost the bits of the weights.
func (r *ruler) choices(damage [][]float64) [][]allocate.Choice {
	out := make([][]allocate.Choice, len(r.layers))
	for i := range out {
		for f, format := range r.formats() {
			c := allocate.Choice{Bits: format.Bits, Cost: int64(r.weights[i]) * int64(format.Bits)}
			if damage != nil {
				c.Error = damage[i][f]
			}
			out[i] = append(out[i], c)
		}
	}
	return out
}

// curved is what HAWQ-V2 takes for the damage of each layer and width: the trace per
// weight, the mean eigenvalue of the Hessian, times the squared change of the weights.
func (r *ruler) curved(trace []sensitivity.Curvature) ([][]float64, error) {
	out := make([][]float64, len(r.layers))
	for i := range out {
		gain := r.gains(i)
		w := r.wide[i]
		for f := range r.formats() {
			c, err := r.change(i, f)
			if err != nil {
				return nil, err
			}
			var sum float64
			for k, v := range c.W {
				d := (float64(v) - float64(w.W[k])) * gain[k%w.In]
				sum += d * d
			}
			out[i] = append(out[i], max(0, trace[i].Trace)/float64(r.weights[i])*sum)
		}
	}
	return out, nil
}

// gains are what the columns of a layer's weights were divided by for the integer input.
func (r *ruler) gains(layer int) []float64 {
	l := r.wide[layer]
	gain := make([]float64, l.In)
	for j := range gain {
		gain[j] = 1
	}
	if r.input != nil && l.Input == r.input.Value {
		for _, c := range r.input.Columns {
			gain[c.Source] = float64(c.Gain)
		}
	}
	return gain
}

// fill says what comes of the choices, or of the error that a rule gave in their place.
func (r *ruler) fill(ctx context.Context, rule *Rule, picks []int, err error) error {
	if err != nil {
		rule.Error = err.Error()
		return nil
	}
	formats := r.formats()
	for i, f := range picks {
		rule.Bits = append(rule.Bits, formats[f].Bits)
		rule.MeanBits += float64(formats[f].Bits*r.weights[i]) / float64(r.total)
	}
	d, err := r.together(ctx, picks)
	rule.MarginError = math.Sqrt(d)
	return err
}

// together is the mean squared margin error of the model with these choices.
func (r *ruler) together(ctx context.Context, picks []int) (float64, error) {
	key := fmt.Sprint(picks)
	if d, ok := r.known[key]; ok {
		return d, nil
	}
	w := make(widths, len(picks))
	for i, f := range picks {
		w[i] = []int{f}
	}
	d, err := r.joint(ctx, w, r.x, r.margins)
	if err == nil {
		r.known[key] = d
	}
	return d, err
}
