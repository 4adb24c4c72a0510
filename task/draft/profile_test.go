package draft

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/task"
)

func columnOf(fields ...string) *fieldCounts {
	c := newColumn("c")
	for _, s := range fields {
		c.add(s)
	}
	return &c
}

func TestStatistics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		values := make([]float64, n)
		fields := make([]string, n)
		for i := range values {
			values[i] = float64(rapid.IntRange(-40, 40).Draw(t, "v")) / 4
			fields[i] = task.Decimal(values[i])
		}
		p := look(columnOf(fields...))
		sum, square := 0.0, 0.0
		for _, v := range values {
			sum += v
		}
		for _, v := range values {
			square += (v - sum/float64(n)) * (v - sum/float64(n))
		}
		mean, std := p.moments()
		if math.Abs(mean-sum/float64(n)) > 1e-9 || math.Abs(std-math.Sqrt(square/float64(n))) > 1e-9 {
			t.Fatalf("mean %v, std %v of %v", mean, std, values)
		}
		slices.Sort(values)
		q := p.quantiles()
		for i, v := range q {
			rank := max(1, int(math.Ceil(float64(i)*float64(n)/20-1e-9)))
			must.Same(must.In(t, i), values[rank-1], v)
		}
		middle := values[(n+1)/2-1]
		away := make([]float64, n)
		for i, v := range values {
			away[i] = math.Abs(v - middle)
		}
		slices.Sort(away)
		must.Same(must.In(t, values), away[(n+1)/2-1], p.mad())
		if len(p.points) < 2 {
			return
		}
		step := p.step()
		for _, v := range values {
			if k := (v - values[0]) / step; math.Abs(k-math.Round(k)) > 1e-6 {
				t.Fatalf("step %v does not reach %v from %v", step, v, values[0])
			}
		}
	})
}

func TestSteps(t *testing.T) {
	for text, want := range map[string]float64{
		"0 1 5 7 9":                 1,
		"100 300 700 900 1500 2500": 200, // all an odd number of hundreds
		"12 24 36 60 84":            12,
		"0.5 1 1.5 2.5 4":           0.5,
		"1.25 2.5 7.75 3 4":         0.25,
		"0.123 0.5 0.7 0.9 0.111":   0.001,
		"0.1234567 1 2 3 4":         0,
		"1 3":                       1,
		"1e300 2e300 3 4 5":         0,
	} {
		must.Same(t, want, look(columnOf(strings.Fields(text)...)).step())
	}
}

func TestNumericColumns(t *testing.T) {
	for _, c := range []struct {
		fields  string
		numeric bool
		missing int
		strange int
	}{
		{"1 2 3 ? 4", true, 1, 0},
		{"1 2 3 unknown 4", true, 0, 1},
		{"a b unknown ?", false, 1, 0},
		{strings.Repeat("1 2 ", 20) + "12k", true, 0, 1},
		{"1 2 x y", false, 0, 0},
		{"0x10 1_000 inf", false, 0, 0},
		{"NA NA", false, 2, 0},
	} {
		p := look(columnOf(strings.Fields(c.fields)...))
		if p.numeric != c.numeric || p.missing != c.missing || len(p.strange) != c.strange {
			t.Errorf("%s: numeric %v, %d missing, %q strange", c.fields, p.numeric, p.missing, p.strange)
		}
	}
}
