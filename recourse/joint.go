package recourse

import (
	"errors"
	"fmt"

	"cfq/task"
)

// subset bounds how many of its units change.
type subset struct {
	text  string
	most  int
	units []int
}

// compileJoint compiles what ties features to each other.
func (a *ActionSet) compileJoint(t *task.Task) error {
	var errs []error
	at := map[string]int{}
	for i := range a.units {
		at[a.units[i].name] = i
	}
	for _, l := range t.Links {
		from, ok1 := at[l.From]
		to, ok2 := at[l.To]
		if !ok1 || !ok2 {
			errs = append(errs, fmt.Errorf("recourse: link from %q to %q: no such feature", l.From, l.To))
			continue
		}
		c, err := a.compileLink(l, from, to)
		if err != nil {
			errs = append(errs, fmt.Errorf("recourse: link from %q to %q: %w", l.From, l.To, err))
		}
		a.units[from].joint = true
		a.links = append(a.links, c)
	}
	errs = append(errs, a.sortLinks())
	for _, r := range t.Rules {
		if err := a.compileRule(r, at); err != nil {
			errs = append(errs, fmt.Errorf("recourse: constraint %q: %w", r.Text, err))
		}
	}
	return errors.Join(errs...)
}

// broken is a joint constraint that an action breaks.
type broken struct {
	kind   Constraint
	text   string
	rule   *rule   // or
	subset *subset // or
	unit   *unit   // a linked feature beyond its bounds
}

// obeys says whether an action that respects every feature's own constraints, and whose linked features are dragged, respects the joint ones.
func (a *ActionSet) obeys(x, d []float32) bool { return a.firstBroken(x, d) == nil }

// changesOf counts the features of the subset that the action changes.
func (a *ActionSet) changesOf(s *subset, d []float32) int {
	n := 0
	for _, k := range s.units {
		if a.units[k].changed(d) {
			n++
		}
	}
	return n
}

// astray says which constraint a number breaks to which links have dragged it; "" when none. Its steps are its own affair.
func (u *unit) astray(x, d []float32) (Constraint, string) {
	if u.form >= group || !u.changed(d) {
		return "", ""
	}
	if c, detail := u.checkLine(x[u.first], d[u.first]); c == Bounds || c == Category {
		return c, detail
	}
	return "", ""
}

func (a *ActionSet) firstBroken(x, d []float32) *broken {
	for i := range a.subsets {
		s := &a.subsets[i]
		if n := a.changesOf(s, d); n > s.most {
			return &broken{kind: Subset, text: fmt.Sprintf("%d features changed, at most %d may: %s", n, s.most, s.text), subset: s}
		}
	}
	for i := range a.links {
		u := &a.units[a.links[i].to]
		if c, detail := u.astray(x, d); c != "" {
			return &broken{kind: c, text: fmt.Sprintf("%q, which changes along: %s", u.name, detail), unit: u}
		}
	}
	for i := range a.rules {
		if r := &a.rules[i]; a.breaks(r, x, d) {
			return &broken{kind: Relation, text: r.text, rule: r}
		}
	}
	return nil
}
