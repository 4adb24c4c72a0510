package qat

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/internal/must"
	"cfq/internal/statistics"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
)

// quick is a training that takes a tenth of a second and tells something.
func quick() Spec { return Spec{Optimizer: Optimizer{Steps: 320, Batch: 32, LearningRate: 4e-3}} }

func units() []Quantizers { return []Quantizers{RatioSteps, LSQ} }

// In the last rounds no code changes, whatever unit the weights are trained in; scales and biases go on.
func TestLastRoundsKeepCodes(t *testing.T) {
	t.Parallel()
	for _, unit := range units() {
		p := mlp(t, 3, compute{bits: 8})
		var before []quant.Layer
		draw := func(ctx context.Context, round int, use [Kinds]int, now []Trained) (Draw, error) {
			if round == Rounds-frozenRounds {
				before = Quantized(now)
			}
			return p.draw(ctx, round, use, now)
		}
		spec := Spec{Optimizer: Optimizer{Steps: 480, Batch: 16, LearningRate: 6e-3}, Quantizers: unit}
		out := must.Get(Train(t.Context(), p.network(p.written(t, p.plans())), Source{Draw: draw}, spec, Run{}))(t)
		for i, l := range Quantized(out.Layers) {
			must.Same(must.In(t, unit), before[i].Codes, l.Codes)
			if slices.Equal(l.Scales, before[i].Scales) || slices.Equal(l.Bias, before[i].Bias) {
				t.Errorf("%q, layer %d: the scales %v or the biases %v stayed", unit, i, l.Scales, l.Bias)
			}
		}
	}
}

// Weights in units of their scale come nearer to their codes and keep them; all other parameters stay.
func TestSettle(t *testing.T) {
	t.Parallel()
	p := mlp(t, 3, compute{bits: 3})
	p.layers[2].Plan.Float, p.layers[2].Plan.Scales = true, nil
	s := &trainStep{}
	s.slots, s.optimizerState = layout(&trainingJob{net: p.network(nil)})
	before := slices.Clone(s.Params)
	s.settle()
	for i, at := range s.slots {
		for k := at.weights; k < at.end; k++ {
			was, is := float64(before[k]), float64(s.Params[k])
			want := was
			if k < at.scales && i < 2 {
				want = math.RoundToEven(was) + (1-settling)*(was-math.RoundToEven(was))
			}
			if math.Abs(is-want) > 1e-6 || math.RoundToEven(is) != math.RoundToEven(was) {
				t.Errorf("layer %d, parameter %d: %v became %v, want %v", i, k-at.weights, was, is, want)
			}
		}
	}
}

// Training lowers the margin error on points that it has never seen, however the layers compute.
func TestTrainHelpsElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p     *problem
		share float64 // of the error that may be left
		units int     // of the weights: their scale, and their own
	}{
		"float":               {mlp(t, 3, compute{bits: 3}), 0.5, 2},
		"per tensor":          {mlp(t, 3, compute{bits: 3, perTensor: true}), 0.6, 1},
		"rows":                {mlp(t, 3, compute{bits: 3, rows: true}), 0.5, 1},
		"integer":             {mlp(t, 3, compute{bits: 3, integer: true, grid: true}), 0.6, 1},
		"convolution":         {convolutional(t, compute{bits: 3}), 0.8, 1},
		"integer convolution": {convolutional(t, compute{bits: 3, integer: true}), 0.8, 1},
	} {
		for _, unit := range units()[:c.units] {
			spec, last := quick(), checkpoint(t)
			spec.Quantizers = unit
			out := c.p.trained(t, spec, Run{Checkpoint: last})
			c.p.checkBetter(t, fmt.Sprintf("%s, %q", name, unit), Quantized(out.Layers), c.share)
			c.p.checkWritten(t, Quantized(out.Layers), last.state(t).State.Params)
			if len(out.History) != Rounds || out.History[Rounds-1].Steps != spec.Steps ||
				!(out.History[Rounds-1].Loss < out.History[0].Loss) {
				t.Errorf("%s, %q: history %+v", name, unit, out.History)
			}
		}
	}
}

