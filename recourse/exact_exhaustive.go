package recourse

import (
	"cmp"
	"container/heap"
	"slices"

	"cfq/recourse/constraint"
)

// enumerate has the model judge the person's actions by ascending cost, in growing batches, until one reaches the aim.
func (e *exactSearch) enumerate(c *catalogue, limit int) error {
	const least, most = 64, 1 << 15 // actions of a batch
	dim, looked := e.a.Dim(), 0
	required, target := float32(e.o.Margin), float32(Aim(e.o.Margin))
	d, spare := make([]float32, dim), false // spare: an action reaches the required margin, though not the aim
	var points []float32
	for c.open.Len() > 0 && looked <= limit {
		points = points[:0]
		for n := min(max(looked/2, least), most, limit+1-looked); n > 0 && c.open.Len() > 0; n-- {
			looked++
			points = append(points, c.x...)
			if !c.action(c.next(), points[len(points)-dim:], d) {
				points = points[:len(points)-dim]
			}
		}
		margins, err := judge(e.ctx, e.m, points)
		if err != nil {
			return err
		}
		for k, m := range margins {
			if !valid(m, target) && (spare || !valid(m, required)) ||
				!settle(&e.actions[c.i], c.a, c.x, row(points, k, dim), m) {
				continue
			}
			e.proofs[c.i].Method, spare = Exhaustive, true
			if valid(m, target) {
				return nil
			}
		}
	}
	switch {
	case spare:
	case looked > limit:
		e.proofs[c.i].Method = TooMany
	default:
		e.actions[c.i].Status, e.proofs[c.i].Method = NoneExists, Exhaustive
	}
	return nil
}

// catalogue hands out the actions of one person by ascending cost, those of equal cost by their options.
type catalogue struct {
	a       *constraint.Set
	i       int // the person
	x       []float32
	options []featureOptions
	after   [][]int // the features from k on, the cheapest first option first
	limit   int
	open    bundles
}

// featureOptions are a feature's options by ascending cost.
type featureOptions struct {
	feature *constraint.Feature
	options []gridOption
}

// gridOption is one option of a feature.
type gridOption struct {
	id    int
	sums  constraint.Sums
	cost  float64   // of this change alone
	value []float32 // of the inputs as they are written in raw units
}

// bundle is an action: the options of its base and one more, of no earlier feature than those.
type bundle struct {
	cost       float64
	sums, base constraint.Sums // with and without the last option
	picks      []int32         // for each feature the number of the option plus one, 0 for no change
	from, rank int             // the last option belongs to the feature after[from][rank]
	changed    int
}

func (v *bundle) before(w *bundle) bool {
	return v.cost < w.cost || v.cost == w.cost && slices.Compare(v.picks, w.picks) < 0
}

// bundles is a heap, the cheapest first.
type bundles []*bundle

func (h bundles) Len() int { return len(h) }

func (h bundles) Less(i, j int) bool { return h[i].before(h[j]) }

func (h bundles) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *bundles) Push(v any) { *h = append(*h, v.(*bundle)) }

func (h *bundles) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// newCatalogue returns the actions of person i. Of a feature with more than most options in a direction the nearest
// ones are listed: no others can be among the cheapest most actions.
func newCatalogue(a *constraint.Set, i int, x []float32, most int) *catalogue {
	c := &catalogue{a: a, i: i, x: x, limit: a.Limit()}
	d, point := make([]float32, a.Dim()), make([]float32, a.Dim())
	for _, u := range a.Free() {
		s := featureOptions{feature: u}
		for _, id := range u.AllOptions(x, most) {
			u.Set(x, d, id)
			a.Publish(point, x, d, nil, 0)
			value := slices.Clone(point[u.First : u.First+u.Width])
			sums := a.Norm().Sums(u, x, d)
			s.options = append(s.options, gridOption{id, sums, a.Norm().Of(sums), value})
			clear(d[u.First : u.First+u.Width])
		}
		slices.SortStableFunc(s.options, func(p, q gridOption) int { return cmp.Compare(p.cost, q.cost) })
		if len(s.options) > 0 {
			c.options = append(c.options, s)
		}
	}
	slices.SortStableFunc(c.options, func(p, q featureOptions) int { return cmp.Compare(len(p.options), len(q.options)) })
	c.start()
	return c
}

// start puts the action that changes nothing in.
func (c *catalogue) start() {
	for k := range len(c.options) + 1 {
		var after []int
		for j := len(c.options) - 1; j >= k; j-- {
			after = append(after, j)
		}
		slices.SortStableFunc(after, func(i, j int) int {
			return cmp.Compare(c.options[i].options[0].cost, c.options[j].options[0].cost)
		})
		c.after = append(c.after, after)
	}
	c.open = bundles{{picks: make([]int32, len(c.options))}}
}

// next takes the cheapest action out and puts those that differ from it by one step of one option in: each action
// follows from one other, which does not cost more.
func (c *catalogue) next() *bundle {
	v := heap.Pop(&c.open).(*bundle)
	add := func(base constraint.Sums, from, rank, option, changed int) {
		k := c.after[from][rank]
		sums := base.Plus(c.options[k].options[option].sums)
		n := &bundle{
			cost: c.a.Norm().Of(sums), sums: sums, base: base, picks: slices.Clone(v.picks), from: from, rank: rank,
			changed: changed,
		}
		if n.picks[k] = int32(option + 1); c.a.InReach(n.cost) { // what follows from it costs no less
			heap.Push(&c.open, n)
		}
	}
	deeper := 0
	if v.changed > 0 {
		k := c.after[v.from][v.rank]
		deeper = k + 1
		option := int(v.picks[k]) // the next one, counted from 0
		if option < len(c.options[k].options) {
			add(v.base, v.from, v.rank, option, v.changed)
		}
		if option == 1 && v.rank+1 < len(c.after[v.from]) {
			v.picks[k] = 0
			add(v.base, v.from, v.rank+1, 0, v.changed)
			v.picks[k] = 1
		}
	}
	if v.changed < c.limit && deeper < len(c.options) {
		add(v.sums, deeper, 0, 0, v.changed+1)
	}
	return v
}

// action sets point to the person after the action, as it is written in raw units, and says whether that is
// feasible. d is scratch.
func (c *catalogue) action(v *bundle, point, d []float32) bool {
	a := c.a
	clear(d)
	for k, n := range v.picks {
		if n == 0 {
			continue
		}
		u, o := c.options[k].feature, &c.options[k].options[n-1]
		copy(point[u.First:], o.value)
		u.Set(c.x, d, o.id)
	}
	if a.HasLinks() {
		a.Propagate(c.x, d)
		a.Publish(point, c.x, d, nil, 0)
	}
	constraint.Difference(d, c.x, point)
	return a.Consistent(c.x, d)
}
