package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// finish adds what is known only at the end of the file.
func (rd *reader) finish() (*People, error) {
	p := rd.people
	if p.N == 0 {
		err := p.nobody()
		if rd.hint != "" {
			err = fmt.Errorf("%s\n%w", rd.hint, err)
		}
		return nil, err
	}
	rd.checkLabels()
	p.inOrder()
	for i := range p.Subgroups {
		p.Subgroups[i].sort()
		if len(p.Subgroups[i].Values) == maxGroups {
			rd.note(fmt.Sprintf("column %q has %d values or more; the further ones are taken as missing", p.Subgroups[i].Feature, maxGroups))
		}
	}
	if rd.batch != nil {
		p.X, p.Subgroups = nil, nil
		return p, nil
	}
	p.Subgroups = append(rd.task.subgroups(p), p.Subgroups...)
	return p, nil
}

// subgroups reads the subgroups that are features back from the model inputs.
func (t *Task) subgroups(p *People) []Subgroup {
	var groups []Subgroup
	for i := range t.Features {
		if f := &t.Features[i]; f.Subgroup {
			groups = append(groups, f.subgroup(p))
		}
	}
	return groups
}

// nobody explains why there is no person.
func (p *People) nobody() error {
	switch {
	case p.Total == 0:
		return errors.New("the file has no data rows")
	case p.Failed == 0:
		return fmt.Errorf("no row is left: of %d rows, data.filter leaves out %d and the row selection %d", p.Total, p.Filtered, p.Excluded)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "none of %d rows can be read:", p.Failed)
	for i := range p.Problems[:min(3, len(p.Problems))] {
		fmt.Fprintf(&b, "\n  %s", p.Problems[i].Error())
	}
	if p.Failed > 3 {
		fmt.Fprintf(&b, "\n  and %d more", p.Failed-3)
	}
	return errors.New(b.String())
}

// subgroup reads a feature's values back from the model inputs.
func (f *Feature) subgroup(p *People) Subgroup {
	s := Subgroup{Feature: f.Name, Values: f.Values, Codes: make([]int32, p.N)}
	switch f.Kind {
	case Binary:
		s.Values = []string{f.zeroName(), f.One}
	case Thermometer:
		s.Values = f.placeNames()
	}
	for i := range s.Codes {
		x := p.X[i*p.Dim+f.Offset : i*p.Dim+f.Offset+f.Width]
		switch f.Kind {
		case OneHot:
			at, _ := f.vertex(x)
			s.Codes[i] = int32(at)
		case Binary:
			s.Codes[i] = int32(x[0])
		case Thermometer:
			at, _ := reached(x)
			s.Codes[i] = int32(at)
		default:
			s.Codes[i] = int32(f.level(f.FromInput(x[0])))
		}
	}
	return s
}

// sort puts the values in alphabetical order, so that it does not depend on the order of the rows.
func (s *Subgroup) sort() {
	sorted := slices.Sorted(slices.Values(s.Values))
	to := make([]int32, len(s.Values))
	for i, v := range s.Values {
		to[i] = int32(slices.Index(sorted, v))
	}
	for i, c := range s.Codes {
		if c >= 0 {
			s.Codes[i] = to[c]
		}
	}
	s.Values = sorted
}
