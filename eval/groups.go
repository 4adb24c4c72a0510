package eval

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"cfq/eval/metrics"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/internal/statistics"
	"cfq/task"
)

// Grouping is the people told apart by one attribute, or by several at once.
type Grouping struct {
	By string `json:"by"` // the attribute, or attributes joined by "*"
	// in the order of the attributes' values; values without people are left out
	Groups  []Group    `json:"groups"`
	Without int        `json:"without"` // people who have no value, and so are in no group
	Gaps    []GroupGap `json:"gaps"`    // of the metrics that tell groups apart
	// what is doubtful about the grouping; Group.Result has those of each group
	Warnings []string `json:"warnings,omitempty"`
}

// Group is some of the people.
type Group struct {
	Name string `json:"name"` // the value, or values joined by "*"
	// fewer promises at the headline margin than the minimum: shown, but not ranked or tested
	Small  bool    `json:"small"`
	Result *Result `json:"result"` // every metric of them
}

// GroupGap compares the groups of a grouping by one metric: those that are not Small and have the minimum of people
// that the metric counts.
type GroupGap struct {
	Metric string   `json:"metric"`           // Metric.ID
	Margin *float64 `json:"margin,omitempty"` // required; nil for metrics that have none
	Worst  string   `json:"worst"`            // group; "" when fewer than two are compared, or all are equally good
	Best   string   `json:"best"`
	// size of the difference between their values; undefined when fewer than two are compared
	Difference Float `json:"difference"`
	// that Worst differs from all others by chance, Holm over the groups compared; undefined without a test
	P Float `json:"p"`
	// "Fisher exact" of shares; "median test" (Mood's, Fisher exact) of medians; "" without a test
	Test string `json:"test"`
}

// GroupBy says how people are told apart. A spec is an attribute, "sex", or several at once, "sex*race"; no specs are
// all attributes, each by itself; CalibrationGroup tells calibration rows from others.
type GroupBy struct {
	Specs []string
	Min   int // promises that a group must have at the headline margin to be compared with others; 0 = 30
}

// groupSums compute every metric for groups of people, next to those of all.
//
// References: equations subgroup_vd and subgroup_crg.
type groupSums struct {
	s     *Settings
	min   int
	lists *numberLists
	all   []groups
}

// newGroupSums is of records that were made with the settings; without by there are no groups.
func newGroupSums(of *Records, s *Settings, by *GroupBy) (*groupSums, error) {
	g := &groupSums{s: s, lists: newLists(of.limits)}
	if by == nil {
		return g, nil
	}
	attributes, err := attributesOf(of.Attributes, by.Specs)
	g.min = cmp.Or(by.Min, minPeople)
	g.all = lists.Map(attributes, func(a attribute) groups {
		return groups{attribute: a, members: map[string]*resultAccumulator{}}
	})
	return g, err
}

func (g *groupSums) visit(_ []*Record, persons [][]*Record) error {
	for i := range g.all {
		for _, of := range persons {
			g.all[i].add(of, g.s, g.lists)
		}
	}
	return g.lists.err
}

type groups struct {
	attribute
	members map[string]*resultAccumulator // by what the attribute says, joined by NULs
	without int                           // records of which it says nothing
	told    []*resultAccumulator          // in the order of the groups, once all are known
}

// add adds a person. One whose records say different things is in several groups.
func (x *groups) add(of []*Record, s *Settings, l *numberLists) {
	said := map[string][]*Record{}
	for _, r := range of {
		if key, ok := x.says(r); ok {
			said[key] = append(said[key], r)
		} else {
			x.without++
		}
	}
	for key, records := range said {
		if x.members[key] == nil {
			x.members[key] = newResultAccumulator(s, l)
		}
		x.members[key].add(records)
	}
}

// Check reports specs that are not of the groups, and names those that there are. It is for those who want the error
// of Summarize before the work is done.
func (by GroupBy) Check(groups []task.Subgroup) error {
	_, err := attributesOf(groups, by.Specs)
	return err
}

// attribute is what tells people apart: one or several attributes of records.
type attribute struct {
	name  string
	parts []attributePart
}

// attributePart is one attribute of records.
type attributePart struct {
	name   string
	values []string               // in the order of the groups
	of     func(r *Record) string // "" without a value
}

// attributeParts are the subgroups, and whether a record is of a calibration row.
func attributeParts(all []task.Subgroup) (parts []attributePart) {
	for i := range all {
		parts = append(parts, attributePart{all[i].Feature, all[i].Values, func(r *Record) string {
			if i >= len(r.Groups) {
				return ""
			}
			return r.Groups[i]
		}})
	}
	const calibrated, other = "equal to a calibration row", "other"
	return append(parts, attributePart{CalibrationGroup, []string{calibrated, other}, func(r *Record) string {
		if r.Calibrated {
			return calibrated
		}
		return other
	}})
}

// says is what the attribute says of a record, joined by NULs; false when a part of it has no value.
func (a *attribute) says(r *Record) (string, bool) {
	said := make([]string, len(a.parts))
	for i, part := range a.parts {
		if said[i] = part.of(r); said[i] == "" {
			return "", false
		}
	}
	return strings.Join(said, "\x00"), true
}