// A network in float learns the margins of another one from elsewhere; without codes no round is frozen.
func TestTrainInFloat(t *testing.T) {
	t.Parallel()
	p := mlp(t, 3, compute{bits: 3})
	start := mlp(t, 4, compute{bits: 3})
	for i := range start.layers {
		start.layers[i].Plan = quant.Layer{Node: start.layers[i].Info.Node, Float: true}
	}
	out := must.Get(Train(t.Context(), start.network(start.full), p.source(), quick(), Run{}))(t)
	first, last := out.History[0].Loss, out.History[Rounds-1].Loss
	if !(last < first/3) {
		t.Errorf("the loss falls from %v to %v", first, last)
	}
	for i, l := range out.Layers {
		if info := start.layers[i].Info; len(l.W) != info.In*info.Out || slices.Equal(l.W, info.W) || l.Codes != nil {
			t.Errorf("layer %d: %d weights, %d codes", i, len(l.W), len(l.Codes))
		}
	}
}

// Parameterized clipping trains weights, biases and the ranges of activations, and leaves the scales of weights; two
// layers that read the same quantized activations keep one range.
func TestPACT(t *testing.T) {
	t.Parallel()
	m := graphOf(-1, 5)
	r := rand.New(rand.NewPCG(6, 1))
	hidden := func(value string, in, out int) string {
		dense(m, r, value, in, out)
		return m.Graph.Outputs[0].Name
	}
	b := graph.NewBuilder(m.Graph, "")
	h := b.Op("Relu", []string{hidden("x", 5, 10)})
	left, right := hidden(h, 10, 2), hidden(h, 10, 2)
	m.Graph.Outputs = []graph.Value{{Name: b.Op("Add", []string{left, right}), DType: graph.Float}}
	p := planned(t, m, compute{bits: 4, integer: true})
	for i := range p.layers { // much is clipped
		act := quant.FitAct(6, min(0, float32(i-1)), 1)
		p.layers[i].Plan.Act = &act
	}
	spec, last := quick(), checkpoint(t)
	spec.Quantizers = PACT
	out := p.trained(t, spec, Run{Checkpoint: last})
	p.checkBetter(t, "clipping", Quantized(out.Layers), 0.7)
	p.checkWritten(t, Quantized(out.Layers), last.state(t).State.Params)
	for i, l := range out.Layers {
		for k, s := range p.layers[i].Plan.Scales {
			if half, ok := quant.Half(s); !ok || l.Scales[k] != half {
				t.Errorf("layer %d: scale %d was %v and is %v", i, k, s, l.Scales[k])
			}
		}
	}
	if a, b := *out.Layers[1].Act, *out.Layers[2].Act; a != b {
		t.Errorf("the same activations have the quantizers %v and %v", a, b)
	}
}

func TestPruned(t *testing.T) {
	t.Parallel()
	for _, unit := range units() {
		p := mlp(t, 3, compute{bits: 4})
		for i := range p.layers {
			l := &p.layers[i]
			for k := range l.Info.W {
				l.Pruned = append(l.Pruned, k%3 == 0)
			}
		}
		p.layers[1].Plan = quant.Layer{Node: p.layers[1].Info.Node, Float: true}
		spec := quick()
		spec.Quantizers = unit
		zeros := 0
		for i, l := range p.trained(t, spec, Run{}).Layers {
			for k, zero := range p.layers[i].Pruned {
				is := l.W != nil && l.W[k] == 0 || l.W == nil && l.Codes[k] == 0
				if zero && !is {
					t.Errorf("%q, layer %d: weight %d is not zero", unit, i, k)
				}
				if !zero && is {
					zeros++
				}
			}
		}
		if all := len(p.layers[0].Pruned); zeros > all/2 {
			t.Errorf("%q: %d weights are zero that are not pruned", unit, zeros)
		}
	}
}

// elsewhere are rows that no training sees.
func (p *problem) elsewhere() []float32 { return normal(rand.New(rand.NewPCG(99, 1)), 3008*p.dim) }

// checkBetter reports trained plans of which more than a share of the margin error is left.
func (p *problem) checkBetter(t *testing.T, name string, plans []quant.Layer, share float64) {
	t.Helper()
	p.checkPlans(t, plans)
	x := p.elsewhere()
	if before, after := p.rms(t, p.plans(), x), p.rms(t, plans, x); after > share*before {
		t.Errorf("%s: margin error %.4f before, %.4f after", name, before, after)
	}
}

