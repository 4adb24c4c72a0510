package fit

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio/graph"
	"cfq/task"
)

// Arch is an architecture: what ParseArch reads.
type Arch struct {
	text   string
	image  []int    // height, width, channels of the input; nil for a sequence
	convs  [][2]int // output channels and kernel
	hidden []int    // outputs of the dense layers but the last one; of an autoencoder, those to the code
	coder  bool     // an autoencoder
}

// ArchDoc is a row of the table of architectures.
type ArchDoc struct{ Name, Form, Example, Doc string }

// Usage is the form and, where that is not the form itself, an example.
func (d *ArchDoc) Usage() string {
	if d.Form == d.Example {
		return d.Form
	}
	return d.Form + ", such as " + d.Example
}

//go:embed archs.txt
var archTable string

// Archs is the table of architectures. Help and messages are made from it.
func Archs() (all []ArchDoc) {
	for line := range strings.Lines(archTable) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		all = append(all, ArchDoc{cells[0], cells[1], cells[2], cells[3]})
	}
	return all
}

func (a *Arch) read(name, sizes string) (err error) {
	switch name {
	case "cnn":
		if image, rest, ok := strings.Cut(sizes, "/"); ok {
			sizes = rest
			if a.image, err = numbers(image, 2, 3); err != nil {
				return err
			}
			a.image = append(a.image, 1)[:3]
		}
		for _, s := range strings.Split(sizes, ",") {
			conv, err := numbers(s, 2)
			if err != nil {
				return err
			}
			if conv[1]%2 == 0 {
				return fmt.Errorf("the kernel of %q is even: want an odd one", s)
			}
			a.convs = append(a.convs, [2]int(conv))
		}
		return nil
	case "logreg":
		if sizes != "" {
			return fmt.Errorf("unexpected sizes %q", message.Clip(sizes))
		}
		return nil
	}
	a.coder = name == "autoencoder"
	for _, s := range strings.Split(sizes, ",") {
		size, err := numbers(s, 1)
		if err != nil {
			return err
		}
		a.hidden = append(a.hidden, size[0])
	}
	return nil
}

// Autoencoder says that a network makes a code of its inputs, and inputs of a code, instead of deciding.
func (a *Arch) Autoencoder() bool { return a.coder }

func (a *Arch) code() int { return len(a.hidden) - 1 }

// Limits of an architecture: far beyond what a training without accelerators can do.
const (
	maxSize   = 1 << 16
	maxLayers = 64
	maxParams = 1 << 26
)

// numbers reads sizes joined by x, as many as one of the counts says.
func numbers(s string, counts ...int) ([]int, error) {
	var out []int
	for _, part := range strings.Split(s, "x") {
		v, err := strconv.Atoi(part)
		if err != nil || v < 1 || v > maxSize || strconv.Itoa(v) != part {
			return nil, fmt.Errorf("invalid size %q: want a number from 1 to %d", message.Clip(part), maxSize)
		}
		out = append(out, v)
	}
	if !slices.Contains(counts, len(out)) {
		return nil, fmt.Errorf("%q has %s", message.Clip(s), message.Count(len(out), "size"))
	}
	return out, nil
}

// ParseArch reads an architecture in one of the forms of Archs.
func ParseArch(s string) (Arch, error) {
	name, sizes, _ := strings.Cut(s, ":")
	var forms []string
	for _, row := range Archs() {
		forms = append(forms, row.Form)
		if row.Name != name {
			continue
		}
		a := Arch{text: s}
		err := a.read(name, sizes)
		if err == nil && len(a.convs)+len(a.hidden) > maxLayers {
			err = fmt.Errorf("more than %d layers", maxLayers)
		}
		if err == nil && strings.HasSuffix(s, ":") {
			err = errors.New("nothing stands behind the colon")
		}
		if err != nil {
			return Arch{}, fmt.Errorf("invalid value %q for arch: %w; want %s", message.Clip(s), err, row.Usage())
		}
		return a, nil
	}
	return Arch{}, fmt.Errorf("invalid value %q for arch: want %s", message.Clip(s), message.Or(forms))
}

