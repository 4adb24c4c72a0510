package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/internal/message"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/refuse"
	"cfq/ptq/taskmodel"
	"cfq/qat"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/recourse/constraint"
	"cfq/task"
)

type canonicalModel struct {
	source     *graph.Model // the canonical form of the file, which plan files name by its hash
	canonical  *graph.Model // source, or source with equalized layers
	equalized  []string     // pairs of layers that were equalized
	found      []quant.LayerInfo
	file       *onnxio.Model // canonical, whose inputs are those of the written file
	full       *classifier.Model
	floatBytes int
	engine     ort.Options
	metadata   int // bytes of metadata and doc strings of the exporter that are left out
	spec       WriteSpec
}

// canonical brings a model into canonical form, balances channel ranges of neighbouring layers, the very unequal ones
// or all (nil: none), and opens it for a task; nil is any task that it fits.
func canonical(
	ctx context.Context, m *onnxio.Model, t *task.Task, spec WriteSpec, all *bool, workers int,
) (*canonicalModel, error) {
	if err := usable(ctx, m, t); err != nil { // a model that does not fit is refused as it was given
		return nil, err
	}
	c, err := m.Canonical()
	if err != nil {
		return nil, err
	}
	out := &canonicalModel{engine: m.Engine(), source: c.Graph(), spec: spec}
	out.floatBytes, out.metadata = sizes(m.File(), spec.KeepMetadata)
	if err = qdq.CheckOpset(out.source); err != nil {
		return nil, err
	}
	out.canonical = out.source
	if all != nil {
		if out.canonical, out.equalized, err = quant.CrossLayerEqualize(out.source, *all); err != nil {
			return nil, err
		}
	}
	if out.found, err = quant.FindLayers(out.canonical); err != nil {
		return nil, err
	}
	out.file = c.With(out.canonical)
	tables := out.file.Tables()
	for i := range out.found {
		l := &out.found[i]
		l.Table = tables[l.Input] && l.Conv == nil
		if l.Conv != nil || l.Fixed != "" {
			continue
		}
		if n, ok := c.PerRow(l.Input); ok && n > 0 && n%l.In == 0 {
			l.Positions = n / l.In
		} else {
			l.Fixed = "what it reads does not follow the rows of a batch"
		}
	}
	out.full, err = taskmodel.Open(out.file, t, workers)
	return out, err
}

// usable says why a model cannot be that of a task, or has no outcome of a person alone.
func usable(ctx context.Context, m *onnxio.Model, t *task.Task) error {
	c, err := taskmodel.OpenForPeople(ctx, m, t, 1)
	if err != nil {
		return err
	}
	if x := c.Mixes(); x != nil {
		return errors.Join(x, c.Close())
	}
	return c.Close()
}

func openFile(ctx context.Context, onnx []byte, t *task.Task, m *onnxio.Model, workers int) (*classifier.Model, error) {
	g, err := codec.Read(onnx, "")
	if err != nil {
		return nil, err
	}
	return open(ctx, g, t, m, workers)
}

// open opens a graph that was written from a model. An output that does not show what it holds, such as one that
// quantizing made a constant, holds what that of the model does.
func open(
	ctx context.Context, g *graph.Model, t *task.Task, from *onnxio.Model, workers int,
) (*classifier.Model, error) {
	m, err := onnxio.FromGraph(ctx, g, from.Engine())
	if err != nil {
		return nil, err
	}
	if t.Target.Output == "" && m.Decision().Meaning == onnxio.Unknown {
		read := *t
		read.Target.Output = string(from.Decision().Meaning)
		t = &read
	}
	return taskmodel.Open(m, t, workers)
}

// original is a model as it was given, which written files are compared with, and people who ask it for recourse.
type original struct {
	task *task.Task
	full *classifier.Model
	set  *constraint.Set // what each of them can change
	rows []int           // those whose recourse is something that they do, see taskmodel.OwnDoing
}

