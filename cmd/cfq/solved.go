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

	"cfq/eval"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/recourse/promise"
	"cfq/task"
)

// solved is what recourse tells of a run.
type solved struct {
	People     int                     `json:"people"`
	Unreadable int                     `json:"unreadable"`         // rows
	LeftOut    int                     `json:"left_out"`           // rows, by the task's filter or the choice of rows
	Margin     float64                 `json:"margin"`             // required
	Status     map[string]int          `json:"status"`             // people
	Success    eval.Rate               `json:"success"`            // of those who fall short of the margin
	Cost       costs                   `json:"cost"`               // of the actions found
	Features   []featureCount          `json:"features"`           // of the actions found, the most used first
	Methods    map[recourse.Method]int `json:"methods"`            // people who fall short, by how their answer was come to
	Proved     int                     `json:"proved"`             // answers that are the cheapest action, or that there is none, for certain
	Unproved   map[string]int          `json:"unproved,omitempty"` // people whom --exact could not answer for, by the reason
	Seconds    float64                 `json:"seconds"`
	PerSecond  float64                 `json:"people_per_second"`
	// Robustness is there with --robust only.
	Robustness *ptq.Robustness `json:"robustness,omitempty"`
	used       map[string]int  // people, by feature
	paid       []float64       // costs of the actions found
	statuses   map[recourse.Status]int
	exact      bool
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

func newSolved(margin float64, exact bool) *solved {
	return &solved{Margin: margin, exact: exact, Methods: map[recourse.Method]int{}, Unproved: map[string]int{}, used: map[string]int{}, statuses: map[recourse.Status]int{}}
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

// addMethod counts how an answer was come to; one without proof came from the solver.
func (s *solved) addMethod(m recourse.Method, status recourse.Status) {
	if m == recourse.NotNeeded {
		return
	}
	if m.Proved() || status == recourse.NoneExists {
		s.Proved++
	}
	if why, none := strings.CutPrefix(string(m), "none: "); none {
		s.Unproved[why]++
		m = recourse.Search
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
	if s.exact && s.Success.Den > 0 {
		line("proved", "%d of %d answers (%.1f %%)", s.Proved, s.Success.Den, 100*float64(s.Proved)/float64(s.Success.Den))
		for _, m := range slices.Sorted(maps.Keys(s.Methods)) {
			line("  "+string(m), "%d", s.Methods[m])
		}
		for _, why := range slices.Sorted(maps.Keys(s.Unproved)) {
			line("    not proved", "%d: %s", s.Unproved[why], why)
		}
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
		share := fmt.Sprintf("%.0f", 100*c.Share)
		if share == "0" { // some do
			share = "<1"
		}
		parts = append(parts, c.Feature+" "+share+" %")
	}
	return strings.Join(parts, ", ")
}
