package recourse

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// catalogue hands out the actions of one person by ascending cost. It holds the options of every feature and one
// band of actions at a time.
type catalogue struct {
	a      *ActionSet
	i      int // the person
	x      []float32
	shelf  []shelf
	limit  int
	after  float64                   // actions that cost no more have been handed out
	skip   int                       // and of those of the next higher cost, this many
	tie    float64                   // that cost, while skip is not 0
	looked int                       // actions handed out, those included that rules forbid
	before struct{ cost, n float64 } // after and looked at the band before
	band   []choices
	picks  []int32 // of the band: for each action and shelf the number of the option plus one, 0 for no change
	spare  bool    // an action was found that reaches the required margin, though not the aim
}

// shelf is a feature's options by ascending cost.
type shelf struct {
	feature int
	id      []int
	cost    []float64 // parts that add up
	value   []float32 // of the inputs as they are written in raw units; rows x width
}

// choices is an action: its cost and its place in picks.
type choices struct {
	cost float64
	at   int32
}

// catalogue returns the actions of person i. Of a feature with more than most options in a direction the nearest ones
// are listed: no others can be among the cheapest most actions.
func (a *ActionSet) catalogue(i int, x []float32, most int) *catalogue {
	c := &catalogue{a: a, i: i, x: x, limit: a.limit, after: math.Inf(-1)}
	d, point := make([]float32, a.dim), make([]float32, a.dim)
	for _, f := range a.free {
		u := &a.units[f]
		s := shelf{feature: f}
		u.every(x, most, func(id int) {
			u.set(x, d, id)
			s.id = append(s.id, id)
			s.cost = append(s.cost, a.term(u, x, d))
			clear(d[u.first : u.first+u.width])
		})
		if len(s.id) == 0 {
			continue
		}
		if !sort.IsSorted(byCost(s)) {
			sort.Stable(byCost(s))
		}
		for _, id := range s.id {
			u.set(x, d, id)
			a.publish(point, x, d, asItIs)
			s.value = append(s.value, point[u.first:u.first+u.width]...)
			clear(d[u.first : u.first+u.width])
		}
		c.shelf = append(c.shelf, s)
	}
	// The longest last: what is left of it is counted without being walked.
	slices.SortStableFunc(c.shelf, func(p, q shelf) int { return cmp.Compare(len(p.id), len(q.id)) })
	return c
}

// every is each with all steps of a grid, the nearest most in either direction, nearest first.
func (u *unit) every(x []float32, most int, do func(option int)) {
	if u.kind != grid {
		u.each(x, do)
		return
	}
	lo, hi := u.span(x[u.first])
	first, last := u.ticks(x[u.first], lo, hi)
	for n := 1; n <= min(max(-int(first), int(last)), most); n++ {
		if -n >= int(first) {
			do(-n)
		}
		if n <= int(last) {
			do(n)
		}
	}
}

type byCost shelf

func (s byCost) Len() int           { return len(s.id) }
func (s byCost) Less(i, j int) bool { return s.cost[i] < s.cost[j] }
func (s byCost) Swap(i, j int) {
	s.id[i], s.id[j] = s.id[j], s.id[i]
	s.cost[i], s.cost[j] = s.cost[j], s.cost[i]
}

// listed is the number of options that the catalogue holds.
func (c *catalogue) listed() int {
	n := 0
	for _, s := range c.shelf {
		n += len(s.id)
	}
	return n
}

// count returns how many actions cost no more than top, at most most.
func (c *catalogue) count(top float64, most int) int {
	n := 0
	var walk func(k, changed int, cost float64)
	walk = func(k, changed int, cost float64) {
		if k == len(c.shelf) {
			n++
			return
		}
		if changed == c.limit {
			n++
			return
		}
		s := &c.shelf[k]
		if k == len(c.shelf)-1 {
			n += 1 + c.beyond(s, cost, top)
			return
		}
		walk(k+1, changed, cost)
		for _, v := range s.cost {
			v += cost
			if v > top || n > most {
				break
			}
			walk(k+1, changed+1, v)
		}
	}
	walk(0, 0, 0)
	return min(n, most)
}

