package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"cfq/internal/ordered"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

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
