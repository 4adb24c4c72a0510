package eval

import (
	"errors"
	"fmt"
	"slices"

	"cfq/internal/extsort"
)

// personRow is a row of the data with all that tables say of its person: several records when promises differ.
type personRow struct {
	line int // 0 when no table knows it
	kept []*Record
}

type rowKey struct {
	row  int
	hash uint64
}

// dataRows are those of a shard of the records, in the order in which they came.
type dataRows struct {
	at  map[rowKey][]*personRow
	all []*personRow
}

// Merged returns records in which a row of the data is one person, whichever tables it is in: the same row, line and
// content. It says how many such rows there are. Streams number no rows: with numbered, row 0 without a
// line is the first row of a file, else that of a stream, which may be anybody. columns are those of CompareBy.
func (r *Records) Merged(columns []string, numbered bool) (out *Records, rows int, err error) {
	n := shards(r.n)
	lists := extsort.New(n, r.bytes)
	out = newRecords(r.layout.Margins, r.Attributes, r.limits)
	defer func() {
		if err = errors.Join(err, lists.Close()); err != nil {
			err = errors.Join(err, out.Close())
		}
	}()
	out.CompareBy(columns)
	r = r.raw()
	for x, err := range r.All() {
		if err == nil && (x.hasID() || x.Row == 0 && x.Line == 0 && !numbered) {
			err = out.Add(x)
		} else if err == nil {
			err = r.write(lists, int(mixed(x.Hash)%uint64(n)), x)
		}
		if err != nil {
			return out, 0, err
		}
	}
	for list := range n {
		some := dataRows{at: map[rowKey][]*personRow{}}
		for x, err := range r.read(lists, list) {
			if err != nil {
				return out, 0, err
			}
			some.add(x)
		}
		for _, p := range some.all {
			if err := p.addTo(out); err != nil {
				return out, 0, err
			}
		}
		rows += len(some.all)
	}
	return out, rows, nil
}

func (d *dataRows) add(x *Record) {
	key := rowKey{x.Row, x.Hash}
	for _, o := range x.Others {
		key.hash = mixed(key.hash ^ o)
	}
	at := slices.IndexFunc(d.at[key], func(p *personRow) bool { return p.line == x.Line || p.line == 0 || x.Line == 0 })
	if at < 0 {
		p := &personRow{line: x.Line, kept: []*Record{x}}
		d.at[key], d.all = append(d.at[key], p), append(d.all, p)
		return
	}
	p := d.at[key][at]
	p.line = max(p.line, x.Line)
	again := slices.IndexFunc(p.kept, func(o *Record) bool {
		return (o.Issued == nil) == (x.Issued == nil) && (x.Issued == nil || slices.Equal(o.Issued.Point, x.Issued.Point))
	})
	switch {
	case again < 0:
		p.kept = append(p.kept, x)
	case x.Evaluated && !p.kept[again].Evaluated:
		p.kept[again] = x
	}
}

func (p *personRow) addTo(out *Records) (err error) {
	id := ""
	for _, x := range p.kept {
		id = first(id, x.ID)
	}
	for _, x := range p.kept {
		if x.ID = id; id == "" && len(p.kept) > 1 {
			x.ID = fmt.Sprintf("%s%d:%d:%016x", RowID, x.Row, p.line, x.Hash)
		}
		err = errors.Join(err, out.Add(x))
	}
	return err
}
