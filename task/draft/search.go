package draft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"cfq/internal/message"
	"cfq/task"
)

// Model tells the logits of rows of inputs, rows x classes.
type Model func(ctx context.Context, x []float32) (logits []float32, classes int, err error)

// layout is a guess at a model's inputs: columns in an order, each in one of its ways.
type layout struct {
	order []int // columns
	ways  []int // by column
}

func (l layout) clone() layout { return layout{slices.Clone(l.order), slices.Clone(l.ways)} }

// search looks for the layout that reproduces scores.
type search struct {
	model   Model
	scores  *Scores
	inputs  int
	columns []*profile
	places  []int // of the columns in the file
	ways    [][]way
	fields  [][]string // of each row that can be encoded, by column
	rows    []int      // their positions among the scores
	blocks  [][][]float32
	tried   int
	enough  int   // tried layouts at which climbing ends
	some    []int // rows of a quick look
	rare    bool  // ways that are rare are looked at, too
}

// Found is the layout that is nearest to the scores.
type Found struct {
	Encoding *Encoding // nil when a task file cannot say it, or when scores differ
	Rows     int       // compared
	Differ   int       // of them, those with another score
	Layout   []string  // each column and how it becomes inputs, in the order of the inputs
	Open     []string  // what a task file cannot say
	// Unseen is what the scores say nothing of, by column: its values that no row has, or its scale.
	Unseen map[string]string
	Tried  int // layouts
}

// Bounds of the search: changes of styles that have as many inputs as the model, and of those that have not; layouts
// tried in climbing from the best; columns of numbers that may be categories; places to climb from.
const maxStyles, climbs, maxFew, starts = 450_000, 30_000, 4, 12

// mostRows are compared in the end,
const mostRows = 1000

// quickRows in climbing,
const quickRows = 24

// and fewRows in a first look at all, of which so many get a second one.
const fewRows, lookedAt = 4, 1000

// Search looks for the encoding with which the model gives the scores of rows of a data file: the order of columns,
// scales of numbers, orders and forms of categories. inputs is how many the model has.
func Search(ctx context.Context, t *Table, o Options, fields [][]string, s *Scores, inputs int, model Model) (*Found,
	error,
) {
	d, err := newDrafter(t, o)
	if err != nil {
		return nil, err
	}
	use, err := d.columns()
	if err != nil {
		return nil, err
	}
	q := &search{model: model, scores: s, inputs: inputs, columns: use}
	for _, p := range use {
		q.ways = append(q.ways, p.ways())
	}
	q.encode(t, fields)
	if len(q.rows) < MinScores {
		return nil, fmt.Errorf("of %s with scores, %d have all numbers: want %d or more",
			message.Count(len(s.Rows), "row"), len(q.rows), MinScores)
	}
	best, err := q.run(ctx)
	if err != nil {
		return nil, err
	}
	return q.found(ctx, best)
}

// encode makes the inputs of each column in each of its ways, of the rows that all have.
func (q *search) encode(t *Table, fields [][]string) {
	q.places = make([]int, len(q.columns))
	for i, p := range q.columns {
		q.places[i] = slices.Index(t.Names, p.name)
	}
	for k, rec := range fields {
		row := make([]string, len(q.places))
		whole := rec != nil
		for i, at := range q.places {
			if !whole {
				break
			}
			row[i] = strings.TrimSpace(rec[at])
			if _, number := task.Number(row[i]); q.columns[i].numeric && !number {
				whole = false
			}
		}
		if len(q.rows) == mostRows {
			break
		}
		if whole {
			q.rows, q.fields = append(q.rows, k), append(q.fields, row)
		}
	}
	for i := range q.columns {
		var of [][]float32
		kept := q.ways[i][:0]
		for _, w := range q.ways[i] {
			block := make([]float32, len(q.rows)*w.width)
			fits := true
			for k := range q.rows {
				fits = w.fill(q.fields[k][i], block[k*w.width:(k+1)*w.width]) && fits
			}
			if fits {
				of, kept = append(of, block), append(kept, w)
			}
		}
		q.ways[i], q.blocks = kept, append(q.blocks, of)
	}
	for k := range min(quickRows, len(q.rows)) {
		q.some = append(q.some, k*len(q.rows)/min(quickRows, len(q.rows)))
	}
}

