package draft

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"cfq/internal/message"
	"cfq/task"
)

// way is how a column may have become inputs.
type way struct {
	what  string // for people
	width int
	// fill writes the inputs of a field; false: it has none.
	fill func(field string, dst []float32) bool
	// input declares it; nil when a task file cannot say it.
	input *Input
	// single: it is a way of single columns, and not a style.
	single bool
}

// number is the way of a number that is one input.
func number(what string, of func(float64) float64) way {
	return way{what: what, width: 1, single: true, fill: func(field string, dst []float32) bool {
		v, ok := task.Number(field)
		dst[0] = float32(of(v))
		return ok && !math.IsNaN(float64(dst[0])) && !math.IsInf(float64(dst[0]), 0)
	}}
}

// scaled is the way of a number that is shifted and scaled.
func scaled(what, column string, mean, std float64) way {
	w := number(what, func(v float64) float64 { return (v - mean) / std })
	w.single = false
	w.input = &Input{Name: column, Column: column, Kind: "numeric", Mean: &mean, Std: &std}
	return w
}

// numbers are the ways of a column of numbers.
func (p *profile) numbers() (out []way) {
	mean, std := p.moments()
	lo, hi := p.points[0], p.points[len(p.points)-1]
	out = append(out, scaled("as it is", p.name, 0, 1))
	if std == 0 {
		return out
	}
	quarter, median := p.quantile(0.25), p.quantile(0.5)
	out = append(out,
		scaled("standardised", p.name, mean, std),
		scaled("scaled to 0 and 1", p.name, lo, hi-lo),
		scaled("scaled to -1 and 1", p.name, (lo+hi)/2, (hi-lo)/2),
		scaled("divided by the largest", p.name, 0, max(math.Abs(lo), math.Abs(hi))),
	)
	if spread := p.quantile(0.75) - quarter; spread > 0 {
		out = append(out, scaled("scaled by its quartiles", p.name, median, spread))
	}
	if lo > -1 {
		out = append(out, p.transformed("log(1 + value)", math.Log1p)...)
	}
	if lo > 0 {
		out = append(out, p.transformed("log", math.Log)...)
	}
	return append(out, number("clipped to its 1st and 99th percentile, standardised", func(v float64) float64 {
		return (min(max(v, p.quantile(0.01)), p.quantile(0.99)) - mean) / std
	}))
}

// transformed are the ways of a number that goes through a function first.
func (p *profile) transformed(what string, of func(float64) float64) []way {
	values := make([]float64, len(p.points))
	for i, v := range p.points {
		values[i] = of(v)
	}
	mean, variance := stat.PopMeanVariance(values, p.weights)
	return []way{
		number(what, of),
		number(what+", standardised", func(v float64) float64 { return (of(v) - mean) / math.Sqrt(variance) }),
	}
}

// categories are the ways of a column of categories: in several orders, with and without an input for "not known" or
// for the first, or as the place in the order.
func (p *profile) categories() (out []way) {
	seen := slices.Clone(p.texts)
	sorted := slices.Sorted(slices.Values(seen))
	if p.numeric {
		slices.SortFunc(sorted, func(a, b string) int {
			x, _ := task.Number(a)
			y, _ := task.Number(b)
			return int(math.Copysign(1, x-y))
		})
	}
	frequent := slices.Clone(seen)
	slices.SortStableFunc(frequent, func(a, b string) int {
		return int(math.Round(1e9 * (p.share(b) - p.share(a))))
	})
	type order struct {
		what   string
		values []string
	}
	orders := []order{{"sorted", sorted}, {"by frequency", frequent}, {"as they first occur", seen}}
	for i, o := range orders {
		if slices.ContainsFunc(orders[:i], func(b order) bool { return slices.Equal(b.values, o.values) }) {
			continue
		}
		out = append(out, p.oneHot(o.what, o.values, 0), p.oneHot(o.what+", the first without an input", o.values, 1),
			p.place(o.what, o.values))
		if p.missing == 0 {
			continue
		}
		markers := p.markers
		if len(markers) == 0 {
			markers = []string{""}
		}
		for _, m := range markers {
			all := append(slices.Clone(o.values), m)
			last := p.oneHot(o.what+", \"not known\" last", all, 0)
			among := p.oneHot(o.what+", \"not known\" among them", slices.Sorted(slices.Values(all)), 0)
			last.single, among.single = true, true
			out = append(out, last, among)
		}
	}
	if len(seen) == 2 {
		for i, one := range sorted {
			w := p.place("", []string{sorted[1-i], one})
			w.what, w.input = "1 for "+message.Legible(one), &Input{
				Name: p.name, Column: p.name, Kind: "binary", One: one, Zero: sorted[1-i],
			}
			out = append(out, w)
		}
	}
	return out
}

// oneHot is a way of one input for each value, without the first so many.
func (p *profile) oneHot(what string, values []string, without int) way {
	w := way{what: "one-hot, " + what, width: len(values) - without}
	w.fill = func(field string, dst []float32) bool {
		clear(dst)
		i := task.Find(values, field)
		if i >= without {
			dst[i-without] = 1
		}
		return i >= 0 || unknown(field)
	}
	if without == 0 && !slices.Contains(values, "") {
		w.input = &Input{Name: p.name, Column: p.name, Kind: "onehot", Values: values}
	}
	return w
}

// place is the way of a category that is one input, its place in the order.
func (p *profile) place(what string, values []string) way {
	return way{what: "the place of its value, " + what, width: 1, fill: func(field string, dst []float32) bool {
		i := task.Find(values, field)
		dst[0] = float32(i)
		return i >= 0
	}}
}

// ways are those of a column.
func (p *profile) ways() (out []way) {
	if p.numeric {
		out = p.numbers()
	}
	if !p.numeric || p.whole && len(p.points) <= fewValues {
		out = append(out, p.categories()...)
	}
	out = slices.DeleteFunc(out, func(w way) bool { return w.width == 0 })
	// The ways of two values stand last, see styled.
	none := way{what: noInput, single: true, fill: func(string, []float32) bool { return true }}
	return slices.Insert(out, min(1, len(out)), none)
}

// noInput is the way of a column that the model does not see.
const noInput = "no input"
