package qat

import (
	"fmt"

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
	// For training in full precision.
	RMargin      Objective = "r-margin"
	RConsistency Objective = "r-consistency"
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
	// Full: it trains in full precision, from labels alone; Quantized: it trains through fake quantizers.
	Full, Quantized bool
	// Ensemble: several networks are trained together, Options.Members.
	Ensemble bool
	// Weights are the names of those of Options.Eta, Beta and Gamma that count.
	Weights []string

	terms []term
	// row says what a row adds to the loss, by the columns of the terms.
	row func(r *row, p *Points, i int, o *Options)
}

// Objectives is the one table of objectives.
func Objectives() []ObjectiveDoc {
	label := func(r *row, p *Points, i int, weight float64) {
		if c := p.Classes[i]; c >= 0 {
			r.pick[c] = float32(weight)
		}
	}
	valid := func(r *row, p *Points, i int, o *Options) {
		if p.Kind == Factual {
			label(r, p, i, 1)
		} else {
			r.pick[o.target] = float32(o.Eta)
		}
	}
	return []ObjectiveDoc{
		{
			Name: Distil, Quantized: true, Recourse: true, Varied: true, terms: []term{marginTerm()},
			Doc: "squared error of the margin against the full-precision model, at rows and at recourse points of both " +
				"models; near the decision boundary it counts most",
			row: func(r *row, p *Points, i int, _ *Options) {
				d := float64(p.Margins[i]) / halfMargin
				r.want, r.near = p.Margins[i], float32(1/(1+d*d))
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
			Name: KD, Quantized: true, terms: []term{classTerm()}, Paper: "KD+Quant",
			Doc: "cross-entropy with the full-precision model's probabilities, at factual rows",
			row: func(r *row, p *Points, i int, _ *Options) { copy(r.pick, p.Probabilities[i*len(r.pick):]) },
		},
		{
			Name: Task, Full: true, Quantized: true, Labels: true, terms: []term{classTerm()}, Paper: "L_task",
			Doc: "cross-entropy with the label, at factual rows",
			row: func(r *row, p *Points, i int, _ *Options) { label(r, p, i, 1) },
		},
		{
			Name: RMargin, Full: true, Labels: true, Recourse: true, Paper: "R-Margin", Weights: []string{"beta", "gamma"},
			terms: []term{classTerm(), hingeTerm()},
			Doc: "cross-entropy with the label, and beta times max(0, gamma - margin) at recourse points of the network as " +
				"trained so far",
			row: func(r *row, p *Points, i int, o *Options) {
				if p.Kind == Factual {
					label(r, p, i, 1)
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
					label(r, p, i, 1)
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
		names = append(names, string(o.Name))
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
}

// term is a part of the loss: nodes that compute it, rows x 1, and its input columns.
type term struct {
	columns []column
	build   func(b *builder) string
}

// column is an input of a term.
type column struct {
	name  string
	width func(classes int) int
	of    func(r *row) []float32
}

func one(int) int { return 1 }

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
		columns: []column{{"qat.pick", func(classes int) int { return classes }, func(r *row) []float32 { return r.pick }}},
		build:   func(b *builder) string { return b.crossEntropy(b.t.Logits) },
	}
}

// crossEntropy is that of logits with the weights of classes.
func (b *builder) crossEntropy(logits string) string {
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

// loss appends the objective and returns its value for each row, rows x 1; lossName is their sum.
func (b *builder) loss() string {
	var sum string
	for _, t := range b.o.objective.terms {
		for _, c := range t.columns {
			b.value(c.name, int64(b.o.Batch), int64(c.width(b.o.classes)))
		}
		part := t.build(b)
		if sum != "" {
			part = b.Op("Add", []string{sum, part})
		}
		sum = part
	}
	axes := b.Const(graph.FromInts("axes", []int64{0, 1}, 2))
	b.Append(&graph.Node{
		Op: "ReduceSum", Inputs: []string{sum, axes}, Outputs: []string{lossName},
		Attrs: []graph.Attr{graph.IntAttr("keepdims", 0)},
	})
	return sum
}