// String returns the architecture as ParseArch reads it.
func (a Arch) String() string { return a.text }

// netLayer is a layer with weights, out x in and the sizes of a convolution's kernel. Its output has a name, or a Relu
// follows, and after a convolution the maximum of two neighbours.
type netLayer struct {
	out, in int
	kernel  []int
	name    string
}

// suits says why convolutions of the architecture would take other neighbours than those of the task's image.
func (a *Arch) suits(t *task.Task) error {
	if a.image == nil || len(t.Images) != 1 {
		return nil
	}
	im, _ := t.Images[0].Encoding.(*task.Pixels)
	channels, rows, columns := im.Axes()
	switch {
	case !slices.Equal(a.image, []int{rows, columns, channels}):
		return fmt.Errorf("arch %s: the task's image is %dx%dx%d", a, rows, columns, channels)
	case im.Layout == "hwc" && channels > 1:
		return fmt.Errorf("arch %s: it takes an image channel by channel, and the task's has its channels last", a)
	}
	return nil
}

// layers are the layers of a network with dim inputs and two logits, of an autoencoder one for each input.
func (a *Arch) layers(dim int) ([]netLayer, error) {
	var out []netLayer
	channels, spatial := 1, []int{dim}
	if a.image != nil {
		channels, spatial = a.image[2], slices.Clone(a.image[:2])
		if n := channels * spatial[0] * spatial[1]; n != dim {
			return nil, fmt.Errorf("arch %s: the image has %d numbers, but the task's features make %d inputs", a, n, dim)
		}
	}
	for _, c := range a.convs {
		l := netLayer{out: c[0], in: channels, kernel: slices.Repeat([]int{c[1]}, len(spatial))}
		for i := range spatial {
			if spatial[i] /= 2; spatial[i] == 0 {
				return nil, fmt.Errorf("arch %s: each convolution halves its input, and of %d inputs nothing is left", a, dim)
			}
		}
		out, channels = append(out, l), c[0]
	}
	in := channels
	for _, n := range spatial {
		in *= n
	}
	sizes := append(slices.Clone(a.hidden), classes)
	if a.coder {
		back := slices.Clone(a.hidden[:a.code()])
		slices.Reverse(back)
		sizes = slices.Concat(a.hidden, back, []int{dim})
	}
	for i, size := range sizes {
		l := netLayer{out: size, in: in}
		switch {
		case i == len(sizes)-1:
			l.name = logitsName
		case a.coder && i == a.code():
			l.name = codeName
		}
		out, in = append(out, l), size
	}
	total := 0
	for _, l := range out {
		if total += l.params(); total > maxParams {
			return nil, fmt.Errorf("arch %s: more than %d parameters", a, maxParams)
		}
	}
	return out, nil
}

func (l *netLayer) weights() int {
	n := l.in
	for _, k := range l.kernel {
		n *= k
	}
	return n
}

func (l *netLayer) params() int { return l.out * (l.weights() + 1) }

// Names of the input, of an autoencoder's code and of the logits, as exporters of PyTorch models call them; classes is
// the number of a classifier's.
const (
	inputName, codeName, logitsName = "features", "code", "logits"
	classes                         = 2
)

// network returns a model with random weights: of several members, the mean of their logits.
//
// Weights and biases are uniform within 1/sqrt(n) after n inputs, as PyTorch starts its layers.
func (a *Arch) network(layers []netLayer, dim, members int, seed uint64) *graph.Model {
	m := model("classifier", value(inputName, dim), value(logitsName, layers[len(layers)-1].out))
	var logits []string
	for k := range members {
		b := &netBuilder{Builder: graph.NewBuilder(m.Graph, ""), rng: rand.New(rand.NewPCG(seed, uint64(k)))}
		if members > 1 {
			b.Prefix = memberPrefix(k)
		}
		logits = append(logits, b.network(a, layers, dim))
	}
	if members > 1 {
		b := graph.NewBuilder(m.Graph, "")
		share := b.Const(graph.FromFloats("share", []float32{1 / float32(members)}))
		sum := logits[0]
		for _, l := range logits[1:] {
			sum = b.Op("Add", []string{sum, l})
		}
		b.Append(&graph.Node{Op: "Mul", Name: "/mean", Inputs: []string{sum, share}, Outputs: []string{logitsName}})
	}
	return m
}

