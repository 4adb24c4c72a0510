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
	"fmt"
	"slices"
	"strings"

	"cfq/onnxio/graph"
)

// unsupported is one kind of model that cannot be quantized.
type unsupported struct {
	name    string // as in "the model is NAME"
	made    string // what exports it, for the page
	why     string
	instead string
	ops     []string // operators any of which shows the kind, of whatever domain
	// find returns what shows the kind, "" when the model is not of it; seen is the first node of ops, nil for none.
	// Without it, that node shows the kind.
	find func(m *model, seen *graph.Node) string
}

func (k *unsupported) found(m *model) string {
	seen := m.first(is(k.ops...))
	if k.find == nil {
		return label(seen)
	}
	return k.find(m, seen)
}

type model struct {
	*graph.Model
	nodes []*graph.Node // with those of functions
}

const network = "train a network or a logistic regression on the same columns (MLPClassifier, LogisticRegression, " +
	"PyTorch, Keras) and export that"

func tooLarge() unsupported {
	return unsupported{
		name: "a model with more than 2 GB of tensors",
		made: "large language and vision models",
		why:  "an ONNX file cannot hold it, and gradients would need several times its memory",
		instead: "export a smaller network: one that is distilled from it, or its last layers, with what comes before " +
			"them as columns of the data",
	}
}

// layerless is the kind that looking for layers finds out. Recourse can be searched for it, so that Check lets it pass.
func layerless() unsupported {
	return unsupported{
		name:    "a model without dense layers",
		made:    "naive Bayes, Gaussian processes, quadratic discriminants, rules",
		why:     "there are no stored weights of a Gemm, MatMul or Conv that could take fewer bits",
		instead: network,
	}
}

func stepped() unsupported {
	return unsupported{
		name: "a model whose scores move in steps",
		made: "isotonic calibration (`CalibratedClassifierCV(method=\"isotonic\")`); networks that see bins of all columns",
		why: "its output is constant between the steps, so that recourse has no gradient to follow, and rounding of " +
			"weights no effect that could be measured",
		instead: "export the classifier that was calibrated (`calibrated.calibrated_classifiers_[0].estimator`), or " +
			"calibrate with method=\"sigmoid\"; or export the network behind the bins and write these into the task file " +
			"(kind thermometer, thresholds)",
	}
}

func unloadable() unsupported {
	return unsupported{
		name: "a file that ONNX Runtime does not load",
		made: "gelu of Keras, of which tf2onnx leaves `Erfc`; pipelines of scikit-learn with columns of double",
		why:  "a file that does not run has no decisions to keep",
		instead: "export it with what is named here in another form, such as `gelu` with approximate=True, or columns of " +
			"float32",
	}
}

func unsupportedKinds() []unsupported { return slices.Concat(learned(), shaped()) }

func learned() []unsupported {
	return []unsupported{
		{
			name: "an ensemble of decision trees",
			made: "random forests, gradient boosting, XGBoost, LightGBM, CatBoost, AdaBoost",
			why: "a tree has thresholds in place of weights, and its output is constant between them, so that recourse has no " +
				"gradient to follow",
			instead: network,
			ops:     []string{"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"},
		},
		{
			name:    "a support vector machine",
			made:    "SVC, NuSVC, OneClassSVM",
			why:     "it compares rows with stored training rows and has no dense layer whose weights could take fewer bits",
			instead: network,
			ops:     []string{"SVMClassifier", "SVMRegressor"},
		},
		{
			name:    "a nearest-neighbours model",
			made:    "KNeighborsClassifier, RadiusNeighborsClassifier",
			why:     "it stores training rows in place of weights, and its votes have no gradient",
			instead: network,
			find: func(m *model, _ *graph.Node) string {
				if m.first(is("TopK")) == nil {
					return ""
				}
				return label(m.first(is("CDist", "Scan")))
			},
		},
		{
			name: "a recurrent network",
			made: "LSTM, GRU and RNN layers; models with Loop or Scan, which PyTorch makes of `nn.EmbeddingBag`",
			why: "the same weights are used once per step of a sequence, which rounding and sensitivity of layers do not " +
				"describe, and the loop has no gradient rule",
			instead: "export a network whose inputs are one row of columns: summaries of the sequence (last value, mean, " +
				"trend) and dense, convolution or attention layers; nn.Embedding in place of nn.EmbeddingBag",
			ops: []string{"LSTM", "GRU", "RNN", "Loop", "Scan", "LinearAttention", "AttnLSTM"},
			find: func(m *model, seen *graph.Node) string {
				if m.first(is("TopK")) != nil && m.first(is("Scan")) != nil {
					return "" // nearest neighbours
				}
				return label(seen)
			},
		},
	}
}

