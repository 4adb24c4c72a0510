package eval

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

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
