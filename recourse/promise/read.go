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
// with the model's inputs, in one of three forms:
//
//   - A column row holds the number of the person's row in the data, counted as task.ReadOptions says; people are
//     those data. Each row is what a person was promised to become. Rows of a file of this program with another
//     status than "found" are no promises.
//   - Without a column row, but with the one that data.id of the task names, each row is what the person with that ID
//     was promised to become. An ID that stands on several rows of the data does not say which is meant.
//   - A column role tells factual from counterfactual rows, and a column row or id holds the same text in the rows
//     of one person. Without people, those of the factual rows are the people; otherwise a factual row is found
//     among them by its number, when the column is called row, or by having the same model inputs.
//
// A person may have several promises; all are kept. Rows that cannot be read and promises whose person is not found
// are listed in the result; it is an error when no row can be read.
func Read(ctx context.Context, path string, t *task.Task, people *task.People) (*File, error) {
	var batches Batches
	if people != nil {
		batches = func(each func(*task.People) error) (*task.People, error) { return people, each(people) }
	}
	var promises []Promise
	f, err := Stream(ctx, path, t, batches, func(f *File) error { promises = f.Promises; return nil })
	if err == nil {
		f.Promises = promises
	}
	return f, err
}

type fileReader struct {
	*task.People
	path    string
	file    *File
	task    *task.Task     // as which the file is read
	keep    []string       // columns that are kept as text
	at      map[string]int // where Kept has this program's own columns, role and id, by their plain names
	key     string         // the plain name of the column that says whose row it is
	keyName string         // what the file calls it
	byID    bool           // it is data.ID of the task, and People have IDs
	own     bool           // this program wrote the file, see findOwner
}

