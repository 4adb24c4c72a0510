package qat

import (
	"fmt"
	"slices"

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
	// Varied: any point tells, labels or not, so that each round has others.
	Varied bool
	// Full: it trains in full precision, from labels alone; Quantized: it trains through fake quantizers. Those of
	// autoencoders do neither.
	Full, Quantized bool
	// Ensemble: several networks are trained together, Options.Members.
	Ensemble bool
	// Groups: it tells groups of people apart.
	Groups bool
	// Weights are the names of those of Options.Eta, Beta, Gamma, Alpha1 and Alpha2 that count.
	Weights []string

	terms []term
	steps bool // it looks at the recourse of the network as trained so far
	// row says what a row adds to the loss, by the columns of the terms.
	row func(r *row, p *Points, i int, o *Options)
}

// paired reports whether a step looks at people and at teacher points of the same people.
func (o *ObjectiveDoc) paired() bool { return o.Quantized && o.Recourse && !o.Varied }

// Objectives is the one table of objectives.
func Objectives() []ObjectiveDoc {
	valid := func(r *row, p *Points, i int, o *Options) {
		if p.Kind == Factual {
			label(r, p, i)
		} else {
			r.pick[o.target] = float32(o.Eta)
		}
	}
	return append([]ObjectiveDoc{
		{
			Name: Distil, Quantized: true, Recourse: true, Varied: true, terms: []term{marginTerm()},
			Doc: "squared error of the margin against the full-precision model, at rows and at recourse points of both " +
				"models; near the decision boundary, and where the two decide differently, it counts most",
			row: func(r *row, p *Points, i int, _ *Options) {
				r.want, r.near = p.Margins[i], Near(p.Margins[i])
				if p.Now != nil {
					r.near = max(r.near, Near(p.Now[i]))
					if p.Now[i] > 0 != (p.Margins[i] > 0) {
						r.near = 1
					}
				}
			},
		},
		{
			Name: Validity, Quantized: true, Paper: "L_CFQ", Weights: []string{"eta"}, Labels: true, Recourse: true,
			terms: []term{classTerm()}, row: valid,
			Doc: "cross-entropy with the label at rows, and eta times that with the favourable class at teacher recourse points",
		},
		{
			Name: Hinge, Quantized: true, Paper: "L_CFQ + beta L_hinge", Weights: []string{"eta", "beta", "gamma"},
			Labels: true, Recourse: true,
			terms: []term{classTerm(), hingeTerm()},
			Doc:   "as validity, and beta times max(0, gamma - margin) at teacher recourse points",
			row: func(r *row, p *Points, i int, o *Options) {
				valid(r, p, i, o)
				if p.Kind != Factual {
					r.hinge = float32(o.Beta)
				}
			},
		},
		{
			Name: Match, Quantized: true, Paper: "L_CFQ + L_match", Weights: []string{"eta", "alpha1", "alpha2"},
			Labels: true, Recourse: true,
			terms: []term{classTerm(), matchTerm()}, row: valid, steps: true,
			Doc: "as validity, and the matching loss of the network's own action and the teacher's",
		},
		{
			Name: Group, Quantized: true, Paper: "L_group-CFQ", Weights: []string{"eta"}, Labels: true, Recourse: true,
			Groups: true,
			terms:  []term{classTerm(), groupTerm()},
			Doc:    "as validity, of the subgroup that does worst at teacher recourse points",
			row: func(r *row, p *Points, i int, _ *Options) {
				if p.Kind == Factual {
					label(r, p, i)
				}
			},
		},
		{
			Name: KD, Quantized: true, terms: []term{classTerm()}, Paper: "KD+Quant",
			Doc: "cross-entropy with the full-precision model's probabilities, at factual rows",
			row: func(r *row, p *Points, i int, _ *Options) { copy(r.pick, p.Probabilities[i*len(r.pick):]) },
		},
		{
			Name: Task, Full: true, Quantized: true, Labels: true, terms: []term{classTerm()}, Paper: "L_task",
			Doc: "cross-entropy with the label, at factual rows",
			row: func(r *row, p *Points, i int, _ *Options) { label(r, p, i) },
		},
	}, append(robust(), coding()...)...)
}

// Near is how much a row counts by its margin (Distil): 1 at the decision boundary, half as much 0.15 logits away.
func Near(margin float32) float32 {
	d := float64(margin) / halfMargin
	return float32(1 / (1 + d*d))
}

