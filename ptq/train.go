package ptq

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"cfq/eval"
	"cfq/internal/message"
	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/recourse"
	"cfq/recourse/constraint"
)

// How many people are asked for recourse: once, for rays to their recourse points, and for the shares of broken
// promises, in each round and in the end.
const rayPeople, roundPeople, finalPeople = 8000, 100, 1000

// Rays end at margins between these, in logits: recourse at required margins of up to half a logit, and what is about
// to become recourse.
const (
	teacherLo, teacherHi = -0.15, 0.35 // of the full-precision model
	studentLo, studentHi = -0.1, 0.3   // of the network as trained so far
	promisedMargin       = 0.1         // at which promises are counted
)

// trainer is what trainings at all budgets ask of the full-precision model. They train on all people, not only on those
// who are calibrated on.
type trainer struct {
	net       *network
	fits      *layerFits
	sample    *calibrationSample
	group     calibrationSample
	objective qat.ObjectiveDoc
	seed      uint64
	from      qat.Population
	refused   []int             // positions among the people
	promised  []recourse.Action // to those refused
	teacher   qat.Points        // recourse points of objectives that do not vary them
	facts     qat.Points        // people, for these objectives
	during    *onlineTeacher    // recourse in the course of training, for these objectives
}

// Training is what came of a training.
type Training struct {
	Objective Objective `json:"objective"`
	Steps     int       `json:"steps"`
	People    int       `json:"people,omitempty"` // whose recourse was trained on
	Trials    []Trial   `json:"trials,omitempty"` // of weights of the objective
	Eta       float64   `json:"eta,omitempty"`    // the one of the trials that was chosen
	Rounds    []Round   `json:"rounds"`
	// Shares of promises at margin 0.1 to some refused people that break in the end.
	VD  eval.Float `json:"vd"`
	RVD eval.Float `json:"rvd"`
	// Shares of the rows that the quantized network decides otherwise than the original, before training and after.
	DisagreementBefore float64 `json:"disagreement_before"`
	Disagreement       float64 `json:"disagreement"`

	unsaved error // why the checkpoint does not hold the last round; nil where it does
}

// maxChurnIncrease is by how much training may raise the share of rows that are decided otherwise than by the original.
const maxChurnIncrease = 0.01

// Round is a round of a training. Its shares are as in Training, before the round.
type Round struct {
	Steps int        `json:"steps"`
	Loss  eval.Float `json:"loss"` // mean over the round
	VD    eval.Float `json:"vd"`
	RVD   eval.Float `json:"rvd"`
	// Bits are those of a weight on average; while widths are learned, what they cost in the round's last step.
	Bits float64 `json:"bits"`
}

// doubts are what a training may have done that was not wanted.
func (t *Training) doubts() (warnings []string) {
	if t.unsaved != nil {
		warnings = append(warnings, fmt.Sprintf("the training was not saved: %v", t.unsaved))
	}
	if v := float64(t.RVD); v != v && t.VD == 0 {
		warnings = append(warnings, "the trained model refuses none of the people who were asked for recourse: it may "+
			"approve everyone")
	}
	if t.Disagreement > t.DisagreementBefore+maxChurnIncrease {
		warnings = append(warnings, fmt.Sprintf("training made the model decide %s of the rows otherwise than the "+
			"original, %s before: compare it with one that is not trained (cfq compare)",
			message.Percent(t.Disagreement, 1), message.Percent(t.DisagreementBefore, 1)))
	}
	return warnings
}

// roundOf tells of an event at some bits.
func roundOf(e qat.Event, bits float64) Round {
	return Round{e.Steps, eval.Float(e.Loss), eval.Float(e.VD), eval.Float(e.RVD), bits}
}

