package task

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

type fullRow struct {
	content uint64
	others  []uint64
}

// plainly answers as Equality should, from the definitions, of all rows at once.
type plainly struct {
	columns []string
	rows    []fullRow
}

func (p plainly) distinct(column int) bool {
	n, seen := 0, map[uint64]bool{}
	for _, r := range p.rows {
		if h := r.others[column]; h != 0 {
			n++
			seen[h] = true
		}
	}
	return n > 0 && float64(len(seen)) >= idLike*float64(n)
}

// counter compares rows by the text of all else, and looks at every value.
func (p plainly) counter() int {
	for i := range p.columns {
		if p.distinct(i) {
			continue
		}
		sets := map[string]map[uint64]int{}
		for _, r := range p.rows {
			rest := fmt.Sprint(r.content)
			for k, h := range r.others {
				if k != i && !p.distinct(k) {
					rest += fmt.Sprint(" ", h)
				}
			}
			if sets[rest] == nil {
				sets[rest] = map[uint64]int{}
			}
			sets[rest][r.others[i]]++
		}
		for first := range 2 {
			numbered, others := 0, 0
			for _, set := range sets {
				rows, counted := 0, true
				for _, k := range set {
					rows += k
				}
				for x := range len(set) {
					counted = counted && set[fieldHash(fmt.Sprint(first+x))]*len(set) == rows
				}
				if !counted {
					others += rows
				} else if len(set) > 1 {
					numbered += rows
				}
			}
			if 2*numbered >= len(p.rows) && float64(others) <= stray*float64(len(p.rows)) {
				return i
			}
		}
	}
	return -1
}

func (p plainly) answer() (without []string, classes []int) {
	counter := p.counter()
	var kept []int
	for i, name := range p.columns {
		if i == counter || p.distinct(i) {
			without = append(without, name)
		} else {
			kept = append(kept, i)
		}
	}
	seen := map[string]int{}
	for _, r := range p.rows {
		text := fmt.Sprint(r.content)
		for _, i := range kept {
			text += fmt.Sprint(" ", r.others[i])
		}
		if _, ok := seen[text]; !ok {
			seen[text] = len(seen)
		}
		classes = append(classes, seen[text])
	}
	if len(seen) == len(p.rows) {
		without = nil
	}
	return without, classes
}

func drawRows(t *rapid.T) plainly {
	n, people := rapid.IntRange(1, 60).Draw(t, "rows"), rapid.IntRange(1, 20).Draw(t, "people")
	kinds := rapid.SliceOfN(rapid.SampledFrom([]string{"nr", "copy", "copy from 0", "branch", "note", "any"}), 0, 4).
		Draw(t, "columns")
	p, copies := plainly{}, map[uint64]int{}
	for i, kind := range kinds {
		p.columns = append(p.columns, fmt.Sprintf("%d %s", i, kind))
	}
	order := rapid.Permutation(make([]int, n)).Draw(t, "order")
	for i := range order {
		r := fullRow{content: mixed(uint64(i%people + 1))}
		if rapid.IntRange(0, 5).Draw(t, "one of few") == 0 {
			r.content = mixed(1)
		}
		for _, kind := range kinds {
			text := ""
			switch kind {
			case "nr":
				text = fmt.Sprint("nr ", i)
			case "copy":
				text = fmt.Sprint(1 + copies[r.content])
			case "copy from 0":
				text = fmt.Sprint(copies[r.content])
			case "branch":
				text = fmt.Sprint("B", i%3)
			case "note":
				if i%4 == 0 {
					text = fmt.Sprint("n", i)
				}
			default:
				text = fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "value"))
			}
			if rapid.IntRange(0, 200).Draw(t, "stray") == 200 {
				text = "?"
			}
			h := uint64(0)
			if text != "" {
				h = fieldHash(text)
			}
			r.others = append(r.others, h)
		}
		copies[r.content]++
		p.rows = append(p.rows, r)
	}
	return p
}

