package draft

import (
	"math"
	"slices"
	"strings"

	"cfq/task"
)

// group makes one-hot features of the file's own groups of 0/1 columns. That is possible when the whole file holds model inputs: its other columns are numbers
// that need no scaling, and the columns of a group stand side by side.
func (p *plan) group() {
	if !p.ready() {
		for i := range p.features {
			if p.features[i].from.group != "" {
				p.features[i].Actionable = false // alone, a change of one of them makes no person
			}
		}
		return
	}
	var out []feature
	for i := 0; i < len(p.features); {
		f := p.features[i]
		if f.from.group == "" {
			f.Mean, f.Std, f.Weight = 0, 1, 1
			out = append(out, f)
			i++
			continue
		}
		g := f
		g.Name, g.Kind, g.Width, g.One, g.Zero, g.Shares = f.from.group, task.OneHot, 0, "", "", nil
		for ; i < len(p.features) && p.features[i].from.group == g.Name; i++ {
			s := p.features[i].from
			g.Values = append(g.Values, s.value)
			g.Shares = append(g.Shares, task.Rounded(s.share("1"), 6))
			g.Actionable = g.Actionable && s.protect == ""
			g.Width++
		}
		out = append(out, g)
	}
	at := 0
	for i := range out {
		out[i].Offset = at
		at += out[i].Width
	}
	p.features, p.encoded = out, true
	p.chosen.scaling = raw
	p.note("the file holds model inputs already (groups of 0/1 columns: %s), so the task says encoded: true", list(groups(p.chosen.columns), 10))
}

// ready says whether the file holds model inputs.
func (p *plan) ready() bool {
	if len(groups(p.chosen.columns)) == 0 {
		return false
	}
	seen := map[string]bool{}
	last := ""
	for i := range p.features {
		f := &p.features[i]
		s := f.from
		if s.group != "" {
			if s.group != last && seen[s.group] {
				return false
			}
			seen[s.group] = true
		}
		last = s.group
		if !s.numeric || s.missing > 0 || len(s.strange) > 0 || f.Kind == task.OneHot {
			return false
		}
		if s.class == flag && (s.points[0] != 0 || s.points[1] != 1 || p.chosen.flipped[s.name]) {
			return false
		}
		mean, std := s.moments()
		scaled := math.Abs(mean) < 0.05 && math.Abs(std-1) < 0.05
		if s.class != flag && p.chosen.scaling != raw && !scaled {
			return false
		}
	}
	for name := range seen {
		n := 0
		for _, s := range p.all {
			if s.group == name {
				n++
			}
		}
		if n != p.members(name) {
			return false
		}
	}
	return true
}

// members counts the features of a group.
func (p *plan) members(group string) (n int) {
	for i := range p.features {
		if p.features[i].from.group == group {
			n++
		}
	}
	return n
}

// binaries lists the groups whose columns stay single features.
func (p *plan) binaries() []string {
	var out []string
	if p.encoded {
		return nil
	}
	for _, g := range groups(p.chosen.columns) {
		var names []string
		for i := range p.features {
			if f := &p.features[i]; f.from.group == g {
				names = append(names, f.Name)
			}
		}
		out = append(out, list(names, 8))
	}
	return out
}

// columnNames are the file's columns as an encoded task names them: those of groups as group=value.
func (p *plan) columnNames() (names []string, differ bool) {
	names = slices.Clone(p.table.Names)
	for i, n := range names {
		j := slices.IndexFunc(p.all, func(s *source) bool { return s.name == n && s.group != "" })
		if j >= 0 && !strings.Contains(n, "=") {
			names[i], differ = p.all[j].group+"="+p.all[j].value, true
		}
	}
	return names, differ
}
