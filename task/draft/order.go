package draft

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"cfq/internal/message"
	"cfq/task"
)

// Bounds on the search for the order of codes: orders of all columns together that are all tried, categories of a
// column whose orders are all tried, rows whose scores are compared, and starts.
const (
	maxOrders    = 3000
	maxFactorial = 6
	maxOrderRows = 100
	orderStarts  = 6
)

// Order looks for the order of codes with which a model gives the scores of its owner: of the one-hot features of a
// task whose columns are named. People are those with scores. All orders of all columns are tried where these are few;
// else those of one column after the other, from several starts. The result holds the values of each column in the
// order of the codes, nil where no order gives all scores; and questions about values that the scores do not tell
// apart.
func Order(ctx context.Context, s *Scores, t *task.Task, people *task.People, columns []string, model Model) (
	map[string][]string, map[string]string, error,
) {
	o := &ordering{ctx: ctx, s: s, model: model, people: people, rng: rand.New(rand.NewPCG(17, 5))}
	for i := range t.Features {
		if f := &t.Features[i]; f.Kind == task.OneHot && slices.Contains(columns, f.Column) {
			o.features = append(o.features, f)
		}
	}
	for k, row := range s.Rows {
		if i := slices.Index(people.Rows, row); i >= 0 && len(o.at) < maxOrderRows {
			o.at, o.score = append(o.at, i), append(o.score, k)
		}
	}
	best, err := o.search()
	if err != nil {
		return nil, nil, err
	}
	all := people.Subset(task.AllRows(people.N))
	for i := range people.N {
		o.place(all.X[i*all.Dim:(i+1)*all.Dim], i, best)
	}
	logits, classes, err := model(ctx, all.X)
	if err != nil {
		return nil, nil, err
	}
	if v, err := Verify(s, t, all, logits, classes); err != nil || !v.Verified() {
		return nil, nil, err
	}
	values, unsettled := map[string][]string{}, map[string]string{}
	for k, f := range o.features {
		list := make([]string, len(f.Values))
		for j, code := range best[k] {
			list[code] = f.Values[j]
		}
		values[f.Column] = list
		same, err := o.alike(best, k)
		if err != nil {
			return nil, nil, err
		}
		if same != nil {
			unsettled[f.Column] = fmt.Sprintf("the scores do not tell the codes of %s apart: are they in this order?",
				message.List(same, 8))
		}
	}
	return values, unsettled, nil
}

// ordering is the search for the order of codes.
type ordering struct {
	ctx       context.Context //nolint:containedctx // lives as long as one call of Order
	s         *Scores
	model     Model
	people    *task.People
	features  []*task.Feature
	at, score []int // people that are compared, and their scores
	rng       *rand.Rand
}

// orders are, by feature and value, the code of the value.
type orders [][]int

func (o orders) with(k int, order []int) orders {
	out := slices.Clone(o)
	out[k] = order
	return out
}

// place writes the inputs of a person whose values have other codes.
func (o *ordering) place(x []float32, person int, with orders) {
	from := o.people.X[person*o.people.Dim:]
	for k, f := range o.features {
		clear(x[f.Offset : f.Offset+f.Width])
		if j := slices.Index(from[f.Offset:f.Offset+f.Width], 1); j >= 0 {
			x[f.Offset+with[k][j]] = 1
		}
	}
}

