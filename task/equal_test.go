package task

import (
	"fmt"
	"strings"
	"testing"

	"cfq/internal/must"
)

func TestEqualRows(t *testing.T) {
	t.Parallel()
	labelled := parse(t, small)
	for _, c := range []struct {
		name, head string
		row        func(i int) string // of 40 rows, of whom 10 are equal
		people     int
		note       string // a part, "" for none
	}{
		{"copies", "age,color,member,income", func(i int) string { return fmt.Sprintf("%d,red,no,high", i%10) }, 10, ""},
		{"numbers written differently", "age,color,member,income,branch", func(i int) string {
			return []string{"%d,red,no,high,7", "%d.0,red,no,high,7.0", "%d,red,no,high,  7", "%de0,red,no,high,07"}[i/10]
		}, 10, ""},
		{"row numbers", "nr,age,color,member,income", func(i int) string {
			return fmt.Sprint(i) + ",%d,red,no,high"
		}, 10, `"nr"`},
		{"long row numbers and notes", "nr,age,color,member,income,say", func(i int) string {
			say := ""
			if i%3 == 0 {
				say = strings.Repeat("x", i+1)
			}
			return fmt.Sprintf("1000000000000000000%02d,%%d,red,no,high,%s", i, say)
		}, 10, `"nr", "say"`},
		{"row numbers of different people", "nr,age,color,member,income", func(i int) string {
			return fmt.Sprintf("%d,%d,red,no,high", i, i)
		}, 40, ""},
		{"another column that tells people apart", "age,color,member,income,branch", func(i int) string {
			return fmt.Sprintf("%%d,red,no,high,B%d", i/10)
		}, 40, ""},
		{"copies that are counted", "age,color,member,income,copy,branch", func(i int) string {
			return fmt.Sprintf("%%d,red,no,high,%d,B", 1+i/10)
		}, 10, `"copy"`},
		{"rows and copies that are counted from 0, of equal people", "nr,age,color,member,income,copy", func(i int) string {
			return fmt.Sprintf("%d,%d,red,no,high,%d", i, i%10/2, i/10)
		}, 5, `"copy", "nr"`},
		{"different numbers of copies", "age,color,member,income,copy", func(i int) string {
			if i < 30 { // one 30 times
				return fmt.Sprintf("0,red,no,high,%d", 1+i)
			}
			return fmt.Sprintf("%d,red,no,high,1", i)
		}, 11, `"copy"`},
		{"a column that does not count", "age,color,member,income,children", func(i int) string {
			return fmt.Sprintf("%%d,red,no,high,%d", 1+i*i%3)
		}, 20, ""},
		{"numbers that are missing between others", "age,color,member,income,day", func(i int) string {
			return fmt.Sprintf("%%d,red,no,high,%d", 1+i/10*2)
		}, 40, ""},
		{"outcomes", "age,color,member,income", func(i int) string {
			return "%d,red,no," + []string{"high", "low"}[i/20]
		}, 20, ""},
		{"nothing but row numbers", "nr,age,color,member,income", func(i int) string {
			return fmt.Sprint(i) + ",1,red,no,high"
		}, 1, `"nr"`},
	} {
		var text strings.Builder
		fmt.Fprintln(&text, c.head)
		for i := range 40 {
			row := c.row(i)
			if strings.Contains(row, "%d") {
				row = fmt.Sprintf(row, i%10)
			}
			fmt.Fprintln(&text, row)
		}
		p := read(t, labelled, text.String(), ReadOptions{Hash: true})
		seen := map[uint64]bool{}
		for _, h := range p.Hashes {
			seen[h] = true
		}
		notes := strings.Join(p.Notes, "\n")
		if len(p.Hashes) != 40 || len(seen) != c.people || !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
			t.Errorf("%s: %d people of %d rows, want %d; notes %q", c.name, len(seen), len(p.Hashes), c.people, notes)
		}
		if p := read(t, labelled, text.String(), ReadOptions{}); p.Hashes != nil || len(p.Notes) > 0 {
			t.Errorf("%s: hashes that nobody asked for, %q", c.name, p.Notes)
		}
		if strings.Contains(c.note, "copy") {
			continue // of a sample, nobody sees that they are counted
		}
		// A sample has the hashes of its rows.
		drawn := read(t, labelled, text.String(), ReadOptions{Hash: true, Most: 13, Seed: 2})
		for i := range drawn.N {
			for k := range i {
				a, b := p.Hashes[drawn.Rows[i]], p.Hashes[drawn.Rows[k]]
				if (drawn.Hashes[i] == drawn.Hashes[k]) != (a == b) {
					t.Errorf("%s: rows %d and %d of a sample", c.name, drawn.Rows[i], drawn.Rows[k])
				}
			}
		}
	}
}

func TestPlainID(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"7": "7", " 7": "7", "7 ": "7", "7.0": "7", "7.00": "7", "007": "007", "7.5": "7.5", "7.": "7.",
		".0": ".0", "a.0": "a.0",
		"-7.0": "-7.0", "1.0.0": "1.0.0", "12345678901234567890.0": "12345678901234567890",
	} {
		must.Same(t, want, plainID(field))
	}
}
