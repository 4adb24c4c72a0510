package main

import (
	"os"
	"path/filepath"
	"testing"

	"cfq/ptq"
)

// Every option of every variant is one that the library knows, and no two rows of a table
// have the same name or are the same.
func TestVariants(t *testing.T) {
	for _, vs := range [][]variant{
		append(trainings(2, 2.5, 3, 4), otherTrainings()...),
	} {
		labels := map[string]bool{}
		for _, v := range vs {
			if err := v.o.Check(); err != nil {
				t.Errorf("%s: %v", v.label, err)
			}
			if labels[v.label] {
				t.Errorf("two rows %q", v.label)
			}
			labels[v.label] = true
		}
	}
}

func TestWidths(t *testing.T) {
	of := func(widths int, bits ...float64) measured {
		rows := map[int]int{}
		for width := range widths {
			rows[width] = 1
		}
		r := &ptq.Result{}
		for _, b := range bits {
			r.Layers = append(r.Layers, ptq.Layer{Bits: b, Rows: rows})
		}
		return measured{Result: r}
	}
	for _, c := range []struct {
		name   string
		values []measured
		want   string
	}{
		{"all the same", []measured{of(1, 4, 8), of(1, 4, 8)}, "4 8"},
		{"one other", []measured{of(1, 2, 8), of(1, 4, 8), of(1, 4, 8)}, "4 8 (mostly)"},
		{"rows", []measured{of(2, 4.5, 8), of(1, 3.5, 2)}, "4.0 5.0"},
	} {
		if got := (&row{values: c.values}).widths(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	for _, c := range []struct{ before, want string }{
		{"a\n<!-- gap: begin -->\nold\n<!-- gap: end -->\nb\n", "a\n<!-- gap: begin -->\nnew\n<!-- gap: end -->\nb\n"},
		{"no marks\n", ""},
		{"<!-- gap: end -->\n<!-- gap: begin -->\n", ""},
	} {
		if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		err := replace(path, "gap", []byte("new\n"))
		if (err == nil) != (c.want != "") {
			t.Errorf("%q: %v", c.before, err)
		}
		if got, _ := os.ReadFile(path); err == nil && string(got) != c.want {
			t.Errorf("%q became %q", c.before, got)
		}
	}
}
