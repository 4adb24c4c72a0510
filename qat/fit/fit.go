// Package fit trains classifiers in full precision, so that the rest of the tool has a model to work on, and
// autoencoders of their inputs.
//
// In: a task, people with labels, an architecture. Out: an ONNX model with one float input, rows x the task's
// inputs, and two logits; or an encoder and a decoder, see [Coding]. The invariant: the same arguments give the same
// bytes, for any number of workers; the model is the one whose numbers are reported.
//
// The step is that of package qat without fake quantizers. References: section Baseline family I: recourse-robust
// training, then quantize, of the paper.
package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/internal/lists"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/qat"
	"cfq/quant"
	"cfq/task"
)

// Options of Train; but for Arch, the zero value is the default.
type Options struct {
	Arch   Arch
	Train  qat.Spec
	Epochs float64 // passes over the people trained on, instead of Train.Steps (40, and at least 640 steps)
	// Validation is the share of the people who are not trained on; nil is 0.2. They are the same for every
	// seed, so that seeds compare on the same people.
	Validation *float64
	// Teacher returns recourse points of people that a model refuses, in their order, for RMargin and RConsistency.
	Teacher func(ctx context.Context, m *classifier.Model, people *task.People) ([]float32, error)
	// Attributes are the names of columns, in the order of People.Kept, that the code of an autoencoder is to be; none:
	// training finds the code.
	Attributes []string
	Engine     ort.Options
	Workers    int // parallel runs (1)
	// Recipe is added to the model's metadata, such as hashes of the inputs.
	Recipe   map[string]string
	Progress func(Round, int) // a round, and how many there are

	members int // that are trained together; 1 but for ensembles
}

// Round is the state after a round of training.
type Round struct {
	Number     int      `json:"round"` // from 1
	Steps      int      `json:"steps"`
	Loss       float64  `json:"loss"` // of the objective, mean over the round
	Train      Metrics  `json:"train"`
	Validation *Metrics `json:"validation,omitempty"` // nil without people held out
}

// Summary says what was trained on what.
type Summary struct {
	Arch       string        `json:"arch"`
	Objective  qat.Objective `json:"objective"`
	Parameters int           `json:"parameters"`
	Steps      int           `json:"steps"`
	Epochs     float64       `json:"epochs"`
	Favourable float64       `json:"favourable"`         // share of the labels
	Unlabelled int           `json:"unlabelled"`         // rows that were left out
	Members    int           `json:"members,omitempty"`  // of the ensemble that the model is one of
	Recourse   int           `json:"recourse,omitempty"` // people whose recourse was looked for the last time
}

// Result is a trained model and how well it decides.
type Result struct {
	Summary
	// Chosen is the round, from 1, that the model is taken from: the one with the least validation loss, or the last one
	// without people held out and for objectives that look at recourse.
	Chosen     int               `json:"chosen"`
	Train      Metrics           `json:"train"`
	Validation *Metrics          `json:"validation,omitempty"`
	Rounds     []Round           `json:"rounds"`
	Recipe     map[string]string `json:"recipe"`
	Model      []byte            `json:"-"` // the ONNX file; of an autoencoder, the encoder's
	Decoder    []byte            `json:"-"`
}

// InputError is an error in what was given: people, task or architecture.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// RecipeKey is the metadata entry that says how a model was trained.
const RecipeKey = "cfq.training"

// splitSeed is that of who is held out, the same for all trainings, so that these compare on the same people.
const splitSeed = 1

const defaultEpochs, minSteps = 40, 640

const mostRecourse = 4096

const ensembleMembers = 3

// Check reports every option that makes no sense by itself.
func (o *Options) Check() error {
	_, err := o.resolve()
	return err
}

func (o *Options) resolve() (Options, error) {
	r := *o
	r.Train.Objective = cmp.Or(r.Train.Objective, qat.Task)
	switch {
	case len(r.Attributes) > 0 && r.Arch.coder:
		r.Train.Objective = qat.Attributes
	case r.Arch.coder:
		r.Train.Objective = qat.Reconstruct
	}
	r.Train.Seed, r.Workers = cmp.Or(r.Train.Seed, 1), cmp.Or(r.Workers, 1)
	if r.Validation == nil {
		r.Validation = new(0.2)
	}
	errs := []error{r.Train.Check()}
	doc, err := qat.FindObjective(r.Train.Objective, Objectives()...)
	if err != nil && !r.Arch.coder {
		errs = append(errs, err)
	}
	if r.members = 1; err == nil && doc.Ensemble {
		r.members = ensembleMembers
	}
	badIf := func(wrong bool, format string, a ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, a...))
		}
	}
	v := *r.Validation
	badIf(!(v >= 0 && v < 1), "invalid validation %v: want a share below 1, such as 0.2, or 0 for none", v)
	badIf(!(r.Epochs >= 0) || math.IsInf(r.Epochs, 1), "invalid epochs %v: want a number above 0", r.Epochs)
	badIf(r.Epochs > 0 && r.Train.Steps > 0, "epochs and train-steps say the same: give one of the two")
	return r, errors.Join(errs...)
}

