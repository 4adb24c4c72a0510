package eval

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

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
	// of the shares of people that are approved; nil when fewer than two groups are compared
	Approval *ApprovalRatio `json:"approval_ratio,omitempty"`
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

// ApprovalRatio is the smallest of the groups' shares of approved people over the largest, under each model, of groups
// with the minimum of people. The four-fifths rule calls less than 0.8 adverse impact.
//
// References: Uniform Guidelines on Employee Selection Procedures, 29 CFR 1607.4 (D).
type ApprovalRatio struct {
	Full    Float  `json:"full"`
	Quant   Float  `json:"quant"`
	Lowest  string `json:"lowest"`  // group that the quantized model approves least
	Highest string `json:"highest"` // and most
}

// ByGroups computes every metric for groups of people. groups holds the value of each of the people that r is
// about, so that Record.Person is a position in it. A spec is an attribute, "sex", or several at once,
// "sex*race"; no specs are all attributes, each by itself. min is how many promises a group must have at the
// headline margin to be compared with others; 0 = 30.
//
// The error names the attributes that there are when a spec names another one.
//
// References: equations subgroup_vd and subgroup_crg.
func (r *Result) ByGroups(groups []task.Subgroup, specs []string, min int) ([]Grouping, error) {
	attributes, err := attributesOf(groups, specs)
	if err != nil {
		return nil, err
	}
	if len(r.Records) == 0 && r.Population.Read > 0 {
		return nil, errors.New("eval: groups need the records of the people, and the result is without")
	}
	var out []Grouping
	for i := range attributes {
		g, err := r.by(&attributes[i], cmp.Or(min, minPeople))
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// CheckGroups returns the error that ByGroups would: for those who want it before the work is done.
func CheckGroups(groups []task.Subgroup, specs []string) error {
	_, err := attributesOf(groups, specs)
	return err
}

// attributesOf reads specs, each once.
func attributesOf(groups []task.Subgroup, specs []string) ([]task.Subgroup, error) {
	if specs == nil {
		return groups, nil
	}
	var all []task.Subgroup
	var errs []error
	for _, spec := range specs {
		a, err := attributeOf(groups, spec)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("eval: %w", err))
		case !slices.ContainsFunc(all, func(o task.Subgroup) bool { return o.Feature == a.Feature }):
			all = append(all, a)
		}
	}
	return all, errors.Join(errs...)
}

// attributeOf reads one spec.
func attributeOf(groups []task.Subgroup, spec string) (task.Subgroup, error) {
	if g, err := attribute(groups, spec); err == nil { // whose name may have a * in it
		return *g, nil
	}
	var both task.Subgroup
	var names []string
	for name := range strings.SplitSeq(spec, "*") {
		g, err := attribute(groups, strings.TrimSpace(name))
		switch {
		case err != nil:
			return both, err
		case slices.Contains(names, g.Feature):
			return both, fmt.Errorf("%q names %q twice", spec, g.Feature)
		case names == nil:
			both = *g
		default:
			both = crossed(&both, g)
		}
		names = append(names, g.Feature)
	}
	return both, nil
}

// crossed tells people apart by two attributes, of which the second varies fastest.
func crossed(a, b *task.Subgroup) task.Subgroup {
	both := task.Subgroup{Feature: a.Feature + "*" + b.Feature}
	for _, x := range a.Values {
		for _, y := range b.Values {
			both.Values = append(both.Values, x+"*"+y)
		}
	}
	for i := range min(len(a.Codes), len(b.Codes)) {
		code := int32(-1)
		if x, y := a.Codes[i], b.Codes[i]; x >= 0 && y >= 0 {
			code = x*int32(len(b.Values)) + y
		}
		both.Codes = append(both.Codes, code)
	}
	return both
}

// attribute returns the subgroups of the name.
func attribute(groups []task.Subgroup, name string) (*task.Subgroup, error) {
	var names []string
	for i := range groups {
		if groups[i].Feature == name {
			return &groups[i], nil
		}
		names = append(names, groups[i].Feature)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%q: the task declares no subgroups: give a feature subgroup: true, or name columns in "+
			"data.subgroups", name)
	}
	return nil, fmt.Errorf("there are no subgroups %q%s", name, message.DidYouMean(name, names))
}

