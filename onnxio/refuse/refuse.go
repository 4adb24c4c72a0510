// Package refuse says which models can be quantized: what is known to work, and which kinds are refused.
//
// In: the graph of a model as its file holds it. Out: nil, or a [Refusal] that names every kind that the model belongs
// to and what to export instead. The invariant: messages and the page docs/models.md come from the same tables.
//
// A kind is refused because the method has no hold on it: weights of dense layers to round, and a gradient from the
// decision back to the inputs to search recourse along. Operators that merely have no gradient rule yet are
// none of its business; package autodiff names those.
package refuse

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// page is the page of what works and what is refused. The rows of its last table are the kinds, of which Check finds
// those that the graph shows, the most common first.
//
//go:embed page.txt
var page string

// Markdown returns that page.
func Markdown() string { return page }

// unsupported is one kind of model that cannot be quantized.
type unsupported struct {
	name         string // as in "the model is NAME"
	why, instead string
	ops          []string // operators any of which shows the kind, of whatever domain
	// find returns what shows the kind, "" when the model is not of it; seen is the first node of ops, nil for none.
	find func(m *model, seen *graph.Node) string
}

func kind(name string, find func(m *model, seen *graph.Node) string, ops ...string) unsupported {
	_, row, _ := strings.Cut(page, "\n| "+name+" | ")
	row, _, _ = strings.Cut(row, " |\n")
	cells := strings.Split(row, " | ") // such as, why not, instead
	return unsupported{name, cells[1], cells[2], ops, find}
}

type model struct {
	*graph.Model
	nodes []*graph.Node // with those of functions
}

func unsupportedKinds() []unsupported {
	seen := func(_ *model, seen *graph.Node) string { return label(seen) }
	return []unsupported{
		kind("an ensemble of decision trees", seen,
			"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"),
		kind("a support vector machine", seen, "SVMClassifier", "SVMRegressor"),
		kind("a nearest-neighbours model", func(m *model, _ *graph.Node) string {
			if m.first("TopK") == nil {
				return ""
			}
			return label(m.first("CDist", "Scan"))
		}),
		kind("a recurrent network", func(m *model, seen *graph.Node) string {
			if m.first("TopK") != nil && m.first("Scan") != nil {
				return "" // nearest neighbours
			}
			return label(seen)
		}, "LSTM", "GRU", "RNN", "Loop", "Scan", "LinearAttention", "AttnLSTM"),
		kind("a text or sequence model", text, textOperators()...),
		kind("a model that rewrites texts before it looks them up", func(m *model, seen *graph.Node) string {
			if text(m, m.first(textOperators()...)) != "" {
				return ""
			}
			return label(seen)
		}, "StringNormalizer"),
		kind("a regressor", func(m *model, _ *graph.Node) string {
			n := m.first("LinearRegressor", "TreeEnsembleRegressor", "SVMRegressor")
			if n != nil && len(m.Graph.Outputs) == 1 && m.Graph.Outputs[0].DType.IsFloat() {
				return label(n)
			}
			known := m.ProducerName == "skl2onnx" || m.ProducerName == "OnnxMLTools"
			if known && len(m.Graph.Outputs) == 1 && m.Graph.Outputs[0].Name == "variable" {
				return `its only output is "variable"`
			}
			return ""
		}),
		kind("a detector or segmenter", func(m *model, seen *graph.Node) string {
			if seen != nil {
				return label(seen)
			}
			produced := m.Graph.Producers()
			several := 0
			for _, v := range m.Graph.Outputs {
				if v.DType.IsFloat() && len(v.Shape) > 2 && produced[v.Name] != nil {
					several++
				}
			}
			if several > 1 {
				return fmt.Sprintf("%d outputs have more than two dimensions", several)
			}
			return ""
		}, "NonMaxSuppression", "RoiAlign", "MaxRoiPool", "EfficientNMS_TRT"),
		// Inputs of one fixed row beside inputs of any number of rows, named as TensorFlow names constants.
		kind("a model whose constants became inputs", func(m *model, _ *graph.Node) string {
			var found []string
			dynamic := false
			for _, v := range m.Graph.DataInputs() {
				fixed := len(v.Shape) > 0 && v.Shape[0].Size == 1
				dynamic = dynamic || len(v.Shape) > 0 && !fixed
				if fixed && strings.Contains(v.Name, "/") && strings.HasSuffix(v.Name, ":0") {
					found = append(found, v.Name)
				}
			}
			if !dynamic || found == nil {
				return ""
			}
			return fmt.Sprintf("input %q", found[0])
		}),
		kind("a model that draws random numbers", seen,
			"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"),
	}
}

