package recourse

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/recourse/constraint"
	"cfq/recourse/proof"
)

// ExactOptions are the settings of Exact; the zero value is the default.
type ExactOptions struct {
	// Margin is the logit margin that an action must reach; 0 = any favourable one.
	Margin float64
	// Nodes bounds the branch and bound for one person; 0 = 20,000.
	Nodes int
	// MaxPoints bounds the actions of one person that an exhaustive search looks at; 0 = 2 million.
	MaxPoints int
	// Workers bounds the pieces of people in flight; 0 = GOMAXPROCS. It does not change the result.
	Workers  int
	Progress func(done, total int)
}

// Method says how a person's answer was come to.
type Method string

// The methods. Exact has all but Search. Those that start with "none: " prove nothing, and say why.
const (
	NotNeeded  Method = ""                 // the person is favourable as they are
	Tree       Method = "branch and bound" // over a network of Relu units
	Exhaustive Method = "exhaustive"       // all feasible actions, cheapest first
	Search     Method = "search"           // Solve: nothing says that there is no cheaper action, or none
	TooMany    Method = "none: more actions than the limit"
	TooWide    Method = "none: numbers may change farther than is looked at; bounds make that less"
	TooHard    Method = "none: branch and bound did not end within its nodes"
)

// Proved says whether the answer is exact: the optimum, or the proof that there is no action.
func (m Method) Proved() bool { return m != Search && !strings.HasPrefix(string(m), "none") }

// Proof says what is known of a person's answer.
type Proof struct {
	Method Method
	Within float64 // relative: no action costs less than this below the answer
	Nodes  int     // of the branch and bound
}

// The gaps of proofs: closeEnough where the model is affine or all actions can be counted, closeAbout elsewhere.
const (
	closeEnough = 1e-6
	closeAbout  = 0.01
)

// exactChunk is the number of people searched together: few, for one alone may take seconds.
const exactChunk = 16

// networkModel is a Model that may be a network of Relu units, see [NetworkOf].
type networkModel interface {
	Network(ctx context.Context) (rows [][]float64, bias []float64, units int, why string, err error)
}

// NetworkOf returns the network that a model is; without one, why is the rest of a sentence that begins with the model.
func NetworkOf(ctx context.Context, m Model) (n *proof.Network, why string, err error) {
	f, ok := m.(networkModel)
	if !ok {
		return nil, "is not a single network", nil
	}
	n = &proof.Network{}
	n.Rows, n.Bias, n.Units, why, err = f.Network(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, "", context.Cause(ctx)
	case err != nil:
		return nil, "gives no network: " + err.Error(), nil
	case why != "":
		return nil, "is not a network of Relu units: " + why, nil
	}
	return n, "", nil
}

// ErrNotExact says that no exact method applies. The error around it names the features that are the reason.
var ErrNotExact = errors.New("no exact method applies")

// Exact proves for every person that an action is the cheapest feasible one that reaches the required margin, or that
// there is none. It begins with start, the actions of Solve for the same people and margin (nil: none are known), and
// returns cheaper ones where it finds them.
//
//   - A network of Relu units in float arithmetic, one with a method Network that says so: branch and bound, see
//     [proof.Pair.Cheapest]. No action costs less by 1 %; where the model is affine, or all actions can be counted, by
//     1e-6, as far as float32 goes.
//   - Any model, when all features that people can change are discrete: all feasible actions in the order of their
//     cost, until the first one that the model accepts.
//
// What is found is judged by the model itself. Where nothing is proved, the answer is that of start, or a cheaper one,
// and the Method says why. When no method applies to the model and the task at all, the error wraps ErrNotExact.
//
// References: app:eq:recourse_general.
func Exact(ctx context.Context, m Model, a *constraint.Set, x []float32, start []Action, o ExactOptions,
) ([]Action, []Proof, error) {
	n, err := people(m, a, x, o.Margin)
	if err != nil {
		return nil, nil, err
	}
	o.MaxPoints, o.Nodes = defaulted(o.MaxPoints, 2_000_000), defaulted(o.Nodes, 20_000)
	net, why, err := NetworkOf(ctx, m)
	if err != nil {
		return nil, nil, fmt.Errorf("recourse: %w", err)
	}
	whole := &exactSearch{a: a, o: o}
	if why != "" {
		whole.why = "the model " + why
	}
	if net != nil {
		if whole.pair, err = proof.NewPair(net, nil); err != nil {
			return nil, nil, fmt.Errorf("recourse: %w", err)
		}
	}
	if why := whole.noMethod(a); why != "" && !a.HasOverrides() {
		return nil, nil, fmt.Errorf("recourse: %w: %s", ErrNotExact, why)
	}
	actions, proofs := slices.Clone(start), make([]Proof, n)
	if start == nil {
		if actions, err = unchanged(ctx, m, x, o.Margin); err != nil {
			return nil, nil, fmt.Errorf("recourse: %w", err)
		}
	}
	err = chunks(ctx, n, exactChunk, o.Workers, o.Progress, func(ctx context.Context, lo, hi int) error {
		e := *whole
		e.ctx, e.m, e.first = ctx, withinLimit(m), lo
		e.x, e.actions, e.proofs = x[lo*a.Dim():hi*a.Dim()], actions[lo:hi], proofs[lo:hi]
		return e.run()
	})
	if err != nil {
		return nil, nil, err
	}
	return actions, proofs, nil
}

