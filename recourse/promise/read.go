package promise

import (
	"context"
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

// Read reads the promises that a CSV file makes under a task, in raw units or as the model's inputs. Each row is what a
// person was promised to become. Who that is says a column row, the person's row of the data as task.ReadOptions counts
// it, or else the column that data.id of the task names. With a column role some rows are factual: without people these
// are the people, whom a column row or id ties to the others; a person whose factual row has other model inputs than
// the data is not the one who is meant.
//
// A person may have several promises; all are kept. Rows that cannot be read and promises whose person is not found
// are listed in the result; it is an error when no row can be read.
func Read(ctx context.Context, path string, t *task.Task, people *task.People) (*File, error) {
	var batches Batches
	if people != nil {
		batches = inMemory(people)
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
	task    *task.Task      // as which the file is read
	keep    []string        // columns that are kept as text
	at      map[string]int  // where Kept has this program's own columns, role and id, by their plain names
	key     string          // the plain name of the column that says whose row it is
	keyName string          // what the file calls it
	known   map[string]bool // IDs of the factual rows that are the people; nil where others are given
	alone   bool            // no other people are given than those of its factual rows
	byID    bool            // People have it as IDs: it is data.ID of the task, or nobody else is numbered
	own     bool            // this program wrote the file: a column status holds its words
}

func newReader(path string, t *task.Task, alone bool) (*fileReader, error) {
	r := &fileReader{path: path, alone: alone, at: map[string]int{}, file: &File{Unpromised: map[recourse.Status]int{}}}
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
	header, err := data.Header(r.path)
	if d := own.Delimiter; err == nil && d != 0 && d != ',' && len(header) == 1 {
		data.Delimiter = d
		header, err = data.Header(r.path)
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
	case r.alone && r.has(colRole) && (r.has(colRow) || r.has(colID)):
		if !r.has(colRow) {
			r.key, r.keyName = colID, colID
		}
		r.byID, data.ID = true, r.keep[r.at[r.key]]
	case r.has(colRow):
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
		"%sor, without data, columns %q and %q; the columns are %s", c.column(colRow), id, colRole, colID,
		strings.Join(header, ", "))
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

func (r *fileReader) problem(line int, column, format string, args ...any) {
	r.file.Failed++
	r.file.Problems = addListed(r.file.Problems, line, column, fmt.Sprintf(format, args...))
}

// lost counts the promise on a line, whose person is not among the people.
func (r *fileReader) lost(line int, format string, args ...any) {
	r.file.Missing++
	r.file.Lost = addListed(r.file.Lost, line, r.keyName, fmt.Sprintf(format, args...))
}

func addListed(all []task.Problem, line int, column, reason string) []task.Problem {
	if len(all) < maxListed {
		all = append(all, task.Problem{Line: line, Column: column, Reason: reason})
	}
	return all
}

// number reads a row number; a table that once had gaps writes it as 12.0.
func (r *fileReader) number(i int) (int64, error) {
	s := r.field(i, r.key)
	n, err := strconv.ParseInt(strings.TrimSuffix(s, ".0"), 10, 64)
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

// numbered is a row of the file that is about a person of the data.
type numbered struct {
	queuedRow
	point  []float32
	status recourse.Status
}

type queuedRow struct {
	Row, Line            int64 // Row is that of the person, or the idKey of their ID
	From                 int64 // line of the data that it was made from, or one of the following
	Cost, Margin, Before float64
}

const (
	noLine     = -1 // the file does not say it
	factualRow = -2 // the row says what the person is like
)

// numbered reads row i. The row of an ID is not known yet. An error is of a column.
func (r *fileReader) numbered(i int) (n numbered, column string, err error) {
	nan := math.NaN()
	n.queuedRow = queuedRow{Line: int64(r.Lines[i]), From: noLine, Cost: nan, Margin: nan, Before: nan}
	n.point, n.status = row(r.People, i), recourse.Found
	fact, err := r.isFactual(i)
	if err != nil {
		return n, colRole, err
	}
	if r.byID {
		n.Row = idKey(r.IDs[i])
	} else if n.Row, err = r.number(i); err != nil {
		return n, r.keyName, err
	}
	if fact {
		n.From = factualRow
	}
	if fact || !r.own {
		return n, "", nil
	}
	if n.status, err = r.status(i); err != nil || n.status != recourse.Found {
		return n, colStatus, err
	}
	if line, err := r.claim(i, colLine); err == nil && !math.IsNaN(line) {
		n.From = int64(line)
	}
	claims := []*float64{&n.Cost, &n.Margin, &n.Before}
	for k, column := range []string{colCost, colMargin, colBefore} {
		if *claims[k], err = r.claim(i, column); err != nil {
			return n, column, err
		}
	}
	return n, "", nil
}

func (r *fileReader) isFactual(i int) (bool, error) {
	switch role := r.field(i, colRole); {
	case !r.has(colRole), strings.EqualFold(role, counterfactual):
		return false, nil
	case strings.EqualFold(role, factual):
		return true, nil
	default:
		return false, fmt.Errorf("unknown role %q: want %s or %s", role, factual, counterfactual)
	}
}

// ownPeople are those of the factual rows of the file. The first one of a person counts.
func (r *fileReader) ownPeople(ctx context.Context) (Batches, error) {
	all, err := task.Read(ctx, r.path, r.task, r.options())
	if err != nil {
		return nil, fmt.Errorf("promises: %w", err)
	}
	r.People = all
	var facts []int
	r.known = map[string]bool{}
	for i, id := range all.IDs {
		if fact, err := r.isFactual(i); err == nil && fact && !r.known[id] {
			r.known[id], facts = true, append(facts, i)
		}
	}
	if len(facts) == 0 {
		return nil, fmt.Errorf("promises %s: no row has the %s %s", r.path, colRole, factual)
	}
	if err := r.task.Recode(ctx, all, facts); err != nil { // codes of people are not what the file says
		return nil, fmt.Errorf("promises %s: %w", r.path, err)
	}
	people := all.Subset(facts)
	people.Kept = nil
	for k := range facts {
		people.Rows[k] = k // the file is their data, so they are numbered anew
	}
	return inMemory(people), nil
}

func row(people *task.People, i int) []float32 { return people.X[i*people.Dim : (i+1)*people.Dim] }