// Objectives are the rows of the table of objectives that train in full precision.
func Objectives() []qat.ObjectiveDoc {
	return slices.DeleteFunc(qat.Objectives(), func(o qat.ObjectiveDoc) bool { return !o.Full })
}

// Train trains a classifier for the task on people with labels.
func Train(ctx context.Context, t *task.Task, people *task.People, o Options) (*Result, error) {
	f, err := train(ctx, t, people, o)
	if err != nil {
		return nil, err
	}
	return f.result, nil
}

func train(ctx context.Context, t *task.Task, people *task.People, o Options) (_ *fit, err error) {
	o, err = o.resolve()
	if err != nil {
		return nil, err
	}
	if t.Made() {
		return nil, &InputError{errors.New("training reads the features by their kinds alone: remove clip, log, spread, " +
			"inputs and latent from the task, or draft another one: `cfq task init` without a model")}
	}
	f := &fit{o: o, task: t, result: &Result{}}
	f.result.Arch, f.result.Objective = o.Arch.String(), o.Train.Objective
	if f.objective, err = qat.FindObjective(o.Train.Objective); err != nil {
		return nil, err
	}
	for _, check := range []func() error{
		func() error { return f.divide(people) },
		func() error { return o.Arch.suits(t) },
		func() (err error) { f.layers, err = o.Arch.layers(people.Dim); return err },
		f.code,
	} {
		if err := check(); err != nil {
			return nil, &InputError{err}
		}
	}
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.net.Model.Close()) }()
	if err := f.run(ctx); err != nil {
		return nil, err
	}
	return f, f.write(ctx)
}

type fit struct {
	o         Options
	task      *task.Task
	objective qat.ObjectiveDoc
	own, held *task.People  // trained on and not; held is nil without any
	layers    []netLayer    // of one member
	net       qat.Network   // all members, in canonical form, as they begin
	coder     *coder        // of an autoencoder
	loss      float64       // of the objective in the last round
	best      []qat.Trained // the layers after the best round
	result    *Result
}

// divide takes the people with labels, for an autoencoder all, and holds some of them out. Rows with the same inputs
// stay together.
func (f *fit) divide(people *task.People) error {
	coder := f.o.Arch.coder
	if f.task.Target.Index >= classes && !coder {
		return fmt.Errorf("the task's target has the index %d, and the model has two classes: want 0 or 1",
			f.task.Target.Index)
	}
	var own, held []int
	var favourable int
	for i, l := range people.Labels {
		switch {
		case l < 0 && !coder:
			f.result.Unlabelled++
			continue
		case people.Uniform(splitSeed, i) < *f.o.Validation:
			held = append(held, i)
		default:
			own = append(own, i)
		}
		if l == 1 {
			favourable++
		}
	}
	n := len(own) + len(held)
	switch {
	case n == 0 && coder:
		return errors.New("there are no rows to train on")
	case n == 0:
		return errors.New("no row has a label: the task's data.label and favourable say what the label is")
	case (favourable == 0 || favourable == n) && !coder:
		return fmt.Errorf("all %d labels are the same: data.favourable of the task is %q", n, f.task.Data.Favourable)
	case len(own) == 0:
		return fmt.Errorf("all %d rows are held out: a smaller validation share leaves some to train on", n)
	}
	f.result.Favourable = float64(favourable) / float64(n)
	f.own = people.Subset(own)
	if len(held) > 0 {
		f.held = people.Subset(held)
	}
	return nil
}

