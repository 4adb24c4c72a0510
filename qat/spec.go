package qat

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"cfq/recourse"
)

// Spec says what a training minimises and how; the zero value is the default.
type Spec struct {
	Objective Objective // Distil
	Optimizer
	Weights Weights

	Quantizers Quantizers // RatioSteps
	Lambda     float64    // weight of the bit cost, for Search; 0 lets it follow the cost, so that the budget is met
}

// Optimizer are the settings of Adam; 0 is the default.
type Optimizer struct {
	Steps        int     // 16000
	Batch        int     // rows of a step (256)
	LearningRate float64 // DefaultRate, falling to zero along a cosine, relative to each layer's weights
	Decay        float64 // weight of half the squared weights of layers in float, in the loss of a row
	Seed         uint64  // of batches
}

// Weights are those of an objective's terms, by WeightNames, as far as they are not the usual ones.
type Weights map[string]float64

// Quantizers says how weights and scales learn.
type Quantizers string

// The ways to learn.
const (
	RatioSteps Quantizers = ""     // weights in units of their scale
	LSQ        Quantizers = "lsq"  // weights in their own units, as learned step size quantization is published
	PACT       Quantizers = "pact" // as LSQ, scales of activations by what is clipped alone, and fixed scales of weights
)

// Run is what does not change the outcome of a training.
type Run struct {
	Checkpoint *Checkpoint // nil keeps none
	Progress   func(Event)
}

// WeightNames lists the weights of objectives, as the paper names them: of validity at teacher points, of the hinge,
// its margin in logits, of the distance between actions, and of the difference between their costs.
func WeightNames() []string { return []string{"eta", "beta", "gamma", "alpha1", "alpha2"} }

// Of returns the weight of a name.
func (w Weights) Of(name string) float64 {
	v, given := w[name]
	switch {
	case given:
		return v
	case name == "gamma":
		return 0.1
	}
	return 1
}

// With returns the weights with that of a name changed.
func (w Weights) With(name string, v float64) Weights {
	out := maps.Collect(maps.All(w))
	out[name] = v
	return out
}

// DefaultRate and DefaultSteps are those of the zero Spec.
const (
	DefaultRate  = 0.001
	DefaultSteps = 16000
)

// MostSteps bounds a training: a day on the smallest networks.
const MostSteps = 100_000_000

// Check reports every setting that makes no sense.
func (s *Spec) Check() error {
	var errs []error
	check := func(name string, v float64) {
		if !(v >= 0) || math.IsInf(v, 1) {
			errs = append(errs, fmt.Errorf("invalid %s %v: want 0 or more", name, v))
		}
	}
	check("learning-rate", s.LearningRate)
	check("weight-decay", s.Decay)
	check("lambda", s.Lambda)
	for _, name := range slices.Sorted(slices.Values(WeightNames())) {
		check(name, s.Weights.Of(name))
	}
	if s.Batch < 0 {
		errs = append(errs, fmt.Errorf("invalid batch of %d rows: want 1 or more", s.Batch))
	}
	if s.Steps != 0 && (s.Steps < Rounds || s.Steps > MostSteps) {
		errs = append(errs, fmt.Errorf("invalid train-steps %d: want %d to %d, or 0 for the default", s.Steps, Rounds,
			MostSteps))
	}
	return errors.Join(errs...)
}

type trainingJob struct {
	Spec // Batch are the people of a step

	net       Network
	source    Source
	objective ObjectiveDoc
	lsq, pact bool
	classes   int
	rows      int     // of a step
	budget    float64 // of Search
}

func (s Spec) resolve(net Network, source Source) (*trainingJob, error) {
	m := net.Model
	j := &trainingJob{
		Spec: s, net: net, source: source, lsq: s.Quantizers != RatioSteps, pact: s.Quantizers == PACT,
		classes: max(2, m.Classes()),
	}
	var err error
	if j.objective, err = FindObjective(cmp.Or(s.Objective, Distil)); err != nil {
		return nil, err
	}
	j.Steps, j.Batch = cmp.Or(j.Steps, DefaultSteps), cmp.Or(j.Batch, 256)
	j.LearningRate = cmp.Or(j.LearningRate, DefaultRate)
	j.source.Teacher.Steps = cmp.Or(j.source.Teacher.Steps, recourse.DefaultSteps)
	if j.rows = j.Batch; j.objective.needsPairs() {
		j.rows = 2 * j.Batch
	}
	if m.Fixed() > 0 {
		j.Batch, j.rows = m.Fixed()*j.Batch/j.rows, m.Fixed()
	}
	name := j.objective.Name
	switch {
	case j.objective.needsPairs() && m.Fixed()%2 != 0 || j.objective.unrolled() && m.Fixed() > 0:
		return nil, fmt.Errorf("objective %s needs a model that takes any number of rows, and this one takes %d", name,
			m.Fixed())
	case j.objective.Ensemble && len(net.Members) == 0:
		return nil, fmt.Errorf("the objective %s needs the members of an ensemble", name)
	case j.objective.unrolled() && source.Set == nil:
		return nil, fmt.Errorf("objective %s: Source.Set is not set", name)
	case j.objective.Groups && source.Groups < 1:
		return nil, fmt.Errorf("objective %s needs groups of people", name)
	}
	return j, s.Check()
}

// use is how many points of each kind each of some rounds has a use for.
func (j *trainingJob) use(rounds int) (use [Kinds]int) {
	for k := range use {
		use[k] = min(maxPoints, int(j.objective.share(Kind(k))*float64(j.Steps*j.Batch/rounds))+1)
	}
	return use
}

func (j *trainingJob) target() int { return j.net.Model.Target() }
