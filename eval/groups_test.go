package eval

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/internal/statistics"
	"cfq/recourse"
	"cfq/task"
)

func one(row int, broken bool, ratio float64) Record {
	p := Promise{Status: recourse.Found, Cost: 1, Own: 0.2, Other: 0.1}
	if broken {
		p.Other = -0.1
	}
	q := Promise{Status: recourse.Found, Cost: Float(1 + ratio), Own: 0.2, Other: 0.2}
	return Record{
		Person: row, Row: row, Label: int8(row % 2), Full: -1, Quant: -1, Evaluated: true, First: none(recourse.NoneFound),
		Steps: []Step{{Full: p, Quant: q, DirSim: 1, Overlap: 1}},
	}
}

func grouped(are, broken []int, ratio func(group, k int) float64) (records []Record, s task.Subgroup) {
	s.Feature = "race"
	for g := range are {
		s.Values = append(s.Values, string(rune('A'+g)))
		for k := range are[g] {
			records = append(records, one(len(records), k < broken[g], ratio(g, k)))
			s.Codes = append(s.Codes, int32(g))
		}
	}
	return records, s
}

func byGroups(r *Result, by GroupBy) ([]Grouping, error) {
	grouped, err := metricsOf(r.Records, r.Settings, DataFile{}, &by)
	if err != nil {
		return nil, err
	}
	return grouped.Groups, nil
}

func groupedBy(t testing.TB, records []Record, attributes ...task.Subgroup) *Result {
	t.Helper()
	return summarizeGroups(t, records, attributes, Settings{Margins: []float64{0.1}, Confidence: 0.95}, DataFile{})
}

func noRatio(int, int) float64 { return 0 }

func gapOf(t *testing.T, g *Grouping, metric string) GroupGap {
	t.Helper()
	for _, x := range g.Gaps {
		if x.Metric == metric {
			return x
		}
	}
	t.Fatalf("there is no gap of %s", metric)
	return GroupGap{}
}

// By hand: C has the largest share, but is too small to be ranked; of the others B is worst.
func TestGroupsByHand(t *testing.T) {
	t.Parallel()
	records, race := grouped([]int{40, 50, 12, 35}, []int{2, 20, 12, 1}, noRatio)
	race.Codes[0] = -1 // of A, one of those that broke
	r := groupedBy(t, records, race)
	gs, err := byGroups(r, GroupBy{})
	must.Do(t, err)
	g := &gs[0]
	if len(gs) != 1 || g.By != "race" || g.Without != 1 || len(g.Groups) != 4 {
		t.Fatalf("%d groupings, the first %s with %d groups, %d people without", len(gs), g.By, len(g.Groups), g.Without)
	}
	for i, want := range []struct {
		name     string
		small    bool
		num, den int
	}{{"A", false, 1, 39}, {"B", false, 20, 50}, {"C", true, 12, 12}, {"D", false, 1, 35}} {
		x := g.Groups[i]
		if vd := x.Result.Margins[0].Rate("vd"); x.Name != want.name || x.Small != want.small || vd.Num != want.num ||
			vd.Den != want.den || x.Result.Population.Read != want.den {
			t.Errorf("%s, small %t, VD %+v, want %+v", x.Name, x.Small, vd, want)
		}
	}
	vd := gapOf(t, g, "vd")
	if vd.Worst != "B" || vd.Best != "A" || *vd.Margin != 0.1 || vd.Test != "Fisher exact" {
		t.Errorf("%+v", vd)
	}
	near(t, "difference", float64(vd.Difference), 20./50-1./39, 1e-12)
	// Against everyone else: of A 1 of 39 and of the others 33 of 97, and so on.
	a, b := statistics.FisherExact(1, 38, 33, 64), statistics.FisherExact(20, 30, 14, 72)
	d := statistics.FisherExact(1, 34, 33, 68)
	p := []float64{a, b, d}
	slices.Sort(p)
	rank := slices.Index(p, b)
	want := 0.0
	for i := range rank + 1 {
		want = max(want, float64(3-i)*p[i])
	}
	near(t, "p", float64(vd.P), want, 1e-12)
	joined := strings.Join(g.Warnings, "\n")
	for _, want := range []string{
		"1 of 4 groups of race have fewer than 30 promises and are not compared: C 12",
		"1 people have no value of race",
	} {
		must.Has(t, joined, want)
	}
	if x := gapOf(t, g, "accuracy_quant"); x.Margin != nil || x.Worst == "" {
		t.Errorf("%+v", x)
	}
	for _, x := range g.Gaps {
		if x.Metric == "lost" { // nobody is approved
			t.Errorf("there is a gap where nobody counts: %+v", x)
		}
	}
	if x := gapOf(t, g, "frr"); x.Worst != "" || x.Best != "" || x.Difference != 0 || x.P.Defined() || x.Test != "" {
		t.Errorf("all groups are helped, and one is the worst: %+v", x)
	}
	if gs, err = byGroups(r, GroupBy{Min: 40}); err != nil {
		t.Fatal(err)
	}
	if x := gapOf(t, &gs[0], "vd"); x.Worst != "" || x.Best != "" || x.Difference.Defined() || x.P.Defined() ||
		!gs[0].Groups[0].Small || gs[0].Groups[1].Small {
		t.Errorf("with one group of 40 promises: %+v", x)
	}
}

