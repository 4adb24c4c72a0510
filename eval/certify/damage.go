package certify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/quant"
	"cfq/quant/qdq"
)

// Damage is what one layer's quantized weights do to the margin.
type Damage struct {
	Node string  `json:"node"`
	RMS  float64 `json:"rms"` // of the change of the margin, in logits
}

// LayerDamage returns, for each layer of the full model whose weights the quantized file stores in few bits, how far the margin
// moves at the points, n rows of model inputs, when this layer alone has the weights and the bias that the file stands for. It
// does not contain what rounding activations does. All of it comes from the two graphs: layers are told by their
// nodes' names.
//
// References: eq. app_telescoping, whose terms change one layer after the other.
func (k *Certifier) LayerDamage(ctx context.Context, points []float32, n int) ([]Damage, error) {
	if len(points) != n*k.full.c.Dim() || n == 0 {
		return nil, fmt.Errorf("damage of layers: %d numbers for %d rows of %d inputs", len(points), n, k.full.c.Dim())
	}
	m, err := k.canonical()
	if err != nil {
		return nil, fmt.Errorf("damage of layers: the original: %w", err)
	}
	c, err := classifier.New(ctx, m, classifier.Options{Target: &k.target, Engine: k.full.o})
	if err != nil {
		return nil, fmt.Errorf("damage of layers: the original: %w", err)
	}
	defer c.Close() //nolint:errcheck // nothing was written
	before, err := c.Margins(ctx, points)
	if err != nil {
		return nil, fmt.Errorf("damage of layers: %w", err)
	}
	layers, err := quant.FindLayers(m)
	if err != nil {
		return nil, fmt.Errorf("damage of layers: the original: %w", err)
	}
	notes, err := qdq.Describe(k.quant.m)
	if err != nil {
		return nil, fmt.Errorf("damage of layers: %w", err)
	}
	stored := map[string]bool{}
	for i := range notes {
		stored[notes[i].Node] = notes[i].Stored > 0
	}
	var out []Damage
	for i := range layers {
		l := &layers[i]
		if !stored[l.Node] || l.W == nil {
			continue
		}
		changed, err := k.with(m, l)
		if err != nil {
			return nil, fmt.Errorf("damage of layer %q: %w", l.Node, err)
		}
		after, err := margins(ctx, c.With(changed), points)
		if err != nil {
			return nil, fmt.Errorf("damage of layer %q: %w", l.Node, err)
		}
		sum := 0.0
		for j, v := range after {
			d := float64(v) - float64(before[j])
			sum += d * d
		}
		out = append(out, Damage{Node: l.Node, RMS: math.Sqrt(sum / float64(n))})
	}
	return out, nil
}

// margins runs a model once.
func margins(ctx context.Context, c *classifier.Model, points []float32) (_ []float32, err error) {
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.Margins(ctx, points)
}

// canonical is the full model in the form in which its layers were found and quantized.
func (k *Certifier) canonical() (*graph.Model, error) {
	const opset = 21 // that Canonical asks for
	m := k.full.m.Clone()
	if m.Opset("") < opset {
		if err := onnxio.Upgrade(m, opset); err != nil {
			return nil, err
		}
	}
	k.full.c.Declare(m.Graph)
	m, err := onnxio.Canonical(m)
	if err != nil {
		return nil, err
	}
	recipe := map[string]string{}
	if text, ok := k.quant.m.Meta("cfq.recipe"); ok && json.Unmarshal([]byte(text), &recipe) == nil && recipe["equalize"] == "yes" {
		m, _, err = quant.Equalize(m)
	}
	return m, err
}

// with returns m with what the quantized file stands for in place of layer l's weights and bias.
func (k *Certifier) with(m *graph.Model, l *quant.LayerInfo) (*graph.Model, error) {
	w, b, err := k.weights(l)
	if err != nil {
		return nil, err
	}
	m = m.Clone()
	for _, n := range m.Graph.Nodes {
		if n.Name != l.Node && (n.Name != "" || n.Outputs[0] != l.Node) {
			continue
		}
		names := graph.NewBuilder(m.Graph, "")
		dims := m.Graph.Init(l.Weight).Dims
		n.Inputs = []string{n.Input(0), names.Const(graph.FromFloats("w", w, dims...)), names.Const(graph.FromFloats("b", b, int64(l.Out)))}
	}
	return m, nil
}

// weights returns what the quantized file stands for in place of l.W and l.B.
func (k *Certifier) weights(l *quant.LayerInfo) (w, b []float32, err error) {
	if k.quant.p != nil {
		fronts := k.quant.p.fronts()
		for _, s := range k.quant.p.steps {
			if d, ok := s.(*dense); ok && d.node == l.Node && fronts[d.in] != nil {
				return k.reading(l, d, fronts[d.in])
			}
		}
	}
	for _, n := range k.quant.m.Graph.Nodes {
		if n.Name != l.Node && (n.Name != "" || len(n.Outputs) == 0 || n.Outputs[0] != l.Node) {
			continue
		}
		t := k.quant.values[n.Input(1)]
		if t == nil || t.Len() != len(l.W) {
			return nil, nil, errors.New("the quantized model has other inputs or outputs there")
		}
		if w, err = t.Floats(); err != nil {
			return nil, nil, err
		}
		if n.Is("Gemm") && n.Int("transB", 0) == 0 || n.Is("MatMul") {
			turned := make([]float32, len(w))
			for i, v := range w {
				turned[i%l.Out*l.In+i/l.Out] = v
			}
			w = turned
		}
		b = make([]float32, l.Out)
		if t := k.quant.values[n.Input(2)]; t != nil {
			if b, err = t.Floats(); err != nil || len(b) != l.Out {
				return nil, nil, fmt.Errorf("its bias: %d numbers for %d outputs: %w", len(b), l.Out, err)
			}
		}
		return w, b, nil
	}
	return nil, nil, errors.New("the quantized model has no such layer")
}

// reading is weights for a layer d that reads the model's inputs on grids: in the units of what l reads.
func (k *Certifier) reading(l *quant.LayerInfo, d *dense, front []lane) (w, b []float32, err error) {
	dim := k.full.c.Dim()
	c := chain{front: front, stages: []stage{{w: d.w, b: d.b, rows: d.rows, cols: d.cols}}}
	v, bias, _, ok := c.collapse(dim)
	if !ok {
		return nil, nil, errors.New("columns of the same input have different weights")
	}
	own := make([]lane, l.In) // what l itself reads
	for i := range own {
		own[i] = lane{from: i, gain: 1}
	}
	if k.full.p != nil {
		if of := k.full.p.fronts()[k.full.p.slotOf(l.Input)]; of != nil {
			own = of
		}
	}
	if len(own) != l.In || d.rows != l.Out {
		return nil, nil, errors.New("it has other inputs or outputs than the original's")
	}
	seen := map[int]bool{}
	for _, f := range own {
		if f.from < 0 || f.gain == 0 || seen[f.from] {
			return nil, nil, errors.New("the original's layer does not read each input once")
		}
		seen[f.from] = true
	}
	w, b = make([]float32, l.Out*l.In), make([]float32, l.Out)
	for o := range l.Out {
		for j, f := range own {
			x := v[o*dim+f.from] / f.gain
			w[o*l.In+j] = float32(x)
			bias[o] -= x * f.off
		}
		b[o] = float32(bias[o])
	}
	return w, b, nil
}
