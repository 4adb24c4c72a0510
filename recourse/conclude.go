package recourse

import (
	"encoding/binary"
	"hash/fnv"
	"math"
)

// conclude writes everybody's best action in raw units, runs the model at the very points that reading it back makes, and reports those
// that are feasible and reach the required margin. Where rounding lost it, one feature after the other is given more; where it broke a rule between
// features, or nothing else helps, nothing is rounded.
func (s *search) conclude(actions []Action) error {
	dim := s.a.dim
	const attempts = 8
	var open []*lane
	unrounded := map[*lane]bool{}
	for _, p := range s.people {
		if !math.IsInf(p.cost, 1) {
			open = append(open, &lane{p: p, d: p.best})
		}
	}
	for attempt := 0; len(open) > 0 && attempt < attempts; attempt++ {
		var asked []*lane
		var points []float32
		for _, l := range open {
			point := make([]float32, dim)
			if unrounded[l] || attempt == attempts-1 {
				l.p.a.publishUnrounded(point, l.p.x, l.d)
			} else {
				pick := s.spare(l, attempt)
				l.p.a.publish(point, l.p.x, l.d, func(u *unit) float64 {
					if attempt == 0 || u != pick {
						return 0
					}
					return float64(int(1) << attempt)
				})
			}
			asked, points = append(asked, l), append(points, point...)
		}
		margins, err := s.m.Margins(s.ctx, points)
		if err := call(dim, len(asked), margins, nil, err); err != nil {
			return err
		}
		open = open[:0]
		for i, l := range asked {
			delta := make([]float32, dim)
			point := row(points, i, dim)
			l.p.a.difference(delta, l.p.x, point)
			feasible := l.p.a.Check(l.p.x, delta) == nil
			if !valid(margins[i], float32(s.o.Margin)) || !feasible {
				unrounded[l] = !feasible && !unrounded[l]
				open = append(open, l)
				continue
			}
			actions[l.p.row] = Action{Status: Found, Point: point, Delta: delta, Cost: l.p.a.Cost(l.p.x, delta), Margin: float64(margins[i])}
		}
	}
	return nil
}

// spare returns the numeric feature to give more to: the changed ones in turn.
func (s *search) spare(l *lane, attempt int) *unit {
	var changed []*unit
	for _, i := range l.p.a.free {
		if u := &l.p.a.units[i]; u.numeric() && u.changed(l.d) {
			changed = append(changed, u)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return changed[attempt%len(changed)]
}

// fingerprint is a hash of a person's inputs.
func fingerprint(x []float32) uint64 {
	h := fnv.New64a()
	var b [4]byte
	for _, v := range x {
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
		h.Write(b[:])
	}
	return h.Sum64()
}
