// Package eval measures how faithful one classifier is to another where people act on it: does the
// recourse that the full-precision model f promises still hold under the quantized model g, what does
// it cost there, and does g promise what f would not keep.
//
// In: two recourse.Models, an action set, people. Out: a Result with every metric of package metrics, each with its
// counts. An evaluation has two steps, and [Compare] is both for people who fit in memory:
//
//   - [Measure] takes people from a [Source], finds the points where the recourse of each refused person ends, asks the
//     other model about them, and makes one [Record] for each person.
//   - [Summarize] computes the metrics, from the records alone.
//
// A batch of people can come with what is known of them: the promises that were issued, the points of f (see [Solve]),
// or records of an earlier run. Records from several machines may be joined before they are summarized. The invariant:
// everyone who is evaluated is counted. A person without recourse, or with none to compare, is in a denominator or in
// a count of its own, and is never dropped. Results depend on the inputs and the seed only.
//
// [Groups] are subgroups, [Result.Stress] evaluates under other conditions, and [ComparePaired]
// compares several quantized models. Verdicts are made by package gate.
//
// Definitions: sections "Metrics" and "Sensitivity to action constraints" of the paper; package metrics
// says where this package is more precise.
package eval

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"strings"

	"cfq/internal/ordered"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// HeadlineMargin is the required margin, in logits, that stands for the curve.
const HeadlineMargin = 0.1

// Options of Measure and Compare. The zero value evaluates everyone f refuses.
type Options struct {
	Margins    []float64             // required logit margins, >= 0; default 0, 0.1, 0.25, 0.5
	Sample     int                   // evaluate a random sample of this many refused people; 0 = all
	Seed       uint64                // of the sample, and of the solver unless Solver.Seed is set
	Confidence float64               // of the intervals; default 0.95
	Solver     recourse.SolveOptions // Margin and Progress are set by Solve
	// OneSided leaves out what takes time and is not about f's promises: the recourse of g and the first valid iterates.
	OneSided bool
	// Noise is the number of people, drawn by Seed, whose recourse under f is solved a second time with other
	// random numbers: CRG of a model against itself. 0 = none. It has no meaning with promises.
	Noise   int
	Perturb Perturber // measures the logit perturbation around f's recourse points; nil leaves it out
	Radius  float64   // of Perturb, in model-input units
	// Factor, 1 or more, asks for proofs about all changes that cost up to so many times the cheapest one; 0 for none.
	Factor   float64
	Progress func(Event)
	// OnRecords, if set, is given the records of each batch; it must not keep them. Its error ends the run.
	OnRecords func(b *Batch, s *Settings, records []Record) error
}

// Event is progress within one stage of the work: Done of Total, 0 when that is not known; people in Compare.
type Event struct {
	Stage       string // "decisions", "recourse of the original, margin 0.1", ...
	Done, Total int
}

// Compare measures g against f on the people of one batch: it is [Measure] and [Summarize].
// Both models must take inputs of people's dimension, and their margins must be of the same favourable class.
// The people evaluated are those f refuses (margin <= 0), or a sample of them.
//
// With promises, those of f at t are those issued whose margin under f is t or more, and the following holds for g
// alone.
//
// At each required margin t, in ascending order, both models' minimal-cost recourse is solved, once: a person whose
// point for a smaller t reaches the larger one already keeps it (it is minimal there too), and without a point for a
// smaller t there is none for a larger.
//
// It fails when a model fails, when the dimensions differ, or when a margin is
// not finite. Having few people or none to evaluate is not an error but a warning.
func Compare(ctx context.Context, f, g recourse.Model, b *Batch, o Options) (*Result, error) {
	if s := b.solution; s != nil {
		of := s.o
		of.Solver.Workers, of.Progress = o.Solver.Workers, o.Progress
		of.Perturb, of.Radius, of.Noise, of.Factor = o.Perturb, o.Radius, o.Noise, o.Factor
		o = of
	}
	records, settings, err := Measure(ctx, f, []recourse.Model{g}, b.Source(), o)
	if err != nil {
		return nil, err
	}
	people := b.People
	r, err := Summarize(records[0], settings, DataFile{
		Rows: max(people.Total, people.N), Unreadable: people.Failed, LeftOut: people.Filtered + people.Excluded,
		Filtered: people.Filtered,
	}, nil)
	if err != nil {
		return nil, err
	}
	return r, r.Repeat(ctx, f, func(of []*Record) *constraint.Set {
		at := make([]int, len(of))
		for i, x := range of {
			at[i] = x.Person
		}
		return b.Set.Select(at)
	}, o)
}

