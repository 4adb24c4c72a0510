package recourse

import (
	"hash/maphash"
	"math"
	"slices"
	"unsafe"
)

// known is what a model has said, with gradients, of the points of a search. Climbs that start together stay together for a while,
// and what has been refined is refined again: more than half of all gradients are asked for more than once. Of margins alone it is
// a third, which does not pay.
type known struct {
	seed maphash.Seed // of hashes that are compared in full, so it shows in no result
	said map[uint64]*answer
	kept slab
	left int // numbers that may still be kept
}

// mostKept bounds the numbers that a search keeps of the points it has seen; beyond them it asks again.
const mostKept = 1 << 22

// answer is what the model says of one person after one action.
type answer struct {
	p      *person
	d      []float32
	margin float32
	g      []float32 // margin gradient, when it was asked for
	next   *answer   // with the same hash
}

func newKnown() known {
	return known{seed: maphash.MakeSeed(), said: map[uint64]*answer{}, left: mostKept}
}

// of returns the answer for the person and the action of a lane, and whether it is yet to be given.
func (k *known) of(l *lane) (a *answer, fresh bool) {
	h := k.hash(l)
	first := k.said[h]
	for a := first; a != nil; a = a.next {
		if a.p == l.p && slices.Equal(a.d, l.d) {
			return a, false
		}
	}
	a = &answer{p: l.p, d: l.d, next: first}
	if k.left -= len(l.d); k.left >= 0 {
		a.d = k.kept.row(len(l.d))
		copy(a.d, l.d)
		k.said[h] = a
	}
	return a, true
}

func (k *known) hash(l *lane) uint64 {
	if len(l.d) == 0 {
		return 0
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&l.d[0])), len(l.d)*int(unsafe.Sizeof(l.d[0])))
	return maphash.Bytes(k.seed, bytes) + uint64(l.p.row)*0x9e3779b97f4a7c15
}

// eval sets the margins, and gradients when asked for, of the lanes.
func (s *search) eval(ls []*lane, grads bool) error {
	for len(ls) > 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		part := ls[:min(len(ls), solveBatch)]
		ls = ls[len(part):]
		s.answers, s.fresh = s.answers[:0], s.fresh[:0]
		if !grads && len(s.passing) < len(part) {
			s.passing = make([]answer, len(part))
		}
		for i, l := range part {
			l.p.a.drag(l.p.x, l.d)
			a, fresh := (*answer)(nil), true
			if grads {
				a, fresh = s.known.of(l)
			} else {
				a = &s.passing[i]
				*a = answer{p: l.p, d: l.d}
			}
			if s.answers = append(s.answers, a); fresh {
				s.fresh = append(s.fresh, a)
			}
		}
		if err := s.ask(s.fresh, grads); err != nil {
			return err
		}
		for i, l := range part {
			l.margin, l.g = s.answers[i].margin, s.answers[i].g
		}
	}
	return nil
}

// ask has the model give the answers.
func (s *search) ask(answers []*answer, grads bool) error {
	if len(answers) == 0 {
		return nil
	}
	dim := s.a.dim
	if need := len(answers) * dim; cap(s.points) < need {
		s.points = make([]float32, need)
	}
	points := s.points[:len(answers)*dim]
	for i, a := range answers {
		Point(points[i*dim:(i+1)*dim], a.p.x, a.d)
	}
	var m, g []float32
	var err error
	if grads {
		m, g, err = s.m.MarginGrads(s.ctx, points)
	} else {
		m, err = s.m.Margins(s.ctx, points)
	}
	if err := call(dim, len(answers), m, g, err); err != nil {
		return err
	}
	for i, a := range answers {
		a.margin = m[i]
		if grads {
			a.g = row(g, i, dim)
			a.p.a.pull(a.g)
		}
		if !a.p.a.obeys(a.p.x, a.d) {
			a.margin = float32(math.Inf(-1)) // never valid, and worse than any point that is feasible
		}
	}
	return nil
}
