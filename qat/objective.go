package qat

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"cfq/internal/message"
	"cfq/onnxio/graph"
)

// Objective is what training minimises.
type Objective string

// The objectives.
const (
	Distil   Objective = "distil"
	Validity Objective = "validity"
	Hinge    Objective = "hinge"
	KD       Objective = "kd"
	Task     Objective = "task"
	Match    Objective = "match"
	Group    Objective = "group"
	// For training in full precision.
	RMargin      Objective = "r-margin"
	RConsistency Objective = "r-consistency"
	// For autoencoders, see Code.
	Reconstruct Objective = "reconstruct"
	Attributes  Objective = "attributes"
)

// halfMargin is the margin, in logits, at which a row counts half of one at the decision boundary (Distil).
const halfMargin = 0.15

// ObjectiveDoc is a row of the table of objectives.
type ObjectiveDoc struct {
	Name  Objective
	Doc   string
	Paper string // what the paper calls it

	Labels   bool // it needs the label of each row
	Recourse bool // it looks at recourse points, not at factual rows alone
	// Resamples: any point tells, labels or not, so that each round has others.
	Resamples bool
	// Full: it trains in full precision, from labels alone; Quantized: it trains through fake quantizers. Those of
	// autoencoders do neither.
	Full, Quantized bool
	Ensemble        bool     // several networks are trained together, Network.Members
	Groups          bool     // it tells groups of people apart
	Weights         []string // names of those of Spec.Weights that count
}

// needsPairs reports whether a step looks at people and at teacher points of the same people.
func (o *ObjectiveDoc) needsPairs() bool { return o.Quantized && o.Recourse && !o.Resamples }

// unrolled reports whether a step looks at the recourse of the network as trained so far.
func (o *ObjectiveDoc) unrolled() bool { return o.Name == Match }

// objectiveTable has a row for each objective: name, what the paper calls it, what it needs, weights and documentation.
//
//go:embed objectives.txt
var objectiveTable string

// Objectives is the one table of objectives.
func Objectives() (all []ObjectiveDoc) {
	for line := range strings.Lines(objectiveTable) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		o := ObjectiveDoc{Name: Objective(cells[0]), Paper: cells[1], Weights: strings.Fields(cells[3]), Doc: cells[4]}
		needs := map[string]*bool{
			"labels": &o.Labels, "recourse": &o.Recourse, "resamples": &o.Resamples, "full": &o.Full,
			"quantized": &o.Quantized, "ensemble": &o.Ensemble, "groups": &o.Groups,
		}
		for _, need := range strings.Fields(cells[2]) {
			*needs[need] = true
		}
		all = append(all, o)
	}
	return all
}

func (o *ObjectiveDoc) terms() []lossTerm {
	return map[Objective][]lossTerm{
		Distil:   {marginTerm()},
		Validity: {classTerm(validity)},
		Hinge:    {classTerm(validity), hingeTerm()},
		Match:    {classTerm(validity), matchTerm()},
		Group:    {classTerm(labels), groupTerm()},
		KD: {classTerm(func(to []float32, p *Points, i int, _ *trainingJob) {
			copy(to, p.Probabilities[i*len(to):])
		})},
		Task:         {classTerm(labels)},
		RMargin:      {classTerm(labels), hingeTerm()},
		RConsistency: {memberTerm(), disagreementTerm()},
		Reconstruct:  {reconstructionTerm()},
		Attributes:   {attributeTerm(), reconstructionTerm()},
	}[o.Name]
}

// FindObjective returns the row called name, among all or among those given.
func FindObjective(name Objective, among ...ObjectiveDoc) (ObjectiveDoc, error) {
	if among == nil {
		among = Objectives()
	}
	var names []string
	for _, o := range among {
		if o.Name == name {
			return o, nil
		}
		if o.Full || o.Quantized {
			names = append(names, string(o.Name))
		}
	}
	return ObjectiveDoc{}, fmt.Errorf("invalid value %q for objective: want %s", name, message.Or(names))
}

// lossTerm is a part of the loss: nodes that compute it, and its input columns.
type lossTerm struct {
	columns []lossColumn
	build   func(b *stepBuilder) string
	reduced bool // its value is not one number for each row
}

