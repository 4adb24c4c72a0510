package recourse

import "math"

// master solves the linear program over mixtures of plans: minimise sum share_j kappa cost_j + most sum short_r so that the mixture and short_r
// reach the need of every row r, where the shares add up to one. It returns the price of every row (the dual), the shares and the value.
//
// Tableau and Bland's rule: such programs are small and degenerate, and a simplex without a rule against cycling does not
// end on them. It gives prices as well as shares.
func master(need []float64, rows []int, plans []*plan, kappa float64) (price, shares []float64, value float64, ok bool) {
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
		value += t.cost[j] * t.rhs[k]
		if j < np {
			shares[j] = t.rhs[k]
		}
	}
	return price, shares, value, true
}

// tableau is a linear program in the form that its basis is the unit matrix: minimise cost x so that cells x = rhs, x >= 0.
type tableau struct {
	cells   [][]float64
	rhs     []float64
	basis   []int // the column of each row
	cost    []float64
	reduced []float64 // cost less what the basis makes of the column
}

// newTableau has a column for each plan, what falls short of each row and what is too much, and starts at the last plan alone.
func newTableau(need []float64, rows []int, plans []*plan, kappa, most float64) *tableau {
	np, nr := len(plans), len(rows)
	t := &tableau{cost: make([]float64, np+2*nr)}
	for j, c := range plans {
		t.cost[j] = kappa * c.cost
	}
	last := plans[np-1]
	for k, r := range rows {
		t.cost[np+k] = most
		// The plans' shares add up to one, so each counts by what it has more than the last.
		cells, sign := make([]float64, np+2*nr), 1.0
		short := need[r] - last.acts[r]
		if short < 0 {
			sign = -1
		}
		for j, c := range plans {
			cells[j] = sign * (c.acts[r] - last.acts[r])
		}
		cells[np+k], cells[np+nr+k] = sign, -sign
		t.cells, t.rhs = append(t.cells, cells), append(t.rhs, math.Abs(short))
		if sign > 0 {
			t.basis = append(t.basis, np+k)
		} else {
			t.basis = append(t.basis, np+nr+k)
		}
	}
	ones := make([]float64, np+2*nr)
	for j := range plans {
		ones[j] = 1
	}
	t.cells, t.rhs, t.basis = append(t.cells, ones), append(t.rhs, 1), append(t.basis, np-1)
	t.reduced = append([]float64(nil), t.cost...)
	for i, j := range t.basis {
		for k, v := range t.cells[i] {
			t.reduced[k] -= t.cost[j] * v
		}
	}
	return t
}

// solve moves to the optimum; false when rounding keeps it from ending.
func (t *tableau) solve() bool {
	const tiny = 1e-11
	size := 1.0
	for _, v := range t.cost {
		size = max(size, v)
	}
	for range 5000 {
		enter := -1
		for j, v := range t.reduced {
			if v < -tiny*size {
				enter = j
				break
			}
		}
		if enter < 0 {
			return true
		}
		leave, least := -1, math.Inf(1)
		for i, c := range t.cells {
			if c[enter] <= tiny {
				continue
			}
			v := t.rhs[i] / c[enter]
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
	c := t.cells[row]
	by := c[column]
	for k := range c {
		c[k] /= by
	}
	t.rhs[row] /= by
	for i, o := range t.cells {
		if f := o[column]; i != row && f != 0 {
			for k := range o {
				o[k] -= f * c[k]
			}
			t.rhs[i] = max(t.rhs[i]-f*t.rhs[row], 0)
		}
	}
	f := t.reduced[column]
	for k := range t.reduced {
		t.reduced[k] -= f * c[k]
	}
	t.basis[row] = column
}
