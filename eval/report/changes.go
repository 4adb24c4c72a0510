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

// Changes finds out which features recourse at the headline margin changes while records are visited.
type Changes struct {
	at     int // the margin
	people People
	of     map[string]*[2]moved // by feature and model
}

// NewChanges is of records that were made with the settings.
func NewChanges(s *eval.Settings, people People) *Changes {
	return &Changes{s.Headline(), people, map[string]*[2]moved{}}
}

// Visitor looks at the records.
func (c *Changes) Visitor() eval.Visitor { return eval.VisitRecords(c.add) }

func (c *Changes) add(some []*eval.Record) error {
	if c.at < 0 {
		return nil
	}
	var evaluated []*eval.Record
	for _, x := range some {
		if x.Evaluated {
			evaluated = append(evaluated, x)
		}
	}
	set := c.people(evaluated)
	for i, x := range evaluated {
		for of, q := range []*eval.Promise{&x.Steps[c.at].Full, &x.Steps[c.at].Quant} {
			if !q.Exists() || q.Point == nil {
				continue
			}
			for _, change := range set.Person(i).Changes(x.X, q.Point) {
				if c.of[change.Feature] == nil {
					c.of[change.Feature] = &[2]moved{}
				}
				c.of[change.Feature][of].add(change)
			}
		}
	}
	return nil
}

// List are the features that recourse changes, of either model, in the task's order.
func (c *Changes) List(features []task.Feature) (list []Changed) {
	for i := range features {
		if of := c.of[features[i].Name]; of != nil {
			list = append(list, Changed{features[i].Name, of[0].moves(&features[i]), of[1].moves(&features[i])})
		}
	}
	return list
}

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
	if f.Number() != nil {
		out.Median = eval.Float(m.sizes.Median())
	}
	return out
}