// lossColumn is what rows of a batch bring besides their inputs.
type lossColumn struct {
	name  string
	width func(j *trainingJob) int
	fill  func(to []float32, p *Points, i int, j *trainingJob) // of row i; zeros so far

	values []float32 // of the next batch
}

// Names of columns that more than one function needs.
const (
	targetName, weightName = "qat.target", "qat.weight"
	classWeightsName       = "qat.class_weights"
)

// numberColumn is a column with one number for each row.
func numberColumn(name string, of func(p *Points, i int, j *trainingJob) float32) lossColumn {
	return lossColumn{
		name: name, width: func(*trainingJob) int { return 1 },
		fill: func(to []float32, p *Points, i int, j *trainingJob) { to[0] = of(p, i, j) },
	}
}

// MarginWeight is how much a row counts by its margin (Distil): 1 at the decision boundary, half as much 0.15 logits
// away.
func MarginWeight(margin float32) float32 {
	d := float64(margin) / halfMargin
	return float32(1 / (1 + d*d))
}

// personWeight is how much a row counts by the margins of the models that decide about it.
func personWeight(p *Points, i int, _ *trainingJob) float32 {
	weight := MarginWeight(p.Margins[i])
	if p.StudentMargins == nil {
		return weight
	}
	if p.StudentMargins[i] > 0 != (p.Margins[i] > 0) {
		return 1
	}
	return max(weight, MarginWeight(p.StudentMargins[i]))
}

func marginTerm() lossTerm {
	target := func(p *Points, i int, _ *trainingJob) float32 { return p.Margins[i] }
	return lossTerm{
		columns: []lossColumn{numberColumn(targetName, target), numberColumn(weightName, personWeight)},
		build: func(b *stepBuilder) string {
			e := b.Op("Sub", []string{b.t.Margin, targetName})
			return b.Op("Mul", []string{b.Op("Mul", []string{e, e}), weightName})
		},
	}
}

// classTerm is the cross-entropy; fill says how much the negative log-probability of each class counts.
func classTerm(fill func(to []float32, p *Points, i int, j *trainingJob)) lossTerm {
	return lossTerm{
		reduced: true,
		columns: []lossColumn{{name: classWeightsName, width: func(j *trainingJob) int { return j.classes }, fill: fill}},
		build:   func(b *stepBuilder) string { return b.crossEntropy(b.t.Logits) },
	}
}

// labels counts the label of factual rows.
func labels(to []float32, p *Points, i int, _ *trainingJob) {
	if p.Kind == Factual && p.Classes[i] >= 0 {
		to[p.Classes[i]] = 1
	}
}

// validity counts the label of factual rows, and the target class at recourse points.
func validity(to []float32, p *Points, i int, j *trainingJob) {
	if labels(to, p, i, j); p.Kind != Factual {
		to[j.target()] = float32(j.Weights.Of("eta"))
	}
}

// atRecourse is a column with a weight of the objective at recourse points and 0 at people.
func atRecourse(name, weight string) lossColumn {
	return numberColumn(name, func(p *Points, _ int, j *trainingJob) float32 {
		if p.Kind == Factual {
			return 0
		}
		return float32(j.Weights.Of(weight))
	})
}

// crossEntropy is that of logits with the weights of classes, rows x classes or rows x 1. For two classes it is the
// softplus of the other one's logit less the own, which takes a fifth of the time.
func (b *stepBuilder) crossEntropy(logits string) string {
	if b.job.classes == 2 {
		others := b.Const(graph.FromFloats("others", []float32{-1, 1, 1, -1}, 2, 2))
		less := b.Op("MatMul", []string{logits, others})
		return b.Op("Mul", []string{b.Op("Softplus", []string{less}), classWeightsName})
	}
	logp := b.Op("LogSoftmax", []string{logits}, graph.IntAttr("axis", 1))
	return b.Op("Neg", []string{b.reduce("ReduceSum", b.Op("Mul", []string{logp, classWeightsName}), 1)})
}

