package recourse

import (
	"cmp"
	"math"
	"slices"
)

const scanned = 12 // numeric features per person that are scanned

// scan tries single numeric features over their whole range, in case the margin is not monotone, and returns
// the cheapest valid point of each line, pulled back towards the factual one.
func (s *search) scan() ([]*lane, error) {
	var tries []*lane
	var pulls []*pull
	for _, p := range s.people {
		for _, f := range s.scannable(p) {
			u := &p.a.units[f]
			for _, up := range []bool{false, true} {
				end := u.farthest(p.x[u.first], up)
				last := float32(0)
				for _, share := range []float64{1. / 64, 1. / 32, 1. / 16, 1. / 8, 1. / 4, 1. / 2, 3. / 4, 1} {
					d := u.outward(p.x[u.first], s.reachable(float64(end), u, p)*share, up)
					if d == 0 || d == last {
						continue
					}
					l := &lane{p: p, d: s.slab.row(s.a.dim)}
					clear(l.d)
					if !p.a.apply(u, p.x, l.d, func(t []float32) { t[u.first] = d }) {
						continue
					}
					if l.cost = l.p.a.Cost(l.p.x, l.d); l.cost >= p.cost {
						break
					}
					tries = append(tries, l)
					pulls = append(pulls, &pull{l: l, u: u, bad: last, good: d})
					last = d
				}
			}
		}
	}
	if err := s.eval(tries, false); err != nil {
		return nil, err
	}
	var found []*lane
	var narrowed []*pull
	for i, l := range tries {
		before := l.p.start.margin // of the point before on the same line
		if pulls[i].bad != 0 {
			before = tries[i-1].margin
		}
		if valid(l.margin, s.need) && !valid(before, s.need) {
			pulls[i].goodM, pulls[i].badM = l.margin, before
			found, narrowed = append(found, l), append(narrowed, pulls[i])
		}
	}
	return found, s.narrow(narrowed)
}

// reachable limits the end of a scanned line to what costs less than the best action.
func (s *search) reachable(end float64, u *unit, p *person) float64 {
	return math.Copysign(min(math.Abs(end), p.a.affords(u, p.x, p.cost)), end)
}

// scannable returns the numeric features with the largest margin gradient per cost.
func (s *search) scannable(p *person) []int {
	var fs []int
	for _, f := range p.a.free {
		if p.a.units[f].numeric() {
			fs = append(fs, f)
		}
	}
	if len(fs) <= scanned {
		return fs
	}
	slices.SortStableFunc(fs, func(a, b int) int {
		return -cmp.Compare(p.a.worth(a, &p.start), p.a.worth(b, &p.start))
	})
	return fs[:scanned]
}