// label makes a row count by its label, if it has one.
func label(r *row, p *Points, i int) {
	if c := p.Classes[i]; c >= 0 {
		r.pick[c] = 1
	}
}

// robust are the rows of training in full precision for recourse (Baseline family I of the paper).
func robust() []ObjectiveDoc {
	return []ObjectiveDoc{
		{
			Name: RMargin, Full: true, Labels: true, Recourse: true, Paper: "R-Margin", Weights: []string{"beta", "gamma"},
			terms: []term{classTerm(), hingeTerm()},
			Doc: "cross-entropy with the label, and beta times max(0, gamma - margin) at recourse points of the network as " +
				"trained so far",
			row: func(r *row, p *Points, i int, o *Options) {
				if p.Kind == Factual {
					label(r, p, i)
				} else {
					r.hinge = float32(o.Beta)
				}
			},
		},
		{
			Name: RConsistency, Full: true, Labels: true, Recourse: true, Ensemble: true, Paper: "R-Consistency",
			Weights: []string{"eta"}, terms: []term{memberTerm(), disagreementTerm()},
			Doc: "cross-entropy of each member of an ensemble with the label, and eta times the variance of their logits at " +
				"recourse points of the ensemble as trained so far",
			row: func(r *row, p *Points, i int, o *Options) {
				if p.Kind == Factual {
					label(r, p, i)
				} else {
					r.disagreement = float32(o.Eta)
				}
			},
		},
	}
}

// FindObjective returns the row of the table called name.
func FindObjective(name Objective) (ObjectiveDoc, error) {
	var names []string
	for _, o := range Objectives() {
		if o.Name == name {
			return o, nil
		}
		if o.Full || o.Quantized {
			names = append(names, string(o.Name))
		}
	}
	return ObjectiveDoc{}, fmt.Errorf("invalid value %q for objective: want %s", name, message.Or(names))
}

// row is what one row of a batch brings besides its inputs.
type row struct {
	want, near float32   // the margin aimed at, and how much its error counts
	pick       []float32 // weight of each class's negative log-probability
	hinge      float32   // weight of the hinge
	// weight of the variance of an ensemble's logits
	disagreement float32
	groups       []float32 // 1 for each group that the person of a recourse point is in
	attributes   []float32
}

// term is a part of the loss: nodes that compute it, and its input columns.
type term struct {
	columns []column
	build   func(b *builder) string
	apart   bool // its value is not one number for each row
}

// column is an input of a term.
type column struct {
	name  string
	width func(o *Options) int
	of    func(r *row) []float32
}

func one(*Options) int { return 1 }

// marginTerm is the squared error of the margin, weighted.
func marginTerm() term {
	return term{
		columns: []column{
			{"qat.want", one, func(r *row) []float32 { return []float32{r.want} }},
			{"qat.near", one, func(r *row) []float32 { return []float32{r.near} }},
		},
		build: func(b *builder) string {
			e := b.Op("Sub", []string{b.t.Margin, "qat.want"})
			return b.Op("Mul", []string{b.Op("Mul", []string{e, e}), "qat.near"})
		},
	}
}

// classTerm is the cross-entropy with weights of classes.
func classTerm() term {
	return term{
		apart:   true,
		columns: []column{{"qat.pick", func(o *Options) int { return o.classes }, func(r *row) []float32 { return r.pick }}},
		build:   func(b *builder) string { return b.crossEntropy(b.t.Logits) },
	}
}

// crossEntropy is that of logits with the weights of classes, rows x classes or rows x 1. For two classes it is the
// softplus of the other one's logit less the own, which takes a fifth of the time.
func (b *builder) crossEntropy(logits string) string {
	if b.o.classes == 2 {
		others := b.Const(graph.FromFloats("others", []float32{-1, 1, 1, -1}, 2, 2))
		less := b.Op("MatMul", []string{logits, others})
		return b.Op("Mul", []string{b.Op("Softplus", []string{less}), "qat.pick"})
	}
	logp := b.Op("LogSoftmax", []string{logits}, graph.IntAttr("axis", 1))
	return b.Op("Neg", []string{b.sumOfClasses(b.Op("Mul", []string{logp, "qat.pick"}))})
}