func model(name string, in, out graph.Value) *graph.Model {
	return &graph.Model{
		IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, ProducerName: "cfq",
		Graph: &graph.Graph{Name: name, Inputs: []graph.Value{in}, Outputs: []graph.Value{out}},
	}
}

func value(name string, size int) graph.Value {
	shape := graph.Shape{{Size: -1, Param: "batch"}, {Size: int64(size)}}
	return graph.Value{Name: name, DType: graph.Float, Shape: shape}
}

func memberPrefix(k int) string { return fmt.Sprintf("member%d.", k) }

type netBuilder struct {
	*graph.Builder
	rng *rand.Rand
	n   int // modules so far
}

// node appends the next module's node; its name is like that of an exported PyTorch model, /2/Gemm.
func (b *netBuilder) node(op, out string, in []string, attrs ...graph.Attr) string {
	name := fmt.Sprintf("%s/%d/%s", b.Prefix, b.n, op)
	if out == "" {
		out = name + "_output"
	}
	b.n++
	b.Append(&graph.Node{Op: op, Name: name, Inputs: in, Outputs: []string{out}, Attrs: attrs})
	return out
}

func (b *netBuilder) random(l *netLayer) []string {
	bound := 1 / math.Sqrt(float64(l.weights()))
	uniform := func(int) float32 { return float32((2*b.rng.Float64() - 1) * bound) }
	dims := lists.Map(append([]int{l.out, l.in}, l.kernel...), func(k int) int64 { return int64(k) })
	weight, bias := fmt.Sprintf("%d.weight", b.n), fmt.Sprintf("%d.bias", b.n)
	return []string{
		b.Const(graph.FromFloats(weight, lists.Make(l.out*l.weights(), uniform), dims...)),
		b.Const(graph.FromFloats(bias, lists.Make(l.out, uniform), int64(l.out))),
	}
}

func (b *netBuilder) network(a *Arch, layers []netLayer, dim int) string {
	value := inputName
	if len(a.convs) > 0 {
		shape := []int64{-1, 1, int64(dim)}
		if a.image != nil {
			shape = []int64{-1, int64(a.image[2]), int64(a.image[0]), int64(a.image[1])}
		}
		value = b.Op("Reshape", []string{value, b.Const(graph.FromInts("shape", shape, int64(len(shape))))})
	}
	for i := range layers {
		l := &layers[i]
		if l.kernel == nil && i > 0 && layers[i-1].kernel != nil {
			value = b.node("Flatten", "", []string{value}, graph.IntAttr("axis", 1))
		}
		op, out, attrs := "Gemm", "", []graph.Attr{graph.IntAttr("transB", 1)}
		if l.name != "" {
			out = b.Prefix + l.name
		}
		var kernel, pads, two []int64
		for _, k := range l.kernel {
			kernel, pads, two = append(kernel, int64(k)), append(pads, int64(k/2), int64(k/2)), append(two, 2)
			op, attrs = "Conv", []graph.Attr{graph.IntsAttr("kernel_shape", kernel...), graph.IntsAttr("pads", pads...)}
		}
		value = b.node(op, out, append([]string{value}, b.random(l)...), attrs...)
		if l.name == "" {
			value = b.node("Relu", "", []string{value})
		}
		if l.kernel != nil {
			value = b.node("MaxPool", "", []string{value}, graph.IntsAttr("kernel_shape", two...),
				graph.IntsAttr("strides", two...))
		}
	}
	return value
}
