// Package qat trains a network through fake quantizers, so that few bits cost little recourse.
//
// In: a classifier whose layers are in canonical form, plans of these layers (bit widths and first scales), and points
// with what the full-precision model says of them. Out: plans of the same bit widths with trained codes, scales and
// biases. The invariant: a step is one ONNX graph that ONNX Runtime runs, the codes are those that the graph computed
// with, and the same arguments give the same plans.
//
// References: sections CFQ objective, Quantizer parameterization and Training algorithm of the paper.
package qat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// Layer is a layer to train.
type Layer struct {
	Info quant.LayerInfo // behind an integer input, folded
	// Plan has bit widths and where training starts: scales, codes, bias. A layer that it keeps in float is trained so.
	Plan quant.Layer
	// Pruned says which weights, Out x In, are zero and stay zero; nil = none.
	Pruned []bool
	// Widths are the bit widths that Search chooses among; nil for Train.
	Widths *Widths
	// Sources are the columns of the weights that the columns of an integer kernel have; nil when they are the same.
	Sources []int
}

// Trained is a layer as trained so far.
type Trained struct {
	quant.Layer
	W []float32 // Out x In, of a layer in float; nil of others
}

// Quantized returns the plans of layers.
func Quantized(layers []Trained) []quant.Layer {
	plans := make([]quant.Layer, len(layers))
	for i := range layers {
		plans[i] = layers[i].Layer
	}
	return plans
}

// Kind says where points come from.
type Kind int

// The kinds of points.
const (
	Factual Kind = iota
	Teacher      // recourse of the full-precision model
	Student      // recourse of the network as trained so far
	Kinds        // how many kinds there are
)

// Points are rows to train on, and what the full-precision model says of them.
type Points struct {
	Kind    Kind
	X       []float32 // rows x inputs
	Margins []float32 // of the full-precision model
	// Now are the margins of the network as trained so far, at the factual points of objectives that vary their points.
	Now []float32
	// Source is the position, among the factual points, of the person of each teacher point; nil: the same position.
	Source []int
	// Groups says in which groups the people of factual points are, rows x Options.Groups of 0 and 1.
	Groups []float32
	// Classes has the label of each factual row, -1 where it is not known; nil where no label is.
	Classes []int
	// Probabilities of the full-precision model, rows x classes; only KD needs them.
	Probabilities []float32
	// Attributes of factual rows, rows x Code.Attributes; only the objective Attributes needs them.
	Attributes []float32
}

// Draw is what a round is trained on and what its people say.
type Draw struct {
	Points  []Points // all that the round is trained on
	VD, RVD float64  // of the network as the round begins; NaN where nobody was asked
}

// Source draws the points of a round, given the layers as trained so far: of each kind as many as the round has a use
// for, where there may be any number. The same arguments must give the same draw.
type Source func(ctx context.Context, round int, use [Kinds]int, now []Trained) (Draw, error)

// DefaultRate is the default learning rate.
const DefaultRate = 0.001

// None is a weight of zero, where the zero value stands for the usual one.
const None = -1

// Options of Train; the zero value is the default.
type Options struct {
	Objective Objective // Distil
	Steps     int       // of the optimizer (16000)
	Batch     int       // rows of a step (256)
	Rate      float64   // learning rate (DefaultRate), falling to zero along a cosine, relative to each layer's weights
	Eta       float64   // weight of validity at teacher points (1); None = 0, as for the next four
	Beta      float64   // weight of the hinge (1)
	Gamma     float64   // margin of the hinge, in logits (0.1)
	Alpha1    float64   // weight of the distance between actions (1)
	Alpha2    float64   // weight of the difference between their costs (1)
	K         int       // steps of the network's own actions (3)
	Groups    int       // of people, as Points.Groups has them
	Lambda    float64   // weight of the bit cost, for Search; 0 lets it follow the cost, so that the budget is met
	Seed      uint64    // of batches
	// Recourse finds actions during training, for Online and for objectives that look at the network's own actions.
	Recourse Recourse
	// Online computes teacher actions for every batch, in place of those of the points (objectives of the paper).
	Online bool
	// LSQ trains weights in their own units, as learned step size quantization is published, not in units of their scale.
	LSQ bool
	// PACT trains the scales of activations by what is clipped alone, as parameterized clipping is published, and leaves
	// those of weights as they are.
	PACT bool
	// Decay is the weight of half the squared weights of layers in float, in the loss of a row (0).
	Decay float64
	// Members are the values that hold the logits of an ensemble's members, whose mean the model's logits are.
	Members []string
	// Code says what an autoencoder has in the middle and at its ends.
	Code Code
	// Checkpoint keeps the state of a training so that one that was stopped goes on; nil keeps none.
	Checkpoint Checkpoint
	Progress   func(Event)

	objective ObjectiveDoc
	target    int
	classes   int
	dim       int
	rows      int     // of a step
	budget    float64 // of Search
}

