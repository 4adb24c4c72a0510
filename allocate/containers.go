package allocate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Packing is a layer whose rows stand in containers, one for each width that occurs. They cost something whatever rows
// they hold.
type Packing struct {
	Rows [][]Choice // the same widths in all
	Sets []Set
}

// Set is a set of widths that the rows of a layer may have together.
type Set struct {
	Choices []int // indices among those of each row
	Cost    int64 // of the containers, without the rows
	Shared  bool  // they need what all layers share
}

// Containers looks at maxSets combinations of sets, and finds the rows of maxSolved of them: exactly where these are no
// more than fewRows.
const maxSets, maxSolved, fewRows = 1000, 50, 50

// Containers returns, for each row of each layer, the index of its choice in the assignment of least total error in
// which rows, containers and what these share cost no more than the budget.
//
// At a price of the budget (Lagrange), found by bisection, each set of a layer has a value, and the values of a
// combination of sets are a bound of its error. Combinations are solved in the order of their bounds until none can be
// better. It is exact where all combinations are looked at and rows are few, and nearly so elsewhere.
func Containers(layers []Packing, shared, budget int64) (best [][]int, err error) {
	least := math.Inf(1)
	for _, share := range []bool{false, true} {
		p := packer{slices.Clone(layers), budget}
		for i := range layers {
			p.layers[i].Sets = slices.DeleteFunc(slices.Clone(layers[i].Sets), func(s Set) bool { return s.Shared && !share })
		}
		if share {
			p.budget -= shared
		}
		if picks, sum := p.search(); sum < least {
			best, least = picks, sum
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: no containers fit %d", ErrBudget, budget)
	}
	return best, nil
}

type packer struct {
	layers []Packing
	budget int64
}

// pricedSets are sets of layers, one of each, and their errors and costs in one number, at a price.
type pricedSets struct {
	sets  []int
	value float64
	cost  int64
}

func (p *packer) search() (best [][]int, least float64) {
	low, high := 0.0, 1e-15
	for ; p.combinations(high, 1)[0].cost > p.budget; low, high = high, 16*high {
		if math.IsInf(high, 0) {
			return nil, math.Inf(1)
		}
	}
	for range 50 {
		if middle := (low + high) / 2; p.combinations(middle, 1)[0].cost > p.budget {
			low = middle
		} else {
			high = middle
		}
	}
	least, solved := math.Inf(1), 0
	for _, c := range p.combinations(high, maxSets) {
		if c.value-high*float64(p.budget) >= least || solved == maxSolved {
			break
		}
		if picks, sum := p.solve(c.sets); picks != nil {
			if solved++; sum < least {
				best, least = picks, sum
			}
		}
	}
	return best, least
}

// combinations lists the best combinations of sets at a price, in the order of their values.
func (p *packer) combinations(price float64, most int) []pricedSets {
	all := []pricedSets{{}}
	for i := range p.layers {
		var next []pricedSets
		for s := range p.layers[i].Sets {
			v, cost := p.layers[i].at(s, price)
			for _, c := range all {
				next = append(next, pricedSets{append(slices.Clip(c.sets), s), c.value + v, c.cost + cost})
			}
		}
		slices.SortStableFunc(next, func(a, b pricedSets) int { return cmp.Compare(a.value, b.value) })
		all = next[:min(len(next), most)]
	}
	return all
}

// at is the value of a set at a price, and what it costs.
func (l *Packing) at(set int, price float64) (value float64, cost int64) {
	cost = l.Sets[set].Cost
	for _, row := range l.Rows {
		best, at := math.Inf(1), 0
		for _, c := range l.Sets[set].Choices {
			if v := row[c].Error + price*float64(row[c].Cost); v < best {
				best, at = v, c
			}
		}
		value += row[at].Error
		cost += row[at].Cost
	}
	return value + price*float64(cost), cost
}

// solve finds the choices of the rows, nil where nothing fits.
func (p *packer) solve(sets []int) (picks [][]int, sum float64) {
	var rows [][]Choice
	left := p.budget
	for i, s := range sets {
		left -= p.layers[i].Sets[s].Cost
		for _, row := range p.layers[i].Rows {
			rows = append(rows, nil)
			for _, c := range p.layers[i].Sets[s].Choices {
				rows[len(rows)-1] = append(rows[len(rows)-1], row[c])
			}
		}
	}
	if cheapestRest(rows)[0] > left {
		return nil, 0
	}
	flat := steepest(rows, left)
	if len(rows) <= fewRows {
		flat, _ = Exact(rows, left) // which fits
	}
	for i, s := range sets {
		picks = append(picks, make([]int, len(p.layers[i].Rows)))
		for r := range picks[i] {
			picks[i][r] = p.layers[i].Sets[s].Choices[flat[0]]
			sum += rows[0][flat[0]].Error
			rows, flat = rows[1:], flat[1:]
		}
	}
	return picks, sum
}
