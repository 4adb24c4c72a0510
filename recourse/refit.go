package recourse

import (
	"cmp"
	"math"
	"slices"

	"cfq/task"
)

// line is a numeric feature as the linearised margin sees it: logits per unit of change, the room in the helpful direction, what a
// unit of change costs, and logits per cost.
type line struct{ slope, room, weight, worth float64 }

// fill estimates the cost of an action that costs cost already and closes the gap with the lines, of which it may move all.
func (a *ActionSet) fill(cost float64, lines []line, gap float64) float64 {
	if a.norm == task.L1 {
		slices.SortStableFunc(lines, func(a, b line) int { return -cmp.Compare(a.worth, b.worth) })
		for _, n := range lines {
			part := min(gap, n.slope*n.room)
			cost += part / n.worth
			if gap -= part; gap <= 0 {
				return cost
			}
		}
		return 1e12 * (1 + gap)
	}
	moves, ok := a.spread(lines, gap)
	if !ok {
		return 1e12 * (1 + gap)
	}
	sum := a.open(cost)
	for k, v := range moves {
		w := lines[k].weight * v
		sum += a.part(w, w*w)
	}
	return a.close(sum)
}

// spread returns the moves of the lines that close the gap at the least cost under l2 or mixed, and whether there is room enough.
// At the optimum every line inside its room gains the same margin per further cost, which one multiplier says; it is found by bisection.
func (a *ActionSet) spread(lines []line, gap float64) ([]float64, bool) {
	move := func(n line, m float64) float64 {
		v := 0.0
		switch a.norm {
		case task.Mixed: // m slope = ratio w + 2 (1-ratio) w^2 v
			v = (m*n.slope - a.ratio*n.weight) / max(2*(1-a.ratio)*n.weight*n.weight, 1e-12)
		default: // m slope = w^2 v
			v = m * n.slope / (n.weight * n.weight)
		}
		return min(max(v, 0), n.room)
	}
	gain := func(m float64) float64 {
		sum := 0.0
		for _, n := range lines {
			sum += n.slope * move(n, m)
		}
		return sum
	}
	lo, hi := 0.0, 1e-6
	for gain(hi) < gap {
		if lo, hi = hi, 4*hi; hi > 1e18 {
			return nil, false
		}
	}
	for range 60 {
		if mid := (lo + hi) / 2; gain(mid) >= gap {
			hi = mid
		} else {
			lo = mid
		}
	}
	moves := make([]float64, len(lines))
	for k, n := range lines {
		moves[k] = move(n, hi)
	}
	return moves, true
}

// refits returns points with the same discrete choices whose numeric changes are all chosen anew, for the norms under which the best ones spread over
// features: by the closed form for the margin's linearisation, aimed a little beyond it, and with all of them scaled down.
func (s *search) refits(l *lane) []*lane {
	a := l.p.a
	if a.norm == task.L1 {
		return nil
	}
	var out []*lane
	offer := func(set func(d []float32)) {
		t := s.copyOf(l)
		set(t.d)
		if t.cost = a.Cost(t.p.x, t.d); t.cost < l.cost*(1-leastGain) {
			out = append(out, t)
		}
	}
	for _, factor := range []float64{0.5, 0.8, 0.9, 0.95, 0.98, 0.995} {
		offer(func(d []float32) {
			for _, f := range a.free {
				if u := &a.units[f]; u.numeric() && u.changed(d) {
					d[u.first] = u.nearest(l.p.x[u.first], float32(float64(d[u.first])*factor))
				}
			}
		})
	}
	kept, discrete := s.spreadable(l)
	aims := []float64{1, 1.03, 1.1}
	if len(a.rules) > 0 { // which hold some features back
		aims = append(aims, 1.25, 1.5, 2, 3)
	}
	for _, beyond := range aims {
		moves, ok := a.spread(kept.lines, discrete*beyond)
		if !ok {
			continue
		}
		offer(func(d []float32) { kept.set(l, d, moves) })
	}
	return out
}

// spreadable are the numeric features that may share the gap, and the gap that they have to close together.
type spreadable struct {
	lines []line
	units []*unit
	signs []float64
}

func (s *search) spreadable(l *lane) (spreadable, float64) {
	a := l.p.a
	gap := float64(s.need - l.margin)
	room := a.limit
	var all []*unit
	for _, f := range a.free {
		u := &a.units[f]
		switch slope := float64(l.g[u.first]); {
		case !u.numeric():
			room -= boolInt(u.changed(l.d))
		case slope != 0 && slope == slope:
			all = append(all, u)
			fallthrough
		default:
			gap += slope * float64(l.d[u.first])
		}
	}
	strength := func(u *unit) float64 { return math.Abs(float64(l.g[u.first])) / a.weights[u.first] }
	slices.SortStableFunc(all, func(u, v *unit) int { return -cmp.Compare(strength(u), strength(v)) })
	var k spreadable
	for _, u := range all {
		sign := math.Copysign(1, float64(l.g[u.first]))
		reach := math.Abs(float64(u.outward(l.p.x[u.first], sign*far, sign > 0)))
		if reach == 0 || len(k.units) >= room {
			continue
		}
		w := a.weights[u.first]
		slope := math.Abs(float64(l.g[u.first]))
		k.lines, k.units, k.signs = append(k.lines, line{slope, reach, w, slope / w}), append(k.units, u), append(k.signs, sign)
	}
	return k, gap
}

// set replaces the numeric changes in d by the moves.
func (k *spreadable) set(l *lane, d []float32, moves []float64) {
	for _, f := range l.p.a.free {
		if u := &l.p.a.units[f]; u.numeric() {
			d[u.first] = 0
		}
	}
	for i, u := range k.units {
		k.move(l, d, u, u.outward(l.p.x[u.first], k.signs[i]*moves[i], k.signs[i] > 0))
	}
}

// move sets the change of one feature in d, as far as the rules between features let it, with what they make necessary.
func (k *spreadable) move(l *lane, d []float32, u *unit, to float32) {
	if !u.changed(d) && l.p.a.changes(d) >= l.p.a.limit {
		return
	}
	to = l.p.a.allowed(u, l.p.x, d, to)
	l.p.a.apply(u, l.p.x, d, func(t []float32) { t[u.first] = to })
}

// reachAt returns how far the feature can go in a direction for the cost, by bisection.
func (a *ActionSet) reachAt(u *unit, x []float32, sign, cost float64) float64 {
	end := math.Abs(float64(u.farthest(x[u.first], sign > 0)))
	term := func(v float64) float64 { return a.lineTerm(u, float32(v)) }
	if a.open(cost) >= term(end) {
		return end
	}
	lo, hi := 0.0, end
	for range 30 {
		if mid := (lo + hi) / 2; term(mid) <= a.open(cost) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// affords returns the largest change of the feature, in either direction, that alone does not cost more.
func (a *ActionSet) affords(u *unit, x []float32, cost float64) float64 {
	switch {
	case math.IsInf(cost, 1):
		return cost
	case a.norm == task.L1 || a.norm == task.L2:
		return cost / a.weights[u.first]
	}
	return max(a.reachAt(u, x, 1, cost), a.reachAt(u, x, -1, cost))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
