package onnxio

import (
	"errors"
	"fmt"
	"slices"

	"cfq/onnxio/graph"
)

// head says how a model's output becomes a decision.
type head struct {
	logits string // the value that holds the logits: rows x classes, or one logit per row
	output string // the graph output it was found behind
}

// isHeadOp reports operators that turn logits into a decision or probabilities:
// each is increasing in its input, or picks the largest, so the decision is the
// same in front of it.
func isHeadOp(op string) bool {
	switch op {
	case "Softmax", "LogSoftmax", "Sigmoid", "ArgMax":
		return true
	}
	return false
}

// isWrapping reports operators that may stand behind a head without changing what
// it says.
func isWrapping(op string) bool {
	switch op {
	case "Identity", "Cast", "Dropout", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Clip":
		return true
	}
	return false
}

// findHead walks back from the outputs of g to the logits. Of several outputs those
// that are labels (no floats) are left aside where another is there, and the rest
// must lead to the same logits.
func findHead(g *graph.Graph) (head, error) {
	producers := g.Producers()
	labels := func(v graph.Value) bool { return v.DType != graph.Undefined && !v.DType.IsFloat() }
	outputs := slices.DeleteFunc(slices.Clone(g.Outputs), labels)
	if len(outputs) == 0 {
		outputs = g.Outputs
	}
	var heads []head
	for _, out := range outputs {
		h, err := behind(producers, out.Name)
		if err != nil {
			return head{}, err
		}
		if !slices.ContainsFunc(heads, func(o head) bool { return o.logits == h.logits }) {
			heads = append(heads, h)
		}
	}
	switch len(heads) {
	case 0:
		return head{}, errors.New("the model has no outputs")
	case 1:
		return heads[0], nil
	}
	return head{}, fmt.Errorf("the outputs %q and %q come from different values (%q, %q): keep the output that decides "+
		"and remove the others",
		heads[0].output, heads[1].output, heads[0].logits, heads[1].logits)
}

// behind walks back from one output.
func behind(producers map[string]*graph.Node, output string) (head, error) {
	h := head{logits: output, output: output}
	for at := output; ; {
		n := producers[at]
		switch {
		case n == nil || len(n.Inputs) == 0:
			return h, nil
		case n.Op == "ZipMap":
			return h, fmt.Errorf("output %q is a ZipMap, a list of dictionaries; export the model with its probabilities as "+
				"a tensor (zipmap=False)", output)
		case n.Standard() && isHeadOp(n.Op):
			at = n.Inputs[0]
			h.logits = at
		case n.Standard() && isWrapping(n.Op):
			at = n.Inputs[0]
		default:
			return h, nil
		}
	}
}

// squashed looks for a probability that is about to be taken for a single logit: an
// operator behind the last dense layer whose values lie on one side of zero.
func squashed(g *graph.Graph, logits string) error {
	producers := g.Producers()
	seen := map[string]bool{}
	var look func(string) *graph.Node
	look = func(v string) *graph.Node {
		n := producers[v]
		if n == nil || seen[v] {
			return nil
		}
		seen[v] = true
		switch n.Op {
		case "Gemm", "MatMul", "Conv":
			return nil
		case "Sigmoid", "HardSigmoid", "Softmax", "Exp", "Softplus":
			return n
		}
		for _, in := range n.Inputs {
			if found := look(in); found != nil {
				return found
			}
		}
		return nil
	}
	if n := look(logits); n != nil {
		return fmt.Errorf("the single output %q comes from %s by way of other operators, so it seems to be a probability, "+
			"not a logit; end the model in that operator, or in front of it", logits, n.Label())
	}
	return nil
}
