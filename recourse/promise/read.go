package promise

import (
	"context"
	"crypto/sha256"
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
	r, err := newReader(path, t, people)
	if err != nil {
		return nil, err
	}
	if r.has(colRole) {
		return r.pairs(ctx, path)
	}
	if people == nil {
		return nil, fmt.Errorf("promises %s: %w", path, errNoPeople)
	}
	var promises []Promise
	f, err := r.stream(ctx, path, func(each func(*task.People) error) (*task.People, error) {
		return people, each(people)
	}, func(f *File) error { promises = f.Promises; return nil }, newQueue(queueRows, queueLimit))
	if err != nil {
		return nil, err
	}
	f.Promises = promises
	return f, nil
}

func (r *fileReader) pairs(ctx context.Context, path string) (*File, error) {
	var err error
	if r.People, err = task.Read(ctx, path, r.task, r.options()); err != nil {
		return nil, fmt.Errorf("promises: %w", err)
	}
	r.file.Rows, r.file.Problems, r.file.Failed = r.Total, r.Problems, r.Failed
	if err := r.pair(ctx); err != nil {
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	r.file.Made = len(r.file.Promises)
	return r.file, nil
}

type fileReader struct {
	*task.People
	file    *File
	task    *task.Task     // as which the file is read
	keep    []string       // columns that are kept as text
	at      map[string]int // where Kept has this program's own columns, role and id, by their plain names
	key     string         // the plain name of the column that says whose row it is
	keyName string         // what the file calls it
	byID    bool           // it is data.ID of the task, and People have IDs
	own     bool           // this program wrote the file, see findOwn
}

func newReader(path string, t *task.Task, people *task.People) (*fileReader, error) {
	r := &fileReader{at: map[string]int{}, file: &File{People: people, Unpromised: map[recourse.Status]int{}}}
	plain := *t
	var err error
	if plain.Data, r.keep, err = r.columns(path, newLayout(t)); err != nil {
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	r.task = &plain
	return r, nil
}

func (r *fileReader) columns(path string, b *fileLayout) (data task.Data, keep []string, err error) {
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
	switch id := b.t.Data.ID; {
	case r.has(colRow):
	case r.has(colRole):
		r.key, r.keyName = colID, colID
	case id != "" && slices.Contains(header, id):
		r.byID, r.keyName, data.ID = true, id, id
	}
	switch {
	case r.has(r.key) || r.byID:
		return data, keep, nil
	case len(header) == 1:
		return data, nil, fmt.Errorf("there is one column only, %.60q: want commas, or the task's data.delimiter, between "+
			"fields", header[0])
	}
	id := ""
	if b.t.Data.ID != "" {
		id = fmt.Sprintf("the column %q that data.id names, ", b.t.Data.ID)
	}
	return data, nil, fmt.Errorf("no column says whose promise a row is: want a column %q with row numbers of the data, "+
		"%sor columns %q and %q; the columns are %s", b.column(colRow), id, colRole, colID, strings.Join(header, ", "))
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
	r.file.Problems = list(r.file.Problems, r.Lines[i], column, format, args...)
}

func (r *fileReader) lost(i int, format string, args ...any) {
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

func (r *fileReader) notThere(row int) string {
	if r.byID {
		return "no person of the data has this ID"
	}
	return fmt.Sprintf("no person of the data has the row number %d", row)
}

const several = -1

func (r *fileReader) unclear() firstLines {
	return firstLines{column: r.keyName, why: func(int) string {
		return "several rows of the data have this ID; a column row would say which one is meant"
	}}
}

func idKey(id string) int {
	sum := sha256.Sum256([]byte(id))
	return int(binary.LittleEndian.Uint64(sum[:]) >> 1)
}

func addID(to map[int]int, id, person int) {
	if _, twice := to[id]; twice {
		person = several
	}
	to[id] = person
}

func (r *fileReader) findOwn() bool {
	for i := 0; r.has(colStatus) && i < r.N && !r.own; i++ {
		_, err := r.status(i)
		r.own = err == nil
	}
	return r.own
}

type numbered struct {
	Promise
	row  int // the idKey, as long as only the ID is known
	from int // line of the data that it was made from; noLine when the file does not say
}

const noLine = -1

func (r *fileReader) numbered(i int) (n numbered, ok bool) {
	var err error
	if r.byID {
		n.row = idKey(r.IDs[i])
	} else if n.row, err = r.number(i); err != nil {
		r.problem(i, r.keyName, "%v", err)
		return n, false
	}
	n.from = noLine
	if r.own {
		status, err := r.status(i)
		if err != nil {
			r.problem(i, colStatus, "%v", err)
			return n, false
		}
		if status != recourse.Found {
			r.file.Unpromised[status]++
			return n, false
		}
		if line, err := r.claim(i, colLine); err == nil && !math.IsNaN(line) {
			n.from = int(line)
		}
	}
	n.Promise, ok = r.promise(i)
	return n, ok
}

func (f *File) add(n *numbered, person int) {
	if n.from != noLine && n.from != f.People.Lines[person] {
		f.moved++
	}
	n.Person = person
	f.Promises = append(f.Promises, n.Promise)
}

func (f *File) noteMoved() {
	if f.moved > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d promises were made from other lines of the data than their rows are on "+
			"now; are these the data that they were made from?", f.moved))
	}
}

func (r *fileReader) promise(i int) (p Promise, ok bool) {
	claims := [3]float64{math.NaN(), math.NaN(), math.NaN()}
	for k, column := range []string{colCost, colMargin, colBefore} {
		var err error
		if !r.own {
			break
		}
		if claims[k], err = r.claim(i, column); err != nil {
			r.problem(i, column, "%v", err)
			return p, false
		}
	}
	return Promise{
		Line: r.Lines[i], Point: row(r.People, i), Cost: claims[0], Margin: claims[1], Before: claims[2],
	}, true
}

func positions(people *task.People) map[int]int {
	at := make(map[int]int, people.N)
	for i, n := range people.Rows {
		at[n] = i
	}
	return at
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
			r.lost(i, "there is no factual row with %s %q", r.keyName, key)
		case at < 0:
			r.lost(i, "the person of %s %q is not among the data, see its factual row", r.keyName, key)
		default:
			if p, ok := r.promise(i); ok {
				p.Person = at
				f.Promises = append(f.Promises, p)
			}
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