// checkPlans reports trained plans that no file can hold, or that are not of the layers.
func (p *problem) checkPlans(t *testing.T, plans []quant.Layer) {
	t.Helper()
	must.Same(t, len(p.layers), len(plans))
	for i, l := range plans {
		info, start := &p.layers[i].Info, p.layers[i].Plan
		if len(l.Codes) != info.Out*info.In || len(l.Bias) != info.Out || len(l.Scales) != len(start.Scales) {
			t.Fatalf("layer %d: %d codes, %d biases, %d scales", i, len(l.Codes), len(l.Bias), len(l.Scales))
		}
		for k, q := range l.Codes {
			f := must.Get(quant.FormatOf(start.Width(k/info.In), false))(t)
			if int(q) < f.QMin || int(q) > f.QMax {
				t.Errorf("layer %d: code %d of a row of %d bits", i, q, f.Bits)
			}
		}
		for _, s := range l.Scales {
			if half, ok := quant.Half(s); !ok || half != s {
				t.Errorf("layer %d: the scale %v has no half precision", i, s)
			}
		}
		l.Codes, l.Bias, l.Scales = start.Codes, start.Bias, start.Scales
		if l.Act != nil && p.layers[i].Info.Source == "" {
			if l.Act.Scale == start.Act.Scale {
				t.Errorf("layer %d: the range of activations stayed", i)
			}
			act := *l.Act
			act.Scale = start.Act.Scale
			l.Act = &act
		}
		must.Same(must.In(t, i), start, l)
	}
}

// checkWritten runs the model that is written from plans beside the graph that was trained, with its last parameters,
// which are codes in the last rounds. The file has scales in half precision, and biases of integer kernels in whole
// units of the sums; with these the graph has to decide alike.
func (p *problem) checkWritten(t *testing.T, plans []quant.Layer, params []float32) {
	t.Helper()
	x := p.elsewhere()
	m := p.written(t, p.plans())
	tr := must.Get(m.Training())(t)
	j := &trainingJob{net: p.network(m), Spec: Spec{Optimizer: Optimizer{Batch: len(x) / p.dim}}}
	fixBatch(tr.Types, tr.Types[m.Input().Name].Shape[0], j.Batch)
	slots, _ := layout(j)
	b := &stepBuilder{Builder: graph.NewBuilder(tr.Graph.Graph, "qat."), t: tr, policy: map[string]autodiff.Rule{}, job: j}
	must.Do(t, b.parameters(slots))
	params = slices.Clone(params)
	for i, at := range slots {
		for k, s := range plans[i].Scales {
			params[at.scales+k] = float32(math.Log(float64(s)))
		}
		act := plans[i].Act
		if act == nil && p.input != nil && i == 0 {
			act = &quant.Act{Scale: p.input.Scale}
		}
		for o := at.bias; act != nil && o < at.act; o++ {
			unit := act.Scale * plans[i].Scales[(o-at.bias)%len(plans[i].Scales)]
			params[o] = unit * float32(math.RoundToEven(float64(params[o]/unit)))
		}
	}
	tr.Graph.Graph.Outputs = []graph.Value{{Name: tr.Margin, DType: graph.Float}}
	got := must.Get(orttest.Run(t, tr.Graph, orttest.Need(t), m.Feed(x),
		graph.FromFloats(paramsName, params, int64(len(params))))[0].Floats())(t)
	differ := 0
	for i, want := range margins(t, p.written(t, plans), x) {
		if (got[i] > 0) != (want > 0) {
			differ++
		}
	}
	if 1000*differ > len(got) {
		t.Errorf("%d of %d decisions are not those of the training graph", differ, len(got))
	}
}

func checkpoint(t *testing.T) *Checkpoint {
	t.Helper()
	return &Checkpoint{path: filepath.Join(t.TempDir(), "checkpoint")}
}

func (c *Checkpoint) state(t *testing.T) (s *checkpointState) {
	t.Helper()
	must.Do(t, gob.NewDecoder(bytes.NewReader(must.Get(os.ReadFile(c.path))(t))).Decode(&s))
	return s
}

