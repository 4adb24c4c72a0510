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
	r := &reader{at: map[string]int{}, file: &File{People: people, Unpromised: map[recourse.Status]int{}}}
	data, keep, err := r.columns(path, newTable(t))
	if err != nil {
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	plain := *t
	plain.Data = data
	if r.People, err = task.Read(ctx, path, &plain, task.ReadOptions{Keep: keep}); err != nil {
		return nil, fmt.Errorf("promises: %w", err)
	}
	r.file.Rows, r.file.Problems, r.file.Failed = r.Total, r.Problems, r.Failed
	if r.has(colRole) {
		err = r.pair()
	} else {
		err = r.byNumber()
	}
	if err != nil {
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	return r.file, nil
}

// reader makes promises of a file as the task's reader sees it.
type reader struct {
	*task.People
	file    *File
	at      map[string]int // where Kept has this program's own columns, role and id, by their plain names
	key     string         // the plain name of the column that says whose row it is
	keyName string         // what the file calls it
}

// columns looks at the header of a file. It returns how the task's reader is to read the file, and the columns that it
// is to keep as text.
func (r *reader) columns(path string, b *table) (data task.Data, keep []string, err error) {
	data = task.Data{Missing: b.t.Data.Missing, Delimiter: ',', Trim: b.t.Data.Trim}
	header, err := task.Header(path, &data)
	if d := b.t.Data.Delimiter; err == nil && d != 0 && d != ',' && len(header) == 1 {
		data.Delimiter = d
		header, err = task.Header(path, &data)
	}
	if err != nil {
		return data, nil, err
	}
	for _, name := range append(ownColumns(), colRole, colID) {
		called := name
		if name != colRole && name != colID {
			called = b.column(name)
		}
		at := slices.IndexFunc(header, func(have string) bool { return strings.EqualFold(have, called) && !b.uses(have) })
		if at >= 0 {
			r.at[name] = len(keep)
			keep = append(keep, header[at])
		}
	}
	r.key, r.keyName = colRow, b.column(colRow)
	if !r.has(colRow) && r.has(colRole) {
		r.key, r.keyName = colID, colID
	}
	switch {
	case r.has(r.key):
		return data, keep, nil
	case len(header) == 1:
		return data, nil, fmt.Errorf("there is one column only, %.60q: want commas, or the task's data.delimiter, between "+
			"fields", header[0])
	}
	return data, nil, fmt.Errorf("no column says whose promise a row is: want a column %q with row numbers of the data, "+
		"or columns %q and %q; the columns are %s", b.column(colRow), colRole, colID, strings.Join(header, ", "))
}

func (r *reader) has(column string) bool {
	_, ok := r.at[column]
	return ok
}

// field returns the text of one of the file's own columns, "" when it does not have it.
func (r *reader) field(i int, column string) string {
	at, ok := r.at[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(r.Kept[i][at])
}

// problem lists row i as one that cannot be understood.
func (r *reader) problem(i int, column, format string, args ...any) {
	r.file.Failed++
	r.file.Problems = list(r.file.Problems, r.Lines[i], column, format, args...)
}

// lost lists row i as the promise of a person who is not among the people.
func (r *reader) lost(i int, format string, args ...any) {
	r.file.Missing++
	r.file.Lost = list(r.file.Lost, r.Lines[i], r.keyName, format, args...)
}

func list(to []task.Problem, line int, column, format string, args ...any) []task.Problem {
	if len(to) < maxListed {
		to = append(to, task.Problem{Line: line, Column: column, Reason: fmt.Sprintf(format, args...)})
	}
	return to
}

// number reads a row number; a table that once had gaps writes it as 12.0.
func (r *reader) number(i int) (int, error) {
	s := r.field(i, r.key)
	n, err := strconv.Atoi(strings.TrimSuffix(s, ".0"))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a row number; rows are numbered from 0", s)
	}
	return n, nil
}

// claim reads a number that the file states, NaN when it does not.
func (r *reader) claim(i int, column string) (float64, error) {
	s := r.field(i, column)
	if s == "" {
		return math.NaN(), nil
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return v, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}

// status reads the status that this program wrote.
func (r *reader) status(i int) (recourse.Status, error) {
	word := r.field(i, colStatus)
	all := recourse.Statuses()
	at := slices.IndexFunc(all, func(s recourse.Status) bool { return s.String() == word })
	if at < 0 {
		return 0, fmt.Errorf("%q is no status; there are %v", word, all)
	}
	return all[at], nil
}

// byNumber takes every row as a promise to the person with its number. The file is one that this program wrote when
// it has a column status that holds its words.
func (r *reader) byNumber() error {
	f := r.file
	if f.People == nil {
		return errNoPeople
	}
	own := false
	for i := 0; r.has(colStatus) && i < r.N && !own; i++ {
		_, err := r.status(i)
		own = err == nil
	}
	at, moved := positions(f.People), 0
	for i := range r.N {
		n, err := r.number(i)
		if err != nil {
			r.problem(i, r.keyName, "%v", err)
			continue
		}
		if own {
			status, err := r.status(i)
			if err != nil {
				r.problem(i, colStatus, "%v", err)
				continue
			}
			if status != recourse.Found {
				f.Unpromised[status]++
				continue
			}
		}
		person, known := at[n]
		if !known {
			r.lost(i, "no person of the data has the row number %d", n)
			continue
		}
		line, err := r.claim(i, colLine)
		elsewhere := err == nil && !math.IsNaN(line) && int(line) != f.People.Lines[person]
		if r.promise(i, person, own) && own && elsewhere {
			moved++
		}
	}
	if moved > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d promises were made from other lines of the data than their rows are on "+
			"now; are these the data that they were made from?", moved))
	}
	return nil
}