func (o Options) withDefaults() (Options, error) {
	if o.Margins == nil {
		o.Margins = []float64{0, 0.1, 0.25, 0.5}
	}
	o.Margins = slices.Clone(o.Margins)
	slices.Sort(o.Margins)
	o.Margins = slices.Compact(o.Margins)
	o.Confidence = cmp.Or(o.Confidence, 0.95)
	o.Solver.Seed = cmp.Or(o.Solver.Seed, o.Seed)
	if o.Progress == nil {
		o.Progress = func(Event) {}
	}
	var errs []error
	if len(o.Margins) == 0 {
		errs = append(errs, errors.New("no required margin to evaluate at"))
	}
	for _, t := range o.Margins {
		if !(t >= 0) || math.IsInf(t, 1) {
			errs = append(errs, fmt.Errorf("required margin %v: it must be a number >= 0", t))
		}
	}
	if o.Sample < 0 || o.Noise < 0 {
		errs = append(errs, fmt.Errorf("samples of %d and %d people", o.Sample, o.Noise))
	}
	if !(o.Radius >= 0) || math.IsInf(o.Radius, 1) {
		errs = append(errs, fmt.Errorf("radius %v: it must be a number >= 0", o.Radius))
	}
	if o.Factor != 0 && !(o.Factor >= 1) || math.IsInf(o.Factor, 1) {
		errs = append(errs, fmt.Errorf("factor %v: it must be a number >= 1", o.Factor))
	}
	if !(o.Confidence > 0 && o.Confidence < 1) {
		errs = append(errs, fmt.Errorf("confidence %v: it must lie between 0 and 1", o.Confidence))
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("eval: %w", err)
	}
	return o, nil
}

func (o Options) settings() Settings {
	return Settings{
		Margins: o.Margins, Sample: o.Sample, Seed: o.Seed, Confidence: o.Confidence,
		Epsilon: epsilon, SupportTau: supportTau, OneSided: o.OneSided, Radius: o.Radius, Factor: o.Factor,
		Solver: Solver{Restarts: o.Solver.Restarts, Rounds: o.Solver.Rounds, Beam: o.Solver.Beam, Seed: o.Solver.Seed},
	}
}

// Batch is some of the people that a Source hands on.
type Batch struct {
	People *task.People
	Set    *constraint.Set // what each of them can change
	// Promises are issued already, one action for each of the people: those that are Found replace what
	// the solver would find for f, also for people whom f approves as they are. nil solves.
	Promises   []recourse.Action
	Calibrated []bool // see Record.Calibrated; nil for nobody
	// Total is how many people the source has, as far as it knows; 0 when it does not.
	Total    int
	solution *solution // of f for these people, see Solve; nil without
	// Records of all these people, from an earlier run with the same models and options, are taken as they are; nil when
	// they are to be made. For one model only.
	Records []Record
}

// Source hands on all people, a batch at a time. It does so as often as it is called. An error of each ends it, and is
// returned as it is.
type Source func(ctx context.Context, each func(b *Batch) error) error

// Source hands on the batch alone.
func (b *Batch) Source() Source {
	return func(_ context.Context, each func(b *Batch) error) error { return each(b) }
}

// Measure judges quantized models against f on people of any number, of whom a batch is in memory at a time, and
// returns the records of each model. The batches make no difference: a person's record depends on the person alone.
// Options.Noise is for [Result.Repeat].
func Measure(
	ctx context.Context, f recourse.Model, models []recourse.Model, people Source, o Options,
) ([]*Records, Settings, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, Settings{}, err
	}
	below, err := sampled(ctx, f, people, o)
	if err != nil {
		return nil, Settings{}, err
	}
	workers := cmp.Or(o.Solver.Workers, runtime.GOMAXPROCS(0))
	most := workers
	if most > 1 {
		most += 2 // one begins when another ends, while the results of a third are taken
	}
	m := &measurement{
		f: f, models: models, o: o, below: below, settings: o.settings(), queue: ordered.New[[][]Record](most, workers),
	}
	if err := m.prepareTransfers(ctx); err != nil {
		return nil, m.settings, err
	}
	err = people(ctx, func(b *Batch) error { return m.start(ctx, b) })
	if waited := m.queue.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		for _, r := range m.records {
			_ = r.Close() // the error is what counts
		}
		return nil, m.settings, err
	}
	m.begin(&task.People{}) // if there was nobody
	return m.records, m.settings, nil
}

type measurement struct {
	f        recourse.Model
	models   []recourse.Model
	proofs   []*transfers // by model; nil for none
	o        Options
	below    *uint64 // see sampled
	settings Settings
	records  []*Records
	done     int
	queue    *ordered.Queue[[][]Record]
}

// prepareTransfers prepares what Options.Factor asks for. Where one of the models has no proof, there is none.
func (m *measurement) prepareTransfers(ctx context.Context) error {
	for _, g := range m.models {
		if m.o.Factor == 0 || m.settings.NoProof != "" {
			return nil
		}
		t, why, err := newTransfers(ctx, m.f, g)
		if err != nil {
			return fmt.Errorf("eval: %w", err)
		}
		m.proofs, m.settings.NoProof = append(m.proofs, t), why
	}
	return nil
}

