// Package cohort draws the points that training looks at from people and their recourse.
//
// In: people with what the full-precision model says of them, and what they can change. Out: a source of points for
// package qat, shares of promises that a network breaks, and the eta that is best for people held out. The
// invariant: the same arguments give the same points.
package cohort

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/internal/lists"
	"cfq/internal/statistics"
	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/quant"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// How many people are asked for recourse: once, for rays to their recourse points, and for the shares of broken
// promises, in each round and in the end.
const rayPeople, roundPeople, finalPeople = 8000, 100, 1000

// Rays end at margins between these, in logits: recourse at required margins of up to half a logit, and what is about
// to become recourse.
const (
	teacherLo, teacherHi = -0.15, 0.35 // of the full-precision model
	studentLo, studentHi = -0.1, 0.3   // of the network as trained so far
)

// People are trained on: all that there are, and what the full-precision model says of them.
type People struct {
	// Population has them, and their ways to recourse; Rays nil: those to their cheapest recourse are found.
	Population
	Full       *classifier.Model
	Margins    []float32
	Labels     []int8    // 1 for the target, 0 for the other class, negative where it is not known; nil without
	Groups     []float32 // people x GroupCount of 0 and 1
	GroupCount int
	Seed       uint64
}

// Source draws from people and their recourse.
type Source struct {
	People
	Set     *constraint.Set // what each of them can change
	Teacher recourse.TeacherOptions
	// Points are the teacher's recourse points, with Source, and without noise; none where the objective resamples.
	Points qat.Points
	Open   func(ctx context.Context, plans []quant.Layer) (*classifier.Model, error) // the network of plans

	objective qat.ObjectiveDoc
	refused   []int       // a sample is asked
	promised  [][]float32 // recourse points of those refused
	facts     qat.Points  // people, for objectives that do not resample
}

// Find finds the recourse that an objective trains on.
func (s *Source) Find(ctx context.Context, objective qat.Objective) (err error) {
	if s.objective, err = qat.FindObjective(objective); err != nil {
		return err
	}
	all := task.AllRows(len(s.Margins))
	s.refused = slices.DeleteFunc(all, func(i int) bool { return !(s.Margins[i] <= 0) })
	limit := finalPeople
	if s.objective.Resamples {
		limit = rayPeople
	}
	s.refused = lists.RowsAt(s.refused, 1, qat.Spread(len(s.refused), limit))
	if s.promised, err = s.solve(ctx, s.Full, s.refused, false); err != nil {
		return err
	}
	if s.Rays == nil {
		s.Rays = RaysTo(s.refused, s.promised)
	}
	if s.objective.Resamples {
		return nil
	}
	return s.factual(ctx)
}

func (s *Source) factual(ctx context.Context) error {
	p := &s.People
	s.facts = qat.Points{Kind: qat.Factual, X: p.X, Margins: p.Margins, Groups: p.Groups}
	for _, l := range p.Labels {
		class := -1
		if l >= 0 {
			class = p.Full.Target()
		}
		if l == 0 {
			class = 1 - class
		}
		s.facts.Classes = append(s.facts.Classes, class)
	}
	z, classes, err := p.Full.Logits(ctx, p.X)
	if classes == 1 { // a single logit z is [0, z]
		both := make([]float32, 0, 2*len(z))
		for _, v := range z {
			both = append(both, 0, v)
		}
		z, classes = both, 2
	}
	for row := range slices.Chunk(z, classes) {
		var sum float64
		top, first := slices.Max(row), len(s.facts.Probabilities)
		for _, v := range row {
			e := math.Exp(float64(v - top))
			s.facts.Probabilities, sum = append(s.facts.Probabilities, float32(e)), sum+e
		}
		for j := range row {
			s.facts.Probabilities[first+j] /= float32(sum)
		}
	}
	return err
}

// Source returns what all people are drawn from.
func (s *Source) Source() qat.Source {
	return qat.Source{Draw: s.draw, Set: s.Set, Teacher: s.Teacher, Groups: s.GroupCount}
}

// Taught returns how many people's recourse is trained on.
func (s *Source) Taught() int {
	if s.objective.Resamples {
		return len(s.Rays)
	}
	people := map[int]bool{}
	lists.Mark(people, s.Points.Source...)
	return len(people)
}

