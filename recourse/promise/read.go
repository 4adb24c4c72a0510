package promise

import (
	"context"
	"fmt"
	"math"

	"cfq/recourse"
	"cfq/task"
)

// Read reads the promises that a file makes under a task. It is a CSV file with the task's columns in raw units, or with the model's inputs, and
// says in one of two ways whose promise a row is:
//
//   - A column row (or id, person, index) holds the number of the person's row in the data, counted as task.ReadOptions says; people are those
//     data. Each row is what a person was told to become. Rows of a file of this program that have another status than "found" are no promises.
//   - A column role (or kind, type) tells factual rows (factual, original) from counterfactual ones (counterfactual, cf), and a
//     column row, id, person or index holds the same text in the rows of one person. Without people, those of the factual rows are the
//     people; otherwise a factual row is found among them by its number, when the column is called row, or by having the same model inputs.
//
// A person may have several promises; all are kept. Rows that cannot be read and promises whose person is not found are listed in the
// result; it is an error when no row can be read.
func Read(ctx context.Context, path string, t *task.Task, people *task.People) (*File, error) {
	b := newTable(t)
	p, err := b.plan(path)
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
	r := &rows{People: read, layout: p, bad: make([]bool, read.N)}
	if r.hasRoles() {
		err = f.pair(r, people)
	} else {
		err = f.byNumber(r)
	}
	if err != nil {
		return nil, fmt.Errorf("promises %s: %w", path, err)
	}
	return f, nil
}

// byNumber takes every row as a promise to the person with its number.
func (f *File) byNumber(r *rows) error {
	if f.People == nil {
		return errNobody
	}
	if r.names.key != colRow && r.names.key != taken+colRow {
		f.Notes = append(f.Notes, fmt.Sprintf("column %q is taken as the row number in the data", r.names.key))
	}
	at := positions(f.People)
	own, moved := r.hasStatuses(), 0
	for i := range r.N {
		if r.bad[i] {
			continue
		}
		n, err := r.number(i)
		if err != nil {
			f.problem(r.Lines[i], r.names.key, err.Error())
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
			f.lost(r.Lines[i], r.names.key, fmt.Sprintf("no person of the data has the row number %d", n))
			continue
		}
		if f.promise(r, i, person, own) && own && f.elsewhere(r, i, person) {
			moved++
		}
	}
	if moved > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d promises were made from other lines of the data than their rows are on now; are these the data that they were made from?", moved))
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
	p := Promise{Person: person, Line: r.Lines[i], Point: r.X[i*r.Dim : (i+1)*r.Dim], Cost: math.NaN(), Margin: math.NaN(), Before: math.NaN()}
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
