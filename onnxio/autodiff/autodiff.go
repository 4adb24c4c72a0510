// Package autodiff appends the backward pass of a graph to it, as ordinary ONNX nodes that any runtime executes.
//
// In: a graph of standard operators, the types of its values, a value y and the values to differentiate by. Out: the
// same graph with more nodes, and the names of the gradients. The invariant: whatever is appended consists of operators
// of the one table in this package and has its types recorded, so a gradient can be differentiated again
// (Hessian-vector products of the sensitivity analysis).
//
// Gradients does it all. Infer, which finds the types of a graph's values, is its first step, for callers
// who need the types only.
//
// The nodes are read and written with the meaning of opset 18 or later. The gradients of the paper's losses (teacher
// actions, app:eq:pgd_steps; layer sensitivity, app:eq:sens) are all built here.
package autodiff

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// Options changes what Gradients builds; the zero value is useful.
type Options struct {
	// Prefix starts the names of all values that are appended; "" means "grad_".
	Prefix string
	// Seed names a value of y's type and shape: the result is then the
	// vector-Jacobian product with it, in place of the gradient of sum(y).
	Seed string
	// Policy replaces the rules of operators, by operator name (with "domain." before it for operators outside the
	// standard domain): straight-through estimators, for example. The replacement serves all inputs of the operator and
	// may be given for operators that the table does not know.
	Policy map[string]Rule
}

// Rule returns the name of the gradient of input i of the node of c, or "" when none flows to it. It may return a
// gradient that still has the axes along which the input was broadcast; summing over them is the driver's work.
type Rule func(c *Call, i int) string

// Kind says what differentiation does with an operator.
type Kind int8

const (
	// Differentiable operators have a rule for each input that a gradient reaches.
	Differentiable Kind = iota
	// Constant operators have a derivative of zero wherever it exists.
	Constant
	// Composite operators are rewritten into simpler ones first.
	Composite
)

// String returns the kind as the documentation spells it.
func (k Kind) String() string { return [...]string{"differentiable", "zero", "expanded"}[k] }

// page documents the operators: a table of the rules, by operator and the first operator set whose meaning of the name
// they implement, and one of operators without a rule. Up to opset 28, against which it was checked, the meaning is the
// same.
//
//go:embed operators.txt
var page string

// Markdown returns that page.
func Markdown() string { return page }

// Operator is one entry of the table.
type Operator struct {
	Name string // ONNX name, such as "MatMul"
	Kind Kind
	// Since and Doc are what the page says of it: the operator set, and the gradient, with g that of the output y.
	Since int64
	Doc   string

	need     int       // inputs that must be present, 1 when 0
	infer    inference // of the types of the outputs; nil where the only one has the type of the first input
	grads    []Rule    // by input; nil where no gradient flows
	variadic bool      // the last rule serves all further inputs
	expand   func(c *Call) string
}

const none = -1 // as Operator.need: there are no inputs

func (op *Operator) types(c *Call) (out []graph.Type, err error) {
	err = attempt(func() {
		op.checkInputs(c)
		out = op.infer(c)
	})
	return out, err
}

func (op *Operator) checkInputs(c *Call) {
	for i := range op.need {
		c.failIf(c.Node.Input(i) == "", "input %d is missing", i)
	}
}

func (op *Operator) rule(i int) Rule {
	if op.variadic && i >= len(op.grads) {
		i = len(op.grads) - 1
	}
	if i < len(op.grads) {
		return op.grads[i]
	}
	return nil
}

// Operators returns the table, sorted by name.
func Operators() []Operator {
	ops := rules()
	for row := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(row, "| \n"), " | ")
		for _, entry := range strings.Split(cells[0], ", ") {
			name, since, _ := strings.Cut(entry, " ")
			if i := slices.IndexFunc(ops, func(op Operator) bool { return op.Name == name }); i >= 0 && len(cells) == 2 {
				ops[i].Since, _ = strconv.ParseInt(since, 10, 64)
				ops[i].Doc = strings.TrimPrefix(cells[1], "*"+ops[i].Kind.String()+"*: ")
			}
		}
	}
	slices.SortFunc(ops, func(a, b Operator) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return ops
}

func rules() []Operator {
	ops := slices.Concat(arithmetic(), trigonometry(), activations(), selections(), linear(), products(),
		convolutions(), pools(), resizes(), reductions(), normalizations(), shaping(), arranging(),
		cutting(), gathering(), scattering(), constants())
	for i := range ops {
		op := &ops[i]
		if op.need == 0 {
			op.need = 1
		}
		if op.infer == nil {
			op.infer = like
		}
		if op.expand != nil {
			op.Kind = Composite
		} else if op.grads == nil {
			op.Kind = Constant
		}
	}
	return ops
}

func key(n *graph.Node) string {
	if n.Standard() {
		return n.Op
	}
	return n.Domain + "." + n.Op
}

// remedies are the rows of the page's last table: operators, why they have no rule, and what to use instead.
func remedies() (rows [][]string) {
	for row := range strings.Lines(page) {
		if cells := strings.Split(strings.Trim(row, "| \n"), " | "); len(cells) == 3 && cells[0] != "operators" {
			rows = append(rows, cells)
		}
	}
	return rows
}

// Remedies names the operators for which there is a remedy.
func Remedies() []string {
	return lists.Join(remedies(), func(r []string) []string { return strings.Split(r[0], ", ") })
}

// Remedy says why a standard operator has no gradient rule, and what to use instead; "" where nothing is known of it.
func Remedy(op string) (why, instead string) {
	for _, r := range remedies() {
		if slices.Contains(strings.Split(r[0], ", "), op) {
			return r[1], r[2]
		}
	}
	return "", ""
}

const fused = "an operator that only ONNX Runtime has; save the model without its optimizer, or at the level " +
	"ORT_ENABLE_EXTENDED at most, and without attention fusion"

func missing(nodes []*graph.Node) string {
	var names, hints []string
	hint := func(s string) {
		if !slices.Contains(hints, s) {
			hints = append(hints, s)
		}
	}
	for _, n := range nodes {
		label := n.Label()
		if !n.Standard() {
			label = n.Domain + "." + label
		}
		names = append(names, label)
		if strings.HasPrefix(n.Domain, "com.microsoft") {
			hint(fused)
		}
		if why, instead := Remedy(n.Op); n.Standard() && why != "" {
			hint(n.Op + ": " + why + "; " + instead)
		}
	}
	text := strings.Join(names, ", ")
	if hints != nil {
		text += " (" + strings.Join(hints, "; ") + ")"
	}
	return text
}