// unchanged returns the people as they are.
func unchanged(ctx context.Context, m Model, x []float32, required float64) ([]Action, error) {
	margins, err := judge(ctx, m, x)
	if err != nil {
		return nil, err
	}
	actions := make([]Action, len(margins))
	for i, v := range margins {
		actions[i] = Action{Point: row(x, i, m.Dim()), Delta: make([]float32, m.Dim()), Margin: float64(v)}
		if !valid(v, float32(required)) {
			actions[i].Status = NoneFound
		}
	}
	return actions, nil
}

// noMethod says why there is no exact method for the action set, "" when there is one.
func (e *exactSearch) noMethod(a *constraint.Set) string {
	why := cmp.Or(e.why, a.Separable())
	if why == "" {
		return ""
	}
	if without := a.Unordered(); without != "" {
		return why + ", and " + without
	}
	var names []string
	for _, u := range a.Free() {
		if u.Numeric() && u.Step == 0 {
			names = append(names, fmt.Sprintf("%q", u.Name))
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return why + ", and the feature " + names[0] + " changes without steps; give it steps to make the actions countable"
	}
	return why + ", and the features " + strings.Join(names, ", ") +
		" change without steps; give steps to make the actions countable"
}

// exactSearch is the state of Exact for one piece of people; one goroutine owns it.
type exactSearch struct {
	ctx     context.Context
	m       Model
	a       *constraint.Set
	o       ExactOptions
	pair    *proof.Pair // nil when the model is not a network
	why     string      // says that it is not
	x       []float32
	first   int // row of the first person
	actions []Action
	proofs  []Proof
}

func (e *exactSearch) run() error {
	for i := range e.actions {
		if e.actions[i].Status == AlreadyFavourable {
			continue
		}
		a := e.a.Person(e.first + i)
		var err error
		switch why := e.noMethod(a); {
		case why != "":
			e.proofs[i].Method = Method("none: " + why)
		case e.pair != nil && a.Separable() == "":
			err = e.branch(i, a)
		default:
			err = e.enumerate(newCatalogue(a, i, row(e.x, i, a.Dim()), e.o.MaxPoints), e.o.MaxPoints)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// branch proves the answer of person i, or finds a cheaper one, by branch and bound.
func (e *exactSearch) branch(i int, a *constraint.Set) error {
	answer := &e.actions[i]
	b := &treeSearch{e.pair, e.m, a, row(e.x, i, e.a.Dim()), e.o.Margin, e.o.Nodes}
	improve := func(gap float64, real bool) (proof.Optimum, error) {
		best, err := b.improve(e.ctx, answer, gap, real)
		e.proofs[i].Nodes += best.Nodes
		return best, err
	}
	free := slices.ContainsFunc(a.Free(), func(u *constraint.Feature) bool { return u.Numeric() && u.Step == 0 })
	within := math.Inf(1)
	if !free || !a.HasRules() && e.pair.Affine() {
		best, err := improve(closeEnough, true)
		if err != nil {
			return err
		}
		if best.Proved {
			within = best.Within
		}
	}
	best, err := improve(closeAbout, false)
	if err != nil {
		return err
	}
	p := &e.proofs[i]
	switch p.Within = min(within, best.Within); {
	case best.Wide:
		p.Method = TooWide
	case !best.Proved && !(within < 1 && answer.Status == Found):
		p.Method = TooHard
	default:
		if p.Method = Tree; answer.Status != Found {
			answer.Status = NoneExists
		}
	}
	return nil
}

// treeSearch is branch and bound about one person.
type treeSearch struct {
	pair   *proof.Pair
	m      Model
	set    *constraint.Set
	x      []float32
	margin float64
	nodes  int
}

// improve looks for an action that costs less than the answer by more than the gap, and makes it the answer.
func (b *treeSearch) improve(ctx context.Context, answer *Action, gap float64, real bool) (proof.Optimum, error) {
	goal := proof.Goal{
		Margin: b.margin, Aim: Aim(b.margin), Cost: math.Inf(1), Gap: gap, Nodes: b.nodes, Real: real,
	}
	if answer.Status == Found {
		goal.Cost = answer.Cost
	}
	var reached float32
	best, err := b.pair.Cheapest(ctx, b.set, b.x, goal, func(point []float32) (bool, error) {
		margins, err := judge(ctx, b.m, point)
		if err != nil || !valid(margins[0], float32(b.margin)) {
			return false, err
		}
		reached = margins[0]
		return true, nil
	})
	if err == nil && best.Point != nil {
		settle(answer, b.set, b.x, best.Point, reached)
	}
	return best, err
}

// settle makes the judged point the answer to the person x, and says whether it is feasible.
func settle(answer *Action, a *constraint.Set, x, point []float32, margin float32) bool {
	delta := make([]float32, a.Dim())
	constraint.Difference(delta, x, point)
	if a.Check(x, delta) != nil {
		return false
	}
	*answer = Action{
		Status: Found, Point: slices.Clone(point), Delta: delta, Cost: a.Cost(x, delta), Margin: float64(margin),
	}
	return true
}

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
