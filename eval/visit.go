package eval

import "cfq/internal/ordered"

// Visitor looks at records, some at a time. They are valid, and must not be changed, until it returns: others look at
// the same ones. Record.Person is not the number of the record.
type Visitor struct {
	to      depth
	records func(some []*Record) error
	// people instead of records, each with all records that are about them: those with the same ID
	persons func(some [][]*Record) error
}

// VisitRecords is a visitor of all records, in any order.
func VisitRecords(visit func(some []*Record) error) Visitor {
	return Visitor{to: toPoints, records: visit}
}

// Visit has the visitors look at the records, all at the same ones at a time, each in a goroutine of its own: records
// are read once for all of them.
func (r *Records) Visit(visitors ...Visitor) error {
	to := toIdentity
	for _, v := range visitors {
		to = max(to, v.to)
	}
	var t byPerson
	work := make([]func() error, len(visitors))
	for some, err := range ordered.Ahead(r.parts(to, &slots{})) {
		if err != nil {
			return err
		}
		persons := t.divide(some, r.key)
		for i, v := range visitors {
			work[i] = func() error {
				if v.persons != nil {
					return v.persons(persons)
				}
				return v.records(some)
			}
		}
		if err := ordered.All(len(work), work...); err != nil {
			return err
		}
	}
	return nil
}