// trainingRecipe are the settings of training in a recipe: those that are given and make a difference.
func trainingRecipe(options *Options) map[string]string {
	recipe, o := map[string]string{}, options.Train
	add := func(key string, v float64) {
		if v != 0 {
			recipe[key] = fmt.Sprint(v)
		}
	}
	if o.Steps != 0 && o.Steps != qat.DefaultSteps {
		recipe["train_steps"] = strconv.Itoa(o.Steps)
	}
	recipe["train_seed"] = strconv.FormatUint(o.Seed, 10)
	if o.Rate != qat.DefaultRate {
		add("learning_rate", o.Rate)
	}
	doc, _ := qat.FindObjective(options.Objective) // it was trained for
	for _, key := range doc.Weights {
		if v := *o.Named(key); v != nil {
			recipe[key] = fmt.Sprint(*v)
		}
	}
	if doc.Recourse && !doc.Resamples && options.TeacherActions > 1 {
		add("teacher_actions", float64(options.TeacherActions))
	}
	if doc.Recourse && !doc.Resamples && options.TeacherOnline {
		recipe["teacher_online"] = "yes"
	}
	add("sparsity", options.Sparsity)
	if options.Allocator == AllocatorLearned {
		add("lambda", o.Lambda)
	}
	if options.EtaSweep {
		recipe["eta"] = "sweep"
	}
	return recipe
}

// train trains the layers from their plans on; bits are those of a weight on average.
func (t *trainer) train(ctx context.Context, plans []quant.Layer, bits float64) (_ []quant.Layer, _ *Training,
	err error,
) {
	spec, run, layers := t.spec(), qat.Run{}, t.fits.trainable(plans)
	if err := t.prune(ctx, layers); err != nil {
		return nil, nil, err
	}
	m, err := t.fits.openLayers(ctx, plans)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	net := qat.Network{Model: m, Layers: layers}
	run.Progress = func(e qat.Event) {
		t.net.tell(fmt.Sprintf("train: loss %.2g, VD %s, RVD %s, %.2f bits", e.Loss, message.Percent(e.VD, 1),
			message.Percent(e.RVD, 1), bits),
			e.Round, e.Rounds)
	}
	result := &Training{Objective: spec.Objective}
	if result.DisagreementBefore, err = t.disagreement(ctx, m); err != nil {
		return nil, nil, err
	}
	if t.net.o.EtaSweep {
		if result.Trials, err = t.tune(ctx, net, &spec); err != nil {
			return nil, nil, err
		}
		result.Eta = *spec.Eta
	}
	if run.Checkpoint, err = t.checkpoint(plans, &spec); err != nil {
		return nil, nil, err
	}
	out, err := qat.Train(ctx, net, t.source(), spec, run)
	if err != nil {
		return nil, nil, err
	}
	result.unsaved = out.Unsaved
	switch {
	case t.objective.Resamples:
		result.People = len(t.from.Rays)
	case t.objective.Recourse:
		people := map[int]bool{}
		for _, i := range t.teacher.Source {
			people[i] = true
		}
		result.People = len(people)
	}
	for _, e := range out.History {
		result.Steps = e.Steps
		result.Rounds = append(result.Rounds, roundOf(e, bits))
	}
	trained := qat.Quantized(out.Layers)
	return trained, result, t.final(ctx, trained, result)
}

// spec is that of trainings and of searches for bit widths.
func (t *trainer) spec() qat.Spec {
	s := t.net.o.Train
	s.Objective = t.net.o.Objective
	return s
}

// source is what trainings and searches for bit widths draw from.
func (t *trainer) source() qat.Source {
	s := qat.Source{Draw: t.draw}
	if t.during != nil {
		s.Recourse, s.Online, s.Unrolled = t.during, t.net.o.TeacherOnline, t.during.o.Steps
		_, s.Groups = groups(t.sample.all)
	}
	return s
}

// Learned is what came of learning bit widths.
type Learned struct {
	Steps int `json:"steps"`
	// Cost is what the most probable widths cost, in the unit of the budget. The exact knapsack takes the widths, within
	// the budget, that most probably are all that is needed.
	Cost   float64 `json:"cost"`
	Rounds []Round `json:"rounds"`
}