func (s *Source) draw(ctx context.Context, round int, use [qat.Kinds]int, now []qat.Trained) (d qat.Draw, err error) {
	student, err := s.Open(ctx, qat.Quantized(now))
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, student.Close()) }()
	rng := rand.New(rand.NewPCG(s.Seed, uint64(round)))
	if d.VD, d.RVD, err = s.estimateVD(ctx, rng, student, roundPeople, true); err != nil {
		return d, err
	}
	if !s.objective.Resamples {
		d.Points = []qat.Points{s.facts, s.withNoise(round)}
		return d, nil
	}
	p := &s.People
	add := func(kind qat.Kind, x []float32, err error) error {
		points := qat.Points{Kind: kind, X: x}
		if err == nil {
			points.Margins, err = p.Full.Margins(ctx, x)
		}
		if err == nil && kind == qat.Factual {
			points.StudentMargins, err = student.Margins(ctx, x)
		}
		d.Points = append(d.Points, points)
		return err
	}
	if err := add(qat.Factual, p.Draw(rng, use[qat.Factual]), nil); err != nil || len(p.Rays) == 0 {
		return d, err
	}
	x, err := p.DrawTeacher(ctx, rng, p.Full.Margins, use[qat.Teacher])
	if err := add(qat.Teacher, x, err); err != nil {
		return d, err
	}
	x, err = p.drawRays(ctx, rng, student.Margins, use[qat.Student], studentLo, studentHi)
	return d, add(qat.Student, x, err)
}

// estimateVD returns the shares of some people's promises that break between the full-precision model and the student,
// either way.
func (s *Source) estimateVD(ctx context.Context, rng *rand.Rand, student *classifier.Model, limit int,
	quick bool,
) (vd, rvd float64, err error) {
	var people []int
	var points [][]float32
	for _, k := range rng.Perm(len(s.refused))[:min(limit, len(s.refused))] {
		people, points = append(people, s.refused[k]), append(points, s.promised[k])
	}
	if vd, err = brokenShare(ctx, points, student); err != nil {
		return 0, 0, err
	}
	if points, err = s.solve(ctx, student, people, quick); err != nil {
		return 0, 0, err
	}
	rvd, err = brokenShare(ctx, points, s.Full)
	return vd, rvd, err
}

func brokenShare(ctx context.Context, points [][]float32, m *classifier.Model) (float64, error) {
	margins, err := m.Margins(ctx, slices.Concat(points...))
	refused := lists.Where(len(margins), func(i int) bool { return !(margins[i] > 0) })
	return float64(len(refused)) / float64(len(margins)), err
}

// Final returns what holds of the network of plans in the end: the shares of some people's promises that break, and of
// the people that it decides differently from the full-precision model.
func (s *Source) Final(ctx context.Context, plans []quant.Layer) (vd, rvd, disagreement float64, err error) {
	m, err := s.Open(ctx, plans)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	rng := rand.New(rand.NewPCG(s.Seed, math.MaxUint64))
	if vd, rvd, err = s.estimateVD(ctx, rng, m, finalPeople, false); err != nil {
		return 0, 0, 0, err
	}
	disagreement, err = s.Disagreement(ctx, m)
	return vd, rvd, disagreement, err
}

// Disagreement is the share of the people that a model decides differently from the full-precision model.
func (s *Source) Disagreement(ctx context.Context, m *classifier.Model) (float64, error) {
	margins, err := m.Margins(ctx, s.X)
	differ := lists.Where(len(margins), func(i int) bool { return margins[i] > 0 != (s.Margins[i] > 0) })
	return float64(len(differ)) / float64(max(1, len(s.Margins))), err
}

// Trial is a short training at a weight of the objective, judged by people who were held out from it.
type Trial struct {
	Eta      float64          `json:"eta"`
	Accuracy statistics.Float `json:"accuracy"`
	VD       statistics.Float `json:"vd"` // of promises at margin 0.1
}

// trialShare: a trial has one in so many steps.
const trialShare = 4

// SweepEta trains on some of the people with several eta, and sets the one that is best for those held out: by
// accuracy, which L_task + eta L_valid does not measure, and among equals by VD.
//
// Reference: section CFQ objective.
func (s *Source) SweepEta(ctx context.Context, net qat.Network, spec *qat.Spec, own, held []int,
	tell func(Trial, int, int),
) ([]Trial, error) {
	trials, source := []Trial{{Eta: 0.25}, {Eta: 0.5}, {Eta: 1}, {Eta: 2}}, s.subset(own)
	for k := range trials {
		tell(trials[k], k, len(trials))
		short := *spec
		short.Weights = spec.Weights.With("eta", trials[k].Eta)
		short.Steps = max(qat.Rounds, cmp.Or(spec.Steps, qat.DefaultSteps)/trialShare)
		out, err := qat.Train(ctx, net, source, short, qat.Run{})
		if err != nil {
			return nil, fmt.Errorf("eta %v: %w", trials[k].Eta, err)
		}
		if err := s.try(ctx, qat.Quantized(out.Layers), held, &trials[k]); err != nil {
			return nil, err
		}
	}
	best := slices.MinFunc(trials, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(b.Accuracy, a.Accuracy), cmp.Compare(a.VD, b.VD))
	})
	spec.Weights = spec.Weights.With("eta", best.Eta)
	return trials, nil
}

