package task

import (
	"testing"

	"cfq/internal/must"
)

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
	task := parse(t, features+"  - {from: band, to: rent, map: {20: yes, '<10': no}}\n"+
		"  - {from: age, to: grade, map: {30: 2.5, 9: 1, 100: 4}}\n  - {from: school, to: years, map: {1.0: 3}}\n")
	must.Same(t, []Pair{{"<10", "no"}, {"20", "yes"}}, task.Links[0].Map)
	must.Same(t, []Pair{{"9", "1"}, {"30", "2.5"}, {"100", "4"}}, task.Links[1].Map)
	must.Same(t, []Pair{{"1", "3"}}, task.Links[2].Map)
}