// Event is the state after a round.
type Event struct {
	Round, Rounds int // Round is from 1 to Rounds
	Steps         int
	Loss          float64 // mean over the round
	VD, RVD       float64 // as Draw has them
	Cost          float64 // of the bit widths in the last step of a round of Search, in the unit of the budget
}

// Outcome is what came of a training.
type Outcome struct {
	Layers  []Trained
	History []Event // by round
}

// ErrDiverged is wrapped by the error of a training whose loss is no number or grows without bound.
var ErrDiverged = errors.New("training diverged")

// rounds is how often points are drawn. In the last frozenRounds codes stay as they are, while scales and biases make
// up for the last changes of codes: a weight between two codes would otherwise move to and fro to the end.
const rounds, frozenRounds = 16, 2

// DefaultSteps is Options.Steps where it is 0.
const DefaultSteps = 16000

// Rounds is how many rounds a training has, and so the least number of steps.
const Rounds = rounds

// mostPoints is the largest number of points of a kind that a round has a use for.
const mostPoints = 12288

// diverged is how many times the loss of the first batch the mean of a round may be.
const diverged = 100

// A training has failed if its last loss is more than ended times the first one, and not only small.
const ended, tinyLoss = 2, 1e-2

// MostSteps bounds a training: a day on the smallest networks.
const MostSteps = 100_000_000

func (o Options) resolve(m *classifier.Model) (Options, error) {
	o.Objective = cmp.Or(o.Objective, Distil)
	var err error
	if o.objective, err = FindObjective(o.Objective); err != nil {
		return o, err
	}
	o.Steps, o.Batch = cmp.Or(o.Steps, DefaultSteps), cmp.Or(o.Batch, 256)
	if o.rows = o.Batch; o.objective.paired() {
		o.rows = 2 * o.Batch
	}
	if m.Fixed() > 0 {
		o.Batch, o.rows = m.Fixed()*o.Batch/o.rows, m.Fixed()
	}
	if o.objective.paired() && m.Fixed()%2 != 0 || o.objective.steps && m.Fixed() > 0 {
		return o, fmt.Errorf("objective %s needs a model that takes any number of rows, and this one takes %d", o.Objective,
			m.Fixed())
	}
	o.Rate, o.K = cmp.Or(o.Rate, DefaultRate), cmp.Or(o.K, 3)
	for name, v := range o.weights() {
		if *v = cmp.Or(*v, Usual(name)); *v == None {
			*v = 0
		}
	}
	o.target, o.classes, o.dim = m.Target(), max(2, m.Classes()), m.Dim()
	if o.objective.Ensemble && len(o.Members) == 0 {
		return o, fmt.Errorf("the objective %s needs the members of an ensemble", o.Objective)
	}
	if (o.Online || o.objective.steps) && o.Recourse == nil {
		return o, fmt.Errorf("objective %s: Options.Recourse is not set", o.Objective)
	}
	if o.objective.Groups && o.Groups < 1 {
		return o, fmt.Errorf("objective %s needs groups of people", o.Objective)
	}
	return o, o.Check()
}

// weights are those that objectives have, by name.
func (o *Options) weights() map[string]*float64 {
	return map[string]*float64{
		"eta": &o.Eta, "beta": &o.Beta, "gamma": &o.Gamma, "alpha1": &o.Alpha1, "alpha2": &o.Alpha2,
	}
}

// Usual is the default of a weight.
func Usual(weight string) float64 {
	if weight == "gamma" {
		return 0.1 // logits
	}
	return 1
}