func TestGroupsCRG(t *testing.T) {
	t.Parallel()
	records, race := grouped([]int{40, 40, 40}, []int{0, 0, 0}, func(g, k int) float64 {
		return []float64{0.01, 0.02, -0.5}[g] + float64(k)*1e-5
	})
	gs := must.Get(byGroups(groupedBy(t, records, race), GroupBy{}))(t)
	x := gapOf(t, &gs[0], "crg.median")
	if x.Worst != "C" || x.Best != "A" || x.Test != "median test" {
		t.Errorf("%+v", x)
	}
	near(t, "difference", float64(x.Difference), 0.51, 1e-6)
	// The common median lies in A: above it are the upper half of A and all of B.
	near(t, "p", float64(x.P), 3*statistics.FisherExact(0, 40, 60, 20), 1e-12)
}

func TestGroupsAreTheirPeople(t *testing.T) {
	t.Parallel()
	people := crowd(150, 9)
	testGroups(t, people)
	for i := range people.N { // some of a person's rows are in one group, some in another
		people.IDs = append(people.IDs, strconv.Itoa(i%62))
	}
	testGroups(t, people)
}

func testGroups(t *testing.T, people *task.People) {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	sex, race := task.Subgroup{Feature: "sex", Values: []string{"f", "m"}},
		task.Subgroup{Feature: "race", Values: []string{"x", "y", "z", "nobody"}}
	for range people.N {
		sex.Codes, race.Codes = append(sex.Codes, int32(rng.IntN(2))), append(race.Codes, int32(rng.IntN(4)-1))
	}
	g := original
	g.w = []float64{0.95, 0.6, 0.2}
	people.Subgroups = []task.Subgroup{sex, race}
	r := compare(t, original, g, people, Options{Margins: []float64{0, 0.1}})
	gs := must.Get(byGroups(r, GroupBy{Specs: []string{"race", "sex * race", "race", "sex*race"}, Min: 10}))(t)
	if len(gs) != 2 || gs[0].By != "race" || gs[1].By != "sex*race" {
		t.Fatalf("%d groupings", len(gs))
	}
	want := map[string][]Record{}
	for _, x := range listed(t, r) {
		if c := race.Codes[x.Row]; c >= 0 {
			want["race "+race.Values[c]] = append(want["race "+race.Values[c]], x)
			both := "sex*race " + sex.Values[sex.Codes[x.Row]] + "*" + race.Values[c]
			want[both] = append(want[both], x)
		}
	}
	seen := 0
	for _, by := range gs {
		people := by.Without
		var names []string
		for _, g := range by.Groups {
			seen++
			people += g.Result.Population.Read
			names = append(names, g.Name)
			alone := summarize(t, want[by.By+" "+g.Name], r.Settings, DataFile{})
			alone.Records = nil // a group has none of its own
			must.Same(t, asJSON(t, alone), asJSON(t, g.Result))
		}
		if people != r.Population.Read || by.Without == 0 || !slices.IsSorted(names) {
			t.Errorf("%s: %d people in groups %q or none", by.By, people, names)
		}
	}
	if seen != len(want) || seen != 9 {
		t.Errorf("%d groups of %d", seen, len(want))
	}
	all, err := byGroups(r, GroupBy{})
	if err != nil || len(all) != 2 || all[0].By != "sex" || all[1].By != "race" {
		t.Errorf("all: %d groupings, %v", len(all), err)
	}
}