func shaped() []unsupported {
	return []unsupported{
		{
			name: "a text or sequence model",
			made: "tokenizers, TfidfVectorizer, CountVectorizer, transformers over token numbers",
			why: "its input is not one row of columns that people could change one at a time, so that there is no recourse to " +
				"keep",
			instead: "export the classifier behind the text (over embeddings or counts as columns of a fixed number)",
			ops:     textOperators(),
			find:    text,
		},
		{
			name: "a model that rewrites texts before it looks them up",
			made: "lower-cased or stripped categories (StringNormalizer)",
			why: "which spellings of a category it takes for one is not in its look-up, and depends on the locale of the " +
				"machine that runs it",
			instead: "write the categories in the data as the look-up has them (in lower case, say), and export the model " +
				"from the look-up on",
			ops: []string{"StringNormalizer"},
			find: func(m *model, seen *graph.Node) string {
				if text(m, m.first(is(textOperators()...))) != "" {
					return ""
				}
				return label(seen)
			},
		},
		{
			name: "a regressor",
			made: "regressors of scikit-learn; from other exporters a single number cannot be told from a logit, and is " +
				"taken for one",
			why:     "it predicts a quantity, and recourse needs a decision with a favourable side",
			instead: "train a classifier of whether the quantity passes the limit that decides, and export that",
			find:    regressor,
		},
		{
			name: "a detector or segmenter",
			made: "object detection, segmentation, models with a value per place or per token",
			why:  "it decides many things per row; recourse needs one decision per row",
			instead: "export the part that decides about the whole row, with one output of the shape batch x classes " +
				"(pooling before the last layer)",
			ops:  []string{"NonMaxSuppression", "RoiAlign", "MaxRoiPool", "EfficientNMS_TRT"},
			find: detector,
		},
		{
			name: "a model whose constants became inputs",
			made: "Keras models with a Normalization layer, by tf2onnx and model.export",
			why:  "the exporter lost the numbers of the layer: the file no longer holds the mean and variance",
			instead: "use keras.layers.Rescaling(1/std, -mean/std), or standardise the columns in front of the model and " +
				"write mean and std into the task file",
			find: lost,
		},
		{
			name:    "a model that draws random numbers",
			made:    "sampling layers, dropout by hand",
			why:     "its decision differs from run to run, so that no promise can hold",
			instead: "export the network for inference: model.eval(), without sampling",
			ops: []string{
				"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial",
			},
		},
	}
}

// Refusal is why a model of some kind cannot be quantized, and what to export instead, in one line.
type Refusal struct{ text string }

// Error says what the model is, why it cannot be quantized and what to do.
func (r *Refusal) Error() string { return r.text }

// Check returns nil, or a *Refusal that names every kind that the model belongs to.
func Check(g *graph.Model) error {
	m := &model{g, slices.Clone(g.Graph.Nodes)}
	for _, f := range g.Functions {
		m.nodes = append(m.nodes, f.Nodes...)
	}
	var parts []string
	for _, k := range unsupportedKinds() {
		if found := k.found(m); found != "" {
			parts = append(parts, k.says(found))
		}
	}
	if parts == nil {
		return nil
	}
	return &Refusal{strings.Join(parts, "; and ")}
}

// Operators are those that a model cannot have and be quantized, wherever they stand in it.
func Operators() (names []string) {
	for _, k := range unsupportedKinds() {
		names = append(names, k.ops...)
	}
	return names
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
	return &Refusal{tooLarge().says(fmt.Sprintf("%.1f GB", float64(bytes)/1e9))}
}

// Broken is the refusal of a model that ONNX Runtime does not load, for the reason that it gives. It says what to
// export instead, in general where instead is "", and what else is in the way unless besides is nil.
func Broken(reason, instead string, besides error) error {
	k := unloadable()
	k.instead = cmp.Or(instead, k.instead)
	text := k.says(reason)
	if besides != nil {
		text += "; besides, " + besides.Error()
	}
	return &Refusal{strings.Join(strings.Fields(text), " ")} // one line
}

// Layerless is the refusal of a model with so many nodes, of which none is a layer.
func Layerless(nodes int) error {
	return &Refusal{layerless().says(fmt.Sprintf("%d nodes, no layer", nodes))}
}

// Stepped is the refusal of a model whose gradient is lost at a node.
func Stepped(n *graph.Node) error { return &Refusal{stepped().says(label(n))} }

func (k unsupported) says(found string) string {
	return fmt.Sprintf("it is %s (%s), which this method cannot quantize: %s; instead, %s", k.name, found, k.why,
		k.instead)
}

func (m *model) first(f func(n *graph.Node) bool) *graph.Node {
	if i := slices.IndexFunc(m.nodes, f); i >= 0 {
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

func is(ops ...string) func(n *graph.Node) bool {
	return func(n *graph.Node) bool { return slices.Contains(ops, n.Op) }
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

// regressor finds what skl2onnx and onnxmltools make of regressors: they call the output "variable".
func regressor(m *model, _ *graph.Node) string {
	n := m.first(is("LinearRegressor", "TreeEnsembleRegressor", "SVMRegressor"))
	if n != nil && len(m.Graph.Outputs) == 1 && m.Graph.Outputs[0].DType.IsFloat() {
		return label(n)
	}
	known := m.ProducerName == "skl2onnx" || m.ProducerName == "OnnxMLTools"
	if known && len(m.Graph.Outputs) == 1 && m.Graph.Outputs[0].Name == "variable" {
		return `its only output is "variable"`
	}
	return ""
}

func detector(m *model, seen *graph.Node) string {
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
}

// lost finds inputs of one fixed row beside inputs of any number of rows, named as TensorFlow names constants.
func lost(m *model, _ *graph.Node) string {
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
}