func (f *fit) open(ctx context.Context) error {
	for i := range f.layers {
		f.result.Parameters += f.layers[i].params()
	}
	m, err := onnxio.FromGraph(ctx, f.o.Arch.network(f.layers, f.own.Dim, f.o.members, f.o.Train.Seed), f.o.Engine)
	if err != nil {
		return err
	}
	if m, err = m.Canonical(); err != nil {
		return err
	}
	infos, err := quant.FindLayers(m.Graph())
	if err != nil {
		return err
	}
	f.net.Layers = lists.Map(infos, func(info quant.LayerInfo) qat.Layer {
		return qat.Layer{Info: info, Plan: quant.Layer{Node: info.Node, Float: true}}
	})
	if f.o.members > 1 {
		f.result.Members = f.o.members
		f.net.Members = lists.Make(f.o.members, func(k int) string { return memberPrefix(k) + logitsName })
	}
	target := f.task.Target.Index
	if f.coder != nil {
		target = 0 // nobody asks for the margin
	}
	f.net.Model, err = classifier.New(m, classifier.Options{Target: &target, Workers: f.o.Workers})
	return err
}

func (f *fit) run(ctx context.Context) (err error) {
	o := f.o.Train
	o.Batch = cmp.Or(o.Batch, min(256, max(16, f.own.N)))
	if o.Steps == 0 {
		least, epochs := minSteps, float64(defaultEpochs)
		if f.o.Epochs > 0 {
			least, epochs = qat.Rounds, f.o.Epochs
		}
		steps := math.Ceil(epochs * float64(f.own.N) / float64(o.Batch))
		if steps > qat.MostSteps {
			return &InputError{fmt.Errorf("invalid epochs %v: with %d people in batches of %d that is %.3g steps, want %d "+
				"at most", epochs, f.own.N, o.Batch, steps, qat.MostSteps)}
		}
		o.Steps = max(least, int(steps))
	}
	f.result.Steps, f.result.Epochs = o.Steps, float64(o.Steps)*float64(o.Batch)/float64(f.own.N)
	if err := o.Check(); err != nil {
		return err
	}
	run := qat.Run{Progress: func(e qat.Event) { f.loss = float64(e.Loss) }}
	out, err := qat.Train(ctx, f.net, qat.Source{Draw: f.points}, o, run)
	if err != nil {
		return err
	}
	m := f.with(out.Layers)
	defer func() { err = errors.Join(err, m.Close()) }()
	return f.judge(ctx, m, out.Layers)
}

// points are what a round is trained on: the people, and for some objectives recourse of the network as it is.
func (f *fit) points(ctx context.Context, round int, _ [qat.Kinds]int, now []qat.Trained) (d qat.Draw, err error) {
	d.VD, d.RVD = math.NaN(), math.NaN()
	m := f.with(now)
	defer func() { err = errors.Join(err, m.Close()) }()
	if round > 0 {
		if err := f.judge(ctx, m, now); err != nil {
			return d, err
		}
	}
	facts := qat.Points{Kind: qat.Factual, X: f.own.X, Margins: make([]float32, f.own.N)}
	if f.coder != nil {
		facts.Attributes = f.coder.own
		d.Points = []qat.Points{facts}
		return d, nil
	}
	for _, l := range f.own.Labels {
		class := f.task.Target.Index
		if l != 1 {
			class = 1 - class
		}
		facts.Classes = append(facts.Classes, class)
	}
	d.Points = []qat.Points{facts}
	if !f.objective.Recourse {
		return d, nil
	}
	x, err := f.recourse(ctx, m, round)
	d.Points = append(d.Points, qat.Points{Kind: qat.Student, X: x, Margins: make([]float32, len(x)/f.own.Dim)})
	return d, err
}

func (f *fit) recourse(ctx context.Context, m *classifier.Model, round int) ([]float32, error) {
	margins, err := m.Margins(ctx, f.own.X)
	if err != nil {
		return nil, err
	}
	refused := lists.Where(len(margins), func(i int) bool { return float64(margins[i]) <= f.task.Target.Margin })
	rng := rand.New(rand.NewPCG(f.o.Train.Seed, uint64(round)))
	rng.Shuffle(len(refused), func(i, j int) { refused[i], refused[j] = refused[j], refused[i] })
	refused = refused[:min(len(refused), mostRecourse)]
	slices.Sort(refused)
	f.result.Recourse = len(refused)
	if len(refused) == 0 {
		return nil, nil
	}
	return f.o.Teacher(ctx, m, f.own.Subset(refused))
}

