package recourse

import "math"

// bound solves the Lagrangian dual of the node: the largest over price >= 0 of
//
//	price need + min over plans of (cost - price acts),
//
// whose inner minimum is exact, steps, switches and limit included. It is the linear relaxation over mixtures of whole plans, so
// never below the relaxation of single features. It returns false when no plan reaches the need.
func (p *problem) bound(n *node) bool {
	var rows []int
	for r, v := range n.need {
		if !math.IsInf(v, -1) {
			rows = append(rows, r)
		}
	}
	for _, r := range rows {
		price := make([]float64, len(n.need))
		price[r] = 1
		c, _ := p.price(n.spans, 0, price) // the most that there is of the row
		if c == nil || !c.reaches(only(n.need, r)) {
			return false
		}
		n.plans = append(n.plans, c)
	}
	poor, _ := p.price(n.spans, 1, make([]float64, len(n.need)))
	if n.bound = poor.cost; poor.reaches(n.need) {
		n.plans, n.shares = []*plan{poor}, []float64{1}
		return true
	}
	if len(rows) == 1 {
		p.alongLine(n, poor, n.plans[0])
		return true
	}
	return p.byColumns(n, rows, append(n.plans, poor))
}

// only returns the need of row r, and none of the others.
func only(need []float64, r int) []float64 {
	out := make([]float64, len(need))
	for k := range out {
		out[k] = math.Inf(-1)
	}
	out[r] = need[r]
	return out
}

// alongLine is bound for the margin as the only row: a concave function of one price. The price at which the plans on either side of the need cost the
// same is followed until no plan is cheaper there.
func (p *problem) alongLine(n *node, poor, rich *plan) {
	need := n.need[0]
	price := make([]float64, len(n.need))
	for range 200 {
		price[0] = (rich.cost - poor.cost) / (rich.acts[0] - poor.acts[0])
		c, value := p.price(n.spans, 1, price)
		n.bound = max(n.bound, value+price[0]*need)
		line := rich.cost - price[0]*rich.acts[0]
		if value >= line-1e-13*(rich.cost+price[0]*math.Abs(rich.acts[0])) || c.acts[0] == rich.acts[0] || c.acts[0] == poor.acts[0] {
			break
		}
		if c.acts[0] >= need {
			rich = c
		} else {
			poor = c
		}
	}
	share := (need - poor.acts[0]) / (rich.acts[0] - poor.acts[0])
	n.plans, n.shares = []*plan{poor, rich}, []float64{1 - share, share}
}

// byColumns is bound for several rows: the linear program over mixtures of plans, which grows by the plan that is cheapest at its prices
// until none is cheaper than it says. First without costs, for a mixture that reaches the need or the proof that there is none.
func (p *problem) byColumns(n *node, rows []int, plans []*plan) bool {
	const rounds = 60
	for _, kappa := range []float64{0, 1} {
		for range rounds {
			price, shares, value, ok := master(n.need, rows, plans, kappa)
			if !ok {
				break // a bound from before holds; the search divides further
			}
			if kappa == 1 {
				n.plans, n.shares = nil, nil
				for k, s := range shares {
					if s > 1e-9 {
						n.plans, n.shares = append(n.plans, plans[k]), append(n.shares, s)
					}
				}
			}
			c, v := p.price(n.spans, kappa, price)
			for _, r := range rows {
				v += price[r] * n.need[r]
			}
			switch {
			case kappa == 1:
				n.bound = max(n.bound, v)
			case v > 1e-8:
				return false // at these prices every plan falls short
			}
			if v >= value-1e-9*(1+math.Abs(value)) || kappa == 0 && value < 1e-9 {
				break
			}
			plans = append(plans, c)
		}
	}
	if len(n.shares) == 0 || len(n.shares) != len(n.plans) {
		n.plans, n.shares = plans[:1], []float64{1}
	}
	return true
}