func (b *stepBuilder) targetLosses(logits string) string {
	pick := make([]float32, b.job.classes)
	pick[b.job.target()] = -1
	logp := b.Op("LogSoftmax", []string{logits}, graph.IntAttr("axis", 1))
	return b.Op("Mul", []string{logp, b.Const(graph.FromFloats("target", pick, 1, int64(len(pick))))})
}

func (b *stepBuilder) reduce(op, value string, axes ...int64) string {
	return b.Op(op, []string{value, b.ints(axes...)}, graph.IntAttr("keepdims", 1))
}

func memberTerm() lossTerm {
	t := classTerm(labels)
	t.build = func(b *stepBuilder) string { return b.meanOfMembers(b.crossEntropy) }
	return t
}

func disagreementTerm() lossTerm {
	return lossTerm{
		columns: []lossColumn{atRecourse("qat.disagreement", "eta")},
		build: func(b *stepBuilder) string {
			variance := b.meanOfMembers(func(logits string) string {
				d := b.Op("Sub", []string{logits, b.t.Logits}) // the model's logits are the members' mean
				return b.reduce("ReduceSum", b.Op("Mul", []string{d, d}), 1)
			})
			return b.Op("Mul", []string{variance, "qat.disagreement"})
		},
	}
}

func (b *stepBuilder) meanOfMembers(of func(logits string) string) string {
	sum := of(b.job.net.Members[0])
	for _, logits := range b.job.net.Members[1:] {
		sum = b.Op("Add", []string{sum, of(logits)})
	}
	return b.Op("Mul", []string{sum, b.scalar(1 / float64(len(b.job.net.Members)))})
}

func hingeTerm() lossTerm {
	return lossTerm{
		columns: []lossColumn{atRecourse("qat.hinge", "beta")},
		build: func(b *stepBuilder) string {
			short := b.Op("Relu", []string{b.Op("Sub", []string{b.scalar(b.job.Weights.Of("gamma")), b.t.Margin})})
			return b.Op("Mul", []string{short, "qat.hinge"})
		},
	}
}

// groupTerm is the largest mean, over the groups of people in the batch, of the cross-entropy with the target class at
// recourse points, times the number of people. A person is in a group of each attribute. The gradient is that of the
// group which does worst.
//
// Reference: equation group_cfq_objective.
func groupTerm() lossTerm {
	return lossTerm{
		reduced: true,
		columns: []lossColumn{{
			name: "qat.groups", width: func(j *trainingJob) int { return j.source.Groups },
			fill: func(to []float32, p *Points, i int, _ *trainingJob) {
				if p.Kind == Teacher {
					copy(to, p.Groups[i*len(to):])
				}
			},
		}},
		build: func(b *stepBuilder) string {
			losses := b.reduce("ReduceSum", b.targetLosses(b.t.Logits), 1)
			sums := b.reduce("ReduceSum", b.Op("Mul", []string{losses, "qat.groups"}), 0)
			people := b.Op("Max", []string{b.reduce("ReduceSum", "qat.groups", 0), b.scalar(1)})
			// A group without people has the mean 0, below all others.
			worst := b.reduce("ReduceMax", b.Op("Div", []string{sums, people}), 1)
			return b.Op("Mul", []string{worst, b.scalar(b.job.Weights.Of("eta") * float64(b.job.Batch))})
		},
	}
}

func (b *stepBuilder) loss() string {
	terms := b.job.objective.terms()
	whole := len(terms) > 1 && slices.ContainsFunc(terms, func(t lossTerm) bool { return t.reduced })
	var sum string
	for _, t := range terms {
		for _, c := range t.columns {
			b.column(c.name, b.job.rows, c.width(b.job))
		}
		part := t.build(b)
		if whole {
			part = b.reduce("ReduceSum", part, 0, 1)
		}
		if sum != "" {
			part = b.Op("Add", []string{sum, part})
		}
		sum = part
	}
	b.Append(&graph.Node{
		Op: "ReduceSum", Inputs: []string{sum, b.ints(0, 1)}, Outputs: []string{lossName},
		Attrs: []graph.Attr{graph.IntAttr("keepdims", 0)},
	})
	return sum
}