// openOriginal opens a model for people. Close full after use.
func openOriginal(
	ctx context.Context, m *onnxio.Model, t *task.Task, people *task.People, run *Run,
) (*original, error) {
	o := &original{task: t}
	set, err := actionSet(t, run.Overrides)
	if err == nil {
		o.set, err = personal(set, people)
	}
	if err == nil {
		o.full, err = taskmodel.Open(m, t, run.Workers)
	}
	if err != nil {
		return nil, inputError(err)
	}
	if o.rows, err = taskmodel.OwnRows(ctx, m, o.full, t, people, run.Workers); err != nil {
		return nil, inputError(errors.Join(err, o.full.Close()))
	}
	return o, nil
}

// compare compares a written file with the original, of which the people of b know what it promises.
func (o *original) compare(ctx context.Context, onnx []byte, b *eval.Batch, to eval.Options) (*eval.Result, error) {
	g, err := openFile(ctx, onnx, o.task, o.full.Model, to.Solver.Workers)
	if err != nil {
		return nil, err
	}
	defer g.Close() //nolint:errcheck // the comparison is what counts
	return eval.Compare(ctx, o.full, g, b, to)
}

// sizes is the file size of a model without the metadata that are left out of what is written, and that of these.
func sizes(m *graph.Model, keep bool) (bytes, metadata int) {
	if !keep {
		metadata, _, _ = codec.MetadataSize(m) // what cannot be marshalled has no size, either
	}
	return size(m) - metadata, metadata
}

func size(m *graph.Model) int {
	b, err := codec.Marshal(m)
	if err != nil {
		return 1 << 62
	}
	return len(b)
}

// shortSize is the size of a written model, which it gives short names.
func (m *canonicalModel) shortSize(written *graph.Model) int {
	qdq.Shorten(written, m.found)
	return size(written)
}

type network struct {
	*canonicalModel
	recipe   Recipe
	run      Run
	task     *task.Task
	set      *constraint.Set   // see actionSet
	layers   []quant.LayerInfo // to quantize
	integer  []bool            // of each of these: on integers, if what it reads can be
	uses     [][]int           // of each of these: all with the same weights, see findUses
	warnings []string          // why layers stay in float

	checkpoint *qat.Checkpoint // of a training at the recipe's budget; nil without one
}

func prepare(ctx context.Context, m *onnxio.Model, t *task.Task, r Recipe, run Run) (*network, error) {
	err := r.Check()
	if run.Promises != nil && r.Calibrate.TeacherNoise > 0 {
		err = errors.Join(err, errors.New("promises are kept as they are: calibrate.teacher-noise has no effect"))
	}
	if err != nil {
		return nil, err
	}
	run.tell("read the model", 0, 0)
	p := &network{recipe: r, run: run, task: t}
	if p.set, err = actionSet(t, run.Overrides); err != nil {
		return nil, err
	}
	p.canonicalModel, err = canonical(ctx, m, t, r.Write, &r.Round.CrossLayerEqualization, run.Workers)
	if err != nil {
		return nil, err
	}
	if p.layers, p.warnings, err = p.selectLayers(r.Allocate.KeepFloat); err != nil {
		return nil, errors.Join(err, p.full.Close())
	}
	p.integer = qdq.Integers(p.layers)
	for i := range p.layers {
		if compute := r.Write.Compute; compute != computeAuto {
			p.integer[i] = compute == computeInteger && !p.layers[i].Table
		}
	}
	p.uses = p.findUses()
	return p, nil
}

