package promise

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/task"
)

// pair finds the promises of a file that has the factual rows beside the counterfactual ones.
func (f *File) pair(r *rows, people *task.People) error {
	facts := f.facts(r)
	if len(facts) == 0 { // only counterfactual rows: their numbers must do
		return f.byNumber(r)
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
			f.lost(r.Lines[i], r.names.key, fmt.Sprintf("there is no factual row with %s %q", r.names.key, key))
		default:
			f.lost(r.Lines[i], r.names.key, fmt.Sprintf("the person of %s %q is not among the data, see its factual row", r.names.key, key))
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
			f.problem(r.Lines[i], r.names.role, err.Error())
			r.bad[i] = true
			continue
		}
		if !factual {
			continue
		}
		key := r.field(i, r.key)
		j, again := first[key]
		switch {
		case again && !slices.Equal(r.x(i), r.x(j)):
			f.problem(r.Lines[i], r.names.key, fmt.Sprintf("%q has another factual row on line %d, with other values; the first counts", key, r.Lines[j]))
		case again:
			f.Factual++
		default:
			first[key] = i
			facts = append(facts, i)
		}
	}
	return facts
}

// match finds the people of the factual rows among those of the data: by number when the column is called row, else by their inputs.
func (f *File) match(r *rows, facts []int, people *task.People, person map[string]int) {
	numbered := strings.TrimPrefix(r.names.key, taken) == colRow
	at, same := positions(people), alike(people)
	for _, i := range facts {
		key := r.field(i, r.key)
		if numbered {
			n, err := r.number(i)
			k, ok := at[n]
			switch {
			case err != nil:
				f.problem(r.Lines[i], r.names.key, err.Error())
			case !ok:
				f.problem(r.Lines[i], r.names.key, fmt.Sprintf("no person of the data has the row number %d", n))
			case !slices.Equal(r.x(i), people.X[k*people.Dim:(k+1)*people.Dim]):
				f.problem(r.Lines[i], r.names.key, fmt.Sprintf("row %d of the data (line %d) has other values than this factual row", n, people.Lines[k]))
			default:
				person[key] = k
				f.Factual++
			}
			continue
		}
		id := fingerprint(r.x(i))
		if len(same[id]) == 0 {
			f.problem(r.Lines[i], "", "no person of the data has the values of this factual row, or none that is not taken by another one")
			continue
		}
		person[key], same[id] = same[id][0], same[id][1:]
		f.Factual++
	}
}

func (r *rows) x(i int) []float32 { return r.X[i*r.Dim : (i+1)*r.Dim] }

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
