package draft

import (
	"fmt"
	"slices"
	"strings"

	"cfq/task"
)

// class is what a column holds.
type class int

const (
	nothing    class = iota // one value or none
	measure                 // numbers
	grade                   // few whole numbers without gaps
	flag                    // two numbers
	pair                    // two texts
	category                // a few texts
	individual              // texts that differ from row to row
)

// source is a column that may become a feature.
type source struct {
	*profile
	class   class
	leave   string // why it should be no feature; "" when it should
	protect string // which kind of attribute that nobody can change it seems to be
	group   string // name of the group of 0/1 columns that it belongs to
	value   string // its value in that group
}

// Bounds on categories: so many values are a list, more are none unless each has many rows.
const (
	maxGrades   = 16
	fewValues   = 20
	manyValues  = 200
	rowsPer     = 20
	mostMissing = 0.5
)

// sources classifies the columns that are not the label.
func sources(profiles []*profile, label string) []*source {
	var out []*source
	for _, p := range profiles {
		if p.name == label || strings.TrimSpace(p.name) == "" {
			continue
		}
		s := &source{profile: p, class: classify(p), protect: protected(p)}
		s.leave = s.why()
		out = append(out, s)
	}
	findGroups(out)
	return out
}

func classify(p *profile) class {
	n := len(p.texts)
	switch {
	case n < 2, p.numeric && len(p.points) < 2:
		return nothing
	case p.numeric && len(p.points) == 2:
		return flag
	case p.numeric && p.whole && len(p.points) <= maxGrades && p.points[len(p.points)-1]-p.points[0] < 2*maxGrades:
		return grade
	case p.numeric:
		return measure
	case n == 2:
		return pair
	case n <= fewValues || (n <= manyValues && n*rowsPer <= len(p.col.codes)):
		return category
	}
	return individual
}

// why says why a column should not become a feature.
func (s *source) why() string {
	rows := len(s.col.codes)
	distinct := len(s.texts)
	switch {
	case s.class == nothing && s.missing == rows:
		return "it is empty"
	case s.class == nothing:
		return "it has one value"
	case !s.numeric && s.dates():
		return "it holds dates"
	case s.class == individual:
		return fmt.Sprintf("it has %d different texts", distinct)
	case s.class == measure && s.counts() && rows >= 20:
		return "it numbers the rows"
	case identifier(s.name) && distinct*2 > rows:
		return "its name and its many values are those of an identifier"
	case s.class == measure && sampling(s.name):
		return "its name is that of a sampling weight, which says nothing about the person"
	case float64(s.missing) > mostMissing*float64(rows):
		return fmt.Sprintf("%s of its fields are missing", percent(float64(s.missing)/float64(rows)))
	}
	return ""
}

// counts says whether the numbers are consecutive and all different.
func (s *source) counts() bool {
	n := len(s.points)
	return s.whole && n == len(s.col.codes) && int(s.points[n-1]-s.points[0]) == n-1
}

// findGroups finds columns of 0 and 1 that are the values of one category: their names begin alike, and at most one of them is 1 in each row.
func findGroups(all []*source) {
	byPrefix := map[string][]*source{}
	var prefixes []string
	for _, s := range all {
		if s.class != flag || s.points[0] != 0 || s.points[1] != 1 || s.missing > 0 || len(s.strange) > 0 {
			continue
		}
		prefix, value := splitName(s.name)
		if strings.TrimSpace(prefix) == "" || strings.TrimSpace(value) == "" {
			continue
		}
		if _, ok := byPrefix[prefix]; !ok {
			prefixes = append(prefixes, prefix)
		}
		byPrefix[prefix] = append(byPrefix[prefix], s)
	}
	for _, prefix := range prefixes {
		members := byPrefix[prefix]
		if len(members) < 2 || !exclusive(members) {
			continue
		}
		for _, s := range members {
			s.group = prefix
			_, s.value = splitName(s.name)
		}
	}
}

// splitName splits housing=rent, housing_rent and housing.rent at the first = or at the last other mark.
func splitName(name string) (prefix, value string) {
	for i, r := range name {
		if r == '=' {
			return name[:i], name[i+1:]
		}
	}
	for i := len(name) - 1; i > 0; i-- {
		if c := name[i]; (c == '_' || c == '.' || c == ':') && i < len(name)-1 {
			return name[:i], name[i+1:]
		}
	}
	return "", ""
}

// exclusive says whether at most one member is 1 in each row, and one is in nearly all.
func exclusive(members []*source) bool {
	rows := len(members[0].col.codes)
	sums := make([]int, rows)
	for _, s := range members {
		one := make([]bool, len(s.col.values))
		for i, v := range s.col.values {
			x, _ := task.Number(v)
			one[i] = x == 1
		}
		for i, code := range s.col.codes {
			if one[code] {
				sums[i]++
			}
		}
	}
	none := 0
	for _, n := range sums {
		if n > 1 {
			return false
		}
		if n == 0 {
			none++
		}
	}
	return none*20 <= rows
}

// groups returns the names of the groups of 0/1 columns, in order.
func groups(all []*source) []string {
	var out []string
	for _, s := range all {
		if s.group != "" && !slices.Contains(out, s.group) {
			out = append(out, s.group)
		}
	}
	return out
}
