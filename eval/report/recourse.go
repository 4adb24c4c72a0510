package report

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"cfq/eval"
	"cfq/internal/message"
	"cfq/internal/statistics"
	"cfq/recourse"
	"cfq/recourse/promise"
	"cfq/task"
)

// Recourse sums up the actions that were found for many people. Add counts a person, Finish computes the shares.
type Recourse struct {
	People     int            `json:"people"`
	Unreadable int            `json:"unreadable"` // rows
	LeftOut    int            `json:"left_out"`   // rows, by the task's filter or the choice of rows
	Margin     float64        `json:"margin"`     // required
	Status     map[string]int `json:"status"`     // people
	Success    eval.Rate      `json:"success"`    // of those who fall short of the margin
	Cost       *costs         `json:"cost"`       // of the actions found
	Features   []FeatureCount `json:"features"`   // of the actions found, the most used first
	Proofs
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"people_per_second"`

	sums actionSums
}

// Proofs says which actions are proved to be the cheapest ones.
type Proofs struct {
	Methods  map[recourse.Method]int `json:"methods"`            // people who fall short, by method
	Proved   int                     `json:"proved"`             // answers: the cheapest action, or none exists
	Within   eval.Float              `json:"within,omitempty"`   // of the least cost are the proved actions
	Nodes    int                     `json:"nodes,omitempty"`    // most, of one person's branch and bound
	Unproved map[string]int          `json:"unproved,omitempty"` // people without a proof although asked for, by reason
	Gap      *Gap                    `json:"gap,omitempty"`      // with a proof asked for
}

type actionSums struct {
	used   map[string]int    // people, by feature
	dearer statistics.Values // what the search's cost more than the cheapest, over that
}

// costs are those of actions: their mean and median, undefined without any.
type costs struct{ statistics.Values }

func (c *costs) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]eval.Float{"mean": eval.Float(c.Mean()), "median": eval.Float(c.Median())})
}

// FeatureCount says how many of the actions change a feature.
type FeatureCount struct {
	Feature string  `json:"feature"`
	People  int     `json:"people"`
	Share   float64 `json:"share"`
}

// Gap is what the search alone would miss, of the answers that are proved: the optimality gap.
type Gap struct {
	People  int        `json:"people"`  // with an action of the search, too
	Mean    eval.Float `json:"mean"`    // cost of the search's over the least one, less 1
	Largest eval.Float `json:"largest"` // of these
	Missed  int        `json:"missed"`  // people without an action of the search
}

// NewRecourse sums up actions that reach the margin; exact says that a proof was asked for.
func NewRecourse(margin float64, exact bool) *Recourse {
	s := &Recourse{
		Margin: margin, Status: map[string]int{}, Features: []FeatureCount{},
		Proofs: Proofs{Methods: map[recourse.Method]int{}, Unproved: map[string]int{}},
		Cost:   &costs{}, sums: actionSums{used: map[string]int{}},
	}
	for _, v := range recourse.Statuses() {
		s.Status[v.String()] = 0
	}
	if exact {
		s.Gap = &Gap{}
	}
	return s
}

// Compare counts what the search does for a person whose cheapest action is known.
func (s *Recourse) Compare(best, search recourse.Action) {
	switch {
	case best.Status != recourse.Found:
	case search.Status != recourse.Found:
		s.Gap.Missed++
	case search.Cost <= best.Cost: // which is the least one but for rounding
		s.sums.dearer.Add(0)
	default:
		s.sums.dearer.Add(search.Cost/best.Cost - 1)
	}
}

// Add counts one person, with what is known of the answer; one without proof came from the solver.
func (s *Recourse) Add(l *promise.Line, p recourse.Proof) {
	s.People++
	m := p.Method
	if s.Nodes = max(s.Nodes, p.Nodes); m.Proved() {
		s.Within = max(s.Within, eval.Float(p.Within))
	}
	if m != recourse.NotNeeded {
		if m.Proved() || l.Action.Status == recourse.NoneExists {
			s.Proved++
		}
		if why, none := strings.CutPrefix(string(m), "none: "); none {
			s.Unproved[why]++
			m = recourse.Search
		}
		s.Methods[m]++
	}
	s.Status[l.Action.Status.String()]++
	if l.Action.Status != recourse.Found {
		return
	}
	s.Cost.Add(l.Action.Cost)
	for _, c := range l.Changes {
		if !c.Linked {
			s.sums.used[c.Feature]++
		}
	}
}

// Finish computes what is known at the end.
func (s *Recourse) Finish(p *task.People, took time.Duration) {
	s.Unreadable, s.LeftOut = p.Failed, p.Filtered+p.Excluded
	found := s.Status[recourse.Found.String()]
	s.Success = eval.NewRate(found, s.People-s.Status[recourse.AlreadyFavourable.String()], 0.95)
	for name, n := range s.sums.used {
		s.Features = append(s.Features, FeatureCount{name, n, float64(n) / float64(found)})
	}
	slices.SortFunc(s.Features, func(a, b FeatureCount) int {
		return cmp.Or(b.People-a.People, strings.Compare(a.Feature, b.Feature))
	})
	if s.Gap != nil {
		s.Gap.People, s.Gap.Mean = s.sums.dearer.Len(), eval.Float(s.sums.dearer.Mean())
		s.Gap.Largest = eval.Float(s.sums.dearer.Quantile(1))
	}
	s.Seconds = took.Seconds()
	s.PerSecond = float64(s.People) / s.Seconds
}

// Write shows the summary as text; path is the file that was written, "" when none was.
func (s *Recourse) Write(out io.Writer, path string) { writeSummary(out, "recourse", path, s) }

func writeSummary(out io.Writer, name, path string, summary any) {
	g := message.NewLines()
	if path != "" {
		g.Add("written to", message.OneLine(path))
	}
	newSentences().Grid(g, name, summary).Write(out, "")
}

// Promises sums up what a task and a model make of a promises file.
type Promises struct {
	PromiseCounts
	Feasible eval.Rate       `json:"feasible"` // under the task
	Broken   []promise.Count `json:"broken"`   // constraints, by the promises that break them
	First    []BrokenLine    `json:"first_broken"`
	Valid    eval.Rate       `json:"valid"` // the model approves
	Margin   float64         `json:"margin"`
	Reached  eval.Rate       `json:"reached"` // of the required margin
	Margins  [5]eval.Float   `json:"margins"` // least, 5 %, median, 95 %, greatest
	Needless int             `json:"needless"`
	Cost     *costs          `json:"cost"`
	// Claimed is the largest difference between a margin that the file states and the one found; null when it states none.
	Claimed eval.Float `json:"claimed_margin_difference"`

	sums issuedSums
}

// PromiseCounts are the rows of a promises file.
type PromiseCounts struct {
	Promises   int            `json:"promises"`
	People     int            `json:"people"`     // who were promised something
	Among      int            `json:"among"`      // people read
	Rows       int            `json:"rows"`       // of the file
	Unreadable int            `json:"unreadable"` // of them
	Lost       int            `json:"lost"`       // promises to people who are not among those read
	Unpromised map[string]int `json:"unpromised"` // rows that promise nothing, by status
}

type issuedSums struct {
	tally   promise.Tally
	reached int
	margins statistics.Values
}

// firstListed is how many promises that break a constraint are listed.
const firstListed = 1000

// BrokenLine says what is wrong with one promise.
type BrokenLine struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// NewPromises sums up verdicts on promises, for the required margin. Add counts those to a batch of people, Finish
// computes the shares.
func NewPromises(required float64) *Promises {
	return &Promises{
		PromiseCounts: PromiseCounts{Unpromised: map[string]int{}}, Margin: required, Cost: &costs{}, First: []BrokenLine{},
	}
}

// Add counts the verdicts on the promises of f. Each of the people belongs to one batch.
func (c *Promises) Add(f *promise.File, verdicts []promise.Verdict) {
	c.sums.tally.Add(f, verdicts)
	people := map[int]bool{}
	for i := range verdicts {
		v := &verdicts[i]
		people[f.Promises[i].Person] = true
		c.Cost.Add(v.Cost)
		c.sums.margins.Add(v.Margin)
		if v.Valid(c.Margin) {
			c.sums.reached++
		}
		if v.Before > 0 {
			c.Needless++
		}
		if len(v.Broken) > 0 { // the first lines are kept: people may come in another order
			b := BrokenLine{f.Promises[i].Line, v.Broken[0].Error()}
			at, _ := slices.BinarySearchFunc(c.First, b, func(a, b BrokenLine) int { return a.Line - b.Line })
			c.First = slices.Insert(c.First, at, b)
			c.First = c.First[:min(len(c.First), firstListed)]
		}
	}
	c.People += len(people)
}

// Finish computes what is known at the end; f is the whole file.
func (c *Promises) Finish(f *promise.File) {
	n := c.sums.tally.Promises
	c.Promises, c.Among, c.Rows, c.Unreadable, c.Lost = n, f.People.N, f.Rows, f.Failed, f.Missing
	for s, k := range f.Unpromised {
		c.Unpromised[s.String()] = k
	}
	c.Broken, c.Claimed = c.sums.tally.Broken(), eval.Float(c.sums.tally.Difference())
	c.Feasible, c.Valid = eval.NewRate(n-c.sums.tally.Infeasible, n, 0.95), eval.NewRate(n-c.sums.tally.Invalid, n, 0.95)
	c.Reached = eval.NewRate(c.sums.reached, n, 0.95)
	for i, q := range []float64{0, 0.05, 0.5, 0.95, 1} {
		c.Margins[i] = eval.Float(c.sums.margins.Quantile(q))
	}
}

// Write shows the summary as text; path is the file that was written, "" when none was.
func (c *Promises) Write(out io.Writer, path string) { writeSummary(out, "promises", path, c) }
