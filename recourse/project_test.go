package recourse

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse/constraint"
	"cfq/task"
)

// drawTask draws a small task. Round numbers make float32 arithmetic exact, so that ties are ties.
func drawTask(t *rapid.T, round bool) *task.Task {
	number := func(label string, lo, hi int) float64 {
		v := float64(rapid.IntRange(lo*4, hi*4).Draw(t, label)) / 4
		if !round {
			v *= rapid.Float64Range(0.5, 1.7).Draw(t, label+" odd")
		}
		return v
	}
	n := rapid.IntRange(1, 6).Draw(t, "features")
	var fs []task.Feature
	for i := range n {
		f := feature(string(rune('a'+i)), rapid.SampledFrom([]string{
			"numeric", "ordinal", "binary",
			"onehot",
		}).Draw(t, "kind"))
		f.Actionable = rapid.IntRange(0, 4).Draw(t, "actionable") > 0
		if f.Encoding.Kind() != "onehot" {
			f.Direction = rapid.SampledFrom([]string{"any", "any", "increase", "decrease"}).Draw(t,
				"direction")
		}
		switch f.Encoding.Kind() {
		case "numeric", "ordinal":
			f.Number().Mean, f.Number().Std = number("mean", -2, 2), rapid.SampledFrom([]float64{0.5, 1, 2}).Draw(t, "std")
			if !round {
				f.Number().Std *= rapid.Float64Range(0.3, 900).Draw(t, "std odd")
			}
			if rapid.Bool().Draw(t, "bounded") {
				f.Bounds[0] = number("low", -4, 0)
				f.Bounds[1] = f.Bounds[0] + number("range", 0, 8)
				for range rapid.IntRange(0, 2).Draw(t, "missing") {
					far := 0.25 + float64(rapid.IntRange(0, 8).Draw(t, "far"))/4
					n := f.Number()
					n.Missing = append(n.Missing, rapid.SampledFrom([]float64{f.Bounds[0] - far, f.Bounds[1] + far}).Draw(t, "code"))
				}
			}
			if rapid.Bool().Draw(t, "stepped") {
				f.Step = rapid.SampledFrom([]float64{0.25, 0.5, 1}).Draw(t, "step")
			}
			if rapid.Bool().Draw(t, "limited") {
				f.MaxIncrease, f.MaxDecrease, f.MaxChange = number("inc", 0, 4), number("dec", 0, 4), number("chg", 0, 4)
			}
			if f.Encoding.Kind() == "ordinal" && rapid.Bool().Draw(t, "levels") {
				for v := range rapid.IntRange(1, 5).Draw(t, "level count") {
					f.Number().Levels = append(f.Number().Levels, float64(v*v)-3)
				}
			}
		case "onehot":
			values := []string{"p", "q", "r", "s"}[:rapid.IntRange(1, 4).Draw(t, "values")]
			hot(&f).Values, f.Width = values, len(values)
			if rapid.Bool().Draw(t, "transitions") {
				f.Transitions = map[string][]string{}
				for _, from := range values {
					if to := rapid.SliceOfDistinct(rapid.SampledFrom(values), rapid.ID[string]).Draw(t, "to"); len(to) > 0 {
						f.Transitions[from] = to
					}
				}
			} else if rapid.Bool().Draw(t, "not known") {
				hot(&f).MissingValues = rapid.SliceOfDistinct(rapid.SampledFrom(values), rapid.ID[string]).Draw(t, "missing")
			}
		}
		fs = append(fs, f)
	}
	return taskOf(rapid.IntRange(0, n).Draw(t, "limit"), fs...)
}

func drawPerson(t *rapid.T, tk *task.Task) []float32 {
	x := make([]float32, tk.Dim())
	for i := range tk.Features {
		f := &tk.Features[i]
		switch f.Encoding.Kind() {
		case "onehot":
			if v := rapid.IntRange(-1, f.Width-1).Draw(t, "value"); v >= 0 {
				x[f.Offset+v] = 1
			}
		case "binary":
			x[f.Offset] = float32(rapid.IntRange(0, 1).Draw(t, "binary"))
		default:
			raw := float64(rapid.IntRange(-20, 20).Draw(t, "raw")) / 4
			if len(f.Number().Levels) > 0 && rapid.Bool().Draw(t, "on level") {
				raw = rapid.SampledFrom(f.Number().Levels).Draw(t, "level")
			}
			if len(f.Number().Missing) > 0 && rapid.Bool().Draw(t, "no record") {
				raw = rapid.SampledFrom(f.Number().Missing).Draw(t, "code")
			}
			x[f.Offset] = float32((raw - f.Number().Mean) / f.Number().Std)
		}
	}
	return x
}

