package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/eval"
	"cfq/qat"
	"cfq/quant"
)

// Trial is a short training with weights of the objective, judged by people who were held out from it.
type Trial struct {
	Eta      float64    `json:"eta"`
	Accuracy eval.Float `json:"accuracy"`
	VD       eval.Float `json:"vd"` // of promises at margin 0.1
}

// trials are the weights that are tried, with a share of the people held out and of the steps done.
//
// Reference: section CFQ objective.
func trials() (weights []Trial, heldOut float64, steps int) {
	return []Trial{{Eta: 0.25}, {Eta: 0.5}, {Eta: 1}, {Eta: 2}}, 0.2, 4
}

// tuneSeed tells the people held out here from those that a search for a target has held out before by the same seed:
// of the others none would be left.
const tuneSeed = 1 << 63

// tune tries weights of the objective and sets those in spec that are best for people who were held out: by accuracy at
// the given budget, which L_task + eta L_valid is no measure of, and among equals by VD.
func (t *trainer) tune(ctx context.Context, net qat.Network, spec *qat.Spec) ([]Trial, error) {
	list, share, steps := trials()
	own, held := divide(t.sample.all, share, t.seed^tuneSeed)
	if len(own) == 0 || !slices.ContainsFunc(held, func(i int) bool { return t.facts.Classes[i] >= 0 }) {
		return nil, inputError(errors.New("eta-sweep: no labelled people can be held out from so few"))
	}
	part := t.part(own)
	for k := range list {
		t.net.tell(fmt.Sprintf("try eta %v", list[k].Eta), k, len(list))
		short := *spec
		short.Eta, short.Steps = &list[k].Eta, max(qat.Rounds, cmp.Or(spec.Steps, qat.DefaultSteps)/steps)
		out, err := qat.Train(ctx, net, part, short, qat.Run{})
		if err != nil {
			return nil, fmt.Errorf("eta %v: %w", list[k].Eta, err)
		}
		if err := t.try(ctx, qat.Quantized(out.Layers), held, &list[k]); err != nil {
			return nil, err
		}
	}
	best := slices.MinFunc(list, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(b.Accuracy, a.Accuracy), cmp.Compare(a.VD, b.VD))
	})
	spec.Eta = &best.Eta
	return list, nil
}

// part draws the points of some people.
func (t *trainer) part(people []int) qat.Source {
	at := make(map[int]int, len(people)) // their positions
	for k, i := range people {
		at[i] = k
	}
	facts, n := t.facts, t.facts.Groups
	facts.X, facts.Margins = rowsOf(t.sample.all.X, t.sample.all.Dim, people), subset(t.facts.Margins, people)
	facts.Classes, facts.Groups = subset(t.facts.Classes, people), rowsOf(n, len(n)/t.sample.all.N, people)
	facts.Probabilities = rowsOf(facts.Probabilities, len(facts.Probabilities)/t.sample.all.N, people)
	source := t.source()
	if t.during != nil {
		source.Recourse = subsetSource{t.during, people}
	}
	source.Draw = func(_ context.Context, round int, _ [qat.Kinds]int, _ []qat.Trained) (qat.Draw, error) {
		all, theirs := t.withNoise(round), qat.Points{Kind: qat.Teacher}
		for k, i := range all.Source {
			if person, ok := at[i]; ok {
				theirs.Source = append(theirs.Source, person)
				theirs.X = append(theirs.X, all.X[k*t.sample.all.Dim:(k+1)*t.sample.all.Dim]...)
			}
		}
		return qat.Draw{Points: []qat.Points{facts, theirs}, VD: math.NaN(), RVD: math.NaN()}, nil
	}
	return source
}

// try judges plans by the people held out.
func (t *trainer) try(ctx context.Context, plans []quant.Layer, held []int, r *Trial) (err error) {
	g, err := t.fits.openLayers(ctx, plans)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	margins, err := g.Margins(ctx, rowsOf(t.sample.all.X, t.sample.all.Dim, held))
	if err != nil {
		return err
	}
	right, known := 0, 0
	for k, i := range held {
		if class := t.facts.Classes[i]; class >= 0 {
			if known++; (margins[k] > 0) == (class == t.net.full.Target()) {
				right++
			}
		}
	}
	r.Accuracy = eval.Float(float64(right) / float64(known))
	theirs := t.promised[:0:0]
	for k, i := range t.refused {
		if _, ok := slices.BinarySearch(held, i); ok {
			theirs = append(theirs, t.promised[k])
		}
	}
	vd, err := broken(ctx, theirs, g)
	r.VD = eval.Float(vd)
	return err
}

// subsetSource finds recourse of some of the people, who are known by their positions among these.
type subsetSource struct {
	of     *onlineTeacher
	people []int
}

// Teach implements qat.Recourse.
func (s subsetSource) Teach(ctx context.Context, people []int, seed uint64) ([]float32, error) {
	return s.of.Teach(ctx, subset(s.people, people), seed)
}

// Steps implements qat.Recourse.
func (s subsetSource) Steps(ctx context.Context, m *qat.StudentModel, people []int) (qat.Steps, error) {
	return s.of.Steps(ctx, m, subset(s.people, people))
}

// Cost implements qat.Recourse.
func (s subsetSource) Cost(person int, action, grad []float32) float64 {
	return s.of.Cost(s.people[person], action, grad)
}
