package eval

import (
	"errors"
	"fmt"
	"slices"
)

// sameGround says why results cannot be compared person by person, nil when they can.
func sameGround(names []string, results []*Result) error {
	switch {
	case len(names) != len(results):
		return fmt.Errorf("%d names for %d models", len(names), len(results))
	case len(results) < 2:
		return errors.New("two quantized models are needed at least")
	}
	for i, r := range results {
		if slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("two models are called %q", names[i])
		}
		if len(r.Records) == 0 && r.Population.Read > 0 {
			return fmt.Errorf("nothing is known of the people of %s: it was read from a report; evaluate it again", names[i])
		}
		if err := sameAs(results[0], r); err != nil {
			return fmt.Errorf("%s and %s cannot be compared: %w", names[0], names[i], err)
		}
	}
	return nil
}

func sameAs(a, b *Result) error {
	s, t := &a.Settings, &b.Settings
	switch {
	case !slices.Equal(s.Margins, t.Margins):
		return fmt.Errorf("the required margins are %v and %v", s.Margins, t.Margins)
	case s.Given != t.Given || s.OneSided != t.OneSided:
		return errors.New("they were evaluated with different options")
	case len(a.Records) != len(b.Records):
		return fmt.Errorf("they were evaluated on %d and %d people", len(a.Records), len(b.Records))
	}
	for i := range a.Records {
		x, y := &a.Records[i], &b.Records[i]
		where := fmt.Sprintf("person %d", i+1)
		if x.Line > 0 {
			where = fmt.Sprintf("line %d", x.Line)
		}
		switch {
		case x.Row != y.Row || x.Line != y.Line || x.Label != y.Label:
			return fmt.Errorf("%s: they were evaluated on different people", where)
		case x.Full != y.Full:
			return fmt.Errorf("%s: the original's margin is %v and %v: they were evaluated against different originals", where, x.Full, y.Full)
		case x.Evaluated != y.Evaluated || len(x.Steps) != len(y.Steps):
			return fmt.Errorf("%s: evaluated in one and not in the other: the samples are different", where)
		}
		for k := range x.Steps {
			if p, q := &x.Steps[k].Full, &y.Steps[k].Full; p.Status != q.Status || p.Made() && (p.Own != q.Own || p.Cost != q.Cost) {
				return fmt.Errorf("%s: the original's recourse is different at margin %v: evaluate both with the same task, solver and seed", where, s.Margins[k])
			}
		}
		if x.First.Status != y.First.Status || x.First.Made() && x.First.Own != y.First.Own {
			return fmt.Errorf("%s: the original's first valid step is different: evaluate both with the same task", where)
		}
	}
	return nil
}
