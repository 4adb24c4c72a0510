package main

import (
	"strings"
	"testing"
)

func TestSameJSON(t *testing.T) {
	const before = `{"vd": {"value": 0.25, "num": 1}, "tool": "a", "list": [1, "x", null]}`
	for _, c := range []struct{ after, want string }{
		{`{"vd": {"value": 0.2500000000000001, "num": 1}, "tool": "b", "list": [1, "x", null]}`, ""},
		{`{"vd": {"value": 0.250000001, "num": 1}, "tool": "a", "list": [1, "x", null]}`, ".vd.value is"},
		{`{"vd": {"value": 0.25}, "tool": "a", "list": [1, "x", null]}`, ".vd.num is gone"},
		{`{"vd": {"value": 0.25, "num": 1}, "tool": "a", "list": [1, "x"]}`, ".list has other elements"},
		{`{"vd": {"value": 0.25, "num": 1}, "tool": "a", "list": [1, "y", null]}`, ".list[1] is y"},
		{`{"vd": {"value": 0.25, "num": 1}, "tool": "a", "list": [1, "x", 0]}`, ".list[2] is 0"},
		{`{"vd": {"value": 0.25, "num": 1}, "tool": "a", "list": [1, "x", null], "rvd": 1}`, "new keys: rvd"},
	} {
		err := sameJSON([]byte(before), []byte(c.after))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.after, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %s", c.after, err, c.want)
		}
	}
}
