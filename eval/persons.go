package eval

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"iter"
	"slices"

	"cfq/internal/ordered"
	"cfq/internal/spill"
)

// Persons returns the records, without recourse points, of one person after those of another: records with the same
// ID are about one person, and records without are about one each. Those of one person come in an order of their own,
// and the persons in any order. They are valid until the next person is asked for.
func (r *Records) Persons() iter.Seq2[[]*Record, error] { return r.persons(toInputs) }

// persons is Persons as deep as is asked for.
func (r *Records) persons(to depth) iter.Seq2[[]*Record, error] {
	return func(yield func([]*Record, error) bool) {
		if r.Len() == 0 {
			return
		}
		if !r.shared {
			of := make([]*Record, 1)
			for x, err := range r.passing(to) {
				if of[0] = x; !yield(of, err) || err != nil {
					return
				}
			}
			return
		}
		var t together
		for part, err := range ordered.Ahead(r.parts(to, &slots{})) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, of := range t.divide(part, r.key) {
				if !yield(of, nil) {
					return
				}
			}
		}
	}
}

// together divides records by person.
type together struct {
	at      map[identity]int
	persons [][]*Record
}

// divide returns the records of each person. They are valid until it is called again.
func (t *together) divide(part []*Record, key func(x *Record) identity) [][]*Record {
	if t.at == nil {
		t.at = map[identity]int{}
	}
	clear(t.at)
	t.persons = t.persons[:0]
	for _, x := range part {
		k := key(x)
		i, seen := t.at[k]
		if k == (identity{}) || !seen {
			i = len(t.persons)
			t.at[k], t.persons = i, slices.Grow(t.persons, 1)[:i+1]
			t.persons[i] = t.persons[i][:0]
		}
		t.persons[i] = append(t.persons[i], x)
	}
	for _, of := range t.persons {
		slices.SortStableFunc(of, (*Record).compare)
	}
	return t.persons
}

// shards are the parts into which records are divided by person. Two parts are in memory at a time.
const shards = 1024

// parts returns all records, in parts that have all of a person's or none. Records of another evaluation of the same
// people come in the same parts and the same order.
func (r *Records) parts(to depth, places *slots) iter.Seq2[[]*Record, error] {
	if r.Len() == 0 {
		return func(func([]*Record, error) bool) {}
	}
	if !r.shared || r.n <= r.limits.records {
		return r.chunks(to, places, r.limits.records)
	}
	return func(yield func([]*Record, error) bool) {
		if err := r.divide(); err != nil {
			yield(nil, err)
			return
		}
		for i := range shards {
			part, err := collect(r.readList(r.parted, i, to, places.next))
			if !yield(part, err) || err != nil {
				return
			}
			places.turn()
		}
	}
}

func collect(all iter.Seq2[*Record, error]) (list []*Record, err error) {
	for x, err := range all {
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// divide writes all records into lists, of which one has all of a person's.
func (r *Records) divide() error {
	if r.parted != nil {
		return nil
	}
	lists := spill.New(shards, r.bytes)
	var one slot
	for x, err := range r.readList(r.tape, 0, toInputs, func() *slot { return &one }) {
		if err == nil {
			to := uint64(x.Person)
			if k := r.key(x); k != (identity{}) {
				to = mixed(k.hash ^ textHash(k.id))
			}
			err = errors.Join(lists.Append(int(to%shards), binary.LittleEndian.AppendUint32(nil, uint32(len(one.raw)))),
				lists.Append(int(to%shards), one.raw))
		}
		if err != nil {
			return errors.Join(err, lists.Close())
		}
	}
	r.parted = lists
	r.divided = append(r.divided, lists)
	return nil
}

// textHash is the same for the same text in every process.
func textHash(s string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s)
	return h.Sum64()
}

// mixed spreads a number over all bits (the finalizer of SplitMix64).
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