// fits says whether a layout has as many inputs as the model.
func (q *search) fits(l layout) bool { return q.width(l) == q.inputs }

// known says whether the search looks at a way now.
func (q *search) known(w way) bool { return !w.fitted && (q.rare || !w.rare) }

// width is how many inputs a layout has.
func (q *search) width(l layout) (n int) {
	for _, c := range l.order {
		n += q.ways[c][l.ways[c]].width
	}
	return n
}

// off is how far the scores of some rows are from a layout's, of each layout: the mean of what goes beyond the
// tolerance. A layout with which the model fails is as far off as can be.
func (q *search) off(ctx context.Context, layouts []layout, rows []int) ([]float64, error) {
	out := make([]float64, len(layouts))
	x := make([]float32, 0, len(layouts)*len(rows)*q.inputs)
	for _, l := range layouts {
		for _, k := range rows {
			for _, c := range l.order {
				w := q.ways[c][l.ways[c]].width
				x = append(x, q.blocks[c][l.ways[c]][k*w:(k+1)*w]...)
			}
		}
	}
	q.tried += len(layouts)
	logits, classes, err := q.model(ctx, x)
	if err != nil {
		if ctx.Err() != nil || len(layouts) == 1 {
			out[0] = math.Inf(1)
			return out, context.Cause(ctx)
		}
		for i := range layouts {
			one, err := q.off(ctx, layouts[i:i+1], rows)
			if err != nil {
				return nil, err
			}
			out[i] = one[0]
		}
		return out, nil
	}
	got, err := q.scores.predicted(logits, classes)
	if err != nil {
		return nil, err
	}
	n := q.scores.Columns
	for i := range layouts {
		for r, k := range rows {
			for c := range n {
				far := q.scores.away(q.rows[k]*n+c, got[(i*len(rows)+r)*n+c])
				out[i] += max(0, far-1) / float64(len(rows)*n)
			}
		}
	}
	return out, nil
}

// columns are those that may be inputs: those that the options name, else all that are useful.
func (d *drafter) columns() (use []*profile, err error) {
	if use, err = d.named(); err != nil {
		return nil, err
	}
	if d.o.Features == nil {
		for _, p := range d.profiles {
			if p != d.label && strings.TrimSpace(p.name) != "" && p.useless() == "" {
				use = append(use, p)
			}
		}
	}
	if len(use) == 0 {
		return nil, errors.New("no column can be a feature")
	}
	return use, nil
}

// styles are layouts as scripts make them: all numbers in one way and all categories in one way, in one of some orders.
// Numbers of few values may be categories.
func (q *search) styles() (out []layout) {
	var few []int
	for i, p := range q.columns {
		wide := slices.ContainsFunc(q.ways[i], func(w way) bool { return w.width > 1 })
		if p.numeric && wide && len(p.points) > 2 && len(few) < maxFew {
			few = append(few, i)
		}
	}
	known := map[string]bool{}
	for set := range 1 << len(few) {
		category := func(i int) bool {
			at := slices.Index(few, i)
			return !q.columns[i].numeric || at >= 0 && set>>at&1 == 1
		}
		for _, order := range q.orders(category) {
			for _, n := range q.whats(true) {
				for _, c := range q.whats(false) {
					for binary := range 2 * 3 {
						l := layout{order, make([]int, len(q.columns))}
						for i := range q.columns {
							l.ways[i] = q.styled(i, category(i), n, c, binary)
						}
						if key := fmt.Sprint(l); !known[key] {
							known[key], out = true, append(out, l)
						}
					}
				}
			}
		}
	}
	return out
}

// styled is the way of a column in a style: of numbers and of categories. binary says which way columns with two values
// take: 0/1 columns as they are or as other numbers do, texts as other categories or in one of their own ways.
func (q *search) styled(i int, isCategory bool, number, category string, binary int) int {
	p, what := q.columns[i], category
	if !isCategory {
		what = number
	}
	switch {
	case len(p.texts) != 2:
	case p.numeric && !isCategory && binary >= 3:
		return 0 // as it is
	case !p.numeric && binary%3 > 0:
		return max(0, len(q.ways[i])-binary%3) // the ways of two values stand last
	}
	return max(0, slices.IndexFunc(q.ways[i], func(w way) bool { return w.what == what }))
}

