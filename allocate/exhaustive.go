package allocate

import (
	"fmt"
	"math"
	"slices"
)

// mostAssignments bounds how many assignments Exhaustive tries. Each is a whole model
// to be made and run, some tens of milliseconds, so this many take minutes; six layers
// of four widths have no more.
const mostAssignments = 4096

// Exhaustive returns, for each layer, the index of its choice in the assignment of
// least damage among all whose cost is within the budget, where damage is asked for
// each assignment as a whole: unlike Exact it does not take damages to add up, and
// Choice.Damage means nothing to it. Among equal damages the cheapest wins, among
// equal costs the one with fewer bits in earlier layers.
//
// There may be at most mostAssignments within the budget; more are an error before
// anything is tried. damage must not keep its argument. progress is told how many are done;
// it may be nil.
func Exhaustive(layers [][]Choice, budget int64, damage func(pick []int) (float64, error), progress func(done, total int)) ([]int, error) {
	if err := check(layers, budget); err != nil {
		return nil, err
	}
	total := 0
	within(layers, budget, func([]int, int64) bool { total++; return total <= mostAssignments })
	if total > mostAssignments {
		return nil, fmt.Errorf("%d layers have more than %d assignments of widths within the budget, too many to try each: use the exact knapsack over the damages of single layers, or keep layers in float", len(layers), mostAssignments)
	}
	var (
		best      []int
		least     float64
		leastCost int64
		done      int
		failed    error
	)
	within(layers, budget, func(pick []int, cost int64) bool {
		d, err := damage(pick)
		if err == nil && (math.IsNaN(d) || math.IsInf(d, 0)) {
			err = fmt.Errorf("the damage is %v", d)
		}
		if err != nil {
			failed = fmt.Errorf("widths %v: %w", widths(layers, pick), err)
			return false
		}
		if best == nil || d < least || d == least && cost < leastCost {
			best, least, leastCost = slices.Clone(pick), d, cost
		}
		done++
		if progress != nil {
			progress(done, total)
		}
		return true
	})
	if failed != nil {
		return nil, failed
	}
	return best, nil
}

// within visits every assignment within the budget, that of the first layer changing
// slowest, until visit returns false. Branches without any are never entered, so the
// work is in proportion to the visits. The assignment is good until visit returns.
func within(layers [][]Choice, budget int64, visit func(pick []int, cost int64) bool) {
	rest := cheapestRest(layers)
	pick := make([]int, len(layers))
	var walk func(i int, cost int64) bool
	walk = func(i int, cost int64) bool {
		if i == len(layers) {
			return visit(pick, cost)
		}
		for c, ch := range layers[i] {
			if next := cost + ch.Cost; next+rest[i+1] <= budget {
				pick[i] = c
				if !walk(i+1, next) {
					return false
				}
			}
		}
		return true
	}
	walk(0, 0)
}

// widths returns the bits of an assignment.
func widths(layers [][]Choice, pick []int) []int {
	out := make([]int, len(pick))
	for i, c := range pick {
		out[i] = layers[i][c].Bits
	}
	return out
}