// selectLayers returns the layers to quantize and a warning for each that cannot be; those that the patterns keep in
// float are marked as fixed.
func (m *canonicalModel) selectLayers(keep []string) (layers []quant.LayerInfo, warnings []string, err error) {
	kept, err := keptInFloat(m.found, keep)
	if err != nil {
		return nil, nil, err
	}
	for i := range m.found {
		switch l := &m.found[i]; {
		case l.Fixed == quant.NotFinite: // nor are the scores
			return nil, nil, fmt.Errorf("layer %q has weights that are no finite numbers: export the model after a training "+
				"that did not diverge", l.Node)
		case l.Fixed != "":
			warnings = append(warnings, fmt.Sprintf("layer %q stays in float: %s", l.Node, l.Fixed))
		case kept[l.Node] != "":
			l.Fixed = kept[l.Node] // as was asked for: nothing to warn of
		default:
			layers = append(layers, *l)
		}
	}
	switch coded := codedLayer(m.canonical.Graph); {
	case coded != "" && len(layers) > 0:
		err = fmt.Errorf("layer %q is quantized already: quantize the float model that it was made from", coded)
	case len(layers) > 0:
		return layers, warnings, nil
	case len(kept) > 0:
		err = errors.New("nothing is left to quantize: every layer is to stay in float")
	case isQuantized(m.canonical):
		err = errors.New("the model is quantized already: quantize the float model that it was made from")
	case len(warnings) > 0:
		err = fmt.Errorf("the model has no layer that can be quantized: %s", strings.Join(warnings, "; "))
	default:
		err = refuse.Layerless(len(m.canonical.Graph.Nodes))
	}
	return nil, nil, err
}

// keptInFloat returns, by the names of their nodes, the layers that patterns leave in float, and why. A pattern is a
// name or one of path.Match, in which * stands for anything but a slash. What is not a pattern, or matches no layer, is
// an error: it would silently quantize what was to be kept.
func keptInFloat(layers []quant.LayerInfo, patterns []string) (map[string]string, error) {
	const listed = 20
	var errs []error
	kept := map[string]string{}
	for _, p := range patterns {
		var names []string
		matches := false
		_, bad := path.Match(p, "") // which looks at all of the pattern
		for _, l := range layers {
			names = append(names, l.Node)
			if ok, _ := path.Match(p, l.Node); l.Node == p || ok {
				matches = true
				kept[l.Node] = cmp.Or(kept[l.Node], fmt.Sprintf("%q keeps it", p))
			}
		}
		switch {
		case matches:
		case bad != nil:
			errs = append(errs, fmt.Errorf("keep in float %q is no pattern: a [ is never closed, or a \\ ends it", p))
		default:
			errs = append(errs, fmt.Errorf("keep in float %q matches no layer (* stands for anything but a slash); the layers "+
				"are %s", p, message.List(names, listed)))
		}
	}
	return kept, errors.Join(errs...)
}

func isQuantized(m *graph.Model) bool {
	return slices.ContainsFunc(m.Metadata, func(e graph.Meta) bool { return e.Key == RecipeKey }) ||
		slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "DequantizeLinear" })
}

// codedLayer is a layer whose weights are stored in codes; "" where there is none.
func codedLayer(g *graph.Graph) string {
	coded := map[string]bool{}
	for _, t := range g.Inits {
		coded[t.Name] = t.DType.IsCode()
	}
	for _, n := range g.Nodes {
		switch {
		case quant.IsLayer(n) && slices.ContainsFunc(n.Inputs, func(in string) bool { return coded[in] }):
			return quant.NodeName(n)
		case n.Is("DequantizeLinear") || n.Is("Cast") || n.Is("Transpose") || quant.Reshapes(n):
			coded[n.Outputs[0]] = coded[n.Input(0)]
		}
	}
	return ""
}

// A model may use the same weights in several places. They are quantized once: all uses have the same codes and scales,
// which are fitted on what all of them read, stored once, cost once, and err together. Refinement, which would move the
// weights of each use by themselves, leaves them alone. Training does move them, so that then each use is a layer of
// its own, and so is each on integers, where scales depend on what it reads.

