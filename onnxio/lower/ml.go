package lower

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
)

// standardize rewrites the operators of ai.onnx.ml that compute with numbers into standard ones. Look-ups of
// categories stay, for tables are made of them; so do trees and the like, which no rule here knows, for a run or a
// gradient to name.
func standardize(r *graph.Rewriter) error {
	w := &mlOperator{Builder: graph.NewBuilder(r.G, "")}
	var errs []error
	r.Rebuild(func(n *graph.Node) {
		rule := rules()[n.Op]
		if n.Domain != learning || rule == nil {
			r.G.Nodes = append(r.G.Nodes, n)
			return
		}
		w.n, w.Prefix = n, n.Outputs[0]+"/"
		if y, err := rule(w); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n.Label(), err))
		} else if y != "" {
			w.finish(0, y)
		}
	})
	return errors.Join(errs...)
}

type mlOperator struct {
	*graph.Builder
	n *graph.Node
}

// Operators are those of ai.onnx.ml that have standard ones in their place.
func Operators() []string { return slices.Sorted(maps.Keys(rules())) }

// rules make what the first output of a node is, "" where nothing reads it.
func rules() map[string]func(w *mlOperator) (string, error) {
	return map[string]func(w *mlOperator) (string, error){
		"Scaler": func(w *mlOperator) (string, error) {
			x := w.floats(w.n.Input(0))
			if v := w.n.Floats("offset"); v != nil {
				x = w.Op("Sub", []string{x, w.row(v)})
			}
			if v := w.n.Floats("scale"); v != nil {
				x = w.Op("Mul", []string{x, w.row(v)})
			}
			return x, nil
		},
		"Normalizer": func(w *mlOperator) (string, error) {
			x := w.floats(w.n.Input(0))
			axis := w.Const(graph.FromInts("axis", []int64{1}, 1))
			ops := map[string]string{"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}
			norm := w.n.Text("norm", "MAX")
			if ops[norm] == "" {
				return "", fmt.Errorf("unknown norm %q", norm)
			}
			size := w.Op(ops[norm], []string{x, axis})
			none := w.Op("Equal", []string{size, w.Const(graph.FromFloats("zero", []float32{0}))})
			one := w.Const(graph.FromFloats("one", []float32{1}))
			return w.Op("Div", []string{x, w.Op("Where", []string{none, one, size})}), nil
		},
		"Imputer": func(w *mlOperator) (string, error) {
			v, x := w.n.Floats("imputed_value_floats"), w.floats(w.n.Input(0))
			unknown := w.n.Float("replaced_value_float", 0)
			if v == nil {
				unknown = float32(w.n.Int("replaced_value_int64", 0))
				for _, i := range w.n.Ints("imputed_value_int64s") {
					v = append(v, float32(i))
				}
			}
			if v == nil {
				return "", errors.New("it has no values to impute")
			}
			var missing string
			if unknown != unknown {
				missing = w.Op("IsNaN", []string{x})
			} else {
				missing = w.Op("Equal", []string{x, w.Const(graph.FromFloats("unknown", []float32{unknown}))})
			}
			return w.Op("Where", []string{missing, w.row(v), x}), nil
		},
		"FeatureVectorizer": func(w *mlOperator) (string, error) {
			sizes := w.n.Ints("inputdimensions")
			if len(sizes) != len(w.n.Inputs) {
				return "", fmt.Errorf("it has %d sizes for %d inputs", len(sizes), len(w.n.Inputs))
			}
			parts := make([]string, len(sizes))
			for i, in := range w.n.Inputs {
				shape := w.Const(graph.FromInts("shape", []int64{-1, sizes[i]}, 2))
				parts[i] = w.Op("Reshape", []string{w.floats(in), shape})
			}
			return w.Op("Concat", parts, graph.IntAttr("axis", 1)), nil
		},
		"LinearClassifier": (*mlOperator).linear,
		"Binarizer": func(w *mlOperator) (string, error) {
			x := w.floats(w.n.Input(0))
			above := w.Op("Greater", []string{x, w.Const(graph.FromFloats("t", []float32{w.n.Float("threshold", 0)}))})
			return w.floats(above), nil
		},
	}
}

func (w *mlOperator) floats(x string) string {
	return w.Op("Cast", []string{x}, graph.IntAttr("to", int64(graph.Float)))
}

func (w *mlOperator) row(v []float32) string {
	return w.Const(graph.FromFloats("c", v, 1, int64(len(v))))
}

func (w *mlOperator) finish(i int, v string) {
	w.Append(&graph.Node{Op: "Identity", Inputs: []string{v}, Outputs: []string{w.n.Outputs[i]}})
}

func (w *mlOperator) linear() (string, error) {
	coef, bias, integers := w.n.Floats("coefficients"), w.n.Floats("intercepts"), w.n.Ints("classlabels_ints")
	labels := graph.FromInts("labels", integers, int64(len(integers)))
	if a := w.n.Attr("classlabels_strings"); a != nil && len(a.Strings) > 0 {
		labels = &graph.Tensor{
			Name: "labels", DType: graph.String, Dims: []int64{int64(len(a.Strings))}, Strings: a.Strings,
		}
	}
	classes := int(labels.Dims[0])
	if len(bias) == 0 {
		bias = make([]float32, classes)
	}
	if classes == 0 || len(coef)%classes != 0 || len(bias) != classes {
		return "", fmt.Errorf("it has %d coefficients, %d intercepts and %d classes", len(coef), len(bias), classes)
	}
	in := len(coef) / classes
	opposite := classes == 2 && bias[0] == -bias[1]
	for k := 0; k < in && opposite; k++ {
		opposite = coef[k] == -coef[in+k]
	}
	x := w.floats(w.n.Input(0))
	dense := func(rows int) string { // the last ones
		c, b := coef[len(coef)-rows*in:], bias[classes-rows:]
		return w.Op("Gemm", []string{
			x, w.Const(graph.FromFloats("coefficients", c, int64(rows), int64(in))),
			w.Const(graph.FromFloats("intercepts", b, int64(rows))),
		}, graph.IntAttr("transB", 1))
	}
	var scores string
	switch post := w.n.Text("post_transform", "NONE"); {
	case post == "LOGISTIC" && opposite: // one logit: log-odds are it, not the difference of two
		z := dense(1)
		no, yes := w.Op("Sigmoid", []string{w.Op("Neg", []string{z})}), w.Op("Sigmoid", []string{z})
		scores = w.Op("Concat", []string{no, yes}, graph.IntAttr("axis", 1))
	case post == "LOGISTIC":
		scores = w.Op("Sigmoid", []string{dense(classes)})
	case post == "SOFTMAX":
		scores = w.Op("Softmax", []string{dense(classes)}, graph.IntAttr("axis", 1))
	case post == "NONE":
		scores = dense(classes)
	default:
		return "", fmt.Errorf("the transform %q of its results is not supported", post)
	}
	if len(w.n.Outputs) > 1 && w.n.Outputs[1] != "" {
		w.finish(1, scores)
		scores = w.n.Outputs[1]
	}
	if w.n.Outputs[0] == "" {
		return "", nil
	}
	best := w.Op("ArgMax", []string{scores}, graph.IntAttr("axis", 1), graph.IntAttr("keepdims", 0))
	return w.Op("Gather", []string{w.Const(labels), best}), nil
}

func extractors(g *graph.Graph) {
	constants := g.Constants()
	for _, n := range g.Nodes {
		t := constants[n.Input(1)]
		if n.Op != "ArrayFeatureExtractor" || n.Domain != learning || t == nil {
			continue
		}
		index, err := t.Ints()
		if err != nil {
			continue
		}
		b := graph.NewBuilder(g, n.Outputs[0]+"/")
		n.Op, n.Domain = "Gather", ""
		n.Inputs = []string{n.Input(0), b.Const(graph.FromInts("index", index, int64(len(index))))}
		n.Attrs = []graph.Attr{graph.IntAttr("axis", -1)}
	}
}

func texts(t *graph.Tensor) []string {
	if t == nil {
		return nil
	}
	v, _ := t.Ints() // none of texts
	return words(t.Strings, v)
}

func words(texts [][]byte, numbers []int64) (out []string) {
	out = lists.Map(texts, func(s []byte) string { return string(s) })
	return append(out, lists.Map(numbers, func(i int64) string { return strconv.FormatInt(i, 10) })...)
}

func keys(n *graph.Node) []string {
	var out []string
	for _, name := range []string{"cats_strings", "keys_strings", "cats_int64s", "keys_int64s", "keys_tensor"} {
		if n.Domain == learning {
			out = append(out, listed(n.Attr(name))...)
		}
	}
	return out
}

func listed(a *graph.Attr) []string {
	if a == nil {
		return nil
	}
	return append(words(a.Strings, a.Ints), texts(a.T)...)
}
