// Package allocate gives each layer a bit width under a budget.
//
// In: what each width of each layer costs and how much it hurts, as numbers.
// Out: one width per layer. The invariant: the chosen costs never exceed the
// budget. The package knows nothing of models.
//
// References: the paper's budgeted allocation (eq. cfptq_budget) and its greedy
// rule (section Training-Free Counterfactual-Aware PTQ).
package allocate

import (
	"errors"
	"fmt"
	"math"
	"sort"
)

// Choice is one width that a layer may have.
type Choice struct {
	Bits   int
	Cost   int64   // in the unit of the budget, such as bits or bytes
	Damage float64 // expected harm, additive over layers; smaller is better
}

// ErrBudget says that even the cheapest choice of every layer is over the budget.
var ErrBudget = errors.New("budget too small")

// Exact returns, for each layer, the index of its choice in the assignment of
// least total damage whose total cost is within the budget; among equal damages
// the cheapest, among equal costs the one with fewer bits in earlier layers.
//
// It merges Pareto fronts layer by layer, so it is exact for any costs; the
// fronts stay small because dominated partial assignments are dropped.
func Exact(layers [][]Choice, budget int64) ([]int, error) {
	if err := check(layers, budget); err != nil {
		return nil, err
	}
	type state struct {
		cost   int64
		damage float64
		prev   int // index in the previous front
		choice int
	}
	fronts := make([][]state, len(layers)+1)
	fronts[0] = []state{{}}
	rest := cheapestRest(layers)
	for i, choices := range layers {
		var next []state
		for p, s := range fronts[i] {
			for c, ch := range choices {
				if cost := s.cost + ch.Cost; cost+rest[i+1] <= budget {
					next = append(next, state{cost, s.damage + ch.Damage, p, c})
				}
			}
		}
		sort.SliceStable(next, func(a, b int) bool {
			if next[a].cost != next[b].cost {
				return next[a].cost < next[b].cost
			}
			return next[a].damage < next[b].damage
		})
		front := next[:0]
		best := math.Inf(1)
		for _, s := range next {
			if s.damage < best {
				best = s.damage
				front = append(front, s)
			}
		}
		fronts[i+1] = front
	}
	out := make([]int, len(layers))
	at := len(fronts[len(layers)]) - 1 // the dearest on the front does least damage
	for i := len(layers); i > 0; i-- {
		s := fronts[i][at]
		out[i-1], at = s.choice, s.prev
	}
	return out, nil
}

// Paper is the greedy rule as the paper writes it: every layer starts at its
// first choice, and the layer with the largest score per parameter is raised as
// long as the budget allows, then the next. Its objective is linear in the bits,
// so it saturates one layer before it looks at another; Exact over measured
// damage is what works.
func Paper(layers [][]Choice, scorePerParam []float64, budget int64) ([]int, error) {
	if len(scorePerParam) != len(layers) {
		return nil, fmt.Errorf("%d scores for %d layers", len(scorePerParam), len(layers))
	}
	if err := check(layers, budget); err != nil {
		return nil, err
	}
	out := make([]int, len(layers))
	order := make([]int, len(layers))
	var spent int64
	for i := range layers {
		order[i] = i
		spent += layers[i][0].Cost
	}
	if spent > budget {
		return nil, fmt.Errorf("%w: the lowest widths cost %d of %d", ErrBudget, spent, budget)
	}
	sort.SliceStable(order, func(a, b int) bool { return scorePerParam[order[a]] > scorePerParam[order[b]] })
	for _, l := range order {
		for out[l]+1 < len(layers[l]) {
			step := layers[l][out[l]+1].Cost - layers[l][out[l]].Cost
			if spent+step > budget {
				break
			}
			spent += step
			out[l]++
		}
	}
	return out, nil
}

// Uniform gives every layer the largest width that fits the budget in all of them.
func Uniform(layers [][]Choice, budget int64) ([]int, error) {
	if err := check(layers, budget); err != nil {
		return nil, err
	}
	best := -1
	for w, ch := range layers[0] {
		var cost int64
		same := true
		for _, choices := range layers {
			if w >= len(choices) || choices[w].Bits != ch.Bits {
				same = false
				break
			}
			cost += choices[w].Cost
		}
		if same && cost <= budget && (best < 0 || ch.Bits > layers[0][best].Bits) {
			best = w
		}
	}
	if best < 0 {
		return nil, fmt.Errorf("%w for one width in all layers", ErrBudget)
	}
	out := make([]int, len(layers))
	for i := range out {
		out[i] = best
	}
	return out, nil
}

func check(layers [][]Choice, budget int64) error {
	if len(layers) == 0 {
		return errors.New("no layers to give bits to")
	}
	for i, choices := range layers {
		if len(choices) == 0 {
			return fmt.Errorf("layer %d has no choices", i)
		}
		for _, c := range choices {
			if c.Cost < 0 || math.IsNaN(c.Damage) || math.IsInf(c.Damage, 0) {
				return fmt.Errorf("layer %d: the choice of %d bits has cost %d, damage %v", i, c.Bits, c.Cost, c.Damage)
			}
		}
	}
	if least := cheapestRest(layers)[0]; least > budget {
		return fmt.Errorf("%w: the cheapest widths cost %d of %d", ErrBudget, least, budget)
	}
	return nil
}

// cheapestRest returns, for each layer, the least cost of it and all after it.
func cheapestRest(layers [][]Choice) []int64 {
	rest := make([]int64, len(layers)+1)
	for i := len(layers) - 1; i >= 0; i-- {
		least := int64(math.MaxInt64)
		for _, c := range layers[i] {
			least = min(least, c.Cost)
		}
		rest[i] = rest[i+1] + least
	}
	return rest
}