func drawDelta(t *rapid.T, dim int, round bool) []float32 {
	d := make([]float32, dim)
	for j := range d {
		switch rapid.IntRange(0, 3).Draw(t, "delta kind") {
		case 0:
		case 1:
			d[j] = float32(rapid.IntRange(-3, 3).Draw(t, "whole"))
		default:
			d[j] = float32(rapid.IntRange(-64, 64).Draw(t, "part")) / 16
		}
		if !round {
			d[j] *= rapid.Float32Range(0.5, 20).Draw(t, "odd")
		}
	}
	return d
}

// holdProjection returns the projection of d, which is feasible, and its own projection to the bit.
func holdProjection(t rapid.TB, a *constraint.Set, project func(x, d []float32), x, d []float32) []float32 {
	t.Helper()
	p := slices.Clone(d)
	project(x, p)
	must.Do(must.In(t, d), a.Check(x, p))
	again := slices.Clone(p)
	project(x, again)
	for j := range p {
		must.Same(t, math.Float32bits(again[j]), math.Float32bits(p[j]))
	}
	return p
}

func TestProjectFeasibleIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tk := drawTask(t, false)
		if rapid.Bool().Draw(t, "ball") {
			tk.Latent = &task.Latent{Radius: rapid.Float64Range(0.1, 4).Draw(t, "radius")}
		}
		a := compile(t, tk)
		x := drawPerson(t, tk)
		d := drawDelta(t, a.Dim(), false)
		if rapid.IntRange(0, 5).Draw(t, "bad numbers") == 0 {
			d[0] = rapid.SampledFrom([]float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}).Draw(t, "bad")
		}
		for _, project := range []func(x, d []float32){a.Project, a.ProjectRelaxed} {
			p := holdProjection(t, a, project, x, d)
			if l := tk.Latent; l != nil && a.Cost(x, p) > l.Radius*(1+1e-5) {
				t.Fatalf("projection of %v for %v costs %v of %v", d, x, a.Cost(x, p), l.Radius)
			}
			at := make([]float32, a.Dim())
			Point(at, x, p)
			for i := range tk.Features {
				if f := &tk.Features[i]; f.Encoding.Kind() == "onehot" || f.Encoding.Kind() == "binary" {
					for _, v := range at[f.Offset : f.Offset+f.Width] {
						if v != 0 && v != 1 {
							t.Fatalf("feature %s becomes %v", f.Name, at[f.Offset:f.Offset+f.Width])
						}
					}
				}
			}
		}
	})
}

// feasibleChanges lists every change of one feature by the task file's own words, in
// raw units; for a continuous feature, nil and its interval.
func feasibleChanges(f *task.Feature, x []float32) (changes [][]float64, lo, hi float64) {
	stay := make([]float64, f.Width)
	changes = [][]float64{stay}
	if !f.Actionable {
		return changes, 0, 0
	}
	if f.Encoding.Kind() == "onehot" {
		cur := slices.Index(x, 1)
		notKnown := func(v int) bool { return v >= 0 && slices.Contains(hot(f).MissingValues, f.Values()[v]) }
		for to := range f.Values() {
			if to == cur || notKnown(cur) || notKnown(to) ||
				f.Transitions != nil && (cur < 0 || !slices.Contains(f.Transitions[f.Values()[cur]], f.Values()[to])) {
				continue
			}
			c := make([]float64, f.Width)
			if cur >= 0 {
				c[cur] = -1
			}
			c[to] = 1
			changes = append(changes, c)
		}
		return changes, 0, 0
	}
	number := f.Number()
	if number == nil {
		number = &task.Standardized{Std: 1}
	}
	raw := float64(x[0])*number.Std + number.Mean
	for _, v := range number.Missing {
		beyond := v < f.Bounds[0] && raw < v || v > f.Bounds[1] && raw > v
		if math.Abs(raw-v) < 1e-5 || beyond && len(number.Levels) == 0 {
			return changes, 0, 0
		}
	}
	lo, hi = math.Min(f.Bounds[0], raw)-raw, math.Max(f.Bounds[1], raw)-raw
	lo, hi = math.Max(lo, -math.Min(f.MaxDecrease, f.MaxChange)), math.Min(hi, math.Min(f.MaxIncrease, f.MaxChange))
	if f.Direction == "increase" {
		lo = 0
	}
	if f.Direction == "decrease" {
		hi = 0
	}
	var values []float64
	step := f.Step
	switch {
	case f.Encoding.Kind() == "binary":
		values = []float64{0, 1}
	case f.Encoding.Kind() == "ordinal" && len(number.Levels) > 0:
		values = number.Levels
	case f.Encoding.Kind() == "ordinal" && step == 0:
		step = 1
	}
	if values == nil && step == 0 {
		return nil, lo / number.Std, hi / number.Std
	}
	first, last := -400, 400 // stand for no limit
	if step > 0 && !math.IsInf(lo, 0) {
		first = int(math.Floor(lo / step))
	}
	if step > 0 && !math.IsInf(hi, 0) {
		last = int(math.Ceil(hi / step))
	}
	for n := first; values == nil && n <= last; n++ {
		// A person's raw value is only as exact as its float32 input.
		if c := float64(n) * step; n != 0 && c >= lo-0.01*step && c <= hi+0.01*step {
			changes = append(changes, []float64{c / number.Std})
		}
	}
	for _, v := range values {
		if c := v - raw; c != 0 && c >= lo && c <= hi {
			changes = append(changes, []float64{c / number.Std})
		}
	}
	return changes, lo / number.Std, hi / number.Std
}

