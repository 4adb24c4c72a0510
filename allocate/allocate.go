// Package allocate gives each layer a bit width under a budget.
//
// In: the cost and the error of each bit width of each layer, as numbers. Out: one width per layer. The invariant: the
// chosen costs never exceed the budget. The package does not know models.
//
// References: the paper's budgeted allocation (eq. cfptq_budget) and its greedy
// rule (section Training-Free Counterfactual-Aware PTQ).
package allocate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Choice is one width that a layer may have.
type Choice struct {
	Bits  int
	Cost  int64   // in the unit of the budget, such as bits or bytes
	Error float64 // expected quantization error of the margin, additive over layers
}

// ErrBudget means that the cheapest choices of all layers cost more than the budget.
var ErrBudget = errors.New("budget too small")

// maxStates bounds a Pareto front of Exact. A longer one is thinned to the best of
// each of so many equal pieces of the budget.
const maxStates = 1 << 13

// maxFronts bounds the fronts of Exact, which are all kept.
const maxFronts = 1 << 11

// Exact returns, for each layer, the index of its choice in the assignment of
// least total error whose total cost is within the budget (eq. cfptq_budget); among equal errors
// the cheapest, among equal costs the one with fewer bits in earlier layers.
//
// It merges Pareto fronts layer by layer and drops dominated partial assignments, so it is exact for any costs as long
// as no front has more than maxStates entries; beyond that it is nearly so. More than maxFronts layers are given bits
// by steepest, which is off by one step of one layer at most. The budget holds in any case.
func Exact(layers [][]Choice, budget int64) ([]int, error) {
	if err := check(layers, budget); err != nil {
		return nil, err
	}
	if len(layers) > maxFronts {
		return steepest(layers, budget), nil
	}
	front := []partialChoice{{}}
	steps := make([][]choiceStep, len(layers))
	rest := cheapestRest(layers)
	for i, choices := range layers {
		front, steps[i] = extend(front, choices, budget-rest[i+1])
	}
	out := make([]int, len(layers))
	at := len(front) - 1 // the most expensive state of the front has the least error
	for i := len(layers) - 1; i >= 0; i-- {
		s := steps[i][at]
		out[i], at = int(s.choice), int(s.prev)
	}
	return out, nil
}

// partialChoice is a partial assignment on a front, in ascending order of cost and descending order of error.
type partialChoice struct {
	cost int64
	err  float64
}

// choiceStep is how a state came about: which one of the front before, and which choice.
type choiceStep struct{ prev, choice int32 }

// extend adds a layer to all states of a front whose costs stay within the budget. The states with one choice are in
// order as the front is, so the choices' sequences are merged.
func extend(front []partialChoice, choices []Choice, budget int64) ([]partialChoice, []choiceStep) {
	var next []partialChoice
	var steps []choiceStep
	at := make([]int, len(choices)) // the next state of each choice's sequence
	least := math.Inf(1)
	for {
		best := -1
		var s partialChoice
		for c, ch := range choices {
			if at[c] == len(front) {
				continue
			}
			f := front[at[c]]
			n := partialChoice{f.cost + ch.Cost, f.err + ch.Error}
			if best < 0 || n.cost < s.cost || n.cost == s.cost && n.err < s.err {
				best, s = c, n
			}
		}
		if best < 0 || s.cost > budget {
			return thin(next, steps, budget)
		}
		if s.err < least {
			least = s.err
			next, steps = append(next, s), append(steps, choiceStep{int32(at[best]), int32(best)})
		}
		at[best]++
	}
}

func thin(front []partialChoice, steps []choiceStep, budget int64) ([]partialChoice, []choiceStep) {
	if len(front) <= maxStates {
		return front, steps
	}
	piece := budget/maxStates + 1
	n := 0
	for i := range front {
		if i+1 == len(front) || front[i].cost/piece != front[i+1].cost/piece || i == 0 {
			front[n], steps[n] = front[i], steps[i]
			n++
		}
	}
	return front[:n], steps[:n]
}

// steepest solves the relaxation in which layers may lie between two choices, and leaves out what does not fit: every
// layer starts at its cheapest choice and goes along the lower convex hull of its choices, where the error falls most
// for its cost first.
//
// Reference: Kellerer, Pferschy and Pisinger, Knapsack Problems, 2004, section 11.2.
func steepest(layers [][]Choice, budget int64) []int {
	type rise struct {
		layer, choice int
		slope         float64 // of the error by cost
	}
	out := make([]int, len(layers))
	var rises []rise
	for l, choices := range layers {
		out[l] = cheapest(choices)
		budget -= choices[out[l]].Cost
		for at := out[l]; ; {
			next := rise{l, -1, 0}
			for c, ch := range choices {
				if d := ch.Cost - choices[at].Cost; d > 0 {
					if s := (ch.Error - choices[at].Error) / float64(d); s < next.slope {
						next.choice, next.slope = c, s
					}
				}
			}
			if at = next.choice; at < 0 {
				break
			}
			rises = append(rises, next)
		}
	}
	slices.SortStableFunc(rises, func(a, b rise) int { return cmp.Compare(a.slope, b.slope) })
	stopped := make([]bool, len(layers))
	for _, r := range rises {
		choices := layers[r.layer]
		cost := choices[r.choice].Cost - choices[out[r.layer]].Cost
		if stopped[r.layer] = stopped[r.layer] || cost > budget; !stopped[r.layer] {
			out[r.layer], budget = r.choice, budget-cost
		}
	}
	return out
}

func cheapest(choices []Choice) int {
	best := 0
	for c, ch := range choices {
		if d := cmp.Compare(ch.Cost, choices[best].Cost); d < 0 || d == 0 && ch.Error < choices[best].Error {
			best = c
		}
	}
	return best
}

// Paper is the greedy rule as the paper writes it: every layer starts at its first choice, and the layer with the
// largest score per parameter is raised as long as the budget allows, then the next. Its objective is linear in the
// bits, so it saturates one layer before it looks at another; the default is Exact over measured errors.
func Paper(layers [][]Choice, scorePerParam []float64, budget int64) ([]int, error) {
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
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scorePerParam[b], scorePerParam[a]) })
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

// Uniform gives every layer the largest width that fits the budget in all of them, which have the same choices of bits.
func Uniform(layers [][]Choice, budget int64) ([]int, error) {
	if err := check(layers, budget); err != nil {
		return nil, err
	}
	best := -1
	for w, ch := range layers[0] {
		var cost int64
		for _, choices := range layers {
			cost += choices[w].Cost
		}
		if cost <= budget && (best < 0 || ch.Bits > layers[0][best].Bits) {
			best = w
		}
	}
	if best < 0 {
		return nil, fmt.Errorf("%w for one width in all layers", ErrBudget)
	}
	return slices.Repeat([]int{best}, len(layers)), nil
}

func check(layers [][]Choice, budget int64) error {
	for i, choices := range layers {
		for _, c := range choices {
			if c.Cost < 0 || math.IsNaN(c.Error) || math.IsInf(c.Error, 0) {
				return fmt.Errorf("layer %d: the choice of %d bits has cost %d, error %v", i, c.Bits, c.Cost, c.Error)
			}
		}
	}
	if least := cheapestRest(layers)[0]; least > budget {
		return fmt.Errorf("%w: the cheapest widths cost %d of %d", ErrBudget, least, budget)
	}
	return nil
}

func cheapestRest(layers [][]Choice) []int64 {
	rest := make([]int64, len(layers)+1)
	for i, choices := range slices.Backward(layers) {
		rest[i] = rest[i+1] + choices[cheapest(choices)].Cost
	}
	return rest
}
