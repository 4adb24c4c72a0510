package fit

import (
	"cmp"
	"math"
	"slices"
)

// Metrics is how well a model does on rows.
type Metrics struct {
	Rows int     `json:"rows"`
	Loss float64 `json:"loss"` // mean cross-entropy, in nats
	// One of the two is nil.
	*Decisions
	*Coding
}

// Decisions is how well a classifier decides people whose labels are known.
type Decisions struct {
	Constant float64 `json:"-"`        // accuracy of always the same decision, the better one
	Accuracy float64 `json:"accuracy"` // share of the rows that are decided as labelled
	AUC      float64 `json:"auc"`      // area under the ROC curve; 0.5 where only one class is there
}

func measured(margins []float32, labels []int8) Metrics {
	m := Metrics{Rows: len(labels), Decisions: &Decisions{AUC: auc(margins, labels)}}
	var favourable float64
	for i, v := range margins {
		against := float64(-v)
		if labels[i] == 1 {
			favourable++
		} else {
			against = -against
		}
		m.Loss += max(against, 0) + math.Log1p(math.Exp(-math.Abs(against)))
		if (v > 0) == (labels[i] == 1) {
			m.Accuracy++
		}
	}
	favourable /= float64(m.Rows)
	m.Constant = max(favourable, 1-favourable)
	m.Loss /= float64(m.Rows)
	m.Accuracy /= float64(m.Rows)
	return m
}

// auc is the probability that a random favourable row has the larger margin than a random other one, ties counting
// half: the rank sum of Mann and Whitney.
func auc(margins []float32, labels []int8) float64 {
	order := make([]int, len(margins))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(margins[a], margins[b]) })
	var ranks, positive float64
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && margins[order[to]] == margins[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			if labels[i] == 1 {
				ranks += float64(from+to+1) / 2
				positive++
			}
		}
		from = max(to, from+1) // NaN equals nothing
	}
	pairs := positive * (float64(len(order)) - positive)
	if pairs == 0 {
		return 0.5
	}
	return (ranks - positive*(positive+1)/2) / pairs
}
