package autodiff

import (
	"fmt"
	"slices"
	"strings"

	"cfq/onnxio/graph"
)

type remedy struct {
	operators []string
	why       string
	instead   string
}

func remedies() []remedy {
	return []remedy{
		{
			[]string{"Compress", "NonZero", "Unique"},
			"how many numbers come out depends on the values",
			"multiply by a mask, or use Where, which keep the size",
		},
		{
			[]string{"GridSample", "RoiAlign", "MaxRoiPool", "AffineGrid", "CenterCropPad"},
			"where it reads is computed",
			"resize or crop images in front of the model, or use Resize or Slice with constant sizes",
		},
		{
			[]string{"Col2Im", "MaxUnpool", "DeformConv"},
			"it is rare in classifiers",
			"use ConvTranspose or Resize to enlarge, and Conv in place of deformable convolutions",
		},
		{
			[]string{"ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SplitToSequence"},
			"a sequence of tensors has no gradient",
			"use Concat, Split and Slice",
		},
		{
			[]string{"Det", "DFT", "STFT"},
			"it is rare in classifiers",
			"compute it in front of the model, as columns of the data",
		},
	}
}

// Remedies names the operators for which there is a remedy.
func Remedies() (names []string) {
	for _, r := range remedies() {
		names = append(names, r.operators...)
	}
	return names
}

// Remedy says why a standard operator has no gradient rule, and what to use instead; "" where nothing is known of it.
func Remedy(op string) (why, instead string) {
	for _, r := range remedies() {
		if slices.Contains(r.operators, op) {
			return r.why, r.instead
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

func missingMarkdown() string {
	var b strings.Builder
	b.WriteString("\n### Refused by name\n\n" +
		"Without a rule, an operator between the inputs and the decision is an error that names its node.\n\n" +
		"| operators | why | instead |\n|---|---|---|\n")
	for _, r := range remedies() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(r.operators, ", "), r.why, r.instead)
	}
	b.WriteString("\nFused operators of ONNX Runtime's optimizers are written out in standard ones when a model is\n" +
		"opened: Gelu, BiasGelu, FastGelu, QuickGelu, FusedMatMul, FusedGemm, FusedConv,\n" +
		"SkipLayerNormalization and (Skip)SimplifiedLayerNormalization. Others, such as Attention and\n" +
		"blocked convolutions, are refused by name.\n")
	return b.String()
}