func naiveProject(tk *task.Task, x, delta []float32) []float32 {
	type part struct {
		i    int
		size float64
	}
	out := make([]float32, len(x))
	var parts []part
	for i := range tk.Features {
		f := &tk.Features[i]
		fx, fd := x[f.Offset:f.Offset+f.Width], delta[f.Offset:f.Offset+f.Width]
		changes, lo, hi := feasibleChanges(f, fx)
		best := 0
		score := func(c []float64) float64 { // larger is better
			if f.Encoding.Kind() != "onehot" {
				return -math.Abs(c[0] - math.Max(lo, math.Min(hi, float64(fd[0]))))
			}
			to := slices.IndexFunc(c, func(v float64) bool { return v > 0 })
			if to < 0 {
				if to = slices.Index(fx, 1); to < 0 {
					return 0.5
				}
			}
			return math.Max(0, math.Min(1, float64(fx[to])+float64(fd[to])))
		}
		var c []float64
		if changes == nil {
			c = []float64{math.Max(lo, math.Min(hi, float64(fd[0])))}
		} else {
			for k := range changes {
				s, b := score(changes[k]), score(changes[best])
				if s > b || s == b && math.Abs(changes[k][0]) < math.Abs(changes[best][0]) && f.Encoding.Kind() != "onehot" {
					best = k
				}
			}
			c = changes[best]
		}
		size := 0.0
		for j, v := range c {
			out[f.Offset+j] = float32(v)
			size = math.Max(size, math.Abs(v))
		}
		parts = append(parts, part{i, size})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.size, a.size) })
	if k := tk.MaxFeatures; k > 0 && k < len(parts) {
		for _, p := range parts[k:] {
			f := &tk.Features[p.i]
			clear(out[f.Offset : f.Offset+f.Width])
		}
	}
	return out
}

func TestProjectAgreesWithEnumeration(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tk := drawTask(t, true)
		a := compile(t, tk)
		x := drawPerson(t, tk)
		d := drawDelta(t, a.Dim(), true)
		got := slices.Clone(d)
		a.Project(x, got)
		must.Same(t, naiveProject(tk, x, d), got)
	})
}

func TestFeasibleActionsStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tk := drawTask(t, true)
		a := compile(t, tk)
		x := drawPerson(t, tk)
		d := make([]float32, a.Dim())
		left := a.Limit()
		for i := range tk.Features {
			f := &tk.Features[i]
			changes, lo, hi := feasibleChanges(f, x[f.Offset:f.Offset+f.Width])
			if left == 0 || rapid.Bool().Draw(t, "leave") {
				continue
			}
			left--
			if changes == nil {
				d[f.Offset] = float32(math.Max(lo, math.Min(hi, float64(rapid.Float32Range(-9, 9).Draw(t, "change")))))
				continue
			}
			for j, v := range rapid.SampledFrom(changes).Draw(t, "change") {
				d[f.Offset+j] = float32(v)
			}
		}
		must.Do(t, a.Check(x, d))
		p := slices.Clone(d)
		a.Project(x, p)
		must.Same(t, d, p)
	})
}

