package promise

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cfq/recourse"
	"cfq/task"
)

// Two columns say what a row of a file is that holds factual and counterfactual rows.
const (
	colRole = "role" // factual or counterfactual
	colID   = "id"   // the same text in the rows of one person; colRow does as well

	factual        = "factual"
	counterfactual = "counterfactual"
)

// Read reads the promises that a file makes under a task. It is a CSV file with the task's columns in raw units, or
// with the model's inputs, in one of two forms:
//
//   - A column row holds the number of the person's row in the data, counted as task.ReadOptions says; people are
//     those data. Each row is what a person was promised to become. Rows of a file of this program with another
//     status than "found" are no promises.
//   - A column role tells factual from counterfactual rows, and a column row or id holds the same text in the rows
//     of one person. Without people, those of the factual rows are the people; otherwise a factual row is found
//     among them by its number, when the column is called row, or by having the same model inputs.
//
// A person may have several promises; all are kept. Rows that cannot be read and promises whose person is not found
// are listed in the result; it is an error when no row can be read.
func Read(ctx context.Context, path string, t *task.Task, people *task.People) (*File, error) {
	b := newTable(t)
	p, err := b.layout(path)
	if err != nil {
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	plain := *t
	plain.Data = p.data
	read, err := task.Read(ctx, path, &plain, task.ReadOptions{Keep: p.keep})
	if err != nil {
		return nil, fmt.Errorf("promises: %w", err)
	}
	f := &File{
		People: people, Rows: read.Total, Unpromised: map[recourse.Status]int{},
		Problems: read.Problems, Failed: read.Failed,
	}
	r := &rows{People: read, layout: p}
	if p.role >= 0 {
		err = f.pair(r, people)
	} else {
		err = f.byNumber(r)
	}
	if err != nil {
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	return f, nil
}

// layout says which columns of a file mean what: positions in what the task's reader keeps.
type layout struct {
	data    task.Data      // how the file is to be read
	keep    []string       // columns kept as text
	at      map[string]int // the program's own columns, by their plain names
	role    int            // -1: none
	key     int
	keyName string
}

// layout looks at the header of a file.
func (b *table) layout(path string) (*layout, error) {
	p := &layout{at: map[string]int{}, data: task.Data{Missing: b.t.Data.Missing, Delimiter: ',', Trim: b.t.Data.Trim}}
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
	column := func(name string) int {
		for _, have := range header {
			if strings.EqualFold(have, name) && !b.uses(have) {
				p.keep = append(p.keep, have)
				return len(p.keep) - 1
			}
		}
		return -1
	}
	for _, name := range ownColumns() {
		if at := column(b.column(name)); at >= 0 {
			p.at[name] = at
		}
	}
	p.role = column(colRole)
	p.keyName = b.column(colRow)
	at, ok := p.at[colRow]
	if p.key = at; !ok {
		if p.key = -1; p.role >= 0 {
			p.key, p.keyName = column(colID), colID
		}
	}
	switch {
	case p.key < 0 && len(header) == 1:
		return nil, fmt.Errorf("there is one column only, %.60q: want commas, or the task's data.delimiter, between fields",
			header[0])
	case p.key < 0:
		return nil, fmt.Errorf("no column says whose promise a row is: want a column %q with row numbers of the data, "+
			"or columns %q and %q; the columns are %s", b.column(colRow), colRole, colID, strings.Join(header, ", "))
	}
	return p, nil
}

// rows is the file as the task's reader sees it.
type rows struct {
	*task.People
	*layout
}

func (r *rows) x(i int) []float32 { return r.X[i*r.Dim : (i+1)*r.Dim] }

func (r *rows) field(i, column int) string { return strings.TrimSpace(r.Kept[i][column]) }

// isFactual reads the role of a row.
func (r *rows) isFactual(i int) (bool, error) {
	switch word := r.field(i, r.role); {
	case strings.EqualFold(word, factual):
		return true, nil
	case strings.EqualFold(word, counterfactual):
		return false, nil
	default:
		return false, fmt.Errorf("unknown role %q: want %s or %s", word, factual, counterfactual)
	}
}

// hasStatuses says whether the file is one that this program wrote: a column status that holds its words.
func (r *rows) hasStatuses() bool {
	_, ok := r.at[colStatus]
	for i := 0; ok && i < r.N; i++ {
		if _, err := r.status(i); err == nil {
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

// byNumber takes every row as a promise to the person with its number.
func (f *File) byNumber(r *rows) error {
	if f.People == nil {
		return errNoPeople
	}
	at := positions(f.People)
	own, moved := r.hasStatuses(), 0
	for i := range r.N {
		n, err := r.number(i)
		if err != nil {
			f.problem(r.Lines[i], r.keyName, err.Error())
			continue
		}
		person, known := at[n]
		if own {
			status, err := r.status(i)
			if err != nil {
				f.problem(r.Lines[i], colStatus, err.Error())
				continue
			}
			if status != recourse.Found {
				f.Unpromised[status]++
				continue
			}
		}
		if !known {
			f.lost(r.Lines[i], r.keyName, fmt.Sprintf("no person of the data has the row number %d", n))
			continue
		}
		if f.promise(r, i, person, own) && own && f.elsewhere(r, i, person) {
			moved++
		}
	}
	if moved > 0 {
		f.Notes = append(
			f.Notes,
			fmt.Sprintf("%d promises were made from other lines of the data than their rows are on now; "+
				"are these the data that they were made from?", moved),
		)
	}
	return nil
}

// elsewhere says whether the file states another line of the data than the person stands on.
func (f *File) elsewhere(r *rows, i, person int) bool {
	line, err := r.claim(i, colLine)
	return err == nil && !math.IsNaN(line) && int(line) != f.People.Lines[person]
}

// promise adds row i, with what it claims, and says whether it could be understood.
func (f *File) promise(r *rows, i, person int, own bool) bool {
	p := Promise{
		Person: person, Line: r.Lines[i], Point: r.X[i*r.Dim : (i+1)*r.Dim], Cost: math.NaN(),
		Margin: math.NaN(), Before: math.NaN(),
	}
	if own {
		for _, c := range []struct {
			name string
			to   *float64
		}{{colCost, &p.Cost}, {colMargin, &p.Margin}, {colBefore, &p.Before}} {
			var err error
			if *c.to, err = r.claim(i, c.name); err != nil {
				f.problem(r.Lines[i], c.name, err.Error())
				return false
			}
		}
	}
	f.Promises = append(f.Promises, p)
	return true
}

// positions maps row numbers to positions among people.
func positions(people *task.People) map[int]int {
	at := make(map[int]int, people.N)
	for i, n := range people.Rows {
		at[n] = i
	}
	return at
}

// pair finds the promises of a file that has factual and counterfactual rows.
func (f *File) pair(r *rows, people *task.People) error {
	facts := f.facts(r)
	if len(facts) == 0 {
		return fmt.Errorf("no row has the %s %s", colRole, factual)
	}
	person := map[string]int{}
	if people == nil {
		f.People, f.Factual = r.subset(facts), f.Factual+len(facts)
		for at, i := range facts {
			person[r.field(i, r.key)] = at
		}
	} else {
		f.match(r, facts, people, person)
	}
	known := map[string]bool{}
	for _, i := range facts {
		known[r.field(i, r.key)] = true
	}
	for i := range r.N {
		if factual, err := r.isFactual(i); err != nil || factual {
			continue
		}
		key := r.field(i, r.key)
		at, ok := person[key]
		switch {
		case ok:
			f.promise(r, i, at, false)
		case !known[key]:
			f.lost(r.Lines[i], r.keyName, fmt.Sprintf("there is no factual row with %s %q", r.keyName, key))
		default:
			f.lost(r.Lines[i], r.keyName, fmt.Sprintf("the person of %s %q is not among the data, see its factual row",
				r.keyName, key))
		}
	}
	return nil
}

// facts lists the factual rows, the first of each person.
func (f *File) facts(r *rows) []int {
	var facts []int
	first := map[string]int{}
	for i := range r.N {
		factual, err := r.isFactual(i)
		if err != nil {
			f.problem(r.Lines[i], colRole, err.Error())
			continue
		}
		if !factual {
			continue
		}
		key := r.field(i, r.key)
		j, again := first[key]
		switch {
		case again && !slices.Equal(r.x(i), r.x(j)):
			f.problem(r.Lines[i], r.keyName,
				fmt.Sprintf("%q has another factual row on line %d, with other values; the first counts", key, r.Lines[j]))
		case again:
			f.Factual++
		default:
			first[key] = i
			facts = append(facts, i)
		}
	}
	return facts
}

// match finds the people of the factual rows among those of the data: by number when the column is called row, else
// by their inputs.
func (f *File) match(r *rows, facts []int, people *task.People, person map[string]int) {
	numbered := r.keyName != colID
	at, same := positions(people), alike(people)
	for _, i := range facts {
		key := r.field(i, r.key)
		if numbered {
			n, err := r.number(i)
			k, ok := at[n]
			switch {
			case err != nil:
				f.problem(r.Lines[i], r.keyName, err.Error())
			case !ok:
				f.problem(r.Lines[i], r.keyName, fmt.Sprintf("no person of the data has the row number %d", n))
			case !slices.Equal(r.x(i), people.X[k*people.Dim:(k+1)*people.Dim]):
				f.problem(r.Lines[i], r.keyName, fmt.Sprintf("row %d of the data (line %d) has other values than this factual row",
					n, people.Lines[k]))
			default:
				person[key] = k
				f.Factual++
			}
			continue
		}
		id := fingerprint(r.x(i))
		if len(same[id]) == 0 {
			f.problem(r.Lines[i], "",
				"no person of the data has the values of this factual row, or none that is not taken by another one")
			continue
		}
		person[key], same[id] = same[id][0], same[id][1:]
		f.Factual++
	}
}

// subset returns the people of some rows, numbered anew: the file is their data.
func (r *rows) subset(which []int) *task.People {
	p := r.Subset(which)
	p.Kept = nil
	for i := range p.Rows {
		p.Rows[i] = i
	}
	return p
}

// alike lists the positions of the people with the same inputs, by fingerprint.
func alike(people *task.People) map[string][]int {
	same := make(map[string][]int, people.N)
	for i := range people.N {
		id := fingerprint(people.X[i*people.Dim : (i+1)*people.Dim])
		same[id] = append(same[id], i)
	}
	return same
}

// fingerprint is the same text for the same inputs.
func fingerprint(x []float32) string {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v+0)) // -0 is 0
	}
	return string(b)
}