// learn learns the bit widths of a budget. The stage that it returns has the risk of each width in place of errors.
func (t *trainer) learn(ctx context.Context, s *layerScores, budget float64) (_ *layerScores, _ *Learned, err error) {
	run := qat.Run{Progress: func(e qat.Event) {
		s.net.tell(fmt.Sprintf("learn bit widths: loss %.2g, VD %s, RVD %s, %.2f bits", e.Loss, message.Percent(e.VD, 1),
			message.Percent(e.RVD, 1), e.Cost), e.Round, e.Rounds)
	}}
	first := make(assignment, len(s.net.layers))
	var granted float64
	for i := range s.net.layers {
		first[i] = []int{0}
		_, grant := s.multiples(i)
		granted += float64(s.net.layers[i].Params()) * float64(grant)
	}
	plans := s.fits.assemble(s.fits.layers, first)
	layers := s.fits.trainable(plans)
	for i := range layers {
		l := &layers[i]
		l.Widths = &qat.Widths{Plans: s.fits.layers[i], PerRow: s.net.o.BitWidths == BitWidthsPerRow && l.Info.Conv == nil}
		n := float64(s.net.layers[i].Params())
		if l.Widths.PerRow {
			n = float64(s.net.layers[i].In)
		}
		cost, _ := s.multiples(i)
		for _, f := range quant.Formats() {
			l.Widths.Costs = append(l.Widths.Costs, n*float64(cost)*float64(f.Bits)/granted)
		}
	}
	if err := t.prune(ctx, layers); err != nil {
		return nil, nil, err
	}
	if s.net.o.Cost == CostBytes { // what the file stores besides codes is not the widths' to spend
		written, err := qdq.Write(s.net.model.canonical, s.fits.planOf(plans), s.net.model.writer())
		if err != nil {
			return nil, nil, err
		}
		stored, err := qdq.Stored(written)
		if err != nil {
			return nil, nil, err
		}
		budget = max(minBudget, budget-8*float64(stored)/granted+s.meanBits(first))
	}
	m, err := s.fits.openLayers(ctx, plans)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	policy, err := qat.Search(ctx, qat.Network{Model: m, Layers: layers}, budget, t.source(), t.spec(), run)
	if err != nil {
		return nil, nil, fmt.Errorf("bit widths: %w", err)
	}
	out := *s
	out.layerErrors, out.rowErrors = make([][]float64, len(s.net.layers)), make([][][]float64, len(s.net.layers))
	for i, risks := range policy.Risks {
		if layers[i].Widths.PerRow {
			out.rowErrors[i] = risks
		} else {
			out.layerErrors[i] = risks[0]
		}
	}
	learned := &Learned{Cost: policy.Cost}
	for _, e := range policy.History {
		learned.Steps, learned.Rounds = e.Steps, append(learned.Rounds, roundOf(e, e.Cost))
	}
	return &out, learned, nil
}

// trainable are the layers of plans.
func (c *layerFits) trainable(plans []quant.Layer) (layers []qat.Layer) {
	for _, p := range plans {
		for i := range c.net.layers {
			if c.net.layers[i].Node != p.Node || !c.net.alone(p.Node) {
				continue
			}
			l := qat.Layer{Info: c.grid.foldedLayers[i], Plan: p}
			if c.onGrid(i) {
				l.Sources = c.grid.input.Sources()
			}
			layers = append(layers, l)
		}
	}
	return layers
}

// newTrainer finds the recourse to train on.
func newTrainer(ctx context.Context, c *layerFits) (t *trainer, err error) {
	t = &trainer{net: c.net, fits: c, sample: c.sample, seed: c.net.o.Train.Seed}
	if t.objective, err = qat.FindObjective(c.net.o.Objective); err != nil {
		return nil, err
	}
	t.net.tell("recourse to train on", 0, 0)
	return t, t.prepare(ctx)
}

func (t *trainer) prepare(ctx context.Context) error {
	people := t.sample.all
	set, own, err := personal(t.net.set, t.net.o.Overrides, people)
	if err != nil {
		return inputError(err)
	}
	t.group = calibrationSample{all: people, people: people, set: set, own: own, promises: t.net.o.Promises}
	margins, err := t.net.full.Margins(ctx, people.X)
	if err != nil {
		return err
	}
	for i, m := range margins {
		if m <= 0 {
			t.refused = append(t.refused, i)
		}
	}
	most := rayPeople
	if !t.objective.Resamples {
		most = finalPeople
	}
	t.refused = subset(t.refused, spread(0, len(t.refused), most))
	if t.promised, err = t.solve(ctx, t.net.full, t.refused, recourse.SolveOptions{}); err != nil {
		return err
	}
	t.from = t.net.population(people.X, set)
	persons, actions := t.refused, t.promised
	if t.net.o.Promises != nil {
		persons, actions = spread(0, people.N, people.N), t.net.o.Promises
	}
	for k, i := range persons {
		if actions[k].Status == recourse.Found {
			t.from.Rays = append(t.from.Rays, qat.Ray{Person: i, To: actions[k].Point})
		}
	}
	switch {
	case t.objective.Resamples:
		return nil
	case t.objective.Recourse:
		if t.during, err = t.newOnlineTeacher(ctx, margins); err != nil {
			return err
		}
		if !t.net.o.TeacherOnline {
			if err := t.teach(ctx); err != nil {
				return err
			}
		}
	}
	return t.factual(ctx, margins)
}

