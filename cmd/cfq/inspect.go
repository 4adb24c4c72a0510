package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"cfq/internal/cli"
	"cfq/internal/lists"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/pass"
	"cfq/onnxio/refuse"
	"cfq/ptq/taskmodel"
	"cfq/quant/qdq"
	"cfq/quant/verify"
)

type inspection struct {
	inspectedFile
	inspectedInterface
	quantizability
	inspectedGraph

	Recipe   map[string]string `json:"recipe,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Exporter *exporterNotes    `json:"exporter_metadata,omitempty"`
}

type inspectedFile struct {
	File     string           `json:"file"`
	Bytes    int64            `json:"bytes"`
	SHA256   string           `json:"sha256"`
	IR       int64            `json:"ir_version"`
	Opsets   map[string]int64 `json:"opsets"` // the standard one under "ai.onnx"
	Producer string           `json:"producer"`
	Doc      string           `json:"doc,omitempty"`
}

// inspectedInterface holds Columns, those of the data where the model reads them as they are, and Classes, what it
// calls its classes.
type inspectedInterface struct {
	Inputs   []port           `json:"inputs"`
	Outputs  []port           `json:"outputs"`
	Columns  []columnNote     `json:"columns,omitempty"`
	Classes  []string         `json:"classes,omitempty"`
	Decision *onnxio.Decision `json:"decision,omitempty"`
	Rounding string           `json:"computes,omitempty"` // see classifier.Model.Rounding
}

type quantizability struct {
	Quantizable bool   `json:"quantizable"`
	Obstacle    string `json:"obstacle,omitempty"`
	Quantized   bool   `json:"quantized"` // by cfq, which Recipe tells, or another tool
}

type inspectedGraph struct {
	Nodes      int             `json:"nodes"`
	Operators  map[string]int  `json:"operators"`
	Parameters int64           `json:"parameters"` // weights and biases of the layers
	Layers     []qdq.LayerNote `json:"layers"`
	StoredBits float64         `json:"stored_bits_per_weight"` // see qdq.StoredBits
	// of the weights of quantized layers, with all that they need
	Stored int `json:"stored_bytes,omitempty"`
}

type columnNote struct {
	Name   string   `json:"name"`
	Values []string `json:"values,omitempty"` // categories; none for a number
}

// exporterNotes are metadata and doc strings of nodes and values, which may hold paths of the machine that exported.
type exporterNotes struct {
	Bytes int      `json:"bytes"`
	Keys  []string `json:"keys"`
}

type port struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape string `json:"shape"`
}

func inspect(ctx context.Context, e *env, args []string) error {
	if err := cli.Input("model", args[0]); err != nil {
		return err
	}
	m, err := codec.ReadFile(args[0])
	if err != nil {
		return unusableModel(args[0], err)
	}
	v, err := describe(args[0], m)
	if err != nil {
		return err
	}
	m = pass.Current(m)
	plain, inline := m.Clone(), pass.Inlining()
	if inline.Apply(plain, nil) != nil {
		plain = m // the reason is given below
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	list := func() ([]qdq.LayerNote, error) { return qdq.Layers(plain) }
	var refused *refuse.Refusal
	if opened, err := onnxio.FromGraph(ctx, m, e.engine()); errors.As(err, &refused) {
		v.Obstacle = refused.Error()
	} else if err != nil {
		e.msg.Warn("this model cannot be evaluated: %v", err)
	} else {
		d := opened.Decision()
		v.Decision, v.Classes, list = &d, opened.Labels(), func() ([]qdq.LayerNote, error) { return qdq.LayersOf(opened) }
		for _, c := range opened.Columns() {
			v.Columns = append(v.Columns, columnNote{c.Name, c.Values})
		}
		if v.Rounding, err = rounding(ctx, opened); err != nil {
			return err
		}
		o, err := obstacle(ctx, opened)
		if err != nil {
			return err
		}
		if v.Quantizable = o == nil; o != nil {
			v.Obstacle, v.Quantized = says(o), o.Already
		}
	}
	if v.Layers, err = list(); err != nil && refused == nil { // which says what is wrong
		e.msg.Warn("the layers cannot be listed: %v", err)
	}
	for _, l := range v.Layers {
		v.Parameters, v.Stored = v.Parameters+int64(l.Params()+l.Biases), v.Stored+l.Stored
	}
	v.StoredBits = qdq.StoredBits(v.Layers)
	data, err := codec.Marshal(m)
	if v.Nodes > kernelNodes {
		err = fmt.Errorf("ONNX Runtime would take long to optimize %d nodes", v.Nodes)
	} else if err == nil {
		err = addKernels(e, data, v.Layers)
	}
	if err != nil && refused == nil {
		e.msg.Warn("kernels are not shown: %v", err)
	}
	return e.page("inspection", v)
}

func rounding(ctx context.Context, m *onnxio.Model) (says string, err error) {
	if !m.Converted() {
		return "", nil
	}
	c, err := taskmodel.OpenWithoutFront(m, nil, 1)
	if err != nil {
		return "", nil //nolint:nilerr // of the head, which is declared by the task
	}
	if _, err = c.Margins(ctx, m.SomeRows()); err == nil {
		says = c.Rounding()
	}
	return says, errors.Join(err, c.Close())
}

func describe(path string, m *graph.Model) (*inspection, error) {
	v := &inspection{
		inspectedFile: inspectedFile{
			File: filepath.Base(path), IR: m.IRVersion, Opsets: map[string]int64{}, Doc: m.Doc,
			Producer: strings.TrimSpace(m.ProducerName + " " + m.ProducerVersion),
		},
		inspectedInterface: inspectedInterface{Inputs: ports(m.Graph.DataInputs()), Outputs: ports(m.Graph.Outputs)},
		inspectedGraph: inspectedGraph{
			Nodes: len(m.Graph.Nodes), Operators: map[string]int{}, Layers: []qdq.LayerNote{},
		},
		Recipe: recipe(m), Metadata: map[string]string{},
	}
	for _, o := range m.Opsets {
		v.Opsets[cmp.Or(o.Domain, "ai.onnx")] = o.Version
	}
	for _, n := range m.Graph.Nodes {
		op := n.Op
		if !n.Standard() {
			op = n.Domain + "." + op
		}
		v.Operators[op]++
	}
	for _, entry := range m.Metadata {
		if !strings.HasPrefix(entry.Key, "cfq.") {
			v.Metadata[entry.Key] = entry.Value
		}
	}
	left, keys, err := codec.MetadataSize(m)
	if err != nil {
		return nil, err
	}
	if keys != nil {
		v.Exporter = &exporterNotes{Bytes: left, Keys: keys}
	}
	v.Bytes, v.SHA256, err = codec.Digest(path)
	if err != nil {
		return nil, cli.WithCode(fmt.Errorf("model: %w", err), cli.Unusable)
	}
	return v, nil
}

// kernelNodes is up to how many nodes inspect looks for kernels: ONNX Runtime optimizes the whole graph for that.
const kernelNodes = 10_000

// addKernels notes at each layer what ONNX Runtime runs for it.
func addKernels(e *env, model []byte, layers []qdq.LayerNote) error {
	o, err := ort.Optimized(model, e.engine())
	if errors.Is(err, ort.ErrNotFound) {
		return errors.New("there is no ONNX Runtime library; `cfq doctor` says more")
	}
	if err != nil {
		return err
	}
	kernel := verify.Kernels(o.Graph)
	for i := range layers {
		l := &layers[i]
		if n := cmp.Or(kernel(l.Node, l.Output), kernel("", l.Behind)); n != nil {
			l.Kernel = n.Op
		}
	}
	return nil
}

func ports(values []graph.Value) []port {
	return lists.Map(values, func(v graph.Value) port { return port{v.Name, v.DType.String(), v.Shape.String()} })
}

// Numbers are the columns that are not of categories.
func (v *inspection) Numbers() []string {
	numbers := lists.Filter(v.Columns, func(c columnNote) bool { return c.Values == nil })
	return lists.Map(numbers, func(c columnNote) string { return c.Name })
}

// QuantizedLayers is how many layers are quantized.
func (v *inspection) QuantizedLayers() int {
	return len(lists.Filter(v.Layers, func(l qdq.LayerNote) bool { return l.Stored > 0 }))
}
