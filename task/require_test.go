package task

import (
	"strings"
	"testing"
)

func TestRequire(t *testing.T) {
	const file = "version: 1\nfeatures: [{name: n, kind: numeric}, {name: job, kind: onehot, values: [a, b]}," +
		" {name: home, kind: onehot, values: [x, y]}]"
	for taken, want := range map[string]string{"": "the model refuses that", "b": `takes it for "b": so say with impute`} {
		k := parse(t, file)
		k.Require(1, taken)
		p := read(t, k, "n,job,home\n1,a,x\n2,,y\n3,b,\n", ReadOptions{})
		if p.N != 2 || len(p.Problems) != 1 || p.Problems[0].Line != 3 || p.Problems[0].Column != "job" ||
			!strings.Contains(p.Problems[0].Reason, want) {
			t.Errorf("%d people, problems %v", p.N, p.Problems)
		}
	}
	k := parse(t, strings.Replace(file, "[a, b]}", "[a, b], impute: b}", 1))
	k.Require(1, "b")
	if p := read(t, k, "n,job,home\n1,a,x\n2,,y\n", ReadOptions{}); p.N != 2 {
		t.Errorf("imputed: %v", p.Problems)
	}
}

func TestLargeIntegers(t *testing.T) {
	values := []string{"9007199254740992", "9007199254740994", "7"}
	for raw, want := range map[string]int{
		"9007199254740993": -1, "9007199254740994": 1, "+9007199254740992": 0, "7.0": 2, "07": 2,
	} {
		if got := Find(values, raw); got != want {
			t.Errorf("%s is %d, want %d", raw, got, want)
		}
	}
}