func newReader(path string, t *task.Task) (*fileReader, error) {
	r := &fileReader{path: path, at: map[string]int{}, file: &File{Unpromised: map[recourse.Status]int{}}}
	plain := *t
	var err error
	if plain.Data, err = r.columns(NewColumns(t)); err != nil {
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	r.task = &plain
	return r, nil
}

// columns finds the columns that are kept, and returns how the task's reader is to read the file.
func (r *fileReader) columns(c *Columns) (data task.Data, err error) {
	own := c.t.Data
	data = task.Data{Missing: own.Missing, Delimiter: ',', Trim: own.Trim}
	header, err := task.Header(r.path, &data)
	if d := own.Delimiter; err == nil && d != 0 && d != ',' && len(header) == 1 {
		data.Delimiter = d
		header, err = task.Header(r.path, &data)
	}
	if err != nil {
		return data, err
	}
	for _, name := range append(ownColumns(), colRole, colID) {
		called := name
		if name != colRole && name != colID {
			called = c.column(name)
		}
		at := slices.IndexFunc(header, func(have string) bool { return strings.EqualFold(have, called) && !c.uses(have) })
		if at >= 0 {
			r.at[name] = len(r.keep)
			r.keep = append(r.keep, header[at])
		}
	}
	r.key, r.keyName = colRow, c.column(colRow)
	switch {
	case r.has(colRow):
	case r.has(colRole):
		r.key, r.keyName = colID, colID
	case own.ID != "" && slices.Contains(header, own.ID):
		r.byID, r.keyName, data.ID = true, own.ID, own.ID
	}
	switch {
	case r.has(r.key) || r.byID:
		return data, nil
	case len(header) == 1:
		return data, fmt.Errorf("there is one column only, %.60q: want commas, or the task's data.delimiter, between "+
			"fields", header[0])
	}
	id := ""
	if own.ID != "" {
		id = fmt.Sprintf("the column %q that data.id names, ", own.ID)
	}
	return data, fmt.Errorf("no column says whose promise a row is: want a column %q with row numbers of the data, "+
		"%sor columns %q and %q; the columns are %s", c.column(colRow), id, colRole, colID, strings.Join(header, ", "))
}

func (r *fileReader) options() task.ReadOptions { return task.ReadOptions{Keep: r.keep, Codes: true} }

func (r *fileReader) has(column string) bool {
	_, ok := r.at[column]
	return ok
}

func (r *fileReader) field(i int, column string) string {
	at, ok := r.at[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(r.Kept[i][at])
}

func (r *fileReader) problem(i int, column, format string, args ...any) {
	r.file.Failed++
	if len(r.file.Problems) < maxListed {
		p := task.Problem{Line: r.Lines[i], Column: column, Reason: fmt.Sprintf(format, args...)}
		r.file.Problems = append(r.file.Problems, p)
	}
}

// lost counts the promise on a line, whose person is not among the people.
func (r *fileReader) lost(line int, format string, args ...any) {
	r.file.Missing++
	p := task.Problem{Line: line, Column: r.keyName, Reason: fmt.Sprintf(format, args...)}
	r.file.Lost = addFirst(r.file.Lost, p)
}

// addFirst adds to problems in any order, of which those on the first lines remain to be listed, see firstLines.
func addFirst(all []task.Problem, p task.Problem) []task.Problem {
	if all = append(all, p); len(all) == 4*maxListed {
		return firstLines(all)
	}
	return all
}

func firstLines(all []task.Problem) []task.Problem {
	slices.SortStableFunc(all, func(a, b task.Problem) int { return a.Line - b.Line })
	return all[:min(len(all), maxListed)]
}

// number reads a row number; a table that once had gaps writes it as 12.0.
func (r *fileReader) number(i int) (int, error) {
	s := r.field(i, r.key)
	n, err := strconv.Atoi(strings.TrimSuffix(s, ".0"))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a row number; rows are numbered from 0", s)
	}
	return n, nil
}

func (r *fileReader) claim(i int, column string) (float64, error) {
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

func (r *fileReader) status(i int) (recourse.Status, error) {
	word := r.field(i, colStatus)
	all := recourse.Statuses()
	at := slices.IndexFunc(all, func(s recourse.Status) bool { return s.String() == word })
	if at < 0 {
		return 0, fmt.Errorf("%q is no status; there are %v", word, all)
	}
	return all[at], nil
}

type numbered struct {
	Promise
	row    int // of the person
	from   int // line of the data that it was made from; noLine when the file does not say
	status recourse.Status
}

const noLine = -1

// numbered reads row i. The row of an ID is not known yet. An error is of a column.
func (r *fileReader) numbered(i int) (n numbered, column string, err error) {
	n = numbered{Promise: r.promise(i), from: noLine, status: recourse.Found}
	if !r.byID {
		if n.row, err = r.number(i); err != nil {
			return n, r.keyName, err
		}
	}
	if !r.own {
		return n, "", nil
	}
	if n.status, err = r.status(i); err != nil || n.status != recourse.Found {
		return n, colStatus, err
	}
	if line, err := r.claim(i, colLine); err == nil && !math.IsNaN(line) {
		n.from = int(line)
	}
	claims := []*float64{&n.Cost, &n.Margin, &n.Before}
	for k, column := range []string{colCost, colMargin, colBefore} {
		if *claims[k], err = r.claim(i, column); err != nil {
			return n, column, err
		}
	}
	return n, "", nil
}

func (r *fileReader) promise(i int) Promise {
	nan := math.NaN()
	return Promise{Line: r.Lines[i], Point: row(r.People, i), Cost: nan, Margin: nan, Before: nan}
}

// pairs is Stream of a file with factual and counterfactual rows, which makes one batch.
func (r *fileReader) pairs(ctx context.Context, people Batches, each func(*File) error) (_ *File, err error) {
	f := r.file
	var all *task.People
	if people != nil {
		f.People = &task.People{}
		if all, err = people(func(p *task.People) error { f.People.Append(p); return nil }); err != nil {
			return nil, err
		}
	}
	if r.People, err = task.Read(ctx, r.path, r.task, r.options()); err != nil {
		return nil, fmt.Errorf("promises: %w", err)
	}
	f.Rows, f.Problems, f.Failed = r.Total, r.Problems, r.Failed
	if err := r.pair(ctx); err != nil {
		return nil, fmt.Errorf("promises %s: %w", r.path, err)
	}
	f.Made = len(f.Promises)
	batch := *f
	if err := each(&batch); err != nil {
		return nil, err
	}
	if f.Promises = nil; all != nil {
		f.People = all
	}
	return f, nil
}

func (r *fileReader) pair(ctx context.Context) error {
	f, facts := r.file, r.facts()
	if len(facts) == 0 {
		return fmt.Errorf("no row has the %s %s", colRole, factual)
	}
	if err := r.task.Recode(ctx, r.People, facts); err != nil { // codes of people are not what the file says
		return err
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
			r.lost(r.Lines[i], "there is no factual row with %s %q", r.keyName, key)
		case at < 0:
			r.lost(r.Lines[i], "the person of %s %q is not among the data, see its factual row", r.keyName, key)
		default:
			p := r.promise(i)
			p.Person = at
			f.Promises = append(f.Promises, p)
		}
	}
	return nil
}

func (r *fileReader) facts() []int {
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

func (r *fileReader) matchNumbers(facts []int, person map[string]int) {
	people := r.file.People
	for _, i := range facts {
		key := r.field(i, r.key)
		n, err := r.number(i)
		k, ok := slices.BinarySearch(people.Rows, n)
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

func (r *fileReader) matchInputs(facts []int, person map[string]int) {
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

func fingerprint(x []float32) string {
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v+0)) // -0 is 0
	}
	return string(b)
}

func row(people *task.People, i int) []float32 { return people.X[i*people.Dim : (i+1)*people.Dim] }
