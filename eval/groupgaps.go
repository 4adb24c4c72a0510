package eval

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// gapMetrics are the metrics by which groups are compared; Group.Result has the others.
func gapMetrics() []string {
	return []string{"vd", "rvd", "frr", "crg.median", "accuracy_quant", "disagreement", "lost", "gained"}
}

// The tests of GroupGap.
const (
	fisherTest = "Fisher exact"
	medianTest = "median test"
)

// group computes the grouping of the records of r.
func (s *split) group(r *Result, least int) (Grouping, error) {
	g := Grouping{By: s.by, Groups: []Group{}, Gaps: []GroupGap{}}
	members := map[int][]Record{}
	for i := range r.Records {
		at, err := s.of(r.Records[i].Row)
		if err != nil {
			return g, err
		}
		if at < 0 {
			g.Without++
			continue
		}
		members[at] = append(members[at], r.Records[i])
	}
	var small []string
	for _, at := range slices.Sorted(maps.Keys(members)) {
		one := Group{Name: s.name(at), Result: Summarize(members[at], r.Settings)}
		if n := one.promises(); n < least {
			one.Small = true
			small = append(small, fmt.Sprintf("%s %d", one.Name, n))
		}
		g.Groups = append(g.Groups, one)
	}
	if len(small) > 0 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%d of %d groups of %s have fewer than %d promises and are not compared: %s", len(small), len(g.Groups), s.by, least, listed(small)))
	}
	if g.Without > 0 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%d people have no value of %s and are in no group", g.Without, s.by))
	}
	for _, id := range gapMetrics() {
		m, _ := MetricBy(id)
		if !m.PerMargin() {
			g.gap(&m, 0, nil, least)
			continue
		}
		for at := range r.Settings.Margins {
			g.gap(&m, at, &r.Settings.Margins[at], least)
		}
	}
	return g, nil
}

// promises returns the number of them at the headline margin.
func (g *Group) promises() int { return g.Result.Margins[g.Result.Headline()].VD.Den }

// listed names a few.
func listed(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// gap adds the comparison by one metric, unless nobody counts in it.
func (g *Grouping) gap(m *Metric, at int, margin *float64, least int) {
	values := make([]Value, len(g.Groups))
	people := 0
	var compared []int
	for i := range g.Groups {
		values[i] = m.Of(g.Groups[i].Result, at)
		people += values[i].N
		if !g.Groups[i].Small && values[i].N >= least && values[i].Value.Defined() {
			compared = append(compared, i)
		}
	}
	if people == 0 {
		return
	}
	one := GroupGap{Metric: m.ID(), Difference: undefined(), P: undefined()}
	if margin != nil {
		t := *margin
		one.Margin = &t
	}
	if len(compared) >= 2 {
		worst, best := compared[0], compared[0]
		bad := func(i int) float64 { return badness(m.Better, float64(values[i].Value)) }
		for _, i := range compared[1:] {
			if bad(i) > bad(worst) {
				worst = i
			}
			if bad(i) <= bad(best) {
				best = i
			}
		}
		one.Difference = Float(math.Abs(float64(values[worst].Value - values[best].Value)))
		if bad(worst) > bad(best) {
			one.Worst, one.Best = g.Groups[worst].Name, g.Groups[best].Name
			one.P, one.Test = g.test(m, at, values, compared, worst)
		}
	}
	g.Gaps = append(g.Gaps, one)
}

// badness is larger for worse values.
func badness(b Better, v float64) float64 {
	switch b {
	case Higher:
		return -v
	case Zero:
		return math.Abs(v)
	}
	return v
}

// test returns the p of the worst group against everybody else in the grouping, adjusted for there being several to pick the worst from.
func (g *Grouping) test(m *Metric, at int, values []Value, compared []int, worst int) (p Float, name string) {
	type table struct{ yes, no int }
	tables := make([]table, len(values))
	switch {
	case values[worst].Kind == KindShare:
		name = fisherTest
		for i, v := range values {
			tables[i] = table{v.Num, v.N - v.Num}
		}
	case m.ID() == "crg.median":
		name = medianTest
		ratios := make([][]float64, len(values))
		for i := range g.Groups {
			ratios[i] = costRatios(g.Groups[i].Result.Records, at)
		}
		middle := Median(slices.Concat(ratios...))
		for i := range ratios {
			for _, x := range ratios[i] {
				if x > middle {
					tables[i].yes++
				} else {
					tables[i].no++
				}
			}
		}
	default:
		return undefined(), ""
	}
	var all table
	for _, t := range tables {
		all.yes, all.no = all.yes+t.yes, all.no+t.no
	}
	ps := make([]float64, len(compared))
	for k, i := range compared {
		t := tables[i]
		ps[k] = FisherExact(t.yes, t.no, all.yes-t.yes, all.no-t.no)
	}
	return Float(Holm(ps)[slices.Index(compared, worst)]), name
}

// costRatios returns the ratios of CRG of the common people among the records.
func costRatios(records []Record, at int) []float64 {
	var ratios []float64
	for i := range records {
		if !records[i].Evaluated {
			continue
		}
		if s := &records[i].Steps[at]; s.common() {
			ratios = append(ratios, costRatio(float64(s.Full.Cost), float64(s.Quant.Cost)))
		}
	}
	return ratios
}