// Labelled reports whether one of some people has a label.
func (s *Source) Labelled(people []int) bool {
	return slices.ContainsFunc(people, func(i int) bool { return s.facts.Classes[i] >= 0 })
}

func (s *Source) try(ctx context.Context, plans []quant.Layer, held []int, r *Trial) (err error) {
	m, err := s.Open(ctx, plans)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	margins, err := m.Margins(ctx, s.rows(held))
	if err != nil {
		return err
	}
	known := lists.Where(len(held), func(k int) bool { return s.facts.Classes[held[k]] >= 0 })
	right := lists.Filter(known, func(k int) bool {
		return (margins[k] > 0) == (s.facts.Classes[held[k]] == s.Full.Target())
	})
	var points [][]float32
	for k, i := range s.refused {
		if _, ok := slices.BinarySearch(held, i); ok {
			points = append(points, s.promised[k])
		}
	}
	vd, err := brokenShare(ctx, points, m)
	r.Accuracy, r.VD = statistics.Float(float64(len(right))/float64(len(known))), statistics.Float(vd)
	return err
}

// subset is the source of some of the people. It asks nobody.
func (s *Source) subset(people []int) qat.Source {
	n, some, at := len(s.Margins), *s, make(map[int]int, len(people)) // at: their positions
	for k, i := range people {
		at[i] = k
	}
	rows := func(v []float32) []float32 { return lists.RowsAt(v, len(v)/n, people) }
	facts := s.facts
	facts.X, facts.Margins = rows(facts.X), rows(facts.Margins)
	facts.Groups, facts.Probabilities = rows(facts.Groups), rows(facts.Probabilities)
	facts.Classes = lists.RowsAt(facts.Classes, 1, people)
	some.X, some.Set = facts.X, s.Set.Select(people)
	source := some.Source()
	source.Draw = func(_ context.Context, round int, _ [qat.Kinds]int, _ []qat.Trained) (qat.Draw, error) {
		all, theirs := s.withNoise(round), qat.Points{Kind: qat.Teacher}
		for k, i := range all.Source {
			if person, ok := at[i]; ok {
				theirs.Source = append(theirs.Source, person)
				theirs.X = append(theirs.X, all.X[k*s.Dim:(k+1)*s.Dim]...)
			}
		}
		return qat.Draw{Points: []qat.Points{facts, theirs}, VD: math.NaN(), RVD: math.NaN()}, nil
	}
	return source
}

const promisedMargin = 0.1

// QuickSearch uses a quarter of the solver's budget: an estimate over many people does not need optimal actions.
func QuickSearch() recourse.SolveOptions {
	return recourse.SolveOptions{Margin: promisedMargin, Restarts: -1, Rounds: 1, Beam: 1, Nodes: -1}
}

// solve returns the cheapest recourse point of each of some people under a model; nil for who has none.
func (s *Source) solve(ctx context.Context, m *classifier.Model, people []int, quick bool) ([][]float32, error) {
	o := recourse.SolveOptions{Margin: promisedMargin}
	if quick {
		o = QuickSearch()
	}
	o.Workers, o.Seed = s.Teacher.Workers, s.Seed
	actions, err := recourse.Solve(ctx, m, s.Set.Select(people), s.rows(people), o)
	return Points(actions), err
}

func (s *Source) rows(people []int) []float32 { return lists.RowsAt(s.X, s.Dim, people) }

// Points are the points of the actions that were found, nil for the others.
func Points(actions []recourse.Action) [][]float32 {
	points := make([][]float32, len(actions))
	for i := range actions {
		if actions[i].Status == recourse.Found {
			points[i] = actions[i].Point
		}
	}
	return points
}

// RaysTo are the ways of people to their points; nil is no point.
func RaysTo(people []int, points [][]float32) []Ray {
	at := lists.Where(len(points), func(k int) bool { return points[k] != nil })
	return lists.Map(at, func(k int) Ray { return Ray{people[k], points[k]} })
}

func (s *Source) withNoise(round int) qat.Points {
	p, o := s.Points, &s.Teacher
	p.Kind = qat.Teacher // of none, too: they are not to stand for people
	if o.Noise > 0 {
		x := s.rows(p.Source)
		p.X = slices.Clone(p.X)
		for i := range p.X {
			p.X[i] -= x[i]
		}
		seed := rand.New(rand.NewPCG(o.Seed, uint64(round))).Uint64()
		recourse.Blur(s.Set.Select(p.Source), x, p.X, o.Noise, seed)
		recourse.Point(p.X, x, p.X)
	}
	return p
}