// Check reports every option that makes no sense.
func (o *Options) Check() error {
	var errs []error
	check := func(name string, v float64) {
		if !(v >= 0) || math.IsInf(v, 1) {
			errs = append(errs, fmt.Errorf("invalid %s %v: want 0 or more", name, v))
		}
	}
	check("learning-rate", o.Rate)
	check("weight-decay", o.Decay)
	check("lambda", o.Lambda)
	weights := o.weights()
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if v := *weights[name]; v != None {
			check(name, v)
		}
	}
	if o.Batch < 0 {
		errs = append(errs, fmt.Errorf("invalid batch of %d rows: want 1 or more", o.Batch))
	}
	if o.Steps != 0 && (o.Steps < rounds || o.Steps > MostSteps) {
		errs = append(errs, fmt.Errorf("invalid train-steps %d: want %d to %d, or 0 for the default", o.Steps, rounds,
			MostSteps))
	}
	return errors.Join(errs...)
}

// use is how many points of each kind each of some rounds has a use for.
func (o *Options) use(rounds int) (use [Kinds]int) {
	for k := range use {
		use[k] = min(mostPoints, int(o.objective.share(Kind(k))*float64(o.Steps*o.Batch/rounds))+1)
	}
	return use
}

// Train trains the layers of the model, which computes as its file will, with weights of the plans. The full-precision
// model is known by its points alone.
func Train(ctx context.Context, m *classifier.Model, layers []Layer, source Source, o Options) (*Outcome, error) {
	o, err := o.resolve(m)
	if err != nil {
		return nil, err
	}
	s, err := compile(m, layers, &o)
	if err != nil {
		return nil, fmt.Errorf("training step: %w", err)
	}
	defer s.close()
	t := newTrainer(s, &o)
	use, out := o.use(rounds), &Outcome{}
	if o.Checkpoint != nil {
		t.restore(o.Checkpoint.Load(), out)
	}
	frozen := rounds - frozenRounds // the round from which on codes are frozen
	if s.reader == nil {
		frozen = rounds // there are no codes
	}
	if len(out.History) > frozen {
		if err := s.frozen(layers, &o); err != nil {
			return nil, fmt.Errorf("training step: %w", err)
		}
	}
	for round := len(out.History); round < rounds; round++ {
		ev := Event{Round: round + 1, Rounds: rounds}
		now, err := t.begin(ctx, layers, source, use, &ev)
		if err != nil {
			return nil, err
		}
		if round == frozen {
			if err := s.freeze(layers, now, &o); err != nil {
				return nil, fmt.Errorf("training step: %w", err)
			}
		}
		from, to := 0, o.Steps*frozen/rounds
		if round >= frozen {
			from, to = to, o.Steps
		}
		if err := t.advance(ctx, o.Steps*(round+1)/rounds, from, to, &ev); err != nil {
			return nil, err
		}
		out.History = append(out.History, ev)
		if o.Progress != nil {
			o.Progress(ev)
		}
		if o.Checkpoint != nil {
			if err := t.save(out); err != nil {
				return nil, err
			}
		}
	}
	if last := out.History[len(out.History)-1].Loss; last > ended*s.Start+tinyLoss {
		return nil, fmt.Errorf("%w: the loss was %.3g at first and is %.3g; a learning rate of %.2g may help", ErrDiverged,
			s.Start, last, o.Rate/10)
	}
	out.Layers, err = s.trained(ctx, layers)
	return out, err
}

// saved is what a checkpoint holds.
type saved struct {
	State   state
	History []Event
}

func (t *trainer) save(out *Outcome) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(saved{t.step.state, out.History}); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return t.o.Checkpoint.Save(b.Bytes())
}

// restore goes on where a checkpoint was made; one that is not of this training changes nothing.
func (t *trainer) restore(b []byte, out *Outcome) {
	var s saved
	if len(b) == 0 || gob.NewDecoder(bytes.NewReader(b)).Decode(&s) != nil || len(s.History) > rounds ||
		s.State.Steps != t.o.Steps*len(s.History)/rounds {
		return
	}
	for _, v := range [][]float32{s.State.Params, s.State.First, s.State.Second, s.State.Rates} {
		if len(v) != len(t.Params) {
			return
		}
	}
	t.step.state, out.History = s.State, s.History
}