func (a *attribute) compare(x, y string) int {
	p, q := strings.Split(x, "\x00"), strings.Split(y, "\x00")
	for k, part := range a.parts {
		place := func(value string) uint { return uint(slices.Index(part.values, value)) } // others come last
		if c := cmp.Or(cmp.Compare(place(p[k]), place(q[k])), cmp.Compare(p[k], q[k])); c != 0 {
			return c
		}
	}
	return 0
}

func attributesOf(all []task.Subgroup, specs []string) (list []attribute, err error) {
	if specs == nil {
		specs = features(all)
	}
	for _, spec := range specs {
		a, bad := attributeOf(all, spec)
		if bad != nil {
			err = errors.Join(err, bad)
		} else if !slices.ContainsFunc(list, func(o attribute) bool { return o.name == a.name }) {
			list = append(list, a)
		}
	}
	return list, err
}

func attributeOf(all []task.Subgroup, spec string) (a attribute, err error) {
	names, known := strings.Split(spec, "*"), attributeParts(all)
	if subgroup(all, spec) >= 0 { // whose name may have a * in it
		names = []string{spec}
	}
	for i, name := range names {
		name = strings.TrimSpace(name)
		at := slices.IndexFunc(known, func(p attributePart) bool { return p.name == name })
		switch {
		case slices.Contains(names[:i], name):
			return a, fmt.Errorf("%q names %q twice", spec, name)
		case at < 0:
			return a, unknownGroups(all, name)
		}
		names[i], a.parts = name, append(a.parts, known[at])
	}
	a.name = strings.Join(names, "*")
	return a, nil
}

func subgroup(all []task.Subgroup, name string) int {
	return slices.IndexFunc(all, func(s task.Subgroup) bool { return s.Feature == name })
}

func features(all []task.Subgroup) []string {
	return lists.Map(all, func(s task.Subgroup) string { return s.Feature })
}

func unknownGroups(all []task.Subgroup, name string) error {
	names := features(all)
	if len(names) == 0 {
		return fmt.Errorf("%q: the task declares no subgroups: give a feature subgroup: true, or name columns in "+
			"data.subgroups", name)
	}
	return fmt.Errorf("there are no subgroups %q%s", name, message.DidYouMean(name, names))
}

func (x *groups) grouping(margins []float64, least int) Grouping {
	g := Grouping{By: x.name, Groups: []Group{}, Gaps: []GroupGap{}, Without: x.without}
	var small []string
	keys := slices.SortedFunc(maps.Keys(x.members), x.compare)
	for _, key := range keys {
		x.told = append(x.told, x.members[key])
		one := Group{Name: strings.ReplaceAll(key, "\x00", "*"), Result: x.members[key].result(DataFile{})}
		if n := one.Result.Margins[one.Result.Headline()].Rate("vd").Den; n < least {
			one.Small = true
			small = append(small, fmt.Sprintf("%s %d", one.Name, n))
		}
		g.Groups = append(g.Groups, one)
	}
	if len(small) > 0 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%d of %d groups of %s have fewer than %d promises and are not "+
			"compared: %s", len(small), len(g.Groups), g.By, least, message.List(small, 5)))
	}
	if g.Without > 0 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%d people have no value of %s and are in no group", g.Without, g.By))
	}
	for _, m := range computedMetrics() {
		if m.Groups {
			for _, at := range m.places(len(margins)) {
				x.gap(&g, m, at, margins, least)
			}
		}
	}
	return g
}

func (x *groups) gap(g *Grouping, m *computed, at int, margins []float64, least int) {
	values := make([]Value, len(g.Groups))
	people := 0
	var compared []int
	for i := range g.Groups {
		values[i] = g.Groups[i].Result.Metric(m.Metric, at)
		people += values[i].N
		if !g.Groups[i].Small && values[i].N >= least && values[i].Value.Defined() {
			compared = append(compared, i)
		}
	}
	if people == 0 {
		return
	}
	one := GroupGap{Metric: m.ID, Difference: undefined(), P: undefined()}
	if at >= 0 {
		one.Margin = &margins[at]
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
			one.P, one.Test = x.test(m, at, values, compared, worst)
		}
	}
	g.Gaps = append(g.Gaps, one)
}

// test returns the p of the worst group against everybody else in the grouping, adjusted for there being
// several to pick the worst from.
func (x *groups) test(m *computed, at int, values []Value, compared []int, worst int) (p Float, name string) {
	type table struct{ yes, no int }
	tables := make([]table, len(values))
	switch {
	case values[worst].Kind == metrics.Share:
		name = "Fisher exact"
		for i, v := range values {
			tables[i] = table{v.Num, v.N - v.Num}
		}
	case m.statistic.keeps&keepsList > 0: // a median
		name = "median test"
		lists := make([][]float64, len(values))
		for i, y := range x.told {
			lists[i] = y.margins[at][y.margins[at].index(m.sample)].list.ranked()
		}
		middle := float64(rank(slices.Concat(lists...)).quantile(0.5, 0.95).Value)
		for i, list := range lists {
			for _, x := range list {
				tables[i].yes += count(x > middle)
			}
			tables[i].no = len(list) - tables[i].yes
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
		ps[k] = statistics.FisherExact(t.yes, t.no, all.yes-t.yes, all.no-t.no)
	}
	return Float(statistics.Holm(ps)[slices.Index(compared, worst)]), name
}
