package draft

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
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
	// rare: it is looked at after the others.
	rare bool
	// fitted to the scores: it is where a climb ended, and not one to start from.
	fitted bool
}

// number is the way of a number that becomes one input.
func number(what string, in Input) way {
	f := task.Feature{Clip: in.within()}
	if in.Log != nil {
		f.Log = &task.Log{Add: *in.Log}
	}
	return way{what: what, width: 1, input: &in, fill: func(field string, dst []float32) bool {
		v, ok := task.Number(field)
		dst[0] = float32((f.Seen(v) - *in.Mean) / *in.Std)
		return ok && !math.IsNaN(float64(dst[0])) && !math.IsInf(float64(dst[0]), 0)
	}}
}

// scaled is the way of a number that is shifted and scaled.
func scaled(what, column string, mean, std float64) way {
	return number(what, Input{Name: column, Column: column, Kind: "numeric", Mean: &mean, Std: &std})
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
		one := 1.0
		out = append(out, p.transformed("log(1 + value)", Input{Log: &one}, math.Log1p)...)
	}
	if lo > 0 {
		zero := 0.0
		out = append(out, p.transformed("log", Input{Log: &zero}, math.Log)...)
	}
	low, high := p.percentile(0.01), p.percentile(0.99)
	if low < high {
		clipped := p.transformed("clipped to its 1st and 99th percentile", Input{Clip: []*float64{&low, &high}},
			func(v float64) float64 { return min(max(v, low), high) })
		out = append(out, clipped...)
	}
	return append(out, p.binned()...)
}

// transformed are the ways of a number that goes through a function first, which in says.
func (p *profile) transformed(what string, in Input, of func(float64) float64) []way {
	values := make([]float64, len(p.points))
	for i, v := range p.points {
		values[i] = of(v)
	}
	mean, variance := stat.PopMeanVariance(values, p.weights)
	std, zero, one := math.Sqrt(variance), 0.0, 1.0
	in.Name, in.Column, in.Kind = p.name, p.name, "numeric"
	in.Mean, in.Std = &zero, &one
	plain := number(what, in)
	plain.single = true
	in.Mean, in.Std = &mean, &std
	both := number(what+", standardised", in)
	both.single = true
	return []way{plain, both}
}

// percentile is the value at a rank between 0 and 1, between neighbours in proportion, as NumPy has it.
func (p *profile) percentile(rank float64) float64 {
	at := rank * (floats.Sum(p.weights) - 1)
	seen := 0.0
	for i, v := range p.points {
		switch seen += p.weights[i]; {
		case at <= seen-1 || i == len(p.points)-1:
			return v
		case at < seen:
			return v + (at-(seen-1))*(p.points[i+1]-v)
		}
	}
	return 0
}

// binned are the ways of a number that is a bin: of so many that hold as many people, or are as wide, as a one-hot or
// as the place of the bin. A number at the edge of two is in the upper one, or in the lower one.
func (p *profile) binned() (out []way) {
	lo, hi := p.points[0], p.points[len(p.points)-1]
	for _, n := range []int{4, 5, 10} {
		var people, wide []float64
		for i := 1; i < n; i++ {
			rank := float64(i) / float64(n)
			people, wide = append(people, p.percentile(rank)), append(wide, lo+rank*(hi-lo))
		}
		for _, b := range []struct {
			what  string
			edges []float64
		}{
			{"of equal size", people},
			{"of equal size, closed above", p.above(people)},
			{"of equal width", wide},
			{"of equal width, closed above", p.above(wide)},
		} {
			edges := slices.DeleteFunc(slices.Compact(slices.Clone(b.edges)), func(e float64) bool { return e <= lo || e > hi })
			if len(edges) == 0 {
				continue
			}
			for _, form := range []string{"onehot", "index"} {
				w := bins(p.name, edges, form)
				w.what = fmt.Sprintf("one of %d bins %s, %s", n, b.what, form)
				out = append(out, w)
			}
		}
	}
	return out
}

// above moves edges to the next number of the column: who has the number of the edge is below it then.
func (p *profile) above(edges []float64) []float64 {
	out := make([]float64, 0, len(edges))
	for _, e := range edges {
		at, exact := slices.BinarySearch(p.points, e)
		if exact {
			at++
		}
		if at < len(p.points) {
			out = append(out, p.points[at])
		}
	}
	return out
}

// bins is the way of a number that is one of the bins between thresholds.
func bins(column string, edges []float64, form string) way {
	w := way{width: 1, rare: true, input: &Input{
		Name: column, Column: column, Kind: "thermometer", Thresholds: edges, Form: form,
	}}
	if form == "onehot" {
		w.width = len(edges) + 1
	}
	w.fill = func(field string, dst []float32) bool {
		v, ok := task.Number(field)
		at, exact := slices.BinarySearch(edges, v)
		if exact {
			at++
		}
		if form == "onehot" {
			clear(dst)
			dst[at] = 1
		} else {
			dst[0] = float32(at)
		}
		return ok
	}
	return w
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
		return i >= 0 || unknown(field) && w.width > 1
	}
	if !slices.Contains(values, "") {
		w.input = &Input{Name: p.name, Column: p.name, Kind: "onehot", Values: values}
	}
	if without > 0 {
		w.input.Form = "drop_first"
	}
	return w
}

// place is the way of a category that is one input, its place in the order.
func (p *profile) place(what string, values []string) way {
	in := &Input{Name: p.name, Column: p.name, Kind: "onehot", Values: values, Form: "index"}
	return way{what: "the place of its value, " + what, width: 1, input: in, fill: func(field string, dst []float32) bool {
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