// whats are the ways of all columns of numbers, or of texts.
func (q *search) whats(numeric bool) (out []string) {
	for i, p := range q.columns {
		if p.numeric != numeric {
			continue
		}
		for _, w := range q.ways[i] {
			if !slices.Contains(out, w.what) && !w.single && q.known(w) {
				out = append(out, w.what)
			}
		}
	}
	return append(out, "")[:max(1, len(out))]
}

// orders are those in which scripts put columns: as they are listed or in the file, numbers first or last, categories
// with two values before others, by name.
func (q *search) orders(category func(i int) bool) (out [][]int) {
	listed := make([]int, len(q.columns))
	for i := range listed {
		listed[i] = i
	}
	file := slices.Clone(listed)
	slices.SortStableFunc(file, func(a, b int) int { return q.places[a] - q.places[b] })
	number := func(i int) bool { return !category(i) }
	first := slices.Concat(filter(file, number), filter(file, category))
	last := slices.Concat(filter(file, category), filter(file, number))
	pair := func(i int) bool { return category(i) && len(q.columns[i].texts) == 2 }
	group := func(i int) bool { return category(i) && !pair(i) }
	pairs := slices.Concat(filter(file, number), filter(file, pair), filter(file, group))
	named := func(order []int) []int {
		order = slices.Clone(order)
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(q.columns[a].name, q.columns[b].name) })
		return order
	}
	for _, o := range [][]int{listed, file, first, last, pairs, named(file)} {
		if !slices.ContainsFunc(out, func(p []int) bool { return slices.Equal(o, p) }) {
			out = append(out, o)
		}
	}
	return out
}

