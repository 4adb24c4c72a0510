package eval

import (
	"errors"
	"hash/fnv"
	"io"
	"iter"
	"slices"

	"cfq/internal/extsort"
)

type byPerson struct {
	at      map[recordKey]int
	persons [][]*Record
}

// divide returns the records of each person. They are valid until it is called again.
func (t *byPerson) divide(part []*Record, key func(x *Record) recordKey) [][]*Record {
	if t.at == nil {
		t.at = map[recordKey]int{}
	}
	clear(t.at)
	t.persons = t.persons[:0]
	for _, x := range part {
		k := key(x)
		i, known := len(t.persons), false
		if k != (recordKey{}) {
			if at, seen := t.at[k]; seen {
				i, known = at, true
			} else {
				t.at[k] = i
			}
		}
		if !known {
			t.persons = slices.Grow(t.persons, 1)[:i+1]
			t.persons[i] = t.persons[i][:0]
		}
		t.persons[i] = append(t.persons[i], x)
	}
	for _, of := range t.persons {
		slices.SortStableFunc(of, (*Record).compare)
	}
	return t.persons
}

// shards is how many parts n records are divided into, by person or by hash. Two parts are in memory at a time.
func shards(n int) int { return max(16, min(n/2048, 2048)) }

// parts returns all records, in parts that have all of a person's or none. Records of another evaluation of the same
// people come in the same parts and the same order.
func (r *Records) parts(to depth, places *slots) iter.Seq2[[]*Record, error] {
	switch {
	case r.Len() == 0:
		return func(func([]*Record, error) bool) {}
	case !r.shared:
		return r.chunks(to, places, r.limits.part())
	case r.n <= r.limits.records:
		return r.chunks(to, places, r.n)
	}
	return func(yield func([]*Record, error) bool) {
		if err := r.divide(); err != nil {
			yield(nil, err)
			return
		}
		for i := range shards(r.n) {
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

// divide writes all records into lists, of which one has all of a person's. What else there is of them rests: these
// lists are read from now on.
func (r *Records) divide() error {
	if r.parted != nil {
		return nil
	}
	if err := r.rest(); err != nil {
		return err
	}
	n := shards(r.n)
	lists := extsort.New(n, r.bytes)
	var one slot
	for x, err := range r.readList(r.tape, 0, toIdentity, func() *slot { return &one }) {
		if err == nil {
			to := uint64(x.Person)
			if k := r.key(x); k != (recordKey{}) {
				to = mixed(k.hash ^ textHash(k.id))
			}
			err = lists.Append(int(to%uint64(n)), one.raw)
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