// findUses says for each layer which have the same weights: itself alone where no other has.
func (p *network) findUses() [][]int {
	out := make([][]int, len(p.layers))
	shares := func(i int) bool { return p.recipe.Train == nil && !p.integer[i] && p.layers[i].Conv == nil }
	for i, l := range p.layers {
		out[i] = []int{i}
		for k, other := range p.layers[:i] {
			if shares(i) && shares(k) && other.In == l.In && slices.Equal(other.W, l.W) {
				out[i] = append(slices.Clone(out[k]), i)
			}
		}
		for _, k := range out[i] {
			out[k] = out[i]
		}
	}
	return out
}

func (p *network) index(node string) int {
	return slices.IndexFunc(p.layers, func(l quant.LayerInfo) bool { return l.Node == node })
}

// alone reports whether the weights of layer i are used once.
func (p *network) alone(i int) bool { return len(p.uses[i]) == 1 }

// Obstacle is why a model cannot be quantized.
type Obstacle struct {
	error
	Instead  string // what to export instead, "" when nothing is known
	Recourse bool   // recourse cannot be searched for, either: the margin has no gradient
	Already  bool   // the model is quantized already
}

// Unwrap returns the reason.
func (o *Obstacle) Unwrap() error { return o.error }

// Quantizable returns nil when a model has layers to quantize and a margin with a gradient. Otherwise it is an
// *Obstacle, or an error of the run.
func Quantizable(ctx context.Context, m *onnxio.Model) (err error) {
	c, err := taskmodel.Open(m.Unoptimized(), nil, 1)
	if err != nil { // of the head, unless a task can declare it
		if _, never := m.Declare(onnxio.Declared{Output: onnxio.Logits}); never != nil {
			return &Obstacle{error: err, Recourse: true}
		}
		return nil
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.Answers(ctx, nil, true); err != nil {
		return cmp.Or(ctx.Err(), error(&Obstacle{error: err}))
	}
	if err := c.SeparateRows(ctx); err != nil {
		return err
	}
	x := make([]float32, m.Dim())
	if c.Large() {
		x = nil // the graph of gradients is made, which shows what has none, and not opened
	}
	_, _, err = c.MarginGrads(ctx, x)
	if x := c.Mixes(); x != nil && err == nil {
		err = x
	} else if x != nil {
		err = fmt.Errorf("%w; %w", err, x)
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		o := &Obstacle{error: err, Recourse: true}
		if refused := (*refuse.Refusal)(nil); !errors.As(err, &refused) { // which says what to do
			o.Instead = instead(m.Graph().Graph)
		}
		return o
	}
	canonical, err := m.Canonical()
	if err != nil {
		return &Obstacle{error: err, Instead: instead(m.Graph().Graph)}
	}
	from := &canonicalModel{canonical: canonical.Graph()}
	if from.found, err = quant.FindLayers(from.canonical); err != nil {
		return &Obstacle{error: err}
	}
	if _, _, err := from.selectLayers(nil); err != nil {
		return &Obstacle{error: err, Instead: instead(m.Graph().Graph), Already: isQuantized(from.canonical)}
	}
	return nil
}

func instead(g *graph.Graph) string {
	has := func(is func(n *graph.Node) bool) bool { return slices.ContainsFunc(g.Nodes, is) }
	switch {
	case has(func(n *graph.Node) bool { return n.Domain == "ai.onnx.ml" && !strings.HasPrefix(n.Op, "Linear") }):
		return "export the network without the steps in front of it (the last step of a scikit-learn pipeline alone) and " +
			"write these into the task file: mean, std, values, inputs"
	case has(func(n *graph.Node) bool {
		return n.Op == "Dropout" && n.Input(2) != "" || n.Int("training_mode", 0) != 0
	}):
		return "export the network for inference: model.eval() before torch.onnx.export, without training="
	case has(func(n *graph.Node) bool { return n.HasGraphs() || n.Op == "GatherND" || n.Op == "ScatterND" }):
		return "export the network alone, without the selection of columns or the conditions around it"
	}
	return ""
}
