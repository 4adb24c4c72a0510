package eval

import (
	"errors"
	"fmt"
	"slices"

	"cfq/internal/extsort"
)

// rowKey is equal for records of the same row of the data, if their lines are.
type rowKey struct {
	row  int
	hash uint64
}

// personRow is a row of the data with all that tables say of its person: several records when promises differ.
type personRow struct {
	line int // 0 when no table knows it
	kept []*Record
}

// Merged adds the records to out, which is empty. There a row of the data is one person, whichever tables it is in: the
// same row, line and content. It says how many such rows there are. With streams, row 0 without a line may be anybody.
func (r *Records) Merged(out *Records, streams bool) (rows int, err error) {
	n := shards(r.n)
	lists := extsort.New(n, r.bytes)
	defer func() { err = errors.Join(err, lists.Close()) }()
	r = r.raw()
	for x, err := range r.All() {
		if err == nil && (x.hasID() || streams && x.Row == 0 && x.Line == 0) {
			err = out.Add(x)
		} else if err == nil {
			err = r.write(lists, int(mixed(x.Hash)%uint64(n)), x)
		}
		if err != nil {
			return 0, err
		}
	}
	for list := range n {
		var all []*personRow
		at := map[rowKey][]*personRow{}
		for x, err := range r.read(lists, list) {
			if err != nil {
				return 0, err
			}
			key := rowKey{x.Row, x.Hash}
			for _, o := range x.Others {
				key.hash = mixed(key.hash ^ o)
			}
			i := slices.IndexFunc(at[key], func(p *personRow) bool { return p.line == x.Line || p.line == 0 || x.Line == 0 })
			if i < 0 {
				i = len(at[key])
				at[key] = append(at[key], &personRow{})
				all = append(all, at[key][i])
			}
			at[key][i].add(x)
		}
		for _, p := range all {
			for _, x := range p.kept {
				if len(p.kept) > 1 {
					x.ID = fmt.Sprintf("%s%d:%d:%016x", RowID, x.Row, p.line, x.Hash)
				}
				err = errors.Join(err, out.Add(x))
			}
		}
		rows += len(all)
	}
	return rows, err
}

func (p *personRow) add(x *Record) {
	p.line = max(p.line, x.Line)
	again := slices.IndexFunc(p.kept, func(o *Record) bool {
		return slices.Equal(orZero(o.Issued).Point, orZero(x.Issued).Point)
	})
	switch {
	case again < 0:
		p.kept = append(p.kept, x)
	case x.Evaluated && !p.kept[again].Evaluated:
		p.kept[again] = x
	}
}