func filter[T any](list []T, keep func(T) bool) (out []T) {
	for _, v := range list {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// run looks for the layout among the ways that are common, and unless one of them reproduces the scores, among all.
func (q *search) run(ctx context.Context) (best layout, err error) {
	best, off, err := q.stage(ctx)
	if err != nil || off == 0 {
		return best, err
	}
	q.rare = true
	l, at, err := q.stage(ctx)
	if err == nil && math.IsInf(min(at, off), 1) && len(l.order) == 0 {
		err = fmt.Errorf("no encoding known here makes %s of these columns; --features names the columns that are "+
			"inputs, and --label the outcome", message.Count(q.inputs, "input"))
	}
	if at < off {
		best = l
	}
	return best, err
}

// stage improves on the styles that are nearest; unless that reproduces the scores, on the nearest of all single
// changes of styles, too. It returns how far the best layout is off; without any, that is infinite.
func (q *search) stage(ctx context.Context) (best layout, off float64, err error) {
	const first = 3
	off = math.Inf(1)
	styles := q.styles()
	from := filter(styles, q.fits)
	if from, err = q.nearest(ctx, from, len(from)); err != nil {
		return best, off, err
	}
	best, off, err = q.improve(ctx, from[:min(first, len(from))], climbs/10)
	if err != nil || off == 0 {
		return best, off, err
	}
	change := func(styles []layout, most int) {
		for _, l := range styles {
			if most -= len(q.columns); most < 0 {
				return
			}
			changed := filter(q.otherWays(l), q.fits)
			from, most = append(from, changed...), most-len(changed)
		}
	}
	most := maxStyles
	if q.rare {
		most /= 2
	}
	change(slices.Clone(from), most)
	change(filter(styles, func(l layout) bool { return !q.fits(l) }), most/4)
	if l, ok := q.fitting(); ok {
		from = append(from, l)
	}
	if len(from) == 0 {
		return best, off, nil
	}
	if from, err = q.nearest(ctx, from, starts); err != nil {
		return best, off, err
	}
	if l, at, err := q.improve(ctx, from, climbs); err != nil || at < off || len(best.order) == 0 {
		return l, at, err
	}
	return best, off, nil
}

// improve climbs from some layouts, and from others near them, until so many are tried, and fits the numbers of the
// best that it comes to. It returns how far that is off.
func (q *search) improve(ctx context.Context, from []layout, most int) (best layout, off float64, err error) {
	if off = math.Inf(1); len(from) == 0 {
		return best, off, nil
	}
	q.enough = q.tried + most
	rng := rand.New(rand.NewPCG(1, 1))
	for turn := 0; q.tried < q.enough && off > 0; turn++ {
		next := from[turn%len(from)].clone()
		if turn >= len(from) { // once more, from another place
			for range 2 {
				a, b := rng.IntN(len(next.order)), rng.IntN(len(next.order))
				next.order[a], next.order[b] = next.order[b], next.order[a]
			}
		}
		l, at, err := q.climb(ctx, next)
		if err == nil && at == 0 && len(q.some) < len(q.rows) {
			q.some = q.whole() // those that were looked at do not tell it from others
			l, at, err = q.climb(ctx, l)
		}
		if err != nil {
			return best, 0, err
		}
		if at < off || turn == 0 {
			best, off = l, at
		}
	}
	if off == 0 {
		return best, off, nil
	}
	return q.fitted(ctx, best)
}

// nearest are the layouts that are nearest to the scores, at most so many: to those of a few rows, and of the nearest
// of these, to more.
func (q *search) nearest(ctx context.Context, l []layout, most int) ([]layout, error) {
	l, err := q.ranked(ctx, l, q.some[:min(fewRows, len(q.some))])
	if err != nil {
		return nil, err
	}
	n := min(lookedAt, len(l))
	near, err := q.ranked(ctx, l[:n], q.some)
	if err != nil {
		return nil, err
	}
	l = append(near, l[n:]...)
	return l[:min(most, len(l))], nil
}

// ranked are the layouts in the order of how far some rows are off, the nearest first.
func (q *search) ranked(ctx context.Context, l []layout, rows []int) ([]layout, error) {
	offs, err := q.all(ctx, l, rows)
	if err != nil {
		return nil, err
	}
	rank := make([]int, len(l))
	for i := range rank {
		rank[i] = i
	}
	slices.SortStableFunc(rank, func(a, b int) int { return cmp.Compare(offs[a], offs[b]) })
	out := make([]layout, len(l))
	for k, i := range rank {
		out[k] = l[i]
	}
	return out, nil
}

// otherWays are the layouts with another way of one column: a common one, or when all are looked at, a rare
// one.
func (q *search) otherWays(l layout) (out []layout) {
	for i := range q.columns {
		for w := range q.ways[i] {
			if w != l.ways[i] && q.known(q.ways[i][w]) && q.ways[i][w].rare == q.rare {
				n := l.clone()
				n.ways[i] = w
				out = append(out, n)
			}
		}
	}
	return out
}

// all is how far each of some layouts is off.
func (q *search) all(ctx context.Context, layouts []layout, rows []int) (out []float64, err error) {
	const together = 32
	for some := range slices.Chunk(layouts, together) {
		offs, err := q.off(ctx, some, rows)
		if err != nil {
			return nil, err
		}
		out = append(out, offs...)
	}
	return out, nil
}

// climb goes to the best neighbour as long as one is better.
func (q *search) climb(ctx context.Context, l layout) (layout, float64, error) {
	offs, err := q.all(ctx, []layout{l}, q.some)
	if err != nil {
		return l, 0, err
	}
	off := offs[0]
	for off > 0 && q.tried < q.enough {
		near := q.neighbours(l)
		if offs, err = q.all(ctx, near, q.some); err != nil {
			return l, 0, err
		}
		best := 0
		for i := range offs {
			if offs[i] < offs[best] {
				best = i
			}
		}
		if len(near) == 0 || offs[best] >= off-1e-9 {
			return l, off, nil
		}
		l, off = near[best], offs[best]
	}
	return l, off, nil
}

// neighbours are the layouts one change away that have as many inputs as the model: another way of a column, or of two;
// two columns exchanged; a column moved.
func (q *search) neighbours(l layout) (out []layout) {
	add := func(n layout) {
		if q.fits(n) {
			out = append(out, n)
		}
	}
	for i := range q.columns {
		for w := range q.ways[i] {
			if w == l.ways[i] || !q.known(q.ways[i][w]) {
				continue
			}
			n := l.clone()
			n.ways[i] = w
			add(n)
			if q.ways[i][w].rare || q.ways[i][w].width == q.ways[i][l.ways[i]].width {
				continue
			}
			for j := range i { // a wider one and a narrower one
				for v := range q.ways[j] {
					if v != l.ways[j] && !q.ways[j][v].rare {
						m := n.clone()
						m.ways[j] = v
						add(m)
					}
				}
			}
		}
	}
	for i := range l.order {
		for j := range l.order {
			n := l.clone()
			if i < j {
				n.order[i], n.order[j] = n.order[j], n.order[i]
				add(n)
			}
			if d := i - j; d > 1 || d < -1 {
				m := l.clone()
				m.order = slices.Insert(slices.Delete(m.order, i, i+1), j, l.order[i])
				add(m)
			}
		}
	}
	return out
}

// fitting is a layout with as many inputs as the model, in the order of the file.
func (q *search) fitting() (layout, bool) {
	l := layout{make([]int, len(q.columns)), make([]int, len(q.columns))}
	for i := range l.order {
		l.order[i] = i
	}
	// A sum of widths, column by column.
	reach := make([]map[int]int, len(q.columns)+1) // sum -> way of the column before
	reach[0] = map[int]int{0: 0}
	for i := range q.columns {
		reach[i+1] = map[int]int{}
		for sum := range reach[i] {
			for w := range q.ways[i] {
				if at := sum + q.ways[i][w].width; at <= q.inputs && q.known(q.ways[i][w]) {
					if old, ok := reach[i+1][at]; !ok || w < old {
						reach[i+1][at] = w
					}
				}
			}
		}
	}
	sum := q.inputs
	for i := len(q.columns); i > 0; i-- {
		w, ok := reach[i][sum]
		if !ok {
			return l, false
		}
		l.ways[i-1], sum = w, sum-q.ways[i-1][w].width
	}
	return l, sum == 0
}

// found compares all rows, and says what the layout is.
func (q *search) found(ctx context.Context, l layout) (*Found, error) {
	f := &Found{Rows: len(q.rows), Tried: q.tried, Unseen: map[string]string{}}
	for k := range q.rows {
		off, err := q.off(ctx, []layout{l}, []int{k})
		if err != nil {
			return nil, err
		}
		if off[0] > 0 {
			f.Differ++
		}
	}
	e := &Encoding{}
	for _, c := range l.order {
		w := q.sayable(c, l.ways[c])
		f.Layout = append(f.Layout, q.columns[c].name+": "+w.what)
		if w.what == noInput {
			continue
		}
		if w.input == nil {
			f.Open = append(f.Open, q.columns[c].name+": "+w.what)
			continue
		}
		e.Inputs = append(e.Inputs, *w.input)
		if unseen := q.unseen(c, w); unseen != "" {
			f.Unseen[q.columns[c].name] = unseen
		}
	}
	if f.Differ == 0 && f.Open == nil {
		f.Encoding = e
	}
	return f, nil
}

// unseen says what the rows with scores leave open of a column's way: the scale of a number that is the same in all of
// them, and the order of values that none has, if there are two or more.
func (q *search) unseen(c int, w *way) string {
	var seen []string
	for _, row := range q.fields {
		if task.Find(seen, row[c]) < 0 {
			seen = append(seen, row[c])
		}
	}
	if w.input.Kind == "thermometer" || w.input.Kind == "numeric" {
		if len(seen) > 1 {
			return ""
		}
		return "its mean and std: all rows have the same number"
	}
	open := filter(w.input.Values, func(v string) bool { return task.Find(seen, v) < 0 })
	if len(open) < 2 {
		return ""
	}
	return "the order of " + message.List(open, 8)
}

// whole are all rows.
func (q *search) whole() []int {
	rows := make([]int, len(q.rows))
	for i := range rows {
		rows[i] = i
	}
	return rows
}

// sayable is the plainest way that makes the same inputs as a column's way i: of two values, the second alone is 1 for
// it, rather than their places.
func (q *search) sayable(c, i int) *way {
	best := &q.ways[c][i]
	for j := range q.ways[c] {
		w := &q.ways[c][j]
		plainer := w.input != nil && (best.input == nil || best.input.Form != "" && w.input.Form == "")
		if plainer && slices.Equal(q.blocks[c][j], q.blocks[c][i]) {
			best = w
		}
	}
	return best
}

// problem says why the draft does not have the layout.
func (f *Found) problem() string {
	if f.Differ == 0 {
		return fmt.Sprintf("all scores are reproduced by a layout that a task file cannot say: %s; export the model with "+
			"these steps inside", strings.Join(f.Open, "; "))
	}
	return fmt.Sprintf("no layout of %d reproduces the scores: %d of %d differ under the nearest one: %s. Which columns "+
		"are inputs (--features, --label)? Are the scores those of these rows?", f.Tried, f.Differ, f.Rows,
		strings.Join(f.Layout, "; "))
}