func (m *measurement) begin(like *task.People) {
	if m.records != nil {
		return
	}
	attributes := slices.Clone(like.Subgroups)
	for i := range attributes {
		if attributes[i].Codes = nil; attributes[i].Open {
			attributes[i].Values = nil
		}
	}
	for range m.models {
		r := NewRecords(m.o.Margins, attributes)
		r.CompareBy(like.OtherColumns)
		m.records = append(m.records, r)
	}
}

func (m *measurement) start(ctx context.Context, b *Batch) error {
	o := m.o
	m.settings.Issued = m.settings.Issued || b.Promises != nil
	if b.Total > b.People.N { // one worker for each of many batches, whose stages say little: none waits for another
		o.Solver.Workers = 1
		ctx = ordered.OneCore(ctx)
		o.Progress = func(Event) {}
		m.o.Progress(Event{Stage: "people", Done: m.done, Total: b.Total})
	}
	m.begin(b.People)
	if m.proofs != nil && m.settings.NoProof == "" && b.Set != nil {
		m.settings.NoProof = b.Set.Separable()
	}
	proofs := make([]*transfers, len(m.models))
	if m.settings.NoProof == "" {
		copy(proofs, m.proofs)
	}
	return m.queue.Go(func() ([][]Record, error) {
		if b.Records != nil {
			return [][]Record{b.Records}, nil
		}
		s, err := b.solution, error(nil)
		if s == nil {
			if s, err = solve(ctx, m.f, b, m.below, o); err != nil {
				return nil, err
			}
		}
		var all [][]Record
		for i, g := range m.models {
			list, err := s.judge(ctx, g, proofs[i], o)
			if err != nil {
				return nil, err
			}
			all = append(all, list)
		}
		return all, nil
	}, func(all [][]Record) error { return m.take(b, all) })
}

// ErrOtherSample is the error of records of an earlier run that are not of the people whom this run would evaluate.
var ErrOtherSample = errors.New("another sample of the people was evaluated")

func (m *measurement) take(b *Batch, all [][]Record) error {
	for i, list := range all {
		if m.o.OnRecords != nil { // whether they are of this run comes before what they say
			if err := m.o.OnRecords(b, &m.settings, list); err != nil {
				return err
			}
		}
		for k := range list {
			if b.Records != nil && list[k].Evaluated != (list[k].eligible() && draws(m.below, m.o.Seed, list[k].X)) {
				return fmt.Errorf("eval: record of row %d: %w", list[k].Row, ErrOtherSample)
			}
			list[k].Calibrated = b.Calibrated != nil && b.Calibrated[k]
			if err := m.records[i].Add(&list[k]); err != nil {
				return err
			}
		}
	}
	if m.done += b.People.N; b.Total > b.People.N {
		m.o.Progress(Event{Stage: "people", Done: m.done, Total: max(m.done, b.Total)})
	}
	return nil
}

// draws says whether a person with these inputs, who is to be evaluated, is in the sample.
func draws(below *uint64, seed uint64, x []float32) bool {
	return below == nil || priority(seed, x) <= *below
}

// sampled looks at all people for the largest priority of those in the sample; nil without one.
func sampled(ctx context.Context, f recourse.Model, people Source, o Options) (*uint64, error) {
	if o.Sample == 0 {
		return nil, nil
	}
	drawn := bottomK[struct{}]{most: o.Sample}
	err := people(ctx, func(b *Batch) error {
		s := b.solution
		if s == nil {
			s = &solution{name: "the original", model: f, people: b.People, promises: b.Promises, o: o}
			if err := s.decide(ctx); err != nil {
				return fmt.Errorf("eval: %w", err)
			}
		}
		for _, i := range Refused(s.margins, 0, 0) { // the others with a promise are drawn at the same rate
			drawn.add(priority(o.Seed, s.inputs(i)), struct{}{})
		}
		return nil
	})
	if below := drawn.below(); below != nil || err != nil {
		return below, err
	}
	all := uint64(math.MaxUint64)
	return &all, nil
}

// priority is a random number of a row, by its inputs and the seed alone: the rows with the lowest ones are a sample
// that does not depend on where and in which order they were met. Equal rows have the same.
func priority(seed uint64, x []float32) uint64 {
	h := fnv.New64a()
	b := make([]byte, 0, 256)
	for _, v := range x {
		if b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v+0)); len(b) == cap(b) { // no -0
			_, _ = h.Write(b)
			b = b[:0]
		}
	}
	_, _ = h.Write(b)
	return mixed(h.Sum64() ^ mixed(seed))
}

