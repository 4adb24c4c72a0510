package gate

import (
	"strings"
	"testing"
	"time"
)

func day(s string) time.Time {
	t, err := time.Parse(dateLayout, s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestWaiver(t *testing.T) {
	east, west := time.FixedZone("", 14*3600), time.FixedZone("", -12*3600)
	for _, c := range []struct {
		now  time.Time
		want bool
	}{
		{time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC), true},
		{time.Date(2026, 3, 31, 23, 59, 59, 999999999, time.UTC), true},
		{time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC), false},
		{time.Date(2026, 4, 1, 13, 59, 59, 0, east), true}, // still March in Greenwich
		{time.Date(2026, 4, 1, 14, 0, 0, 0, east), false},
		{time.Date(2026, 3, 31, 11, 59, 59, 0, west), true},
		{time.Date(2026, 3, 31, 12, 0, 0, 0, west), false}, // April there
		{time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), true},
	} {
		g := Gate{
			Checks:  maxVD(0.02),
			Waivers: []Waiver{{Check: "vd<=0.02", Until: day("2026-03-31"), Reason: "known", Owner: "risk"}},
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		r := Judge(&g, broken(50, 100), nil, c.now)
		f := &r.Findings[0]
		if (f.Waived != "") != c.want || (r.Verdict == Pass) != c.want || f.Verdict != Fail {
			t.Errorf("%s: %s, %+v", c.now, r.Verdict, *f)
		}
		if c.want && (f.Waived != "known (risk, until 2026-03-31)" || len(r.Notes) != 0) {
			t.Errorf("%s: %q, %q", c.now, f.Waived, r.Notes)
		}
		if !c.want && (len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "expired on 2026-03-31")) {
			t.Errorf("%s: %q", c.now, r.Notes)
		}
	}
	// The last day is that of Until in UTC, however it is given.
	w := Waiver{Until: time.Date(2026, 3, 31, 23, 0, 0, 0, west)} // April 1, 11:00 UTC
	if w.last() != "2026-04-01" || w.expired(time.Date(2026, 4, 1, 23, 59, 59, 0, time.UTC)) ||
		!w.expired(time.Date(2026, 4, 2, 0, 0, 0, 0, time.UTC)) {
		t.Error(w.last())
	}
}

func TestWaivedGroups(t *testing.T) {
	check := Check{Name: "fair", Metric: "vd", Max: ptr(0.1), By: "sex"}
	r := grouped([]int{40, 1, 0}, []int{100, 100, 10}) // A fails, C is inconclusive
	waive := func(names ...string) *Report {
		g := Gate{Checks: []Check{check}}
		for _, n := range names {
			g.Waivers = append(g.Waivers, Waiver{Check: n, Until: noon, Reason: "r"})
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		return Judge(&g, r, nil, noon)
	}
	for _, c := range []struct {
		names []string
		want  Verdict
		note  string
	}{
		{nil, Fail, ""},
		{[]string{"fair"}, Pass, ""},
		{
			[]string{"fair [A]"}, Inconclusive, "one look is planned, and this was it: looking again until the gate passes " +
				"has a lower confidence; --looks 2 plans a second look before the first",
		},
		{[]string{"fair [C]"}, Fail, ""},
		{[]string{"fair [A]", "fair [C]"}, Pass, ""},
		{
			[]string{"fair [A]", "fair [C]", "fair [B]"},
			Pass,
			`the waiver of "fair [B]" is no longer needed: the check passes`,
		},
		{[]string{"fair", "fair [D]"}, Pass, `the waiver of "fair [D]" matches no finding: check the name of the group`},
	} {
		report := waive(c.names...)
		if report.Verdict != c.want || strings.Join(report.Notes, "\n") != c.note {
			t.Errorf("%q: %s %q, want %s %q", c.names, report.Verdict, report.Notes, c.want, c.note)
		}
	}
}
