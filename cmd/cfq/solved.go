package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"cfq"
	"cfq/eval"
	"cfq/recourse"
	"cfq/recourse/promise"
	"cfq/task"
)

// solved is what recourse tells of a run.
type solved struct {
	People     int                     `json:"people"`
	Unreadable int                     `json:"unreadable"`        // rows
	LeftOut    int                     `json:"left_out"`          // rows, by the task's filter or the choice of rows
	Margin     float64                 `json:"margin"`            // required
	Status     map[string]int          `json:"status"`            // people
	Success    eval.Rate               `json:"success"`           // of those who fall short of the margin
	Cost       costs                   `json:"cost"`              // of the actions found
	Features   []featureCount          `json:"features"`          // of the actions found, the most used first
	Methods    map[recourse.Method]int `json:"methods,omitempty"` // of --exact: people
	Seconds    float64                 `json:"seconds"`
	PerSecond  float64                 `json:"people_per_second"`
	// Robustness is there with --robust only.
	Robustness *cfq.Robustness `json:"robustness,omitempty"`
	used       map[string]int  // people, by feature
	paid       []float64       // costs of the actions found
	statuses   map[recourse.Status]int
}

type costs struct {
	Mean   eval.Float `json:"mean"`
	Median eval.Float `json:"median"`
}

// featureCount says how many of the actions change a feature.
type featureCount struct {
	Feature string  `json:"feature"`
	People  int     `json:"people"`
	Share   float64 `json:"share"`
}

func newSolved(margin float64) *solved {
	return &solved{Margin: margin, used: map[string]int{}, statuses: map[recourse.Status]int{}}
}

// add counts one person.
func (s *solved) add(l *promise.Line) {
	s.People++
	s.statuses[l.Action.Status]++
	if l.Action.Status != recourse.Found {
		return
	}
	s.paid = append(s.paid, l.Action.Cost)
	for _, c := range l.Changes {
		if !c.Linked {
			s.used[c.Feature]++
		}
	}
}

// addMethod counts how an exact answer came about.
func (s *solved) addMethod(m recourse.Method) {
	if m == recourse.NotNeeded {
		return
	}
	if s.Methods == nil {
		s.Methods = map[recourse.Method]int{}
	}
	s.Methods[m]++
}

// finish computes what is known at the end.
func (s *solved) finish(p *task.People, took time.Duration) {
	s.Unreadable, s.LeftOut = p.Failed, p.Filtered+p.Excluded
	s.Status = map[string]int{}
	short := 0
	for _, v := range recourse.Statuses() {
		s.Status[v.String()] = s.statuses[v]
		if v != recourse.AlreadyFavourable {
			short += s.statuses[v]
		}
	}
	found := s.statuses[recourse.Found]
	s.Success = eval.NewRate(found, short, 0.95)
	s.Cost = costsOf(s.paid)
	s.Features = []featureCount{}
	for name, n := range s.used {
		s.Features = append(s.Features, featureCount{name, n, float64(n) / float64(found)})
	}
	slices.SortFunc(s.Features, func(a, b featureCount) int { return cmp.Or(b.People-a.People, strings.Compare(a.Feature, b.Feature)) })
	s.Seconds = took.Seconds()
	s.PerSecond = float64(s.People) / s.Seconds
}

// costsOf is undefined without any.
func costsOf(v []float64) costs {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return costs{eval.Float(sum / float64(len(v))), eval.Float(eval.Median(v))}
}

// write shows s to people; path is the file that was written, "" when none was.
func (s *solved) write(out io.Writer, path string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(key, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", key, fmt.Sprintf(format, args...)) }
	if path != "" {
		line("written to", "%s", path)
	}
	line("people", "%d", s.People)
	for _, v := range recourse.Statuses() {
		line("  "+v.String(), "%d", s.statuses[v])
	}
	line("required margin", "%g", s.Margin)
	if s.Success.Den > 0 {
		line("success", "%.1f %% of the %d who fall short of it", 100*float64(s.Success.Value), s.Success.Den)
	}
	if s.Success.Num > 0 {
		line("cost", "mean %.4g, median %.4g", float64(s.Cost.Mean), float64(s.Cost.Median))
		line("changed", "%s", mostUsed(s.Features))
	}
	for _, m := range slices.Sorted(maps.Keys(s.Methods)) {
		line("exact", "%s: %d people", m, s.Methods[m])
	}
	line("time", "%.2f s, %.0f people per second", s.Seconds, s.PerSecond)
	if err := w.Flush(); err != nil || s.Robustness == nil {
		return err
	}
	return writeRobustness(out, s.Robustness)
}

// mostUsed lists the features that actions change most often.
func mostUsed(list []featureCount) string {
	const most = 6
	var parts []string
	for _, c := range list[:min(most, len(list))] {
		parts = append(parts, fmt.Sprintf("%s %.0f %%", c.Feature, 100*c.Share))
	}
	return strings.Join(parts, ", ")
}