// population is people, without their ways to recourse, as points are drawn from them.
func (p *network) population(x []float32, set *constraint.Set) qat.Population {
	from := qat.Population{X: x, Dim: p.full.Dim(), Numbers: set.Numbers()}
	for i := range p.task.Features {
		from.Features = append(from.Features, p.task.Features[i].Offset)
	}
	return from
}

// solve finds the cheapest recourse of people under a model.
func (t *trainer) solve(ctx context.Context, m recourse.Model, people []int, o recourse.SolveOptions) (
	[]recourse.Action, error,
) {
	o.Margin, o.Workers, o.Seed = promisedMargin, t.net.o.Workers, t.seed
	return recourse.Solve(ctx, m, t.group.set.Select(people), rowsOf(t.sample.all.X, t.sample.all.Dim, people), o)
}

// quickSearch uses a quarter of the solver's budget: an estimate over many people does not need optimal actions.
func quickSearch() recourse.SolveOptions {
	return recourse.SolveOptions{Restarts: -1, Rounds: 1, Beam: 1}
}

// draw draws the points of a round and asks some people.
func (t *trainer) draw(ctx context.Context, round int, use [qat.Kinds]int, now []qat.Trained) (d qat.Draw,
	err error,
) {
	g, err := t.fits.openLayers(ctx, qat.Quantized(now))
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	rng := rand.New(rand.NewPCG(t.seed, uint64(round)))
	if d.VD, d.RVD, err = t.estimateVD(ctx, rng, g, roundPeople, quickSearch()); err != nil {
		return d, err
	}
	if !t.objective.Resamples {
		d.Points = []qat.Points{t.facts, t.withNoise(round)}
		return d, nil
	}
	add := func(kind qat.Kind, x []float32) (err error) {
		p := qat.Points{Kind: kind, X: x}
		if p.Margins, err = t.net.full.Margins(ctx, x); err == nil && kind == qat.Factual {
			p.StudentMargins, err = g.Margins(ctx, x)
		}
		d.Points = append(d.Points, p)
		return err
	}
	if err := add(qat.Factual, t.from.Draw(rng, use[qat.Factual])); err != nil || len(t.from.Rays) == 0 {
		return d, err
	}
	x, err := t.from.DrawRays(ctx, rng, t.net.full.Margins, use[qat.Teacher], teacherLo, teacherHi)
	if err != nil {
		return d, err
	}
	if err := add(qat.Teacher, x); err != nil {
		return d, err
	}
	if x, err = t.from.DrawRays(ctx, rng, g.Margins, use[qat.Student], studentLo, studentHi); err != nil {
		return d, err
	}
	return d, add(qat.Student, x)
}

// final asks people what holds in the end.
func (t *trainer) final(ctx context.Context, plans []quant.Layer, r *Training) (err error) {
	g, err := t.fits.openLayers(ctx, plans)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	rng := rand.New(rand.NewPCG(t.seed, math.MaxUint64))
	vd, rvd, err := t.estimateVD(ctx, rng, g, finalPeople, recourse.SolveOptions{})
	if err != nil {
		return err
	}
	r.VD, r.RVD = eval.Float(vd), eval.Float(rvd)
	r.Disagreement, err = t.disagreement(ctx, g)
	return err
}

// disagreement is the share of the rows that g decides otherwise than the full-precision model.
func (t *trainer) disagreement(ctx context.Context, g *classifier.Model) (float64, error) {
	full, err := t.net.full.Margins(ctx, t.sample.all.X)
	if err != nil {
		return 0, err
	}
	quant, err := g.Margins(ctx, t.sample.all.X)
	differ := 0
	for i := range quant {
		if quant[i] > 0 != (full[i] > 0) {
			differ++
		}
	}
	return float64(differ) / float64(max(1, len(full))), err
}

