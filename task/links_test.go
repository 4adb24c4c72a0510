package task

import "testing"

func TestMapsOfLinks(t *testing.T) {
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
