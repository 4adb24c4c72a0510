package recourse

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"cfq/recourse/constraint"
)

// exhaustive answers for people whose actions can be counted. Several people share the model's batches; what a
// person is given next depends on that person only.
func (e *exactSearch) exhaustive(open []int) error {
	const (
		mostListed = 1 << 20 // options held at once
		mostShared = 16      // people at once
	)
	var active []*catalogue
	listed := 0
	for len(open) > 0 || len(active) > 0 {
		for len(open) > 0 && len(active) < mostShared && (len(active) == 0 || listed < mostListed) {
			i := open[0]
			open = open[1:]
			c := newCatalogue(e.a.Person(e.first+i), i, row(e.x, i, e.a.Dim()), e.o.MaxPoints)
			active = append(active, c)
			listed += c.listed()
		}
		keep, err := e.round(active)
		if err != nil {
			return err
		}
		active, listed = keep, 0
		for _, c := range active {
			listed += c.listed()
		}
	}
	return nil
}

// round has the model judge the next actions of everyone, and returns who is still without an answer.
func (e *exactSearch) round(active []*catalogue) ([]*catalogue, error) {
	const (
		least, most = 64, 1 << 15 // actions of one person
		together    = 1 << 15     // and of the people judged together
	)
	keep := make([]*catalogue, 0, len(active))
	d := make([]float32, e.a.Dim())
	var points []float32
	for len(active) > 0 {
		points = points[:0]
		var ends []int
		for len(ends) < len(active) && len(points) < together*e.a.Dim() {
			c := active[len(ends)]
			c.next(min(max(c.looked/2, least), most, e.o.MaxPoints+1-c.looked))
			for _, v := range c.band {
				points = append(points, c.x...)
				if at := points[len(points)-len(d):]; !c.action(v, at, d) {
					points = points[:len(points)-len(d)]
				}
			}
			ends = append(ends, len(points))
		}
		margins, err := e.judge(points)
		if err != nil {
			return nil, err
		}
		from := 0
		for k, to := range ends {
			if c := active[k]; !e.answered(c, points[from:to], margins[from/e.a.Dim():]) {
				keep = append(keep, c)
			}
			from = to
		}
		active = active[len(ends):]
	}
	return keep, nil
}

// answered looks at a person's next points, which are in the order of their cost, and says whether the search is over.
func (e *exactSearch) answered(c *catalogue, points, margins []float32) bool {
	required, target := float32(e.o.Margin), float32(e.o.Margin+e.slack)
	for k := range len(points) / e.a.Dim() {
		switch {
		case valid(margins[k], target):
			if e.settle(c.i, row(points, k, e.a.Dim()), margins[k]) {
				e.methods[c.i] = Exhaustive
				return true
			}
		case valid(margins[k], required) && !c.spare:
			c.spare = e.settle(c.i, row(points, k, e.a.Dim()), margins[k]) // for want of a better one
		}
	}
	switch {
	case len(c.band) > 0 && c.looked <= e.o.MaxPoints:
		return false
	case c.spare || len(c.band) == 0:
		e.methods[c.i] = Exhaustive
	default:
		e.methods[c.i] = TooMany
	}
	if e.actions[c.i].Status != Found && len(c.band) == 0 {
		e.actions[c.i].Status = NoneExists
	}
	return true
}

// catalogue hands out the actions of one person by ascending cost. It holds the options of every feature and one
// band of actions at a time.
type catalogue struct {
	a      *constraint.Set
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
	feature *constraint.Feature
	id      []int
	cost    []float64 // parts that add up
	value   []float32 // of the inputs as they are written in raw units; rows x width
}

// choices is an action: its cost and its place in picks.
type choices struct {
	cost float64
	at   int32
}

// newCatalogue returns the actions of person i. Of a feature with more than most options in a direction the nearest
// ones are listed: no others can be among the cheapest most actions.
func newCatalogue(a *constraint.Set, i int, x []float32, most int) *catalogue {
	c := &catalogue{a: a, i: i, x: x, limit: a.Limit(), after: math.Inf(-1)}
	d, point := make([]float32, a.Dim()), make([]float32, a.Dim())
	for _, u := range a.Free() {
		s := shelf{feature: u}
		u.Every(x, most, func(id int) {
			u.Set(x, d, id)
			s.id = append(s.id, id)
			s.cost = append(s.cost, a.Norm().Term(u, x, d))
			clear(d[u.First : u.First+u.Width])
		})
		if len(s.id) == 0 {
			continue
		}
		if !sort.IsSorted(byCost(s)) {
			sort.Stable(byCost(s))
		}
		for _, id := range s.id {
			u.Set(x, d, id)
			a.Publish(point, x, d, nil, 0)
			s.value = append(s.value, point[u.First:u.First+u.Width]...)
			clear(d[u.First : u.First+u.Width])
		}
		c.shelf = append(c.shelf, s)
	}
	// The longest last: what is left of it is counted without being walked.
	slices.SortStableFunc(c.shelf, func(p, q shelf) int { return cmp.Compare(len(p.id), len(q.id)) })
	return c
}

type byCost shelf

func (s byCost) Len() int { return len(s.id) }

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

// next fills the band with the next actions by ascending cost, about size of them at most. It reports false when
// there are none.
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

// guess returns the cost up to which there are about n actions, from how their number grew before: like a power of
// the cost.
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

// action sets point to the person after the choices, as it is written in raw units, and says whether that is
// feasible. d is scratch.
func (c *catalogue) action(v choices, point, d []float32) bool {
	a := c.a
	copy(point, c.x)
	clear(d)
	for k, n := range c.picks[int(v.at)*len(c.shelf) : int(v.at+1)*len(c.shelf)] {
		if n == 0 {
			continue
		}
		s := &c.shelf[k]
		u := s.feature
		copy(point[u.First:u.First+u.Width], s.value[int(n-1)*u.Width:])
		if a.HasLinks() {
			u.Set(c.x, d, s.id[n-1])
		}
	}
	if a.HasLinks() {
		a.Propagate(c.x, d)
		a.Publish(point, c.x, d, nil, 0)
	}
	constraint.Difference(d, c.x, point)
	return a.Consistent(c.x, d)
}