func TestCheckNames(t *testing.T) {
	t.Parallel()
	a := compile(t, parsed(`features:
- {name: age, kind: numeric, actionable: false}
- {name: edu, kind: numeric, step: 1, direction: increase, bounds: [0, 3]}
- {name: gain, kind: numeric, max_change: 2}
- {name: job, kind: onehot, values: [a, b, c], transitions: {a: [b]}}
- {name: grade, kind: ordinal, values: [0, 1, 4]}
sparsity: {max_features: 2}
`))
	x := []float32{30, 1, 0, 1, 0, 0, 1}
	tests := []struct {
		name  string
		delta []float32
		want  []string
	}{
		{"fine", []float32{0, 2, 0, -1, 1, 0, 0}, nil},
		{"immutable", []float32{1, 0, 0, 0, 0, 0, 0}, []string{`"age"`, "immutable"}},
		{"too high", []float32{0, 3, 0, 0, 0, 0, 0}, []string{`"edu"`, "bounds"}},
		{"wrong way", []float32{0, -1, 0, 0, 0, 0, 0}, []string{`"edu"`, "direction"}},
		{"off the grid", []float32{0, 0.5, 0, 0, 0, 0, 0}, []string{`"edu"`, "step"}},
		{"too far", []float32{0, 0, 2.5, 0, 0, 0, 0}, []string{`"gain"`, "largest change"}},
		{"not a number", []float32{0, 0, float32(math.NaN()), 0, 0, 0, 0}, []string{`"gain"`, "finite"}},
		{"transition", []float32{0, 0, 0, -1, 0, 1, 0}, []string{`"job"`, "transitions"}},
		{"half a switch", []float32{0, 0, 0, -0.5, 0.5, 0, 0}, []string{`"job"`, "category"}},
		{"empty group", []float32{0, 0, 0, -1, 0, 0, 0}, []string{`"job"`, "empty"}},
		{"no such grade", []float32{0, 0, 0, 0, 0, 0, 2}, []string{`"grade"`, "category"}},
		{"too many", []float32{0, 1, 1, 0, 0, 0, -1}, []string{"sparsity", "3 features"}},
		{"several", []float32{1, 0.5, 0, 0, 0, 0, 0}, []string{`"age"`, `"edu"`}},
	}
	for _, tt := range tests {
		err := a.Check(x, tt.delta)
		if tt.want == nil {
			must.Do(must.In(t, tt.name), err)
			continue
		}
		var v *constraint.Violation
		if !errors.As(err, &v) {
			t.Errorf("%s: error %v is no constraint.Violation", tt.name, err)
			continue
		}
		for _, w := range tt.want {
			must.Has(must.In(t, tt.name), err.Error(), w)
		}
	}
	right, short := make([]float32, a.Dim()), make([]float32, a.Dim()-1)
	for _, v := range [][2][]float32{{right, short}, {short, right}, {right, nil}, {append(right, 0), append(right, 0)}} {
		if a.Check(v[0], v[1]) == nil {
			t.Errorf("%d inputs and %d are accepted", len(v[0]), len(v[1]))
		}
	}
}

func TestProjectTies(t *testing.T) {
	t.Parallel()
	a := compile(t, taskOf(0, oneHot("job", "a", "b", "c")))
	missing := []float32{0, 0, 0}
	tests := []struct {
		name           string
		x, delta, want []float32
	}{
		{"stays when another only ties", []float32{1, 0, 0}, []float32{0, 1, 0}, []float32{0, 0, 0}},
		{"the box makes ties", []float32{1, 0, 0}, []float32{0, 5, 0}, []float32{0, 0, 0}},
		{"goes when the current one falls", []float32{1, 0, 0}, []float32{-0.25, 5, 0}, []float32{-1, 1, 0}},
		{"the first of two", []float32{1, 0, 0}, []float32{-0.5, 0.75, 0.75}, []float32{-1, 1, 0}},
		{"missing stays missing", missing, []float32{0, 0, 0}, missing},
		{"missing pushed a little", missing, []float32{0, 0.5, 0.1}, missing},
		{"missing pushed", missing, []float32{0, 0.5, 0.625}, []float32{0, 0, 1}},
		{"no value is taken away", []float32{0, 1, 0}, []float32{0, -3, 0}, missing},
	}
	for _, tt := range tests {
		got := slices.Clone(tt.delta)
		a.Project(tt.x, got)
		must.Same(t, tt.want, got)
	}
}
