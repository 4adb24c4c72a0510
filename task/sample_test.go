package task

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
)

func sampleRows(n int) string {
	var b strings.Builder
	b.WriteString("age,color,town,y,note\n")
	for i := range n {
		age := fmt.Sprint(i % 60)
		switch {
		case i%7 == 3:
			age = "old"
		case i%11 == 5:
			age = "95"
		}
		fmt.Fprintf(&b, "%s,%s,%s,%d,n%d\n", age, []string{"red", "blue"}[i%2], []string{"Rome", "Oslo", "Bonn"}[i%3], i%2, i)
	}
	return b.String()
}

func TestMostKeepsWhatItKeeps(t *testing.T) {
	task, text := parse(t, grouped), sampleRows(200)
	read := func(o ReadOptions) *People {
		return must.Get(ReadFrom(t.Context(), strings.NewReader(text), task, o))(t)
	}
	keep := []string{"note"}
	all := read(ReadOptions{Keep: keep})
	for _, most := range []int{1, 2, 50, all.N - 1} {
		p := read(ReadOptions{Keep: keep, Most: most, Seed: 4})
		if p.N != most || p.Undrawn != all.N-most || p.Total != p.N+p.Undrawn+p.Failed+p.Filtered+p.Excluded {
			t.Errorf("most %d: %d people, %d thinned, %d in all", most, p.N, p.Undrawn, p.Total)
		}
		if !slices.IsSorted(p.Rows) {
			t.Errorf("most %d: rows %v", most, p.Rows)
		}
		var at []int
		for _, row := range p.Rows {
			at = append(at, slices.Index(all.Rows, row))
		}
		want := all.Subset(at)
		want.Undrawn, want.Failed, want.Filtered, want.Total = p.Undrawn, all.Failed, all.Filtered, all.Total
		want.Problems, want.Notes, want.Warnings = all.Problems, all.Notes, all.Warnings
		must.Same(must.In(t, most), want, p)
		must.Same(t, p, read(ReadOptions{Keep: keep, Most: most, Seed: 4}))
	}
	if slices.Equal(read(ReadOptions{Most: 20, Seed: 1}).Rows, read(ReadOptions{Most: 20, Seed: 2}).Rows) {
		t.Error("two seeds drew the same people")
	}
	for _, most := range []int{all.N, all.N + 1, 1 << 40} { // nobody has to go
		must.Same(t, all, read(ReadOptions{Keep: keep, Most: most, Seed: 9}))
	}
}

func TestMostIsUniform(t *testing.T) {
	task := parse(t, "version: 1\nfeatures:\n  - {name: age, kind: numeric}")
	const n, most, runs = 6, 3, 2500
	var singles [n]int
	var pairs [n][n]int
	for seed := range runs {
		p := read(t, task, "age\n0\n1\n2\n3\n4\n5\n", ReadOptions{Most: most, Seed: uint64(seed)})
		for _, a := range p.Rows {
			singles[a]++
			for _, b := range p.Rows {
				pairs[a][b]++
			}
		}
	}
	check := func(what string, got int, p float64) {
		if sigma := math.Sqrt(runs * p * (1 - p)); math.Abs(float64(got)-runs*p) > 4.5*sigma {
			t.Errorf("%s: %d of %d draws, want about %v", what, got, runs, runs*p)
		}
	}
	for a := range n {
		check(fmt.Sprint("person ", a), singles[a], float64(most)/n)
		for b := range a {
			check(fmt.Sprint("people ", a, " and ", b), pairs[a][b], float64(most*(most-1))/(n*(n-1)))
		}
	}
}

func TestMostBoundsMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("a long file")
	}
	task := parse(t, "version: 1\nfeatures:\n  - {name: a, kind: numeric}\n  - {name: b, kind: numeric}")
	const rows, most = 400_000, 1000
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte("a,b\n"))
		for range rows / 1000 {
			_, _ = w.Write(slices.Repeat([]byte("1.25,-7\n"), 1000))
		}
		_ = w.Close()
	}()
	p, err := ReadFrom(t.Context(), r, task, ReadOptions{Most: most})
	if err != nil || p.N != most || p.Total != rows {
		t.Fatalf("%+v, %v", p, err)
	}
	if room := max(cap(p.X)/p.Dim, cap(p.Lines), cap(p.Rows), cap(p.Labels)); room > 3*most {
		t.Errorf("there is room for %d people, %d were kept", room, most)
	}
}