// promise adds row i, with what it claims, and says whether it could be understood.
func (r *reader) promise(i, person int, own bool) bool {
	claims := [3]float64{math.NaN(), math.NaN(), math.NaN()}
	for k, column := range []string{colCost, colMargin, colBefore} {
		var err error
		if !own {
			break
		}
		if claims[k], err = r.claim(i, column); err != nil {
			r.problem(i, column, "%v", err)
			return false
		}
	}
	r.file.Promises = append(r.file.Promises, Promise{
		Person: person, Line: r.Lines[i], Point: row(r.People, i), Cost: claims[0], Margin: claims[1], Before: claims[2],
	})
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
func (r *reader) pair() error {
	f, facts := r.file, r.facts()
	if len(facts) == 0 {
		return fmt.Errorf("no row has the %s %s", colRole, factual)
	}
	person := map[string]int{} // by key; -1: not among the data
	switch {
	case f.People == nil: // the file is their data, so they are numbered anew
		f.People, f.Factual = r.Subset(facts), f.Factual+len(facts)
		f.People.Kept = nil
		for k, i := range facts {
			f.People.Rows[k] = k
			person[r.field(i, r.key)] = k
		}
	case r.key == colRow:
		r.matchNumbers(facts, person)
	default:
		r.matchInputs(facts, person)
	}
	for i := range r.N {
		if !strings.EqualFold(r.field(i, colRole), counterfactual) {
			continue
		}
		key := r.field(i, r.key)
		switch at, ok := person[key]; {
		case !ok:
			r.lost(i, "there is no factual row with %s %q", r.keyName, key)
		case at < 0:
			r.lost(i, "the person of %s %q is not among the data, see its factual row", r.keyName, key)
		default:
			r.promise(i, at, false)
		}
	}
	return nil
}

// facts lists the factual rows, the first of each person.
func (r *reader) facts() []int {
	var facts []int
	first := map[string]int{}
	for i := range r.N {
		key, role := r.field(i, r.key), r.field(i, colRole)
		j, again := first[key]
		switch {
		case strings.EqualFold(role, counterfactual):
		case !strings.EqualFold(role, factual):
			r.problem(i, colRole, "unknown role %q: want %s or %s", role, factual, counterfactual)
		case !again:
			first[key] = i
			facts = append(facts, i)
		case slices.Equal(row(r.People, i), row(r.People, j)):
			r.file.Factual++
		default:
			r.problem(i, r.keyName, "%q has another factual row on line %d, with other values; the first counts", key,
				r.Lines[j])
		}
	}
	return facts
}

// matchNumbers finds the people of the factual rows among those of the data by their row numbers.
func (r *reader) matchNumbers(facts []int, person map[string]int) {
	people := r.file.People
	at := positions(people)
	for _, i := range facts {
		key := r.field(i, r.key)
		n, err := r.number(i)
		k, ok := at[n]
		person[key] = -1
		switch {
		case err != nil:
			r.problem(i, r.keyName, "%v", err)
		case !ok:
			r.problem(i, r.keyName, "no person of the data has the row number %d", n)
		case !slices.Equal(row(r.People, i), row(people, k)):
			r.problem(i, r.keyName, "row %d of the data (line %d) has other values than this factual row", n, people.Lines[k])
		default:
			person[key] = k
			r.file.Factual++
		}
	}
}

// matchInputs finds the people of the factual rows among those of the data by their model inputs.
func (r *reader) matchInputs(facts []int, person map[string]int) {
	people := r.file.People
	same := make(map[string][]int, people.N)
	for k := range people.N {
		id := fingerprint(row(people, k))
		same[id] = append(same[id], k)
	}
	for _, i := range facts {
		key, id := r.field(i, r.key), fingerprint(row(r.People, i))
		if person[key] = -1; len(same[id]) == 0 {
			r.problem(i, "",
				"no person of the data has the values of this factual row, or none that is not taken by another one")
			continue
		}
		person[key], same[id] = same[id][0], same[id][1:]
		r.file.Factual++
	}
}

// fingerprint is the same text for the same inputs.
func fingerprint(x []float32) string {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v+0)) // -0 is 0
	}
	return string(b)
}

// row returns the model inputs of one of the people.
func row(people *task.People, i int) []float32 { return people.X[i*people.Dim : (i+1)*people.Dim] }
