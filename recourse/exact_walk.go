package recourse

// exhaustive answers for people whose actions can be counted. Several people share the model's batches; what a person is
// given next depends on that person only.
func (e *exactSearch) exhaustive(open []int) error {
	const (
		mostListed = 1 << 20 // options held at once
		mostShared = 16      // people at once
	)
	var active []*catalogue
	listed := 0
	for len(open) > 0 || len(active) > 0 {
		for len(open) > 0 && len(active) < mostShared && (len(active) == 0 || listed < mostListed) {
			i := open[0]
			open = open[1:]
			c := e.a.Person(e.first+i).catalogue(i, row(e.x, i, e.a.dim), e.o.MaxPoints)
			active = append(active, c)
			listed += c.listed()
		}
		keep, err := e.round(active)
		if err != nil {
			return err
		}
		active, listed = keep, 0
		for _, c := range active {
			listed += c.listed()
		}
	}
	return nil
}

// round has the model judge the next actions of everyone, and returns who is still without an answer.
func (e *exactSearch) round(active []*catalogue) ([]*catalogue, error) {
	const (
		least, most = 64, 1 << 15 // actions of one person
		together    = 1 << 15     // and of the people judged together
	)
	keep := make([]*catalogue, 0, len(active))
	d := make([]float32, e.a.dim)
	var points []float32
	for len(active) > 0 {
		points = points[:0]
		var ends []int
		for len(ends) < len(active) && len(points) < together*e.a.dim {
			c := active[len(ends)]
			c.next(min(max(c.looked/2, least), most, e.o.MaxPoints+1-c.looked))
			for _, v := range c.band {
				points = append(points, c.x...)
				if at := points[len(points)-len(d):]; !c.action(v, at, d) {
					points = points[:len(points)-len(d)]
				}
			}
			ends = append(ends, len(points))
		}
		margins, err := e.judge(points)
		if err != nil {
			return nil, err
		}
		from := 0
		for k, to := range ends {
			if c := active[k]; !e.answered(c, points[from:to], margins[from/e.a.dim:]) {
				keep = append(keep, c)
			}
			from = to
		}
		active = active[len(ends):]
	}
	return keep, nil
}

// answered looks at a person's next points, which are in the order of their cost, and says whether the search is over.
func (e *exactSearch) answered(c *catalogue, points, margins []float32) bool {
	required, need := float32(e.o.Margin), float32(e.o.Margin+e.slack)
	for k := range len(points) / e.a.dim {
		switch {
		case valid(margins[k], need):
			if e.settle(c.i, row(points, k, e.a.dim), margins[k]) {
				e.methods[c.i] = Exhaustive
				return true
			}
		case valid(margins[k], required) && !c.spare:
			c.spare = e.settle(c.i, row(points, k, e.a.dim), margins[k]) // for want of a better one
		}
	}
	switch {
	case len(c.band) > 0 && c.looked <= e.o.MaxPoints:
		return false
	case c.spare || len(c.band) == 0:
		e.methods[c.i] = Exhaustive
	default:
		e.methods[c.i] = TooMany
	}
	if e.actions[c.i].Status != Found && len(c.band) == 0 {
		e.actions[c.i].Status = NoneExists
	}
	return true
}