func TestEqualityIsPlain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawRows(t)
		without, classes := p.answer()
		e := NewEquality(p.columns)
		for _, r := range rapid.Permutation(slices.Clone(p.rows)).Draw(t, "order") {
			e.Add(r.content, r.others)
		}
		if got := e.Without(); !slices.Equal(got, without) {
			t.Errorf("without %q, want %q", got, without)
		}
		seen, hashes := map[int]uint64{}, map[uint64]bool{}
		for i, r := range p.rows {
			h := e.Hash(r.content, r.others)
			if first, again := seen[classes[i]]; again && h != first {
				t.Errorf("row %d has another hash than one that it equals", i)
			}
			seen[classes[i]], hashes[h] = h, true
		}
		must.Same(t, len(seen), len(hashes))
	})
}

func TestEqualityOfManyRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		others  func(i int) []string // of columns a, b and c
		people  int
		without []string
	}{
		{"numbers of rows", func(i int) []string { return []string{fmt.Sprint("nr", i), "B", ""} }, 6000, []string{"a"}},
		{"copies", func(i int) []string {
			return []string{fmt.Sprint(1 + i/3000), "B", fmt.Sprint(i % 3)}
		}, 3000, []string{"a"}},
		{"numbers of rows and copies", func(i int) []string {
			return []string{fmt.Sprint(i), fmt.Sprint(i / 3000), fmt.Sprint(i % 3)}
		}, 3000, []string{"a", "b"}},
		{"numbers of different people", func(i int) []string { return []string{fmt.Sprint(i), "", ""} }, 20_000, nil},
		{"neither", func(i int) []string { return []string{fmt.Sprint(i % 100), fmt.Sprint(i % 77), ""} }, 3000, nil},
		{"different numbers of copies, told apart by another column", func(i int) []string {
			person, copies := i%5000, i/5000
			return []string{"", fmt.Sprint(1 + copies/(1+person%2)), fmt.Sprint("B", copies%(1+person%2))}
		}, 5000, []string{"b"}},
		{"many rows of few people", func(i int) []string {
			return []string{fmt.Sprint(1 + i%1999), fmt.Sprint(1 + i*i%4001), fmt.Sprint(i % 5)}
		}, 5, nil},
		{"numbers of equal people", func(i int) []string { return []string{fmt.Sprint(i), "", ""} }, 1, []string{"a"}},
	} {
		rows := make([]fullRow, 20_000)
		for i := range rows {
			rows[i].content = shortSHA(fmt.Append(nil, i%c.people))
			for _, text := range c.others(i) {
				h := uint64(0)
				if text != "" {
					h = fieldHash(text)
				}
				rows[i].others = append(rows[i].others, h)
			}
		}
		var first *Equality
		for seed := range uint64(3) {
			e := newEquality([]string{"a", "b", "c"}, 1000)
			for _, r := range rows {
				e.Add(r.content, r.others)
				if len(e.rows) > 1000 {
					t.Fatalf("%s: %d rows are kept", c.name, len(e.rows))
				}
			}
			must.Same(t, c.without, e.Without())
			if first == nil {
				first = e
			}
			if len(e.rows) != len(first.rows) || e.level != first.level || e.level == 0 ||
				e.Hash(7, []uint64{1, 2, 3}) != first.Hash(7, []uint64{1, 2, 3}) {
				t.Errorf("%s: another order has another sample", c.name)
			}
			for i := range e.fields {
				if len(e.fields[i].counts) != len(first.fields[i].counts) || len(e.fields[i].counts) > sampledFields {
					t.Errorf("%s: another order has another sample of column %d", c.name, i)
				}
			}
			rng := rand.New(rand.NewPCG(seed, 1))
			rng.Shuffle(len(rows), func(a, b int) { rows[a], rows[b] = rows[b], rows[a] })
		}
	}
}
