package chart

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	number := regexp.MustCompile(`(?:x1|cx)="([^"]*)%"`)
	for _, c := range []struct {
		m     Meter
		marks int
		want  []string // classes of the elements
	}{
		{Meter{0.1, 0.07, 0.12, -inf, 0.02}, 5, []string{"allowed", "value", "value", "bounds", "bounds", "bounds", "limit"}},
		{Meter{0, 0, 0, -inf, 0}, 5, []string{"allowed", "value", "value", "bounds", "bounds", "bounds", "limit"}},
		{Meter{-0.2, nan, nan, -0.1, 0.1}, 3, []string{"allowed", "value", "value", "limit", "limit"}},
		{Meter{0.95, 0.9, inf, 0.9, inf}, 3, []string{"allowed", "value", "value", "bounds", "limit"}},
		{Meter{nan, nan, nan, -inf, 5}, 1, []string{"allowed", "limit"}},
	} {
		svg := c.m.SVG()
		var classes []string
		for _, x := range regexp.MustCompile(`class="(\w+)"`).FindAllStringSubmatch(svg, -1) {
			classes = append(classes, x[1])
		}
		marks := number.FindAllStringSubmatch(svg, -1)
		for _, x := range marks {
			if v, err := strconv.ParseFloat(x[1], 64); err != nil || v < 0 || v > 100 {
				t.Errorf("%+v: a mark at %s %%", c.m, x[1])
			}
		}
		if strings.Join(classes, " ") != strings.Join(c.want, " ") || len(marks) != c.marks ||
			strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%+v: %v and %d marks in %s", c.m, classes, len(marks), svg)
		}
	}
	svg := Meter{Value: 2, Low: 1, High: 4, From: math.Inf(-1), To: 3}.SVG()
	// 4.24 wide: value, the line of bounds from 1, its ends at 1 and 4, the limit at 3.
	var at []string
	for _, x := range number.FindAllStringSubmatch(svg, -1) {
		at = append(at, x[1])
	}
	if got := strings.Join(at, " "); got != "47.17 23.58 23.58 94.34 70.75" {
		t.Errorf("marks at %s", got)
	}
}
