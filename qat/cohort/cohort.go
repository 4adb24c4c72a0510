// Package cohort draws the points that training looks at from people and their recourse.
//
// In: people with what the full-precision model says of them, and something that finds their recourse. Out: a source of
// points for package qat, shares of promises that a network breaks, and the eta that is best for people held out. The
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

	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/quant"
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

// Recourse finds recourse of the people.
type Recourse interface {
	qat.Recourse
	// Solve returns the cheapest recourse point of each of some people under a model; nil for who has none. A quick
	// search takes less time.
	Solve(ctx context.Context, m *classifier.Model, people []int, quick bool) ([][]float32, error)
	// Points returns the recourse points of the teacher, with Source, and without noise.
	Points(ctx context.Context) (qat.Points, error)
	// WithNoise returns the points with the noise of a round.
	WithNoise(p qat.Points, round int) qat.Points
}

// Source draws from people and their recourse.
type Source struct {
	People   People
	Unrolled int  // as in qat.Source
	Online   bool // as in qat.Source: the teacher's points are not looked for before

	recourse  Recourse
	open      func(ctx context.Context, plans []quant.Layer) (*classifier.Model, error)
	objective qat.ObjectiveDoc
	refused   []int       // a sample is asked
	promised  [][]float32 // recourse points of those refused
	teacher   qat.Points  // of objectives that do not resample
	facts     qat.Points  // people, for these objectives
}

