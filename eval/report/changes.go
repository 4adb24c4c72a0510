package report

import (
	"math"
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

// Changes lists the features that recourse at the headline margin changes, of either model, in the task's order. people
// and set are those that r was evaluated on.
func Changes(r *eval.Result, people *task.People, set *constraint.Set, features []task.Feature) []Changed {
	h := r.Headline()
	if h < 0 {
		return nil
	}
	counts, sizes := map[string]*[2]int{}, map[string]*[2][]float64{}
	add := func(p *eval.Record, q *eval.Promise, of int) {
		if !q.Made() || q.Point == nil {
			return
		}
		for _, c := range set.Person(p.Person).Changes(people.X[p.Person*people.Dim:(p.Person+1)*people.Dim], q.Point) {
			if counts[c.Feature] == nil {
				counts[c.Feature], sizes[c.Feature] = &[2]int{}, &[2][]float64{}
			}
			counts[c.Feature][of]++
			from, err := strconv.ParseFloat(c.From, 64)
			to, err2 := strconv.ParseFloat(c.To, 64)
			if err == nil && err2 == nil {
				sizes[c.Feature][of] = append(sizes[c.Feature][of], math.Abs(to-from))
			}
		}
	}
	for i := range r.Records {
		if p := &r.Records[i]; p.Evaluated {
			add(p, &p.Steps[h].Full, 0)
			add(p, &p.Steps[h].Quant, 1)
		}
	}
	var list []Changed
	for i := range features {
		f := &features[i]
		if counts[f.Name] == nil {
			continue
		}
		moves := func(of int) Moves {
			m := Moves{People: counts[f.Name][of], Median: eval.Float(math.NaN())}
			if x := sizes[f.Name][of]; f.Kind.IsNumber() && len(x) > 0 {
				m.Median = eval.Float(statistics.Median(x))
			}
			return m
		}
		list = append(list, Changed{f.Name, moves(0), moves(1)})
	}
	return list
}
