package promise

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/recourse/constraint"
	"cfq/task"
)

// The columns of a promises file beside the person's values. One whose name the task uses itself is written with the prefix taken.
const (
	colRow    = "row"    // number of the person's row in the data, see task.ReadOptions
	colLine   = "line"   // its line in that file
	colStatus = "status" // a recourse.Status
	colMethod = "method" // a recourse.Method: how the answer was come to
	colCost   = "cost"
	colMargin = "margin" // after the action
	colBefore = "before" // as they are
	colAction = "action" // what changes, in words

	taken = "promise."
)

func ownColumns() []string {
	return []string{colRow, colLine, colStatus, colMethod, colCost, colMargin, colBefore, colAction}
}

// table is how a task's people stand in a file: a column for each raw column of the features, or for each model input when the task's data
// are encoded.
type table struct {
	t        *task.Task
	names    []string
	features [][]int // per column: the features that read it; nil when encoded
	scratch  []float32
}

func newTable(t *task.Task) *table {
	b := &table{t: t, scratch: make([]float32, t.Dim())}
	if t.Encoded {
		b.names = t.InputNames()
		return b
	}
	for i := range t.Features {
		at := slices.Index(b.names, t.Features[i].Column)
		if at < 0 {
			at = len(b.names)
			b.names, b.features = append(b.names, t.Features[i].Column), append(b.features, nil)
		}
		b.features[at] = append(b.features[at], i)
	}
	return b
}

// uses says whether a column of this name means something to the task.
func (b *table) uses(name string) bool {
	d := &b.t.Data
	return slices.Contains(b.names, name) || name == d.Label || slices.Contains(d.Subgroups, name) || slices.Contains(d.Drop, name) ||
		slices.ContainsFunc(d.Filter, func(c task.Condition) bool { return c.Column == name })
}

// column is what one of this program's own columns is called.
func (b *table) column(name string) string {
	if b.uses(name) {
		return taken + name
	}
	return name
}

// texts returns the fields of a person, one per column. It is an error when reading them again would not give the same model inputs.
func (b *table) texts(dst []string, x []float32) ([]string, error) {
	if b.t.Encoded {
		for _, v := range x {
			dst = append(dst, decimal(v))
		}
		return dst, nil
	}
	for c, features := range b.features {
		text, err := b.text(features, x)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", b.names[c], err)
		}
		dst = append(dst, text)
	}
	return dst, nil
}

// text finds a field from which all of the features that read it get the inputs they have in x.
func (b *table) text(features []int, x []float32) (string, error) {
	var errs []error
	for _, i := range features {
		f := &b.t.Features[i]
		text, err := f.Decode(x[f.Offset : f.Offset+f.Width])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if text != "" && slices.Contains(b.t.Data.Missing, text) {
			errs = append(errs, fmt.Errorf("%q, the value of feature %q, would be read as a missing value (data.missing)", text, f.Name))
			continue
		}
		if other := slices.IndexFunc(features, func(j int) bool { return !b.means(j, text, x) }); other >= 0 {
			errs = append(errs, fmt.Errorf("%q, the value of feature %q, is another model input for feature %q than the one that was judged",
				text, f.Name, b.t.Features[features[other]].Name))
			continue
		}
		return text, nil
	}
	return "", errors.Join(errs...)
}

// means says whether a raw text is the inputs that feature i has in x.
func (b *table) means(i int, text string, x []float32) bool {
	f := &b.t.Features[i]
	have := b.scratch[:f.Width]
	return f.Encode(text, have) == nil && slices.Equal(have, x[f.Offset:f.Offset+f.Width])
}

// decimal is the shortest text that is read back as v through double precision.
func decimal(v float32) string {
	s := strconv.FormatFloat(float64(v), 'g', -1, 32)
	if back, _ := strconv.ParseFloat(s, 64); float32(back) == v {
		return s
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}

// words says what changes: "hours-per-week 40 -> 45; workclass Private -> State-gov".
func words(changes []constraint.Change) string {
	parts := make([]string, len(changes))
	for i, c := range changes {
		parts[i] = fmt.Sprintf("%s %s -> %s", c.Feature, known(c.From), known(c.To))
		if c.Linked {
			parts[i] += " (follows)"
		}
	}
	return strings.Join(parts, "; ")
}

func known(text string) string {
	if text == "" {
		return "(missing)"
	}
	return text
}