// Find finds the recourse that an objective trains on. The function opens the network of plans.
func (s *Source) Find(ctx context.Context, objective qat.Objective, r Recourse,
	open func(ctx context.Context, plans []quant.Layer) (*classifier.Model, error),
) (err error) {
	s.recourse, s.open = r, open
	if s.objective, err = qat.FindObjective(objective); err != nil {
		return err
	}
	for i, m := range s.People.Margins {
		if m <= 0 {
			s.refused = append(s.refused, i)
		}
	}
	limit := finalPeople
	if s.objective.Resamples {
		limit = rayPeople
	}
	s.refused = qat.RowsAt(s.refused, 1, qat.Spread(len(s.refused), limit))
	if s.promised, err = r.Solve(ctx, s.People.Full, s.refused, false); err != nil {
		return err
	}
	if s.People.Rays == nil {
		for k, to := range s.promised {
			if to != nil {
				s.People.Rays = append(s.People.Rays, Ray{Person: s.refused[k], To: to})
			}
		}
	}
	if s.objective.Resamples {
		return nil
	}
	if s.objective.Recourse && !s.Online {
		if s.teacher, err = r.Points(ctx); err != nil {
			return err
		}
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
func (s *Source) Source() qat.Source { return s.source(s.draw, s.recourse) }

func (s *Source) source(draw qat.DrawFunc, r qat.Recourse) qat.Source {
	return qat.Source{Draw: draw, Recourse: r, Online: s.Online, Unrolled: s.Unrolled, Groups: s.People.GroupCount}
}

// Taught returns how many people's recourse is trained on.
func (s *Source) Taught() int {
	if s.objective.Resamples {
		return len(s.People.Rays)
	}
	people := map[int]bool{}
	for _, i := range s.teacher.Source {
		people[i] = true
	}
	return len(people)
}

func (s *Source) draw(ctx context.Context, round int, use [qat.Kinds]int, now []qat.Trained) (d qat.Draw, err error) {
	student, err := s.open(ctx, qat.Quantized(now))
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, student.Close()) }()
	rng := rand.New(rand.NewPCG(s.People.Seed, uint64(round)))
	if d.VD, d.RVD, err = s.estimateVD(ctx, rng, student, roundPeople, true); err != nil {
		return d, err
	}
	if !s.objective.Resamples {
		d.Points = []qat.Points{s.facts, s.recourse.WithNoise(s.teacher, round)}
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
	if points, err = s.recourse.Solve(ctx, student, people, quick); err != nil {
		return 0, 0, err
	}
	rvd, err = brokenShare(ctx, points, s.People.Full)
	return vd, rvd, err
}

func brokenShare(ctx context.Context, points [][]float32, m *classifier.Model) (float64, error) {
	margins, err := m.Margins(ctx, slices.Concat(points...))
	refused := 0.0
	for _, v := range margins {
		if !(v > 0) {
			refused++
		}
	}
	return refused / float64(len(margins)), err
}

// Final returns what holds of the network of plans in the end: the shares of some people's promises that break, and of
// the people that it decides differently from the full-precision model.
func (s *Source) Final(ctx context.Context, plans []quant.Layer) (vd, rvd, disagreement float64, err error) {
	m, err := s.open(ctx, plans)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	rng := rand.New(rand.NewPCG(s.People.Seed, math.MaxUint64))
	if vd, rvd, err = s.estimateVD(ctx, rng, m, finalPeople, false); err != nil {
		return 0, 0, 0, err
	}
	disagreement, err = s.Disagreement(ctx, m)
	return vd, rvd, disagreement, err
}

// Disagreement is the share of the people that a model decides differently from the full-precision
// model.
func (s *Source) Disagreement(ctx context.Context, m *classifier.Model) (float64, error) {
	margins, err := m.Margins(ctx, s.People.X)
	differ := 0
	for i, v := range margins {
		if v > 0 != (s.People.Margins[i] > 0) {
			differ++
		}
	}
	return float64(differ) / float64(max(1, len(s.People.Margins))), err
}

// Trial is a short training at a weight of the objective, judged by people who were held out from it.
type Trial struct{ Eta, Accuracy, VD float64 }

// etaTrials are the weights that are tried, each with one in trialShare of the steps.
//
// Reference: section CFQ objective.
func etaTrials() []Trial { return []Trial{{Eta: 0.25}, {Eta: 0.5}, {Eta: 1}, {Eta: 2}} }

const trialShare = 4

// SweepEta trains on some of the people with several eta, and sets the one that is best for those held out: by
// accuracy, which L_task + eta L_valid does not measure, and among equals by VD.
func (s *Source) SweepEta(ctx context.Context, net qat.Network, spec *qat.Spec, own, held []int,
	tell func(Trial, int, int),
) ([]Trial, error) {
	trials, source := etaTrials(), s.subset(own)
	for k := range trials {
		tell(trials[k], k, len(trials))
		short := *spec
		short.Eta, short.Steps = &trials[k].Eta, max(qat.Rounds, cmp.Or(spec.Steps, qat.DefaultSteps)/trialShare)
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
	spec.Eta = &best.Eta
	return trials, nil
}

// Labelled reports whether one of some people has a label.
func (s *Source) Labelled(people []int) bool {
	return slices.ContainsFunc(people, func(i int) bool { return s.facts.Classes[i] >= 0 })
}

func (s *Source) try(ctx context.Context, plans []quant.Layer, held []int, r *Trial) (err error) {
	m, err := s.open(ctx, plans)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	margins, err := m.Margins(ctx, qat.RowsAt(s.People.X, s.People.Dim, held))
	if err != nil {
		return err
	}
	right, known := 0.0, 0.0
	for k, i := range held {
		if class := s.facts.Classes[i]; class >= 0 {
			if known++; (margins[k] > 0) == (class == s.People.Full.Target()) {
				right++
			}
		}
	}
	var points [][]float32
	for k, i := range s.refused {
		if _, ok := slices.BinarySearch(held, i); ok {
			points = append(points, s.promised[k])
		}
	}
	r.Accuracy = right / known
	r.VD, err = brokenShare(ctx, points, m)
	return err
}

// subset is the source of some of the people. It asks nobody.
func (s *Source) subset(people []int) qat.Source {
	at := make(map[int]int, len(people)) // their positions
	for k, i := range people {
		at[i] = k
	}
	n := len(s.People.Margins)
	facts := s.facts
	facts.X, facts.Margins = qat.RowsAt(facts.X, s.People.Dim, people), qat.RowsAt(facts.Margins, 1, people)
	facts.Classes = qat.RowsAt(facts.Classes, 1, people)
	facts.Groups = qat.RowsAt(facts.Groups, s.People.GroupCount, people)
	facts.Probabilities = qat.RowsAt(facts.Probabilities, len(facts.Probabilities)/n, people)
	draw := func(_ context.Context, round int, _ [qat.Kinds]int, _ []qat.Trained) (qat.Draw, error) {
		all, theirs := s.recourse.WithNoise(s.teacher, round), qat.Points{Kind: qat.Teacher}
		for k, i := range all.Source {
			if person, ok := at[i]; ok {
				theirs.Source = append(theirs.Source, person)
				theirs.X = append(theirs.X, all.X[k*s.People.Dim:(k+1)*s.People.Dim]...)
			}
		}
		return qat.Draw{Points: []qat.Points{facts, theirs}, VD: math.NaN(), RVD: math.NaN()}, nil
	}
	return s.source(draw, subsetRecourse{s.recourse, people})
}

// subsetRecourse finds recourse of some of the people, who are known by their positions among these.
type subsetRecourse struct {
	of     qat.Recourse
	people []int
}

// Teach implements qat.Recourse.
func (r subsetRecourse) Teach(ctx context.Context, people []int, seed uint64) ([]float32, error) {
	return r.of.Teach(ctx, qat.RowsAt(r.people, 1, people), seed)
}

// Steps implements qat.Recourse.
func (r subsetRecourse) Steps(ctx context.Context, m *qat.StudentModel, people []int) (qat.Steps, error) {
	return r.of.Steps(ctx, m, qat.RowsAt(r.people, 1, people))
}

// Cost implements qat.Recourse.
func (r subsetRecourse) Cost(person int, action, grad []float32) float64 {
	return r.of.Cost(r.people[person], action, grad)
}
