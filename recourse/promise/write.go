package promise

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/lists"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Writer writes a promises file: plain comma-separated text with a header, one row per person. The columns are row,
// line, status, method, cost, margin, before, action and, of a task that imputes, imputed (one that the task uses as a
// column itself is called promise.NAME). Then come the columns that the task reads, with the values the person has
// after the action. So the file can be read as data.
type Writer struct {
	csv     *csv.Writer
	columns *Columns
	rec     []string
}

// Line is one row of a promises file.
type Line struct {
	Row, Line int     // of the person in the data
	Before    float64 // margin as they are
	X         []float32
	Action    recourse.Action
	Method    recourse.Method     // how it was come to; "" when unknown or not needed
	Changes   []constraint.Change // of Action.Point; nil when there is none
	Imputed   []int               // features whose value was missing, see task.People
}

// NewWriter writes the header. Call Flush at the end.
func NewWriter(w io.Writer, t *task.Task) (*Writer, error) {
	c := NewColumns(t)
	p := &Writer{csv: csv.NewWriter(w), columns: c}
	return p, p.csv.Write(append([]string{c.column(colRow), c.column(colLine)}, c.Names()...))
}

// Write writes one person. It is an error when the raw values would not be read back as exactly the point that was
// judged.
func (p *Writer) Write(l Line) error {
	line := ""
	if l.Line > 0 {
		line = strconv.Itoa(l.Line)
	}
	var err error
	if p.rec, err = p.columns.Fields(append(p.rec[:0], strconv.Itoa(l.Row), line), l); err != nil {
		return fmt.Errorf("row %d: %w", l.Row, err)
	}
	return p.csv.Write(p.rec)
}

// Flush writes what is still held back.
func (p *Writer) Flush() error {
	p.csv.Flush()
	return p.csv.Error()
}

// Columns are those of a promises file except row and line: a person's values stand in a column for each raw column of
// the features, or for each model input when the task's data are encoded.
type Columns struct {
	t        *task.Task
	names    []string
	own      []string // those of the promise, by their plain names
	values   []string // those of the person's values
	features [][]int  // that read each of values; nil when encoded
	scratch  []float32
}

// NewColumns names the columns for rows that have others in front: a column of this program that is called like one of
// them has the prefix promise.
func NewColumns(t *task.Task, others ...string) *Columns {
	c := &Columns{t: t, scratch: make([]float32, t.Dim()), own: ownColumns()[2:]}
	if slices.ContainsFunc(t.Features, func(f task.Feature) bool { return f.Impute != "" }) {
		c.own = append(c.own, colImputed)
	}
	if t.Encoded {
		c.values = t.InputNames()
	} else {
		for i := range t.Features {
			at := slices.Index(c.values, t.Features[i].Column)
			if at < 0 {
				at = len(c.values)
				c.values, c.features = append(c.values, t.Features[i].Column), append(c.features, nil)
			}
			c.features[at] = append(c.features[at], i)
		}
	}
	for _, name := range c.own {
		if name = c.column(name); slices.Contains(others, name) {
			name = taken + name
		}
		c.names = append(c.names, name)
	}
	c.names = append(c.names, c.values...)
	return c
}

// Names returns the names of the columns, first those of the promise and then those of the person's values.
func (c *Columns) Names() []string { return c.names }

// Fields appends the fields of one person. It is an error when the raw values would not be read back as exactly the
// point that was judged.
func (c *Columns) Fields(dst []string, l Line) ([]string, error) {
	point, cost, margin, action := l.X, "", "", ""
	switch l.Action.Status {
	case recourse.AlreadyFavourable:
		cost, margin = "0", decimal(float32(l.Before))
	case recourse.Found:
		point, cost, margin = l.Action.Point, strconv.FormatFloat(l.Action.Cost, 'g', 9, 64),
			decimal(float32(l.Action.Margin))
		action = words(l.Changes)
	}
	dst = append(dst, l.Action.Status.String(), string(l.Method), cost, margin, decimal(float32(l.Before)), action)
	if slices.Contains(c.own, colImputed) {
		names := lists.Map(l.Imputed, func(i int) string { return c.t.Features[i].Name })
		dst = append(dst, strings.Join(names, "; "))
	}
	return c.texts(dst, point)
}

// The columns of a promises file before the person's values. One whose name the task uses itself is written with
// the prefix taken.
const (
	colRow    = "row"    // number of the person's row in the data, see task.ReadOptions
	colLine   = "line"   // its line in that file
	colStatus = "status" // a recourse.Status
	colMethod = "method" // a recourse.Method: how the answer was come to
	colCost   = "cost"
	colMargin = "margin" // after the action
	colBefore = "before" // as they are
	colAction = "action" // what changes, in words
	// the features whose value the data lack: the person's values are those of task.Feature.Impute, from which they change
	colImputed = "imputed"

	taken = "promise."
)

func ownColumns() []string {
	return []string{colRow, colLine, colStatus, colMethod, colCost, colMargin, colBefore, colAction}
}

func (c *Columns) uses(name string) bool {
	d := &c.t.Data
	return slices.Contains(c.values, name) || name == d.Label || slices.Contains(d.Subgroups, name) ||
		slices.Contains(d.Drop, name) ||
		slices.ContainsFunc(d.Filter, func(f task.Condition) bool { return f.Column == name })
}

func (c *Columns) column(name string) string {
	if c.uses(name) {
		return taken + name
	}
	return name
}

func (c *Columns) texts(dst []string, x []float32) ([]string, error) {
	if c.t.Encoded {
		for _, v := range x {
			dst = append(dst, decimal(v))
		}
		return dst, nil
	}
	for k, features := range c.features {
		text, err := c.text(features, x)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.values[k], err)
		}
		dst = append(dst, text)
	}
	return dst, nil
}

// text finds a field from which all of the features that read it get the inputs they have in x.
func (c *Columns) text(features []int, x []float32) (string, error) {
	var errs []error
	for _, i := range features {
		f := &c.t.Features[i]
		text, err := f.Decode(x[f.Offset : f.Offset+f.Width])
		other := slices.IndexFunc(features, func(j int) bool {
			f := &c.t.Features[j]
			have := c.scratch[:f.Width]
			return f.Encode(text, have) != nil || !slices.Equal(have, x[f.Offset:f.Offset+f.Width])
		})
		switch {
		case err != nil:
		case text != "" && f.Category() == nil && slices.Contains(c.t.Data.Missing, text):
			err = fmt.Errorf("%q, the value of feature %q, would be read as a missing value (data.missing)", text, f.Name)
		case other >= 0:
			err = fmt.Errorf("%q, the value of feature %q, is not the model input of feature %q that was judged", text, f.Name,
				c.t.Features[features[other]].Name)
		default:
			return text, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
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
	return strings.Join(lists.Map(changes, func(c constraint.Change) string {
		follows := ""
		if c.Linked {
			follows = " (follows)"
		}
		return fmt.Sprintf("%s %s -> %s%s", c.Feature, cmp.Or(c.From, "(missing)"), cmp.Or(c.To, "(missing)"), follows)
	}), "; ")
}
