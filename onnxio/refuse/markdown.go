package refuse

import (
	"fmt"
	"strings"
)

type route struct {
	from string // library and exporter
	what string // layers, steps and heads
	mind string // what to mind
}

func routes() []route {
	return []route{
		{
			from: "scikit-learn, skl2onnx",
			what: "`Pipeline` and `ColumnTransformer` with scalers, `Normalizer`, `SimpleImputer`, `OneHotEncoder`, " +
				"`OrdinalEncoder`, `PCA`, feature selection; `MLPClassifier`, `LogisticRegression`, `SGDClassifier`, " +
				"`LinearDiscriminantAnalysis` behind them",
			mind: "one input per column (`to_onnx(pipeline, X[:1])`) or one array; `ZipMap` or `zipmap=False`",
		},
		{
			from: "PyTorch, both exporters",
			what: "linear layers, embeddings of integer categories, batch and layer normalization, dropout left in, residual " +
				"blocks, cross layers, attention, the usual activations",
			mind: "`model.eval()` first; the batch dynamic, whatever its name; numbers and categories in separate inputs or " +
				"one input per column",
		},
		{
			from: "Keras, tf2onnx or `model.export`",
			what: "dense layers, embeddings, `CategoryEncoding`, batch normalization, `Rescaling`; sigmoid and softmax heads",
			mind: "`StringLookup` and `Normalization` do not survive the export: number the categories in front of the model " +
				"and use `Rescaling`; `gelu` needs approximate=True",
		},
		{
			from: "convolutional networks, any exporter",
			what: "convolutions, depthwise ones too, pooling, batch normalization, residual blocks",
			mind: "N x C x H x W, fixed sizes behind the batch; `cfq task init` drafts the task from IDX files or a folder of " +
				"PNG files",
		},
	}
}

// Markdown returns the page of what works and what is refused.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Models\n\nWhich classifiers work, from which exporter, and which are refused. " +
		"`cfq inspect model.onnx` reports this.\n\n## What works\n\n| exported by | with | mind |\n|---|---|---|\n")
	for _, r := range routes() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.from, r.what, r.mind)
	}
	b.WriteString(`
Numbers may be float, double, float16 or bfloat16, with operator sets 7 to 25. Every operator between the inputs and the
decision needs a [gradient](#operators-that-can-be-differentiated). Worked examples, from training to a gate's verdict:
[scikit-learn](../examples/sklearn), [PyTorch](../examples/pytorch), [embeddings](../examples/embeddings),
[FT-Transformer](../examples/ft-transformer), [Keras](../examples/keras).

## What is refused

These models have no weights of layers that could take fewer bits, or no gradient from the decision to the inputs, or no
decision per row. ` + "`inspect`, `task init` and `task check`" + ` say which kind a file is and what to export instead.

| the model is | such as | why not | instead |
|---|---|---|---|
`)
	for _, k := range append(unsupportedKinds(), stepped(), layerless(), tooLarge(), unloadable()) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", k.name, k.made, k.why, k.instead)
	}
	return b.String()
}
