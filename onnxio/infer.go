package onnxio

import "cfq/onnxio/graph"

// known is what a file says about a value, or what follows from it.
type known struct {
	dtype graph.DType // Undefined: not known
	rank  int         // -1: not known
}

// infer fills u.types for all values, going through the nodes in their order.
// It knows just enough operators to find the types that rewrites ask for:
// those of activations.
func (u *upgrader) infer() {
	u.types = map[string]known{}
	if u.graph != nil {
		for _, list := range [][]graph.Value{u.graph.Inputs, u.graph.Outputs, u.graph.Values} {
			for _, v := range list {
				u.learn(v.Name, known{v.DType, rankOf(v.Shape)})
			}
		}
		for _, t := range u.graph.Inits {
			u.learn(t.Name, known{t.DType, len(t.Dims)})
		}
	}
	for _, n := range *u.nodes {
		if len(n.Outputs) > 0 && n.Standard() {
			u.learn(n.Outputs[0], u.result(n))
		}
	}
}

func rankOf(s graph.Shape) int {
	if s == nil {
		return -1
	}
	return len(s)
}

func (u *upgrader) typeOf(value string) known {
	if k, ok := u.types[value]; ok {
		return k
	}
	return known{graph.Undefined, -1}
}

// learn adds k to what is known of value; what was known before stays.
func (u *upgrader) learn(value string, k known) {
	old := u.typeOf(value)
	if old.dtype != graph.Undefined {
		k.dtype = old.dtype
	}
	if old.rank >= 0 {
		k.rank = old.rank
	}
	u.types[value] = k
}

// result is the type of n's first output.
func (u *upgrader) result(n *graph.Node) known {
	first := u.typeOf(n.Input(0))
	switch n.Op {
	case "Constant":
		if t := n.Constant(); t != nil {
			return known{t.DType, len(t.Dims)}
		}
	case "Cast":
		return known{graph.DType(n.Int("to", 0)), first.rank}
	case "Flatten":
		return known{first.dtype, 2}
	case "Gemm":
		return known{u.anyType(n), 2}
	case "MatMul":
		k := known{u.anyType(n), -1}
		if a, b := first.rank, u.typeOf(n.Input(1)).rank; a >= 2 && b >= 2 {
			k.rank = max(a, b)
		}
		return k
	case "Reshape":
		k := known{first.dtype, -1}
		if t := u.constantOf(n.Input(1)); t != nil && len(t.Dims) == 1 {
			k.rank = int(t.Dims[0])
		}
		return k
	case "Squeeze", "Unsqueeze", "Slice", "Gather", "Expand", "Tile", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin":
		return known{first.dtype, -1}
	case "Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu":
		k := known{u.anyType(n), 0}
		for _, in := range n.Inputs {
			if r := u.typeOf(in).rank; r < 0 || k.rank < 0 {
				k.rank = -1
			} else {
				k.rank = max(k.rank, r)
			}
		}
		return k
	case "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSigmoid", "Clip",
		"Dropout", "Identity", "BatchNormalization", "InstanceNormalization", "LayerNormalization", "Softmax", "LogSoftmax",
		"Hardmax", "Abs", "Neg", "Exp", "Log", "Sqrt", "Erf", "Floor", "Ceil", "Reciprocal", "Transpose", "Concat", "LRN",
		"LpNormalization", "CumSum", "ThresholdedRelu", "Pow", "Pad", "Conv", "MaxPool", "AveragePool", "GlobalAveragePool":
		if first.dtype == graph.Undefined && (n.Op == "Conv" || n.Op == "Concat" || n.Op == "BatchNormalization") {
			first.dtype = u.anyType(n)
		}
		return first
	}
	return known{graph.Undefined, -1}
}

// anyType is the element type of those inputs of n whose type is known.
func (u *upgrader) anyType(n *graph.Node) graph.DType {
	for _, in := range n.Inputs {
		if t := u.typeOf(in).dtype; t != graph.Undefined {
			return t
		}
	}
	return graph.Undefined
}

// constantOf returns the constant behind value, or nil.
func (u *upgrader) constantOf(value string) *graph.Tensor {
	if p := u.producer[value]; p != nil {
		return p.Constant()
	}
	if u.graph == nil {
		return nil
	}
	return u.graph.Init(value)
}