// factual makes points of the rows, with their labels.
func (t *trainer) factual(ctx context.Context, margins []float32) error {
	t.facts = qat.Points{Kind: qat.Factual, X: t.sample.all.X, Margins: margins}
	t.facts.Groups, _ = groups(t.sample.all)
	z, k, err := t.net.full.Logits(ctx, t.sample.all.X)
	if err != nil {
		return err
	}
	t.facts.Probabilities = probabilities(z, k)
	for _, l := range t.sample.all.Labels {
		class := -1
		switch l {
		case 1:
			class = t.net.full.Target()
		case 0:
			class = 1 - t.net.full.Target()
		}
		t.facts.Classes = append(t.facts.Classes, class)
	}
	return nil
}

// probabilities are the softmax of logits, rows x classes; a single logit z is [0, z].
func probabilities(z []float32, classes int) []float32 {
	if classes == 1 {
		wide := make([]float32, 0, 2*len(z))
		for _, v := range z {
			wide = append(wide, 0, v)
		}
		z, classes = wide, 2
	}
	out := make([]float32, len(z))
	for from := 0; from < len(z); from += classes {
		row := z[from : from+classes]
		top, sum := row[0], 0.0
		for _, v := range row {
			top = max(top, v)
		}
		for j, v := range row {
			e := math.Exp(float64(v - top))
			out[from+j], sum = float32(e), sum+e
		}
		for j := range row {
			out[from+j] /= float32(sum)
		}
	}
	return out
}

// estimateVD returns the shares of some people's promises that break between the full-precision model and g, either
// way.
func (t *trainer) estimateVD(ctx context.Context, rng *rand.Rand, g *classifier.Model, most int,
	o recourse.SolveOptions,
) (vd, rvd float64, err error) {
	var people []int
	var theirs []recourse.Action
	for _, k := range rng.Perm(len(t.refused))[:min(most, len(t.refused))] {
		people, theirs = append(people, t.refused[k]), append(theirs, t.promised[k])
	}
	if vd, err = broken(ctx, theirs, g); err != nil {
		return 0, 0, err
	}
	if theirs, err = t.solve(ctx, g, people, o); err != nil {
		return 0, 0, err
	}
	rvd, err = broken(ctx, theirs, t.net.full)
	return vd, rvd, err
}

// broken is the share of the actions found that a model refuses; NaN where none was found.
func broken(ctx context.Context, actions []recourse.Action, m *classifier.Model) (float64, error) {
	var x []float32
	for i := range actions {
		if actions[i].Status == recourse.Found {
			x = append(x, actions[i].Point...)
		}
	}
	margins, err := m.Margins(ctx, x)
	refused := 0.0
	for _, v := range margins {
		if !(v > 0) {
			refused++
		}
	}
	return refused / float64(len(margins)), err
}

// checkpoint opens the file that keeps the state of this training; nil without one.
func (t *trainer) checkpoint(plans []quant.Layer, spec *qat.Spec) (qat.Checkpoint, error) {
	if t.net.o.Checkpoint == "" {
		return nil, nil
	}
	sum, err := fingerprint(t.net.model.canonical)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	teacher := t.net.teacher()
	teacher.Progress, teacher.Workers = nil, 0
	text, err := json.Marshal([]any{spec, plans, t.net.o.Sparsity, t.net.o.PruneBy, t.fits.grid.input})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(h, "%s\n%s %v\n%v\n%s\n%d %d %+v %d\n%v\n%v\n%v %v\n", sum, t.net.task.JSON(),
		t.net.task.Latent, t.group.own, text, len(t.sample.all.X), len(t.teacher.X), teacher, t.net.o.TeacherActions,
		t.teacher.Source, t.from.Rays, t.facts.Classes, t.facts.Groups)
	for _, v := range []any{t.sample.all.X, t.sample.all.Labels, t.teacher.X} {
		if err := binary.Write(h, binary.LittleEndian, v); err != nil {
			return nil, err
		}
	}
	c, err := qat.OpenCheckpoint(t.net.o.Checkpoint, t.net.model.engine, [sha256.Size]byte(h.Sum(nil)))
	return c, inputError(err)
}
