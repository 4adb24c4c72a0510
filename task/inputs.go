package task

import (
	"fmt"
	"math"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
)

// Made says whether the model's inputs are others than those of the features, so that a step in front of the model has
// to make them.
func (t *Task) Made() bool {
	return t.Latent != nil || slices.ContainsFunc(t.Features, func(f Feature) bool { return f.made() })
}

func (f *Feature) made() bool {
	return f.Clip != nil || f.Log != nil || f.Spread != 0 || f.Inputs != nil
}

// ModelInputs returns how many inputs the model has of the feature: Width, unless Inputs says otherwise, and
// none of a code.
func (f *Feature) ModelInputs() int {
	if f.Code {
		return 0
	}
	if f.Inputs != nil {
		return len(f.Inputs[0])
	}
	return f.Width
}

// zeroIsMissing says whether the model knows a missing value: as zeros where values are one-hot, also without the
// first.
func (f *Feature) zeroIsMissing() bool {
	switch {
	case f.Required != "":
		return false
	case f.Inputs == nil:
		return true
	}
	if f.ModelInputs() < 2 {
		return false
	}
	return !slices.ContainsFunc(f.Inputs, func(row []float64) bool {
		ones := 0
		for _, v := range row {
			if v == 1 {
				ones++
			} else if v != 0 {
				return true
			}
		}
		return ones > 1
	})
}

// ModelDim returns the number of inputs of the model.
func (t *Task) ModelDim() (n int) {
	for i := range t.Features {
		n += t.Features[i].ModelInputs()
	}
	return n
}

// Require says that the model refuses a row without a category of the one-hot feature at one of its inputs, or takes
// the missing one for a certain category: rows without one cannot be read, unless the feature has Impute.
func (t *Task) Require(input int, taken string) {
	at := 0
	for i := range t.Features {
		f := &t.Features[i]
		if at == input && f.Kind == OneHot {
			f.Required = ", and the model refuses that; where a program fills it in before the model, impute names what"
			if taken != "" {
				f.Required = fmt.Sprintf(", and the model takes it for %q: so say with impute", taken)
			}
		}
		at += f.ModelInputs()
	}
}

// clipped is the nearest value to v within Clip.
func (f *Feature) clipped(v float64) float64 {
	if f.Clip != nil {
		v = min(max(v, f.Clip[0]), f.Clip[1])
	}
	return v
}

// Seen is a raw number as the model sees it, up to mean and std: clipped, and its logarithm.
func (f *Feature) Seen(v float64) float64 {
	if v = f.clipped(v); f.Log != nil {
		v = math.Log(v + f.Log.Add)
	}
	return v
}

// unreadable says why the model has no input for a raw number, nil when it has one.
func (f *Feature) unreadable(v float64) error {
	v = f.clipped(v)
	if f.Log != nil && v+f.Log.Add <= 0 {
		return fmt.Errorf("%s has no logarithm (log: %s)", Decimal(v), Decimal(f.Log.Add))
	}
	return nil
}

// Plain makes the feature one whose numbers the model gets as they are.
func (f *Feature) Plain(spread float64) {
	f.Mean, f.Std, f.Spread = 0, math.Exp2(math.Round(math.Log2(spread))), spread
}

// madeKeys are what the model gets of a feature where that is not (value - mean) / std, or the inputs of its kind.
func (d *decoder) madeKeys(f *Feature) []key {
	l := &Log{}
	spread := &l.Std
	if f.Spread != 0 {
		spread = &f.Spread
	}
	if f.Log != nil {
		l, spread = f.Log, &f.Std
	}
	list := config.ListOf(config.AnyOf(config.Type("number"), config.ListOf(config.Type("number"))))
	clip := func() any { return openPair(f.Clip) }
	word := func() schema { return schema{"enum": InputWords()} }
	inputs := value{Form: config.AnyOf(word, list), Out: func() any { return f.Inputs }}
	return []key{
		{Name: "clip", Value: value{Form: pairOf(sideForm), Out: clip}, Omit: f.Clip == nil},
		{Name: "log", Value: d.Number(&l.Add), Omit: f.Log == nil, Keep: true},
		{Name: "spread", Value: d.Above0(spread), Omit: f.Log == nil && f.Spread == 0, Keep: true},
		{Name: "inputs", Value: inputs, Omit: f.Inputs == nil},
	}
}

// openPair is a pair as it is written: null for a side that is infinite.
func openPair(pair []float64) []*float64 {
	var out [2]*float64
	for i, v := range pair {
		if !math.IsInf(v, 0) {
			out[i] = &v
		}
	}
	return out[:]
}

