package recourse

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// bound solves the Lagrangian dual of the node: the largest over price >= 0 of
//
//	price need + min over assignments of (cost - price coef),
//
// whose inner minimum is exact, steps, switches and limit included. It is the linear relaxation over mixtures of whole
// assignments, so never below the relaxation of single features. It returns false when no assignment reaches the need.
func (p *problem) bound(n *node) bool {
	var rows []int
	for r, need := range n.need {
		if math.IsInf(need, -1) {
			continue
		}
		price := make([]float64, len(n.need))
		price[r] = 1
		c, _ := p.price(n.spans, 0, price) // the most that there is of the row
		if c == nil || !c.reachesRow(n.need, r) {
			return false
		}
		rows, n.vertices = append(rows, r), append(n.vertices, c)
	}
	poor, _ := p.price(n.spans, 1, make([]float64, len(n.need)))
	if n.bound = poor.cost; poor.reaches(n.need) {
		n.vertices, n.shares = []*assignment{poor}, []float64{1}
		return true
	}
	if len(rows) == 1 {
		p.alongLine(n, poor, n.vertices[0])
		return true
	}
	return p.byColumns(n, rows, append(n.vertices, poor))
}

// alongLine is bound for the margin as the only row: a concave function of one price. The price at which the
// assignments on either side of the need cost the same is followed until no assignment is cheaper there.
func (p *problem) alongLine(n *node, poor, rich *assignment) {
	need := n.need[0]
	price := make([]float64, len(n.need))
	for range 200 {
		price[0] = (rich.cost - poor.cost) / (rich.sum[0] - poor.sum[0])
		c, value := p.price(n.spans, 1, price)
		n.bound = max(n.bound, value+price[0]*need)
		line := rich.cost - price[0]*rich.sum[0]
		if value >= line-1e-13*(rich.cost+price[0]*math.Abs(rich.sum[0])) || c.sum[0] == rich.sum[0] ||
			c.sum[0] == poor.sum[0] {
			break
		}
		if c.sum[0] >= need {
			rich = c
		} else {
			poor = c
		}
	}
	share := (need - poor.sum[0]) / (rich.sum[0] - poor.sum[0])
	n.vertices, n.shares = []*assignment{poor, rich}, []float64{1 - share, share}
}

// byColumns is bound for several rows: the linear program over mixtures of assignments, which grows by the
// assignment that is cheapest at its prices until none is cheaper than it says. First without costs, for a mixture
// that reaches the need or the proof that there is none.
func (p *problem) byColumns(n *node, rows []int, plans []*assignment) bool {
	const rounds = 60
	for _, kappa := range []float64{0, 1} {
		for range rounds {
			price, shares, value, ok := master(n.need, rows, plans, kappa)
			if !ok {
				break // a bound from before holds; the search divides further
			}
			if kappa == 1 {
				n.vertices, n.shares = nil, nil
				for k, s := range shares {
					if s > 1e-9 {
						n.vertices, n.shares = append(n.vertices, plans[k]), append(n.shares, s)
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
				return false // at these prices every assignment falls short
			}
			if v >= value-1e-9*(1+math.Abs(value)) || kappa == 0 && value < 1e-9 {
				break
			}
			plans = append(plans, c)
		}
	}
	if len(n.shares) == 0 || len(n.shares) != len(n.vertices) {
		n.vertices, n.shares = plans[:1], []float64{1}
	}
	return true
}

// master solves the linear program over mixtures of assignments: minimise sum share_j kappa cost_j + most sum
// short_r so that the mixture and short_r reach the need of every row r, where the shares add up to one. It returns
// the price of every row (the dual), the shares and the value.
//
// Tableau and Bland's rule: such programs are small and degenerate, and a simplex without a rule against cycling
// does not end on them. It gives prices as well as shares.
func master(need []float64, rows []int, plans []*assignment, kappa float64) (price, shares []float64, value float64,
	ok bool,
) {
	most := 1.0 // without costs, what falls short is what is minimised
	for _, c := range plans {
		most = max(most, 1e5*kappa*c.cost)
	}
	t := newTableau(need, rows, plans, kappa, most)
	if !t.solve() {
		return nil, nil, 0, false
	}
	np := len(plans)
	price, shares = make([]float64, len(need)), make([]float64, np)
	for k, r := range rows {
		price[r] = max(most-t.reduced[np+k], 0) // the reduced cost of short_r is most - price
	}
	for k, j := range t.basis {
		value += t.cost[j] * t.rhs(k)
		if j < np {
			shares[j] = t.rhs(k)
		}
	}
	return price, shares, value, true
}

// tableau is a linear program in the form that its basis is the unit matrix: minimise cost x so that cells (x, -1) = 0,
// x >= 0.
type tableau struct {
	cells   [][]float64 // the last column is the right side
	basis   []int       // the column of each row
	cost    []float64
	reduced []float64 // cost less what the basis makes of the column
}

func (t *tableau) rhs(row int) float64 { return t.cells[row][len(t.cost)] }

// newTableau has a column for each assignment, what falls short of each row and what is too much, and starts at the
// last assignment alone.
func newTableau(need []float64, rows []int, plans []*assignment, kappa, most float64) *tableau {
	np, nr := len(plans), len(rows)
	columns := np + 2*nr
	t := &tableau{cost: make([]float64, columns)}
	ones := make([]float64, columns+1)
	ones[columns] = 1
	for j, c := range plans {
		t.cost[j], ones[j] = kappa*c.cost, 1
	}
	last := plans[np-1]
	for k, r := range rows {
		t.cost[np+k] = most
		// The assignments' shares add up to one, so each counts by what it has more than the last.
		cells := make([]float64, columns+1)
		for j, c := range plans {
			cells[j] = c.sum[r] - last.sum[r]
		}
		cells[np+k], cells[np+nr+k], cells[columns] = 1, -1, need[r]-last.sum[r]
		start := np + k
		if cells[columns] < 0 {
			floats.Scale(-1, cells)
			start = np + nr + k
		}
		t.cells, t.basis = append(t.cells, cells), append(t.basis, start)
	}
	t.cells, t.basis = append(t.cells, ones), append(t.basis, np-1)
	t.reduced = slices.Clone(t.cost)
	for i, j := range t.basis {
		floats.AddScaled(t.reduced, -t.cost[j], t.cells[i][:columns])
	}
	return t
}

// solve moves to the optimum; false when rounding keeps it from ending.
func (t *tableau) solve() bool {
	const tiny = 1e-11
	size := max(1, floats.Max(t.cost))
	for range 5000 {
		enter := slices.IndexFunc(t.reduced, func(v float64) bool { return v < -tiny*size })
		if enter < 0 {
			return true
		}
		leave, least := -1, math.Inf(1)
		for i, c := range t.cells {
			if c[enter] <= tiny {
				continue
			}
			v := t.rhs(i) / c[enter]
			if v < least-tiny || v < least+tiny && t.basis[i] < t.basis[leave] {
				leave, least = i, v
			}
		}
		if leave < 0 {
			return false
		}
		t.pivot(leave, enter)
	}
	return false
}

func (t *tableau) pivot(row, column int) {
	c, columns := t.cells[row], len(t.cost)
	by := c[column]
	for k := range c {
		c[k] /= by
	}
	for i, o := range t.cells {
		if i != row {
			floats.AddScaled(o, -o[column], c)
			o[columns] = max(o[columns], 0)
		}
	}
	floats.AddScaled(t.reduced, -t.reduced[column], c[:columns])
	t.basis[row] = column
}