// uneven draws other kinds of points in each round, and not in all rounds the same ones.
func (p *problem) uneven(ctx context.Context, round int, use [Kinds]int, now []Trained) (Draw, error) {
	d, err := p.draw(ctx, round, use, now)
	if round%3 > 0 {
		d.Points = d.Points[round%3-1 : round%3+1]
	}
	d.VD, d.RVD = float64(round)/100, math.NaN()
	return d, err
}

func small(t *testing.T) *problem {
	t.Helper()
	return planned(t, dense(graphOf(-1, 3), rand.New(rand.NewPCG(8, 1)), "x", 3, 4, 2), compute{bits: 3})
}

// A training that is stopped after a round and goes on from its checkpoint ends as one in one piece, to the bit.
func TestResume(t *testing.T) {
	t.Parallel()
	p := small(t)
	for i, unit := range units() {
		spec := Spec{Optimizer: Optimizer{Steps: 50, Batch: 16, Seed: 3}, Quantizers: unit}
		train := func(ctx context.Context, run Run) (*Outcome, error) {
			return Train(ctx, p.network(p.written(t, p.plans())), Source{Draw: p.uneven}, spec, run)
		}
		want := must.Get(train(t.Context(), Run{}))(t)
		for _, stop := range [][]int{{5, Rounds - frozenRounds}, {Rounds - frozenRounds + 1, Rounds}}[i] {
			ctx, cancel := context.WithCancel(t.Context())
			kept := checkpoint(t)
			run := Run{Checkpoint: kept, Progress: func(e Event) {
				if e.Round == stop {
					cancel()
				}
			}}
			if out, err := train(ctx, run); !errors.Is(err, context.Canceled) || out != nil && out.Layers != nil {
				t.Fatalf("stopped after round %d: %v, %v", stop, out, err)
			}
			kept.saved = kept.state(t)
			must.Same(t, stop, len(kept.saved.History))
			got := must.Get(train(t.Context(), Run{Checkpoint: kept}))(t)
			must.Same(must.In(t, unit, stop), want, got,
				cmp.Comparer(func(a, b statistics.Float) bool { return a == b || !a.Defined() && !b.Defined() }))
		}
	}
}

// A checkpoint that cannot be saved does not end the training.
func TestUnsaved(t *testing.T) {
	t.Parallel()
	nowhere := &Checkpoint{path: filepath.Join(t.TempDir(), "none", "checkpoint")}
	out, err := small(t).train(t, Spec{Optimizer: Optimizer{Steps: 16, Batch: 16}}, Run{Checkpoint: nowhere})
	if err != nil || !errors.Is(out.Unsaved, os.ErrNotExist) || len(out.Layers) == 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

// Another seed draws other batches, and the plans that are given stay as they are.
func TestSeed(t *testing.T) {
	t.Parallel()
	p := small(t)
	spec := Spec{Optimizer: Optimizer{Steps: 64, Batch: 16, Seed: 1}}
	a := p.trained(t, spec, Run{})
	if spec.Seed = 2; cmp.Equal(a.Layers, p.trained(t, spec, Run{}).Layers) {
		t.Error("another seed gives the same plans")
	}
	for i, l := range p.layers {
		if l.Plan.Codes != nil || l.Plan.Bias != nil {
			t.Errorf("layer %d: the plan that was given has changed", i)
		}
	}
}

// A learning rate without sense is an error that says so, at once or when the loss has grown.
func TestDivergence(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1e3, 1e6, 1e30} {
		out, err := small(t).train(t, Spec{Optimizer: Optimizer{Steps: 320, Batch: 16, LearningRate: rate}}, Run{})
		if !errors.Is(err, ErrDiverged) || out != nil || !strings.Contains(err.Error(), "learning rate") {
			t.Errorf("rate %v: %v, %v", rate, out, err)
		}
	}
}

// A model that takes a fixed number of rows trains on batches of as many.
func TestFixedBatch(t *testing.T) {
	t.Parallel()
	p := wide(t, 3, 16, 2, compute{bits: 3})
	spec := quick()
	spec.Batch = 64
	out := p.trained(t, spec, Run{})
	p.checkBetter(t, "16 rows", Quantized(out.Layers), 0.6)
}

