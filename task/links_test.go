package task

import "testing"

func TestMistakesInLinks(t *testing.T) {
	const features = `version: 1
features:
  - {name: school, kind: onehot, values: [None, "1"]}
  - {name: years, kind: numeric, actionable: false}
  - {name: grade, kind: ordinal, values: [1, 2.5, 4], actionable: false}
  - {name: age, kind: numeric}
  - {name: band, kind: thermometer, thresholds: [10, 20], actionable: false}
  - {name: sex, kind: binary, one: m, zero: f, actionable: false, mutable: false}
  - {name: rent, kind: binary, one: "yes", zero: "no", actionable: false}
links:
`
	for _, c := range []struct{ links, want string }{
		{`  - {from: agee, to: years, scale: 1}`, `11:12: there is no feature "agee"; did you mean "age"?`},
		{`  - {from: age, to: yeers, scale: 1}`, `11:21: there is no feature "yeers"; did you mean "years"?`},
		{
			`  - {from: years, to: age, scale: 1}`,
			`11:23: "age" changes with "years" and is actionable, too; set actionable: false on it, or remove the link`,
		},
		{`  - {from: age, to: age, scale: 1}`, `11:21: "age" is linked to itself; from and to are two features`},
		{
			`  - {from: age, to: sex, map: {1: m}}`,
			`11:21: "sex" never changes (mutable: false), and "age" is linked to it; remove one of the two`,
		},
		{`  - {from: age, to: years}`, `11:5: a link needs scale or map, one of the two`},
		{`  - {from: age, to: years, scale: 1, map: {1: 2}}`, `11:5: a link needs scale or map, one of the two`},
		{
			`  - {from: age, to: years, scale: 0}`,
			`11:35: scale must not be 0: it is what "years" changes by for each unit of "age"`,
		},
		{`  - {from: school, to: years, scale: 2}`, `11:38: scale is between numbers, and "school" is onehot; write a map`},
		{`  - {from: age, to: rent, scale: 2}`, `11:34: scale is between numbers, and "rent" is binary; write a map`},
		{`  - {from: age, scale: 2}`, `11:5: a link needs the key "to"`},
		{`  - {from: age, to: years, scale: 2, by: 3}`, `a link has no key "by"`},
		{
			`  - {from: age, to: years, map: 3}`,
			`11:33: map must give the value of one feature for values of another, as {Masters: 14}, not "3"`,
		},
		{`  - {from: age, to: years, map: {}}`, `the map is empty`},
		{
			`  - {from: age, to: years, map: {old: 3}}`,
			`11:34: "old" is no value that "age" can be mapped from: "old" is not a number`,
		},
		{
			`  - {from: age, to: years, map: {3: 1, 3.0: 2}}`,
			`11:40: "3.0" is no value that "age" can be mapped from: it stands in the map twice`,
		},
		{
			`  - {from: school, to: years, map: {Non: 3}}`,
			`11:37: "Non" is no value that "school" can be mapped from: "Non" is not a known value; did you mean "None"?`,
		},
		{
			`  - {from: school, to: years, map: {None: much}}`,
			`11:37: "None" is mapped to "much", which "years" cannot be: "much" is not a number`,
		},
		{
			`  - {from: school, to: years, map: {None: ""}}`,
			`11:37: "None" is mapped to "", which "years" cannot be: an empty value is a missing one`,
		},
		{
			`  - {from: school, to: grade, map: {None: 3}}`,
			`11:37: "None" is mapped to "3", which "grade" cannot be: "3" is not a known value; one of: 1, 2.5, 4`,
		},
		{
			`  - {from: school, to: band, map: {None: low}}`,
			`11:36: "None" is mapped to "low", which "band" cannot be: "low" is neither a number nor "<10"`,
		},
		{
			`  - {from: school, to: rent, map: {None: maybe}}`,
			`11:36: "None" is mapped to "maybe", which "rent" cannot be: "maybe" is neither "yes" nor "no"`,
		},
		{
			`  - {from: band, to: years, map: {15: 1}}`,
			`11:35: "15" is no value that "band" can be mapped from: one of: <10, 10, 20`,
		},
		{
			"  - {from: age, to: years, scale: 1}\n  - {from: age, to: years, scale: 2}",
			`12:12: the link from "age" to "years" is given twice; keep one`,
		},
		{
			"  - {from: age, to: years, scale: 1}\n  - {from: school, to: years, map: {None: 2}}",
			`12:24: "years" has two sources, "age" and "school"`,
		},
		{
			"  - {from: years, to: grade, scale: 1}\n  - {from: grade, to: band, map: {1: 10}}\n  - {from: band, to: " +
				"years, map: {10: 1}}",
			`13:5: the links go round in a circle: band -> years -> grade -> band; remove one of them`,
		},
		{"  {from: age, to: years, scale: 1}", `links must be a list, not a mapping`},
	} {
		wantMistake(t, features+c.links+"\n", c.want)
	}
	task := parse(
		t,
		features+"  - {from: band, to: rent, map: {20: yes, '<10': no}}\n  - {from: age, to: grade, map: {30: 2.5, 9: "+
			"1, 100: 4}}\n"+
			"  - {from: school, to: years, map: {1.0: 3}}\n",
	)
	want := []Pair{{"<10", "no"}, {"20", "yes"}}
	if got := task.Links[0].Map; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("map of a thermometer: %v, want %v", got, want)
	}
	if got := task.Links[1].Map; got[0].From != "9" || got[1].From != "30" || got[2].From != "100" {
		t.Errorf("map of a number: %v", got)
	}
	if got := task.Links[2].Map[0]; got != (Pair{"1", "3"}) {
		t.Errorf("map of a category: %v", got)
	}
}