// gapMetrics are the metrics by which groups are compared; Group.Result has the others.
func gapMetrics() []string {
	return []string{
		"vd", "rvd", "frr", "crg.median", "accuracy_quant", "disagreement", "lost", "gained", "fpr_quant", "fnr_quant",
	}
}

// The tests of GroupGap.
const (
	fisherTest = "Fisher exact"
	medianTest = "median test"
)

// by computes the grouping of the records by an attribute; least is how many promises a group is compared with.
func (r *Result) by(a *task.Subgroup, least int) (Grouping, error) {
	g := Grouping{By: a.Feature, Groups: []Group{}, Gaps: []GroupGap{}}
	members := map[int32][]Record{}
	for i := range r.Records {
		row := r.Records[i].Person
		if row < 0 || row >= len(a.Codes) {
			return g, fmt.Errorf("eval: subgroups %q are those of %d people, and there is one in row %d", a.Feature,
				len(a.Codes), row)
		}
		if code := a.Codes[row]; code >= 0 {
			members[code] = append(members[code], r.Records[i])
		} else {
			g.Without++
		}
	}
	var small []string
	for _, code := range slices.Sorted(maps.Keys(members)) {
		one := Group{Name: a.Values[code], Result: summarize(members[code], r.Settings, DataFile{})}
		if n := one.Result.Margins[one.Result.Headline()].VD.Den; n < least {
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
	g.Approval = approvalRatio(g.Groups, least)
	for _, id := range gapMetrics() {
		m, _ := MetricBy(id)
		for _, at := range m.places(len(r.Settings.Margins)) {
			g.gap(&m, at, r.Settings.Margins, least)
		}
	}
	return g, nil
}

// gap adds the comparison by one metric, unless no people count in it.
func (g *Grouping) gap(m *Metric, at int, margins []float64, least int) {
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
			one.P, one.Test = g.test(m, at, values, compared, worst)
		}
	}
	g.Gaps = append(g.Gaps, one)
}

// approvalRatio compares the groups that have at least so many people.
func approvalRatio(groups []Group, least int) *ApprovalRatio {
	ratio := func(of func(d *Decisions) Rate) (low, high *Group, x Float) {
		share := func(g *Group) Float { return of(&g.Result.Decisions).Value }
		for i := range groups {
			g := &groups[i]
			if of(&g.Result.Decisions).Den < least {
				continue
			}
			if low == nil || share(g) < share(low) {
				low = g
			}
			if high == nil || share(g) > share(high) {
				high = g
			}
		}
		if low == high { // fewer than two, or all alike: then the first one is both
			return low, high, 1
		}
		return low, high, share(low) / share(high)
	}
	compared := 0
	for i := range groups {
		compared += count(groups[i].Result.Decisions.FavourableFull.Den >= least)
	}
	if compared < 2 {
		return nil
	}
	_, _, full := ratio(func(d *Decisions) Rate { return d.FavourableFull })
	low, high, quant := ratio(func(d *Decisions) Rate { return d.FavourableQuant })
	return &ApprovalRatio{Full: full, Quant: quant, Lowest: low.Name, Highest: high.Name}
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

// test returns the p of the worst group against everybody else in the grouping, adjusted for there being
// several to pick the worst from.
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
			ratios[i] = costRatios(g.Groups[i].Result, at)
		}
		middle := statistics.Median(slices.Concat(ratios...))
		for i := range ratios {
			for _, x := range ratios[i] {
				tables[i].yes += count(x > middle)
			}
			tables[i].no = len(ratios[i]) - tables[i].yes
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

// costRatios returns the ratios whose mean is CRG.
func costRatios(r *Result, at int) []float64 {
	y := newSummary(r.Records, &r.Settings)
	return y.values(at, y.of["crg.mean"], Zero)
}
