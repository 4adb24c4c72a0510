package main

import (
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const source = `package p

func (s *set[T]) sum(xs []int) (n int, err error) {
	if err := s.check(); err != nil {
		return 0, err
	}
	for i, x := range xs {
		if x < xs[i] {
			n += x + 2
		}
	}
	return -n, nil
}
`

func TestParse(t *testing.T) {
	found, err := parse("p/set.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, f := range found {
		if f.function != "set.sum" {
			t.Errorf("a fault in %s", f.function)
		}
		got = append(got, []string{f.kind, f.original, source[f.from:f.to], f.with})
	}
	want := [][]string{
		{"error", "err != nil", "err != nil", "(false && err != nil)"},
		{"off-by-one", "return 0, err", "0", "(0 + 1)"},
		{"loop", "for i, x := range xs { }", "{", "{ break;"},
		{"comparison", "x < xs[i]", "<", "<="},
		{"off-by-one", "xs[i]", "i", "(i + 1)"},
		{"sign", "n += x + 2", "+=", "-="},
		{"sign", "x + 2", "+", "-"},
		{"off-by-one", "x + 2", "2", "(2 + 1)"},
		{"sign", "-n", "-", "+"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A fault is found again in code that was formatted differently, moved or preceded by other code, or is gone.
func TestFind(t *testing.T) {
	found, err := parse("p/set.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	was := found[3]
	changed := strings.Replace(source, "x < xs[i]", "s.n < 1 ||\n\t\t\t(x <\n\t\t\t\txs[i])", 1)
	for _, name := range []string{"p/set.go", "q/other.go"} {
		all, err := parse(name, []byte(changed))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := find(all, was)
		if !ok || key(got.fields()) != key(was.fields()) || got.path != name ||
			!strings.HasPrefix(changed[got.from:], "<\n") {
			t.Errorf("in %s: found %t, %+v", name, ok, got)
		}
		if _, ok := find(append(all, all...), was); ok != (name == was.file) {
			t.Errorf("in %s: one of two that are alike is taken: %t", name, ok)
		}
	}
	all, err := parse("p/set.go", []byte(strings.Replace(source, "x < xs[i]", "x == 0", 1)))
	if _, ok := find(all, was); ok || err != nil {
		t.Errorf("found what is gone, %v", err)
	}
}

func TestDraw(t *testing.T) {
	var all []fault
	for _, name := range []string{"p/set.go", "q/set.go"} {
		found, err := parse(name, []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	slots, queues := draw(all, map[string]int{"p": 10, "q": 30}, 20, 1)
	again, others := draw(all, map[string]int{"p": 10, "q": 30}, 20, 1)
	if !reflect.DeepEqual(slots, again) || !reflect.DeepEqual(queues, others) {
		t.Error("one seed draws different faults")
	}
	counts := map[string]int{}
	for _, s := range slots {
		counts[s.pkg]++
		counts[s.kind]++
	}
	want := map[string]int{"p": 5, "q": 15, "comparison": 4, "sign": 4, "off-by-one": 4, "error": 4, "loop": 4}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
	for s, q := range queues {
		for _, f := range q {
			if path.Dir(f.file) != s.pkg || f.kind != s.kind {
				t.Errorf("%v holds %+v", s, f)
			}
		}
	}
}