// bottomK keeps the items with the lowest priorities, and all that have the last of them unless there is a tie.
type bottomK[T any] struct {
	most  int
	once  bool             // one item of each priority; of those that have the same, the first
	tie   func(a, b T) int // orders items of the same priority, so that no more than most are kept; nil keeps all
	items []prioritized[T]
	full  int    // how many items are looked through
	last  uint64 // no item with a larger priority is kept
}

type prioritized[T any] struct {
	priority uint64
	item     T
}

func (l *bottomK[T]) wants(priority uint64) bool { return l.full == 0 || priority <= l.last }

func (l *bottomK[T]) add(priority uint64, item T) {
	if !l.wants(priority) {
		return
	}
	if l.items = append(l.items, prioritized[T]{priority, item}); len(l.items) > l.full {
		l.cut()
		l.full, l.last = len(l.items)+len(l.items)/4+64, math.MaxUint64
		if n := len(l.items); n >= l.most && n > 0 {
			l.last = l.items[n-1].priority
		}
	}
}

func (l *bottomK[T]) cut() {
	slices.SortStableFunc(l.items, func(a, b prioritized[T]) int {
		c := cmp.Compare(a.priority, b.priority)
		if c == 0 && l.tie != nil {
			return l.tie(a.item, b.item)
		}
		return c
	})
	if l.once {
		l.items = slices.CompactFunc(l.items, func(a, b prioritized[T]) bool { return a.priority == b.priority })
	}
	n := min(l.most, len(l.items))
	for l.tie == nil && n > 0 && n < len(l.items) && l.items[n].priority == l.items[n-1].priority {
		n++
	}
	clear(l.items[n:])
	l.items = l.items[:n]
}

// below is the largest priority that is kept; nil when all are.
func (l *bottomK[T]) below() *uint64 {
	if l.cut(); len(l.items) < l.most || l.most == 0 {
		return nil
	}
	return &l.items[len(l.items)-1].priority
}

func (l *bottomK[T]) kept() []T {
	l.cut()
	all := make([]T, len(l.items))
	for i := range all {
		all[i] = l.items[i].item
	}
	return all
}

// Draw returns a random sample of n of the records that fit, all of them when they are no more: by the seed and what
// they say alone. The order says nothing.
func (r *Records) Draw(n int, seed uint64, fits func(x *Record) bool) ([]*Record, error) {
	drawn := bottomK[*Record]{most: n, tie: (*Record).compare}
	for x, err := range r.All() {
		if err != nil {
			return nil, err
		}
		if fits(x) {
			drawn.add(priority(seed, x.X), x)
		}
	}
	list := drawn.kept()
	slices.SortStableFunc(list, (*Record).compare)
	return list, nil
}

// Repeat solves the recourse of a sample of Options.Noise of the people evaluated once more, with other random numbers,
// and adds what CRG of f is against itself. set returns what these people can change.
func (r *Result) Repeat(
	ctx context.Context, f recourse.Model, set func(of []*Record) *constraint.Set, o Options,
) error {
	o, err := o.withDefaults()
	if err != nil || o.Noise == 0 || r.Settings.Issued {
		return err
	}
	people, err := r.Records.Draw(o.Noise, o.Seed, func(x *Record) bool { return x.Evaluated })
	if err != nil || len(people) == 0 {
		return err
	}
	var x, margins []float32
	for _, p := range people {
		x, margins = append(x, p.X...), append(margins, float32(p.Full))
	}
	o.Margins, o.Confidence = r.Settings.Margins, r.Settings.Confidence
	s := &solution{
		name: "the original once more", model: f, set: set(people), x: x, margins: margins,
		rows: task.AllRows(len(margins)), o: o, people: &task.People{X: x, Dim: f.Dim(), N: len(margins)},
	}
	s.o.Solver.Seed ^= 0x9e3779b97f4a7c15
	if err := s.solve(ctx); err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	l := newLists(usualLimits())
	defer l.spilled.Close() //nolint:errcheck // nothing in it is wanted any more
	for at := range o.Margins {
		all := newAccumulators(true, l)
		for i, q := range s.steps[at] {
			step := Step{Full: people[i].Steps[at].Full, Quant: q.Promise}
			all.add(&personRecords{[]*Record{{Evaluated: true, Steps: []Step{step}}}, &r.Settings}, 0)
		}
		noise, _ := all.values(o.Confidence)
		for id, v := range noise {
			if form, ok := strings.CutPrefix(id, "crg_both."); ok {
				r.Margins[at].Values["crg_noise."+form] = v
			}
		}
	}
	return l.err
}

// CopyNoise takes what another result of the same original has of CRG of f against itself.
func (r *Result) CopyNoise(o *Result) {
	for at := range o.Margins {
		for id, v := range o.Margins[at].Values {
			if strings.HasPrefix(id, "crg_noise.") {
				r.Margins[at].Values[id] = v
			}
		}
	}
}