func TestGroupErrors(t *testing.T) {
	t.Parallel()
	records, race := grouped([]int{40, 40}, []int{0, 0}, noRatio)
	sex := task.Subgroup{Feature: "sex", Values: []string{"f"}, Codes: make([]int32, 80)}
	odd := task.Subgroup{Feature: "a*b", Values: []string{"f"}, Codes: make([]int32, 80)}
	groups := []task.Subgroup{race, sex, odd}
	r := groupedBy(t, records, groups...)
	must.Same(t, "a*b", must.Get(byGroups(r, GroupBy{Specs: []string{"a*b"}}))(t)[0].By)
	none := groupedBy(t, records)
	for _, c := range []struct {
		r    *Result
		spec string
		want []string
	}{
		{r, "gender", []string{`no subgroups "gender"; one of: race, sex`}},
		{r, "rase", []string{`did you mean "race"?`}},
		{r, "sex*Rase", []string{`"Rase"; did you mean "race"?`}},
		{r, "sex*sex", []string{`names "sex" twice`}},
		{r, "", []string{`no subgroups ""`}},
		{none, "sex", []string{"the task declares no subgroups", "subgroup: true"}},
	} {
		_, err := byGroups(c.r, GroupBy{Specs: []string{c.spec}})
		if err == nil {
			t.Errorf("%q is taken", c.spec)
			continue
		}
		for _, want := range c.want {
			must.Has(must.In(t, c.spec), err.Error(), want)
		}
	}
	must.Fail(t, GroupBy{Specs: []string{"rase"}}.Check(groups), "")
	must.Same(t, 0, len(must.Get(byGroups(none, GroupBy{}))(t)))
}

// Where groups do not differ, picking the worst of seven is called significant no more often than the level
// says, by shares and by medians; and a group that is worse is found.
func TestWorstGroupIsPaidFor(t *testing.T) {
	t.Parallel()
	draws := times(6, 4000)
	rng := rand.New(rand.NewPCG(12, 3))
	are := []int{200, 120, 90, 60, 50, 40, 35}
	for _, worse := range []float64{0, 0.25} {
		alarms := map[string]int{}
		for range draws {
			broken := make([]int, len(are))
			for g, n := range are {
				p := 0.15
				if g == 2 {
					p += worse
				}
				for range n {
					broken[g] += count(rng.Float64() < p)
				}
			}
			records, race := grouped(are, broken, func(g, _ int) float64 {
				x := rng.NormFloat64()
				if g == 2 {
					x += 6 * worse
				}
				return x
			})
			gs := must.Get(byGroups(groupedBy(t, records, race), GroupBy{Min: 30}))(t)
			for _, id := range []string{"vd", "crg.median"} {
				if x := gapOf(t, &gs[0], id); x.P <= 0.05 && (worse == 0 || x.Worst == "C") {
					alarms[id]++
				}
			}
		}
		for _, id := range []string{"vd", "crg.median"} {
			share := float64(alarms[id]) / float64(draws)
			what := fmt.Sprintf("%s, one group worse by %v: alarm in %.3f of %d draws", id, worse, share, draws)
			switch slack := 4 * math.Sqrt(0.05*0.95/float64(draws)); {
			case worse == 0 && share > 0.05+slack:
				t.Error(what)
			case worse > 0 && share < 0.8:
				t.Error(what)
			}
		}
	}
}
