package draft

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/task"
)

// smallest returns the smallest change of a feature that is any, in the units of its largest changes, and what that is called; 0 when there is none.
func smallest(f *task.Feature) (size float64, name string) {
	switch {
	case f.Kind.IsNumber() && len(f.Levels) > 0:
		size = math.Inf(1)
		for i := 1; i < len(f.Levels); i++ {
			size = min(size, f.Levels[i]-f.Levels[i-1])
		}
		return size, "the distance of any two of its values"
	case f.Kind.IsNumber() && f.Step > 0:
		return f.Step, "the step " + task.Decimal(f.Step)
	case f.Kind == task.Thermometer || f.Ordered:
		return 1, "one place"
	}
	return 0, ""
}

// blocked says which directions a feature's largest changes leave no change in.
func blocked(f *task.Feature) (up, down bool) {
	size, _ := smallest(f)
	up = f.Direction == task.Decrease || below(min(f.MaxIncrease, f.MaxChange), size)
	down = f.Direction == task.Increase || below(min(f.MaxDecrease, f.MaxChange), size)
	return up, down
}

// below says whether a largest change is too small for the smallest one, up to rounding.
func below(most, size float64) bool { return most == 0 || most < size*(1-1e-6) }

// moves reports largest changes below the smallest change that there is. That an increase or a decrease is 0 may be meant so.
func (c *checker) moves(f *task.Feature) {
	up, down := blocked(f)
	if !f.Actionable || !up && !down {
		return
	}
	size, name := smallest(f)
	var keys []string
	for _, k := range []struct {
		name    string
		most    float64
		matters bool
	}{
		{"max_change", f.MaxChange, true},
		{"max_increase", f.MaxIncrease, f.Direction != task.Decrease && !below(f.MaxChange, size)},
		{"max_decrease", f.MaxDecrease, f.Direction != task.Increase && !below(f.MaxChange, size)},
	} {
		if k.matters && !math.IsInf(k.most, 1) && below(k.most, size) && (k.most > 0 || up && down) {
			keys = append(keys, k.name+" "+task.Decimal(k.most))
		}
	}
	if len(keys) == 0 {
		return
	}
	text := strings.Join(keys, " and ")
	if size > 0 {
		text += map[bool]string{true: " is less than ", false: " are less than "}[len(keys) == 1] + name
	}
	switch {
	case up && down:
		c.find(Problem, f.Name, 0, "it is actionable, but no action can change it: %s", text)
	case up:
		c.find(Warning, f.Name, 0, "no action can increase it: %s; direction: decrease says so, too", text)
	default:
		c.find(Warning, f.Name, 0, "no action can decrease it: %s; direction: increase says so, too", text)
	}
}

// changes says whether any action can change a feature, by itself or through links.
func (c *checker) changes(name string) bool {
	i := c.index(name)
	if i < 0 {
		return false
	}
	f := &c.t.Features[i]
	if !f.Actionable {
		return slices.ContainsFunc(c.t.Links, func(l task.Link) bool { return l.To == name && c.changes(l.From) })
	}
	up, down := blocked(f)
	return !up || !down
}

// dead reports a link whose source stays as it is.
func (c *checker) dead(l *task.Link) {
	if !c.changes(l.From) {
		c.find(Warning, fmt.Sprintf("link %s -> %s", l.From, l.To), 0, "no action changes %s, neither by itself nor through another link: this one drags nothing along", legible(l.From))
	}
}
