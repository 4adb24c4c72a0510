package classifier

import (
	"errors"
	"fmt"

	"cfq/graph"
)

// Head says how a model's output becomes a decision.
type Head struct {
	Logits string // the value that holds the logits: rows x classes, or one logit per row
	Output string // the graph output it was found behind
	Ops    []string
}

// headOps are the operators that may stand between the logits and an output:
// each is increasing in its input, or picks the largest, so the decision is the
// same in front of it.
func isHeadOp(op string) bool {
	switch op {
	case "Softmax", "LogSoftmax", "Sigmoid", "ArgMax", "Identity", "Cast", "Dropout":
		return true
	}
	return false
}

// FindHead walks back from the outputs of g to the logits. With several outputs
// (a label beside probabilities) all must lead to the same logits, or exactly
// one to a value that is not an index.
func FindHead(g *graph.Graph) (Head, error) {
	producers := g.Producers()
	var heads []Head
	for _, out := range g.Outputs {
		h := Head{Logits: out.Name, Output: out.Name}
		for {
			n := producers[h.Logits]
			if n == nil || n.Domain != "" || !isHeadOp(n.Op) || len(n.Inputs) == 0 {
				break
			}
			h.Logits = n.Inputs[0]
			h.Ops = append(h.Ops, n.Op)
		}
		if n := producers[h.Logits]; n != nil && n.Op == "ZipMap" {
			return Head{}, fmt.Errorf("output %q is a ZipMap, a list of dictionaries; export the model with its probabilities as a tensor (zipmap=False)", out.Name)
		}
		known := false
		for _, o := range heads {
			known = known || o.Logits == h.Logits
		}
		if !known {
			heads = append(heads, h)
		}
	}
	switch len(heads) {
	case 0:
		return Head{}, errors.New("the model has no outputs")
	case 1:
		return heads[0], nil
	}
	return Head{}, fmt.Errorf("the outputs %q and %q come from different values (%q, %q): keep the output that decides and remove the others",
		heads[0].Output, heads[1].Output, heads[0].Logits, heads[1].Logits)
}