func (b *builder) sumOfClasses(value string) string {
	axes := b.Const(graph.FromInts("axes", []int64{1}, 1))
	return b.Op("ReduceSum", []string{value, axes}, graph.IntAttr("keepdims", 1))
}

// memberTerm is the mean of the members' cross-entropies.
func memberTerm() term {
	t := classTerm()
	t.build = func(b *builder) string { return b.meanOfMembers(b.crossEntropy) }
	return t
}

// disagreementTerm is the variance of the members' logits, summed over the classes and weighted.
func disagreementTerm() term {
	return term{
		columns: []column{{"qat.disagreement", one, func(r *row) []float32 { return []float32{r.disagreement} }}},
		build: func(b *builder) string {
			variance := b.meanOfMembers(func(logits string) string {
				d := b.Op("Sub", []string{logits, b.t.Logits}) // the model's logits are the members' mean
				return b.sumOfClasses(b.Op("Mul", []string{d, d}))
			})
			return b.Op("Mul", []string{variance, "qat.disagreement"})
		},
	}
}

// meanOfMembers is the mean of a value that is made of each member's logits.
func (b *builder) meanOfMembers(of func(logits string) string) string {
	sum := of(b.o.Members[0])
	for _, logits := range b.o.Members[1:] {
		sum = b.Op("Add", []string{sum, of(logits)})
	}
	return b.Op("Mul", []string{sum, b.scalar(1 / float64(len(b.o.Members)))})
}

// hingeTerm is what the margin lacks of gamma, weighted.
func hingeTerm() term {
	return term{
		columns: []column{{"qat.hinge", one, func(r *row) []float32 { return []float32{r.hinge} }}},
		build: func(b *builder) string {
			short := b.Op("Relu", []string{b.Op("Sub", []string{b.scalar(b.o.Gamma), b.t.Margin})})
			return b.Op("Mul", []string{short, "qat.hinge"})
		},
	}
}

// groupTerm is the largest mean, over the groups of people in the batch, of the cross-entropy with the target class at
// recourse points, times the number of people. A person is in a group of each attribute. The gradient is that of the
// group which does worst.
//
// Reference: equation group_cfq_objective.
func groupTerm() term {
	return term{
		apart: true,
		columns: []column{
			{"qat.groups", func(o *Options) int { return o.Groups }, func(r *row) []float32 { return r.groups }},
		},
		build: func(b *builder) string {
			pick := make([]float32, b.o.classes)
			pick[b.o.target] = -1
			reduce := func(op, v string, axis int64) string {
				return b.Op(op, []string{v, b.Const(graph.FromInts("axes", []int64{axis}, 1))}, graph.IntAttr("keepdims", 1))
			}
			logp := b.Op("LogSoftmax", []string{b.t.Logits}, graph.IntAttr("axis", 1))
			picked := b.Op("Mul", []string{logp, b.Const(graph.FromFloats("target", pick, 1, int64(len(pick))))})
			sums := reduce("ReduceSum", b.Op("Mul", []string{reduce("ReduceSum", picked, 1), "qat.groups"}), 0)
			people := b.Op("Max", []string{reduce("ReduceSum", "qat.groups", 0), b.scalar(1)})
			// A group without people has the mean 0, below all others.
			worst := reduce("ReduceMax", b.Op("Div", []string{sums, people}), 1)
			return b.Op("Mul", []string{worst, b.scalar(b.o.Eta * float64(b.o.Batch))})
		},
	}
}

// loss appends the objective and returns a value whose sum it is; lossName is the sum.
func (b *builder) loss() string {
	terms := b.o.objective.terms
	whole := len(terms) > 1 && slices.ContainsFunc(terms, func(t term) bool { return t.apart })
	axes := b.Const(graph.FromInts("axes", []int64{0, 1}, 2))
	var sum string
	for _, t := range terms {
		for _, c := range t.columns {
			b.column(c.name, b.rows, c.width(b.o))
		}
		part := t.build(b)
		if whole {
			part = b.Op("ReduceSum", []string{part, axes}, graph.IntAttr("keepdims", 1))
		}
		if sum != "" {
			part = b.Op("Add", []string{sum, part})
		}
		sum = part
	}
	b.Append(&graph.Node{
		Op: "ReduceSum", Inputs: []string{sum, axes}, Outputs: []string{lossName},
		Attrs: []graph.Attr{graph.IntAttr("keepdims", 0)},
	})
	return sum
}
