package gate

import (
	"strings"
	"testing"

	"cfq/eval"
)

func TestStricter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		every, others *eval.Result
		want          Verdict
		people        string
	}{
		{broken(0, 720), broken(0, 36), Inconclusive, "distinct rows"},
		{broken(0, 720), broken(30, 100), Fail, "distinct rows"},
		{broken(0, 36), broken(0, 720), Inconclusive, ""},
		{broken(0, 720), broken(0, 700), Pass, ""},
		{broken(0, 720), broken(0, 0), Inconclusive, "distinct rows"},
	} {
		c.every.SensitivityToCopies = []eval.Alternative{
			{Name: "distinct rows", About: "684 rows are equal", Result: c.others},
		}
		report := Judge(&Gate{Checks: maxVD(0.02)}, c.every, nil)
		f := report.Findings[0]
		if report.Verdict != c.want || f.People != c.people || strings.Contains(f.Why, "distinct") != (c.people != "") ||
			!strings.Contains(strings.Join(report.Notes, "\n"), "684 rows are equal; checks are judged again (distinct rows)") {
			t.Errorf("%+v, %q", f, report.Notes)
		}
	}
}
