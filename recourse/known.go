package recourse

import "math"

// eval sets the margins, and gradients when asked for, of the lanes. What joint constraints forbid is never valid.
func (s *search) eval(ls []*lane, grads bool) error {
	dim := s.a.dim
	for len(ls) > 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		part := ls[:min(len(ls), solveBatch)]
		ls = ls[len(part):]
		if need := len(part) * dim; cap(s.points) < need {
			s.points = make([]float32, need)
		}
		points := s.points[:len(part)*dim]
		for i, l := range part {
			l.p.a.drag(l.p.x, l.d)
			Point(row(points, i, dim), l.p.x, l.d)
		}
		var m, g []float32
		var err error
		if grads {
			m, g, err = s.m.MarginGrads(s.ctx, points)
		} else {
			m, err = s.m.Margins(s.ctx, points)
		}
		if err := call(dim, len(part), m, g, err); err != nil {
			return err
		}
		for i, l := range part {
			l.margin, l.g = m[i], nil
			if grads {
				l.g = row(g, i, dim)
				l.p.a.pull(l.g)
			}
			if !l.p.a.obeys(l.p.x, l.d) {
				l.margin = float32(math.Inf(-1)) // worse than any point that is feasible
			}
		}
	}
	return nil
}