// beyond returns the first option of the shelf with which an action of the given cost costs more than top.
func (c *catalogue) beyond(s *shelf, cost, top float64) int {
	low, high := 0, len(s.cost)
	for low < high {
		if mid := (low + high) / 2; cost+s.cost[mid] > top {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// dearest is a cost that no action exceeds.
func (c *catalogue) dearest() float64 {
	sum := 0.0
	for _, s := range c.shelf {
		sum += s.cost[len(s.cost)-1]
	}
	return sum
}

// next fills the band with the next actions by ascending cost, about size of them at most. It reports false when there are none.
func (c *catalogue) next(size int) bool {
	c.band, c.picks = c.band[:0], c.picks[:0]
	c.collect(c.top(size), size)
	return len(c.band) > 0
}

// top returns the cost up to which the next band goes: it holds at most size actions, or those of one cost only.
func (c *catalogue) top(size int) float64 {
	if c.skip > 0 {
		return c.tie
	}
	most := c.looked + size
	low, high, seen := max(c.after, 0), c.dearest(), c.looked
	for try := 0; ; try++ {
		mid := low + (high-low)/2
		switch guess := c.guess(float64(c.looked) + 0.7*float64(size)); {
		case try == 0 && guess > low && guess < high:
			mid = guess
		case try == 1:
			mid = high // everything?
		case mid <= low || mid >= high:
			if seen > c.looked {
				return low
			}
			// No cost lies between low and high.
			c.tie = high
			return high
		}
		switch n := c.count(mid, most+1); {
		case n > most:
			high = mid
		case mid == high:
			return high
		default:
			if low, seen = mid, n; n > c.looked+size/4 {
				return low
			}
		}
	}
}

// guess returns the cost up to which there are about n actions, from how their number grew before: like a power of the cost.
func (c *catalogue) guess(n float64) float64 {
	if c.before.cost <= 0 || c.after <= c.before.cost || float64(c.looked) <= c.before.n {
		return 0
	}
	power := math.Log(float64(c.looked)/c.before.n) / math.Log(c.after/c.before.cost)
	return c.after * math.Pow(n/float64(c.looked), 1/power)
}

// collect puts the actions that cost more than after and no more than top into the band, at most size of them.
func (c *catalogue) collect(top float64, size int) {
	pick := make([]int32, len(c.shelf))
	skip, full := c.skip, false
	leaf := func(cost float64) {
		switch {
		case cost <= c.after:
		case skip > 0:
			skip--
		case len(c.band) == size:
			full = true
		default:
			c.band = append(c.band, choices{cost, int32(len(c.band))})
			c.picks = append(c.picks, pick...)
		}
	}
	var walk func(k, changed int, cost float64)
	walk = func(k, changed int, cost float64) {
		if k == len(c.shelf) || changed == c.limit {
			leaf(cost)
			return
		}
		s, first := &c.shelf[k], 0
		if last := k == len(c.shelf)-1; last {
			first = c.beyond(s, cost, c.after)
		}
		walk(k+1, changed, cost)
		for j := first; j < len(s.cost) && !full; j++ {
			v := cost + s.cost[j]
			if v > top {
				break
			}
			pick[k] = int32(j + 1)
			walk(k+1, changed+1, v)
		}
		pick[k] = 0
	}
	walk(0, 0, 0)
	if full {
		c.skip += len(c.band)
	} else {
		c.before.cost, c.before.n = c.after, float64(c.looked)
		c.after, c.skip = top, 0
	}
	c.looked += len(c.band)
	slices.SortFunc(c.band, func(p, q choices) int {
		if p.cost != q.cost {
			return cmp.Compare(p.cost, q.cost)
		}
		return cmp.Compare(p.at, q.at)
	})
}

// action sets point to the person after the choices, as it is written in raw units, and says whether that is feasible. d is scratch.
func (c *catalogue) action(v choices, point, d []float32) bool {
	a := c.a
	copy(point, c.x)
	clear(d)
	for k, n := range c.picks[int(v.at)*len(c.shelf) : int(v.at+1)*len(c.shelf)] {
		if n == 0 {
			continue
		}
		s := &c.shelf[k]
		u := &a.units[s.feature]
		copy(point[u.first:u.first+u.width], s.value[int(n-1)*u.width:])
		if len(a.links) > 0 {
			u.set(c.x, d, s.id[n-1])
		}
	}
	if len(a.links) > 0 {
		a.drag(c.x, d)
		a.publish(point, c.x, d, asItIs)
	}
	if len(a.links)+len(a.rules)+len(a.subsets) == 0 {
		return true
	}
	a.difference(d, c.x, point)
	return a.obeys(c.x, d)
}

// asItIs adds nothing to a change that is published.
func asItIs(*unit) float64 { return 0 }
