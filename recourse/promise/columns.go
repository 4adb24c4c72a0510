package promise

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/recourse"
	"cfq/task"
)

// roleNames and keyNames are what the columns may be called that say which rows are factual, and whose they are, the best name first.
// The empty name is what tables get that are saved with their index.
func roleNames() []string { return []string{"role", "kind", "type"} }

func keyNames() []string { return []string{colRow, "id", "person", "index", "", "Unnamed: 0"} }

// The words of a role column.
func factualWords() []string { return []string{"factual", "original", "orig", "query"} }

func counterfactualWords() []string { return []string{"counterfactual", "cf", "cfe", "recourse"} }

// layout says which columns of a file mean what. Columns are names in the header, and positions in what the task's reader keeps.
type layout struct {
	data  task.Data      // how the file is to be read
	keep  []string       // columns kept as text
	at    map[string]int // the program's own columns, by their plain names
	role  int            // -1: none
	key   int            // -1: none
	names struct{ role, key string }
}

// plan looks at the header of a file.
func (b *table) plan(path string) (*layout, error) {
	p := &layout{role: -1, key: -1, at: map[string]int{}, data: task.Data{Missing: b.t.Data.Missing, Delimiter: ',', Trim: b.t.Data.Trim}}
	header, err := task.Header(path, &p.data)
	if err != nil {
		return nil, err
	}
	if d := b.t.Data.Delimiter; d != 0 && d != ',' && len(header) == 1 {
		p.data.Delimiter = d
		if header, err = task.Header(path, &p.data); err != nil {
			return nil, err
		}
	}
	column := func(names []string) (at int, name string) {
		for _, want := range names {
			for _, have := range header {
				if strings.EqualFold(have, want) && !b.uses(have) {
					p.keep = append(p.keep, have)
					return len(p.keep) - 1, have
				}
			}
		}
		return -1, ""
	}
	for _, name := range ownColumns() {
		if at, _ := column([]string{b.column(name)}); at >= 0 {
			p.at[name] = at
		}
	}
	p.role, p.names.role = column(roleNames())
	keys := keyNames()
	keys[0] = b.column(colRow)
	p.key, p.names.key = column(keys)
	switch {
	case p.key < 0 && len(header) == 1:
		return nil, fmt.Errorf("there is one column only, %.60q: fields are separated by commas, or as the task's data.delimiter says", header[0])
	case p.key < 0:
		return nil, fmt.Errorf("no column says whose promise a row is: row numbers of the data stand in a column %q, %q, %q or %q; the columns are %s",
			keys[0], "id", "person", "index", strings.Join(header, ", "))
	}
	return p, nil
}

// rows is the file as the task's reader sees it.
type rows struct {
	*task.People
	*layout
	bad []bool // rows whose role is not understood
}

func (r *rows) field(i, column int) string { return strings.TrimSpace(r.Kept[i][column]) }

// isFactual reads the role of a row.
func (r *rows) isFactual(i int) (factual bool, err error) {
	word := r.field(i, r.role)
	fold := func(s string) bool { return strings.EqualFold(s, word) }
	switch {
	case slices.ContainsFunc(factualWords(), fold):
		return true, nil
	case slices.ContainsFunc(counterfactualWords(), fold):
		return false, nil
	}
	return false, fmt.Errorf("%q is neither %s nor %s", word, strings.Join(factualWords(), ", "), strings.Join(counterfactualWords(), ", "))
}

// hasRoles says whether the column taken for the role says so in any row; a column called type may be something else.
func (r *rows) hasRoles() bool {
	return r.role >= 0 && (strings.EqualFold(r.names.role, roleNames()[0]) || r.any(func(i int) error { _, err := r.isFactual(i); return err }))
}

// hasStatuses says whether the file is one that this program wrote: a column status that holds its words.
func (r *rows) hasStatuses() bool {
	_, ok := r.at[colStatus]
	return ok && r.any(func(i int) error { _, err := r.status(i); return err })
}

// any says whether some row can be understood.
func (r *rows) any(understand func(i int) error) bool {
	for i := range r.N {
		if understand(i) == nil {
			return true
		}
	}
	return false
}

// number reads a row number; a table that once had gaps writes it as 12.0.
func (r *rows) number(i int) (int, error) {
	s := r.field(i, r.key)
	n, err := strconv.Atoi(strings.TrimSuffix(s, ".0"))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a row number; rows are numbered from 0", s)
	}
	return n, nil
}

// claim reads a number that the file states, NaN when it does not.
func (r *rows) claim(i int, name string) (float64, error) {
	at, ok := r.at[name]
	if !ok || r.field(i, at) == "" {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(r.field(i, at), 64)
	if err != nil {
		return v, fmt.Errorf("%q is not a number", r.field(i, at))
	}
	return v, nil
}

// status reads the status that this program wrote.
func (r *rows) status(i int) (recourse.Status, error) {
	word := r.field(i, r.at[colStatus])
	for _, s := range recourse.Statuses() {
		if s.String() == word {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%q is no status; there are %v", word, recourse.Statuses())
}
