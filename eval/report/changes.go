package report

import (
	"math"
	"slices"
	"strconv"

	"cfq/eval"
	"cfq/internal/statistics"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Changed is how recourse at the headline margin changes a feature, in the units of the data.
type Changed struct {
	Feature   string `json:"feature"`
	Full      Moves  `json:"full"` // what the original asks for
	Quantized Moves  `json:"quantized"`
}

// Moves are the changes of a feature that people are asked for.
type Moves struct {
	People int        `json:"people"`
	Median eval.Float `json:"median"` // size of the change; undefined for categories and when nobody changes it
}

// Changes lists the features that recourse at the headline margin changes, of either model, in the task's order.
func Changes(r *eval.Result, people People, features []task.Feature) (list []Changed, err error) {
	h := r.Headline()
	if h < 0 {
		return nil, nil
	}
	all := map[string]*[2]moved{}
	for some, err := range r.Records.Some() {
		if err != nil {
			return nil, err
		}
		some = slices.DeleteFunc(some, func(x *eval.Record) bool { return !x.Evaluated })
		set := people(some)
		for i, x := range some {
			for of, q := range []*eval.Promise{&x.Steps[h].Full, &x.Steps[h].Quant} {
				if !q.Made() || q.Point == nil {
					continue
				}
				for _, c := range set.Person(i).Changes(x.X, q.Point) {
					if all[c.Feature] == nil {
						all[c.Feature] = &[2]moved{}
					}
					all[c.Feature][of].add(c)
				}
			}
		}
	}
	for i := range features {
		if of := all[features[i].Name]; of != nil {
			list = append(list, Changed{features[i].Name, of[0].moves(&features[i]), of[1].moves(&features[i])})
		}
	}
	return list, nil
}

// moved are the changes of a feature that one model asks for.
type moved struct {
	people int
	sizes  statistics.Values
}

func (m *moved) add(c constraint.Change) {
	m.people++
	from, err := strconv.ParseFloat(c.From, 64)
	to, err2 := strconv.ParseFloat(c.To, 64)
	if err == nil && err2 == nil {
		m.sizes.Add(math.Abs(to - from))
	}
}

func (m *moved) moves(f *task.Feature) Moves {
	out := Moves{People: m.people, Median: eval.Float(math.NaN())}
	if f.Kind.IsNumber() {
		out.Median = eval.Float(m.sizes.Median())
	}
	return out
}