// losses returns, for each of some orders, how far the scores are from those of the owner on average.
func (o *ordering) losses(all []orders) ([]float64, error) {
	const most = 64 // at once
	var out []float64
	for part := range slices.Chunk(all, most) {
		dim := o.people.Dim
		x := make([]float32, 0, len(part)*len(o.at)*dim)
		for _, with := range part {
			for _, person := range o.at {
				x = append(x, o.people.X[person*dim:(person+1)*dim]...)
				o.place(x[len(x)-dim:], person, with)
			}
		}
		logits, classes, err := o.model(o.ctx, x)
		if err != nil {
			return nil, err
		}
		got, err := o.s.predicted(logits, classes)
		if err != nil {
			return nil, err
		}
		for i := range part {
			sum := 0.0
			for r, k := range o.score {
				for c := range o.s.Columns {
					want := o.s.Values[k*o.s.Columns+c] - o.s.shift(k)
					sum += math.Abs(got[(i*len(o.at)+r)*o.s.Columns+c] - want)
				}
			}
			if math.IsNaN(sum) {
				sum = math.Inf(1) // no order for which the model gives no number
			}
			out = append(out, sum/float64(max(len(o.at), 1)))
		}
	}
	return out, nil
}

// search returns the orders with the least loss that it finds.
func (o *ordering) search() (best orders, err error) {
	joint := 1
	var first orders
	for _, f := range o.features {
		first = append(first, task.AllRows(len(f.Values)))
		for n := range len(f.Values) {
			joint = min(joint*(n+1), maxOrders+1)
		}
	}
	if joint <= maxOrders {
		all := []orders{first}
		for k := range first {
			var more []orders
			for _, with := range all {
				for _, p := range permutations(first[k]) {
					more = append(more, with.with(k, p))
				}
			}
			all = more
		}
		losses, err := o.losses(all)
		if err != nil {
			return nil, err
		}
		return all[slices.Index(losses, slices.Min(losses))], nil
	}
	least := math.Inf(1)
	for start := range orderStarts {
		from := slices.Clone(first)
		for k := range from {
			if from[k] = slices.Clone(first[k]); start > 0 {
				o.rng.Shuffle(len(from[k]), func(i, j int) { from[k][i], from[k][j] = from[k][j], from[k][i] })
			}
		}
		found, loss, err := o.descend(from)
		if err != nil {
			return nil, err
		}
		if loss < least {
			best, least = found, loss
		}
		if least < tolerance {
			break
		}
	}
	return best, nil
}

// descend takes the best order of one feature after the other until none is better.
func (o *ordering) descend(from orders) (orders, float64, error) {
	losses, err := o.losses([]orders{from})
	if err != nil {
		return nil, 0, err
	}
	least := losses[0]
	for better := true; better; {
		better = false
		for k := range from {
			var all []orders
			if len(from[k]) <= maxFactorial {
				for _, p := range permutations(from[k]) {
					all = append(all, from.with(k, p))
				}
			} else {
				all = from.swaps(k)
			}
			if losses, err = o.losses(all); err != nil {
				return nil, 0, err
			}
			if i := slices.Index(losses, slices.Min(losses)); losses[i] < least {
				from, least, better = all[i], losses[i], true
			}
		}
	}
	return from, least, nil
}

// swaps are the orders in which two values of a feature have each other's code.
func (o orders) swaps(k int) (all []orders) {
	for i := range o[k] {
		for j := range i {
			p := slices.Clone(o[k])
			p[i], p[j] = p[j], p[i]
			all = append(all, o.with(k, p))
		}
	}
	return all
}

// alike returns values of a feature that could have each other's codes as well.
func (o *ordering) alike(best orders, k int) (values []string, err error) {
	losses, err := o.losses(best.swaps(k))
	if err != nil {
		return nil, err
	}
	n, f := 0, o.features[k]
	for i := range best[k] {
		for j := range i {
			if nobody := f.Shares[i] == 0 && f.Shares[j] == 0; losses[n] < tolerance && !nobody {
				values = append(values, f.Values[j], f.Values[i])
			}
			n++
		}
	}
	slices.Sort(values)
	return slices.Compact(values), nil
}

// permutations returns all orders of a list.
func permutations(list []int) (all [][]int) {
	if len(list) == 0 {
		return [][]int{nil}
	}
	for i := range list {
		rest := slices.Delete(slices.Clone(list), i, i+1)
		for _, p := range permutations(rest) {
			all = append(all, append([]int{list[i]}, p...))
		}
	}
	return all
}
