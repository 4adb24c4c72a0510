package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cfq/ptq"
)

// Every option of every variant is one that the library knows, and no two rows of a table
// have the same name or are the same.
func TestVariants(t *testing.T) {
	for _, vs := range [][]variant{append(variants(), ladder()...), defaults()} {
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

// The rows that the table of the paper quotes are measured.
func TestQuotedRows(t *testing.T) {
	var rows []*row
	for _, v := range variants() {
		rows = append(rows, &row{label: v.label, values: make([]metrics, 1)})
	}
	if err := writePaper(io.Discard, rows); err != nil {
		t.Error(err)
	}
}

func TestAlike(t *testing.T) {
	vs := []variant{
		{"a", ptq.Options{Method: "ptq", Budget: 8}},
		{"b", ptq.Options{Method: "ptq", Budget: 4, Scales: ptq.ScalesPerChannel}},
		{"c", ptq.Options{Method: "ptq", Budget: 4}},
	}
	if diff := cmp.Diff([][]int{{0, 2}, {1}}, alike(vs)); diff != "" {
		t.Error(diff)
	}
}

func TestWidths(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []metrics
		want   string
	}{
		{"all the same", []metrics{{widths: []float64{4, 8}}, {widths: []float64{4, 8}}}, "4 8"},
		{"one other", []metrics{{widths: []float64{2, 8}}, {widths: []float64{4, 8}}, {widths: []float64{4, 8}}}, "4 8 (mostly)"},
		{"rows", []metrics{{widths: []float64{4.5, 8}, byRow: true}, {widths: []float64{3.5, 2}}}, "4.0 5.0"},
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
