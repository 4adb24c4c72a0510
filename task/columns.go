package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/internal/message"
)

// columns says where in a record everything is.
type columns struct {
	names    []string
	encoded  bool
	header   bool  // the file names its columns
	width    int   // fields that a record must have
	features []int // per feature, or per model input when encoded
	label    int   // -1: the file has none
	filter   []int
	groups   []int    // per Data.Subgroups
	twins    [][2]int // fields of columns with the same name, of which the first is used
}

// resolve finds the task's columns among names; unreadable says why a column that is not among them cannot be read.
func (t *Task) resolve(names []string, unreadable func(column string) string) (*columns, error) {
	c := &columns{names: names, width: len(names), label: -1}
	at := make(map[string]int, len(names))
	for i, n := range names {
		if _, ok := at[n]; !ok {
			at[n] = i
		}
	}
	inputs := t.InputNames()
	c.encoded = t.Encoded || (!t.hasColumns(at) && contains(at, inputs))
	var errs []error
	need := func(column, by string) int {
		i, ok := at[column]
		switch why := unreadable(column); {
		case !ok && why != "":
			errs = append(errs, fmt.Errorf("column %s (%s) cannot be read: %s", message.Quote(column), message.Clip(by), why))
			return -1
		case !ok:
			errs = append(errs, fmt.Errorf("there is no column %s (%s)%s", message.Quote(column), message.Clip(by), suggest(column, names)))
			return -1
		}
		return i
	}
	if c.encoded {
		for _, in := range inputs {
			c.features = append(c.features, need(in, "model input"))
		}
	} else {
		for i := range t.Features {
			c.features = append(c.features, need(t.Features[i].Column, "feature "+t.Features[i].Name))
		}
		for _, f := range t.Data.Filter {
			c.filter = append(c.filter, need(f.Column, "data.filter"))
		}
		for _, g := range t.Data.Subgroups {
			c.groups = append(c.groups, need(g, "data.subgroups"))
		}
	}
	if i, ok := at[t.Data.Label]; ok && t.Data.Label != "" {
		c.label = i
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("the file's columns are: %s", message.List(names, 100)))
		return nil, errors.Join(errs...)
	}
	c.findTwins(at)
	return c, nil
}

func noReason(string) string { return "" }

// unused returns the columns that are neither features nor filters nor subgroups.
func (c *columns) unused() []string {
	used := append(append(slices.Clone(c.features), c.filter...), c.groups...)
	var names []string
	for i, n := range c.names {
		if !slices.Contains(used, i) {
			names = append(names, n)
		}
	}
	return names
}

// findTwins notes the repeated columns among those that are used.
func (c *columns) findTwins(at map[string]int) {
	used := append(append(append(slices.Clone(c.features), c.filter...), c.groups...), c.label)
	for i, n := range c.names {
		if first := at[n]; first != i && slices.Contains(used, first) {
			c.twins = append(c.twins, [2]int{first, i})
		}
	}
}

func (t *Task) hasColumns(at map[string]int) bool {
	for i := range t.Features {
		if _, ok := at[t.Features[i].Column]; !ok {
			return false
		}
	}
	return true
}

func contains(at map[string]int, names []string) bool {
	for _, n := range names {
		if _, ok := at[n]; !ok {
			return false
		}
	}
	return true
}

// suggest names the column that was probably meant; the list of all follows elsewhere.
func suggest(column string, names []string) string {
	if n := message.Nearest(column, names); n != "" {
		return fmt.Sprintf("; did you mean %s?", message.Quote(n))
	}
	return ""
}

// header returns the columns of the file: from the task for a headerless file, otherwise from the first record. The record is returned
// again when it is data.
func (t *Task) header(first []string) (c *columns, data bool, err error) {
	if names := t.Data.Columns; len(names) > 0 {
		if slices.Equal(trimmed(first), names) { // a header that the task did not expect
			c, err = t.resolve(names, noReason)
			return c, false, err
		}
		if n := len(names); n > 1 && len(first) == n-1 && names[n-1] == t.Data.Label {
			names = names[:n-1] // people without outcome
		}
		c, err = t.resolve(names, noReason)
		return c, true, err
	}
	if t.Encoded && len(first) == t.Dim() && allNumbers(first) {
		c, err = t.resolve(t.InputNames(), noReason)
		return c, true, err
	}
	names := trimmed(first)
	c, err = t.resolve(names, noReason)
	return c, false, err
}

func trimmed(rec []string) []string {
	out := make([]string, len(rec))
	for i, s := range rec {
		out[i] = strings.TrimSpace(s)
	}
	return out
}

func allNumbers(rec []string) bool {
	for _, s := range rec {
		if _, ok := Number(strings.TrimSpace(s)); !ok {
			return false
		}
	}
	return true
}
