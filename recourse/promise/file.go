package promise

import (
	"errors"

	"cfq/recourse"
	"cfq/task"
)

// File is what a promises file says, matched to people.
type File struct {
	// People are those whom the promises are for: the ones that Read was given or, without any, the factual rows of the file itself.
	People   *task.People
	Promises []Promise // in the order of the file

	Rows       int                     // data rows of the file: Factual, Unpromised, Failed and Missing ones, and the promises
	Factual    int                     // of them, rows that say what people are and not what they were promised
	Unpromised map[recourse.Status]int // rows that say that there is no promise, and why

	Problems []task.Problem // the first of the rows that cannot be read
	Failed   int            // all of them
	Lost     []task.Problem // the first of the promises whose person is not among the people
	Missing  int            // all of them
	Notes    []string       // how the columns were understood
}

// Promise is one promise: the person and the point they were told to go to.
type Promise struct {
	Person int // position in People
	Line   int // of the promises file
	Point  []float32
	// What the file claims, NaN where it does not: the cost of the action, the margin it reaches and the margin before it.
	Cost, Margin, Before float64
}

// maxListed is how many problems are kept in detail; the others are counted.
const maxListed = 1000

func list(to []task.Problem, p task.Problem) []task.Problem {
	if len(to) < maxListed {
		to = append(to, p)
	}
	return to
}

func (f *File) problem(line int, column, reason string) {
	f.Failed++
	f.Problems = list(f.Problems, task.Problem{Line: line, Column: column, Reason: reason})
}

func (f *File) lost(line int, column, reason string) {
	f.Missing++
	f.Lost = list(f.Lost, task.Problem{Line: line, Column: column, Reason: reason})
}

// X returns the model inputs of the person whom p is for, as they are.
func (f *File) X(p *Promise) []float32 {
	d := f.People.Dim
	return f.People.X[p.Person*d : (p.Person+1)*d]
}

// Only returns the promises of f to some of its people: people are those at the given positions of f.People.
func (f *File) Only(people *task.People, rows []int) *File {
	at := make(map[int]int, len(rows))
	for k, i := range rows {
		at[i] = k
	}
	g := *f
	g.People, g.Promises = people, nil
	for _, p := range f.Promises {
		if k, ok := at[p.Person]; ok {
			p.Person = k
			g.Promises = append(g.Promises, p)
		}
	}
	return &g
}

// errNobody is returned when promises name rows of data that nobody gave.
var errNobody = errors.New("the file does not say what its people are like: it needs either the data that its rows are numbered by, or factual rows of its own, marked in a column role")