func TestOptionsOutOfRange(t *testing.T) {
	t.Parallel()
	p := small(t)
	for want, spec := range map[string]Spec{
		"learning-rate -1":     {Optimizer: Optimizer{LearningRate: -1}},
		"learning-rate NaN":    {Optimizer: Optimizer{LearningRate: math.NaN()}},
		"learning-rate +Inf":   {Optimizer: Optimizer{LearningRate: math.Inf(1)}},
		"eta -2":               {Weights: Weights{"eta": -2.0}},
		"beta NaN":             {Weights: Weights{"beta": math.NaN()}},
		"gamma -0.1":           {Weights: Weights{"gamma": -0.1}},
		"steps -1":             {Optimizer: Optimizer{Steps: -1}},
		"steps 15":             {Optimizer: Optimizer{Steps: 15}},
		"batch of -1":          {Optimizer: Optimizer{Batch: -1}},
		`"loss" for objective`: {Objective: "loss"},
	} {
		if out, err := p.train(t, spec, Run{}); err == nil || out != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, out, err)
		}
	}
	both := Spec{Weights: Weights{"eta": -2.0, "beta": -2.0}}
	if err := both.Check(); err == nil || !strings.Contains(err.Error(), "eta") || !strings.Contains(err.Error(), "beta") {
		t.Errorf("not all is said: %v", err)
	}
	must.Do(t, (&Spec{}).Check())
	none := Spec{Weights: Weights{"eta": 0.0}, Objective: Task}
	got, err := none.resolve(p.network(p.full), Source{})
	if err != nil || got.Weights.Of("eta") != 0 || got.Weights.Of("gamma") != 0.1 || got.Weights.Of("beta") != 1 {
		t.Errorf("without eta: %+v, %v", got, err)
	}
	broken := small(t)
	broken.layers[0].Plan.Bits = 5
	if _, err := Train(t.Context(), broken.network(p.written(t, p.plans())), p.source(), Spec{}, Run{}); err == nil ||
		!strings.Contains(err.Error(), "5-bit") {
		t.Errorf("a width that does not exist: %v", err)
	}
	broken = small(t)
	broken.layers[0].Info.Node = "none"
	if _, err := Train(t.Context(), broken.network(p.written(t, p.plans())), p.source(), Spec{}, Run{}); err == nil ||
		!strings.Contains(err.Error(), `no layer "none"`) {
		t.Errorf("a layer that the model does not have: %v", err)
	}
}

// A file that is damaged, of other inputs, of other threads or not a checkpoint is an error that names it.
func TestOpenCheckpoint(t *testing.T) {
	t.Parallel()
	path, e := filepath.Join(t.TempDir(), "checkpoint"), orttest.Need(t)
	open := func(path string, e ort.Options, inputs byte) (*Checkpoint, error) {
		return OpenCheckpoint(path, e, "inputs", []byte{inputs})
	}
	c, err := open(path, e, 1)
	if err != nil || c.saved != nil {
		t.Fatalf("without a file: %v", err)
	}
	state := checkpointState{History: []Event{{Round: 3}}}
	must.Do(t, c.save(state))
	if c, err = open(path, e, 1); err != nil || len(c.saved.History) != 1 {
		t.Fatalf("read back: %v", err)
	}
	refused := func(what, want string, e ort.Options, inputs byte) {
		t.Helper()
		must.Fail(must.In(t, what), must.Err(open(path, e, inputs)), path+": "+want)
	}
	refused("other inputs", "it is of a training with other inputs", e, 2)
	threads := e
	threads.Threads += 2
	refused("other threads", "it is of a training with other inputs", threads, 1)
	whole := must.Get(os.ReadFile(path))(t)
	for want, content := range map[string][]byte{
		"it is damaged": whole[:len(whole)-1], "it is not a checkpoint": whole[1:],
	} {
		must.Do(t, os.WriteFile(path, content, 0o600))
		refused("another file", want, e, 1)
	}
	if c, err = open(filepath.Join(path, "file"), e, 1); err == nil {
		err = c.save(state)
	}
	must.Fail(t, err, "")
}
