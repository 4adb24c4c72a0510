package draft

import (
	"math"
	"slices"

	"cfq/task"
)

// scaling is how numbers become model inputs.
type scaling int

const (
	standard scaling = iota // less the mean, divided by the standard deviation
	raw                     // as they are
	span                    // from 0 for the least to 1 for the greatest
)

// layout is one way of making model inputs of the columns.
type layout struct {
	columns      []*source
	numbersFirst bool // numbers, then single 0/1 inputs, then groups, as encoders write them
	appearance   bool // values of a group as they appear in the file, not in alphabetical order
	twoInputs    bool // two texts are a group of two inputs, not one input
	own          bool // a missing category is a value with an input of its own, not a group of zeros
	first        bool // the first value of a category has no input
	split        bool // few whole numbers are a group, not a number
	flags        bool // two numbers are scaled as numbers, not 0 and 1
	flipped      map[string]bool
	orders       map[string][]string // of the values of a group, where neither order above suits the model
	scaling      scaling
}

// feature is a feature with where it comes from.
type feature struct {
	task.Feature
	from  *source
	ofSet string // the category whose first value has no input
}

// features returns the task's features, with Offset and Width set. The file's own groups of 0/1 columns are single inputs here.
func (l *layout) features() []feature {
	var out []feature
	for _, s := range l.columns {
		out = append(out, l.make(s)...)
	}
	if l.numbersFirst {
		rank := func(f feature) int {
			switch {
			case f.Kind == task.OneHot || f.ofSet != "":
				return 2
			case f.Kind == task.Binary:
				return 1
			}
			return 0
		}
		slices.SortStableFunc(out, func(a, b feature) int { return rank(a) - rank(b) })
	}
	at := 0
	for i := range out {
		out[i].Offset = at
		at += out[i].Width
	}
	return out
}

// width returns the number of inputs that a column makes.
func (l *layout) width(s *source) int {
	switch {
	case s.class == category, s.class == individual, s.class == grade && l.split, s.class == pair && (l.twoInputs || l.many(s)):
		return len(l.values(s)) - l.left(s)
	default:
		return 1
	}
}

// many says whether two texts and the missing one are three values.
func (l *layout) many(s *source) bool { return l.own && !s.numeric && len(s.markers) > 0 }

func (l *layout) left(*source) int {
	if l.first {
		return 1
	}
	return 0
}

// values returns the values of a group in the order of the inputs.
func (l *layout) values(s *source) []string {
	if order, ok := l.orders[s.name]; ok {
		return order
	}
	out := s.sorted()
	if l.appearance && !s.numeric {
		out = slices.Clone(s.texts)
	}
	if l.own && !s.numeric {
		out = append(out, s.markers...)
		if !l.appearance {
			slices.Sort(out)
		}
	}
	return out
}

func (l *layout) make(s *source) []feature {
	f := feature{from: s}
	inf := math.Inf(1)
	f.Feature = task.Feature{
		Name: s.name, Column: s.name, Std: 1, Width: 1, Weight: 1, Direction: task.Any, Actionable: s.protect == "", Mutable: s.protect == "",
		Bounds: [2]float64{-inf, inf}, MaxIncrease: inf, MaxDecrease: inf, MaxChange: inf,
	}
	switch {
	case l.width(s) > 1 || s.class == category || s.class == individual:
		return l.group(f)
	case s.class == pair, s.class == flag && !l.flags:
		values := s.sorted()
		if l.flipped[s.name] {
			slices.Reverse(values)
		}
		f.Kind, f.Zero, f.One = task.Binary, values[0], values[1]
		f.Shares = []float64{s.share(f.One)}
	case s.class == flag:
		f.Kind, f.Values = task.Ordinal, s.sorted()
		f.Levels = slices.Clone(s.points)
		l.scale(&f)
	default:
		f.Kind = task.Numeric
		lo, hi, _ := s.bounds()
		if s.class == grade {
			f.Kind, lo, hi = task.Ordinal, s.points[0], s.points[len(s.points)-1]
		}
		f.Bounds, f.Step = [2]float64{lo, hi}, s.step()
		if f.Kind == task.Ordinal && f.Step == 0 {
			f.Step = 1
		}
		l.scale(&f)
	}
	return []feature{f}
}

// scale sets what makes an input of a number.
func (l *layout) scale(f *feature) {
	s := f.from
	mean, std := s.moments()
	f.MAD, f.Quantiles = short(s.mad()), s.quantiles()
	switch l.scaling {
	case standard:
		f.Mean, f.Std = short(mean), short(std)
	case span:
		f.Mean, f.Std = s.points[0], short(s.points[len(s.points)-1]-s.points[0])
	}
	if l.scaling != standard && std > 0 {
		f.Weight = task.Rounded(f.Std/std, 4)
	}
}

// group makes a one-hot feature, or one 0/1 feature for each value but the first.
func (l *layout) group(f feature) []feature {
	s := f.from
	values := l.values(s)
	if !l.first {
		f.Kind, f.Values, f.Width = task.OneHot, values, len(values)
		for _, v := range values {
			f.Shares = append(f.Shares, task.Rounded(s.share(v)+s.markerShare(v), 6))
		}
		return []feature{f}
	}
	var out []feature
	for _, v := range values[min(1, len(values)):] {
		one := f
		one.Name, one.Kind, one.One, one.ofSet = s.name+"="+v, task.Binary, v, s.name
		one.Actionable, one.Mutable = false, false
		one.Shares = []float64{task.Rounded(s.share(v)+s.markerShare(v), 6)}
		out = append(out, one)
	}
	return out
}

// markerShare is the share of a missing marker that is a value of its own.
func (p *profile) markerShare(v string) float64 {
	if !slices.Contains(p.markers, v) {
		return 0
	}
	return float64(p.col.counts[p.col.index[v]]) / float64(max(len(p.col.codes), 1))
}

// missing returns the markers that mean "not known" anywhere in the file.
func (l *layout) missing() []string {
	var out []string
	for _, s := range l.columns {
		if l.own && !s.numeric {
			continue
		}
		for _, m := range s.markers {
			if !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	if l.own { // a marker that is a value elsewhere cannot be both
		out = slices.DeleteFunc(out, func(m string) bool {
			return slices.ContainsFunc(l.columns, func(s *source) bool { return !s.numeric && slices.Contains(s.markers, m) })
		})
	}
	slices.Sort(out)
	return out
}