// Refusal is why a model of some kind cannot be quantized, and what to export instead, in one line.
type Refusal struct{ text string }

// Error says what the model is, why it cannot be quantized and what to do.
func (r *Refusal) Error() string { return r.text }

// Check returns nil, or a *Refusal that names every kind that the model belongs to.
func Check(g *graph.Model) error {
	inner := lists.Join(g.Functions, func(f *graph.Function) []*graph.Node { return f.Nodes })
	m := &model{g, slices.Concat(g.Graph.Nodes, inner)}
	var parts []string
	for _, k := range unsupportedKinds() {
		if found := k.find(m, m.first(k.ops...)); found != "" {
			parts = append(parts, k.says(found))
		}
	}
	if parts == nil {
		return nil
	}
	return &Refusal{strings.Join(parts, "; and ")}
}

// Operators are those that a model cannot have and be quantized, wherever they stand in it.
func Operators() []string {
	return lists.Join(unsupportedKinds(), func(k unsupported) []string { return k.ops })
}

// Operator says why a model with an operator cannot be quantized, and what to export instead; "" for one of which that
// does not hold.
func Operator(op string) (why, instead string) {
	for _, k := range unsupportedKinds() {
		if slices.Contains(k.ops, op) {
			return fmt.Sprintf("a model with it is %s: %s", k.name, k.why), k.instead
		}
	}
	return "", ""
}

// TooLarge is the refusal of a model whose file or tensors take so many bytes.
func TooLarge(bytes int64) error {
	k := kind("a model with more than 2 GB of tensors", nil)
	return &Refusal{k.says(fmt.Sprintf("%.1f GB", float64(bytes)/1e9))}
}

// Broken is the refusal of a model that ONNX Runtime does not load, for the reason that it gives. It says what to
// export instead, in general where instead is "", and what else is in the way unless besides is nil.
func Broken(reason, instead string, besides error) error {
	k := kind("a file that ONNX Runtime does not load", nil)
	k.instead = cmp.Or(instead, k.instead)
	text := k.says(reason)
	if besides != nil {
		text += "; besides, " + besides.Error()
	}
	return &Refusal{strings.Join(strings.Fields(text), " ")} // one line
}

// Layerless is the refusal of a model with so many nodes, of which none is a layer. Recourse can be searched for it, so
// that Check lets it pass.
func Layerless(nodes int) error {
	k := kind("a model without dense layers", nil)
	return &Refusal{k.says(fmt.Sprintf("%d nodes, no layer", nodes))}
}

// Stepped is the refusal of a model whose gradient is lost at a node.
func Stepped(n *graph.Node) error {
	k := kind("a model whose scores move in steps", nil)
	return &Refusal{k.says(label(n))}
}

func (k unsupported) says(found string) string {
	return fmt.Sprintf("it is %s (%s), which this method cannot quantize: %s; instead, %s", k.name, found, k.why,
		k.instead)
}

func (m *model) first(ops ...string) *graph.Node {
	if i := slices.IndexFunc(m.nodes, func(n *graph.Node) bool { return slices.Contains(ops, n.Op) }); i >= 0 {
		return m.nodes[i]
	}
	return nil
}

func label(n *graph.Node) string {
	if n == nil {
		return ""
	}
	return n.Label()
}

func textOperators() []string {
	return []string{
		"Tokenizer", "TfIdfVectorizer", "StringSplit", "StringConcat", "RegexFullMatch", "BertTokenizer",
		"SentencepieceTokenizer", "WordpieceTokenizer",
	}
}

func text(m *model, seen *graph.Node) string {
	if seen != nil {
		return label(seen)
	}
	for _, v := range m.Graph.DataInputs() {
		whole := v.DType == graph.Int64 || v.DType == graph.Int32
		if whole && len(v.Shape) > 1 && v.Shape[1].Size <= 0 {
			return fmt.Sprintf("input %q has the shape %v", v.Name, v.Shape)
		}
	}
	return ""
}