// InputWords are the words for the model's inputs of values.
func InputWords() []string { return []string{"index", "drop_first", "onehot"} }

// settleLog makes a feature without the key "log" one without a logarithm.
func (e entry) settleLog() {
	switch {
	case e.Has("log"):
		e.Mean = 0
		if !e.Has("spread") && e.Kind.IsNumber() {
			e.errorf("log", "log needs spread, the standard deviation of the raw values, in which changes are counted; "+
				"`cfq task init` makes it from data")
		}
	case e.Has("spread") && !e.Has("mean") && !e.Has("std"):
		e.Log = nil
		e.Plain(e.Std)
	default:
		if e.Has("spread") {
			e.errorf("spread", "without log, spread belongs to a number that the model gets as it is: changes are counted in "+
				"std; remove spread, or mean and std")
		}
		e.Mean, e.Std, e.Log = e.Log.Mean, e.Log.Std, nil
	}
}

// madeOf reads and checks what the model gets of the feature.
func (e entry) madeOf() {
	if n := e.At["clip"]; n != nil {
		e.clip(n)
	}
	low := e.Bounds[0]
	if e.Levels != nil {
		low = e.Levels[0]
	}
	if e.Log != nil && e.Kind.IsNumber() && (e.Actionable || e.Levels != nil) && e.unreadable(low) != nil {
		e.errorf("log", "values of %s and below have no logarithm: give a lower bound above that, or clip",
			Decimal(-e.Log.Add))
	}
	if n := e.At["inputs"]; n != nil && e.Width > 0 {
		e.inputs(n)
	}
	if e.Impute != "" && e.Width > 0 {
		if why := e.refuses(e.Impute); why != "" {
			e.errorf("impute", "the value that stands for a missing one: %s", why)
		}
	}
	for _, key := range []string{"clip", "log", "inputs", "impute"} {
		if e.d.task.Encoded && e.Has(key) {
			e.errorf(key, "%q says how the model's inputs are made, and data files hold them (encoded: true); remove one of "+
				"the two", key)
		}
	}
}

// clip reads the pair of clip.
func (e entry) clip(n ast.Node) {
	e.Clip = []float64{math.Inf(-1), math.Inf(1)}
	e.d.pair(n, func(i int, n ast.Node) { e.d.Number(&e.Clip[i]).Read(n) })
	if e.Clip[0] >= e.Clip[1] {
		e.d.Errorf(n, "clip is a pair [lo, hi] with lo < hi, not %v and %v", e.Clip[0], e.Clip[1])
	}
}

// inputs reads the model's inputs of each value: a word, or a list.
func (e entry) inputs(n ast.Node) {
	places := e.places()
	if _, list := n.(*ast.SequenceNode); !list {
		word, ok := e.d.ReadText(n)
		if ok && !slices.Contains(InputWords(), word) {
			e.d.Errorf(n, "inputs is index, drop_first, onehot or a list with the inputs of each value, not %q%s", word,
				config.DidYouMean(word, InputWords()))
		} else if ok {
			e.Inputs = NamedInputs(word, places)
		}
		return
	}
	var all [][]float64
	for _, of := range config.Nodes(n) {
		var row []float64
		for _, v := range config.Nodes(of) {
			number, _ := e.d.ReadNumber(v)
			row = append(row, number)
		}
		all = append(all, row)
	}
	switch {
	case len(all) != places:
		e.d.Errorf(n, "feature %q: inputs of %d values, and it has %d", e.Name, len(all), places)
	case slices.ContainsFunc(all, func(row []float64) bool { return len(row) == 0 || len(row) != len(all[0]) }):
		e.d.Errorf(n, "feature %q: every value has as many inputs as the others, one or more", e.Name)
	case places > 1 && len(slices.CompactFunc(slices.Clone(all), slices.Equal)) == 1:
		e.d.Errorf(n, "feature %q: all its values have the same inputs, so the model cannot tell them apart; give each its "+
			"own, or remove the feature", e.Name)
	default:
		e.Inputs = all
	}
}

// NamedInputs are the inputs of values by a word of InputWords.
func NamedInputs(word string, places int) [][]float64 {
	all := make([][]float64, places)
	for i := range all {
		switch word {
		case "index":
			all[i] = []float64{float64(i)}
		case "drop_first":
			all[i] = make([]float64, max(places-1, 1))
			if i > 0 {
				all[i][i-1] = 1
			}
		default:
			all[i] = make([]float64, places)
			all[i][i] = 1
		}
	}
	return all
}
