package report

import (
	"testing"

	"cfq/eval"
	"cfq/internal/must"
)

func TestExclusions(t *testing.T) {
	d := loans()
	d.Result.Population.Filtered, d.Result.Population.People = 2, d.Result.Population.Read-10
	d.Result.Margins[1].Values["frr"] = share(640, 702)
	d.Result.Groups = []eval.Grouping{{By: "sex", Without: 7}}
	want := []Exclusion{
		{"rows left out by the task's filter", 2, "everything"},
		{"rows left out by --rows", 4, "everything"},
		{"rows that cannot be read", 4, "everything"},
		{"further rows of people who have one: a person counts once, by the worst row", 10, "bounds"},
		{"people that the original approves: there is nothing to promise", 443, "promises"},
		{"refused people who are not in the random sample (seed 7)", 198, "promises"},
		{"refused people without a recourse at margin 0.1", 62, "promises"},
		{"people without a value of sex", 7, "groups by sex"},
	}
	must.Same(t, want, Exclusions(d.Result))
	list := Exclusions(given().Result)
	if last := list[len(list)-1]; last != (Exclusion{"issued promises that nothing can be said of", 14, "promises"}) {
		t.Errorf("%+v", list)
	}
}

func TestCommandLine(t *testing.T) {
	got := commandLine([]string{"gate", "a.onnx", "--check", "vd[sex]<=0.05", "it's", ""})
	if want := `cfq gate a.onnx --check 'vd[sex]<=0.05' 'it'\''s' ''`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
