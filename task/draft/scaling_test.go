package draft

import "testing"

func TestClearGain(t *testing.T) {
	rows := func(right, wrong int) []bool {
		list := make([]bool, right+wrong)
		for i := range right {
			list[i] = true
		}
		return list
	}
	for _, c := range []struct {
		before, after []bool
		want          bool
	}{
		{rows(35, 5), rows(36, 4), false},         // one of 40 people
		{rows(1700, 300), rows(1730, 270), false}, // 1.5 points of 2,000
		{rows(1200, 800), rows(1700, 300), true},
		{rows(25, 15), rows(36, 4), true},
		{rows(36, 4), rows(25, 15), false},
	} {
		if got := clearGain(c.before, c.after); (got > 0) != c.want {
			t.Errorf("%.3f of %d rows, then %.3f: a gain of %g", share(c.before), len(c.before), share(c.after), got)
		}
	}
}