// judge measures the network after a round and keeps it if it is the best one so far.
func (f *fit) judge(ctx context.Context, m *classifier.Model, now []qat.Trained) error {
	out, number := f.result, len(f.result.Rounds)+1
	r := Round{Number: number, Steps: out.Steps * number / qat.Rounds, Loss: f.loss}
	var err error
	if f.coder != nil {
		r.Train, r.Validation, err = f.codingOf(ctx, now, f.coder.units(), mostCoded)
	} else {
		r.Train, r.Validation, err = f.decisionsOf(ctx, m, mostJudged)
	}
	if err != nil {
		return err
	}
	if out.Rounds = append(out.Rounds, r); out.Chosen == 0 || f.held == nil || f.objective.Recourse ||
		r.Validation.Loss < out.Rounds[out.Chosen-1].Validation.Loss {
		out.Chosen, f.best = number, now
	}
	if f.o.Progress != nil {
		f.o.Progress(r, qat.Rounds)
	}
	return nil
}

// mostJudged is how many of the rows trained on a classifier is measured on after each round. On all, sixteen times,
// short trainings on many images would spend much of their time. Those held out choose the round: all count.
const mostJudged = 8192

func (f *fit) onBoth(measure func(p *task.People) (Metrics, error)) (own Metrics, held *Metrics, err error) {
	if own, err = measure(f.own); err != nil || f.held == nil {
		return own, nil, err
	}
	v, err := measure(f.held)
	return own, &v, err
}

// decisionsOf measures a classifier on the first people trained on, and on those held out if there are any.
func (f *fit) decisionsOf(ctx context.Context, m *classifier.Model, most int) (Metrics, *Metrics, error) {
	return f.onBoth(func(p *task.People) (Metrics, error) {
		n := p.N
		if p == f.own {
			n = min(n, most)
		}
		margins, err := m.Margins(ctx, p.X[:n*p.Dim])
		if err != nil {
			return Metrics{}, err
		}
		return measured(margins, p.Labels[:n]), nil
	})
}

func (f *fit) with(now []qat.Trained) *classifier.Model {
	g := f.net.Model.Graph().Clone()
	for i := range now {
		info := &f.net.Layers[i].Info
		for k, t := range g.Graph.Inits {
			switch t.Name {
			case info.Weight:
				g.Graph.Inits[k] = graph.FromFloats(t.Name, now[i].W, t.Dims...)
			case info.Bias:
				g.Graph.Inits[k] = graph.FromFloats(t.Name, now[i].Bias, t.Dims...)
			}
		}
	}
	return f.net.Model.With(g)
}

// Metrics is how well a model does on rows.
type Metrics struct {
	Rows int     `json:"rows"`
	Loss float64 `json:"loss"` // mean cross-entropy, in nats
	// One of the two is nil.
	*Decisions
	*Coding
}

// Decisions is how well a classifier decides people whose labels are known.
type Decisions struct {
	Constant float64 `json:"-"`        // accuracy of always the same decision, the better one
	Accuracy float64 `json:"accuracy"` // share of the rows that are decided as labelled
	AUC      float64 `json:"auc"`      // area under the ROC curve; 0.5 where only one class is there
}

func measured(margins []float32, labels []int8) Metrics {
	m := Metrics{Rows: len(labels), Decisions: &Decisions{AUC: auc(margins, labels)}}
	var favourable float64
	for i, v := range margins {
		against := float64(-v)
		if labels[i] == 1 {
			favourable++
		} else {
			against = -against
		}
		m.Loss += max(against, 0) + math.Log1p(math.Exp(-math.Abs(against)))
		if (v > 0) == (labels[i] == 1) {
			m.Accuracy++
		}
	}
	favourable /= float64(m.Rows)
	m.Constant = max(favourable, 1-favourable)
	m.Loss /= float64(m.Rows)
	m.Accuracy /= float64(m.Rows)
	return m
}

// auc is the probability that a random favourable row has the larger margin than a random other one, ties counting
// half: the rank sum of Mann and Whitney.
func auc(margins []float32, labels []int8) float64 {
	order := task.AllRows(len(margins))
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(margins[a], margins[b]) })
	var ranks, positive float64
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && margins[order[to]] == margins[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			if labels[i] == 1 {
				ranks += float64(from+to+1) / 2
				positive++
			}
		}
		from = max(to, from+1) // NaN equals nothing
	}
	pairs := positive * (float64(len(order)) - positive)
	if pairs == 0 {
		return 0.5
	}
	return (ranks - positive*(positive+1)/2) / pairs
}
