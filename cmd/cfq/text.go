package main

import (
	"fmt"
	"io"
	"strings"
)

// grid is text in columns, aligned right except for those of left.
type grid struct {
	left  map[int]bool
	rows  [][]string
	notes map[int]string // behind a row, without a column: no column gets as wide as that
}

func (t *grid) add(cells ...string) { t.rows = append(t.rows, cells) }

// note puts text behind the last row.
func (t *grid) note(text string) {
	if t.notes == nil {
		t.notes = map[int]string{}
	}
	t.notes[len(t.rows)-1] = text
}

func (t *grid) write(out io.Writer, indent string) {
	var wide []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(wide) {
				wide = append(wide, 0)
			}
			wide[i] = max(wide[i], len([]rune(c)))
		}
	}
	for n, row := range t.rows {
		line := indent
		for i, c := range row {
			if i > 0 {
				line += "  "
			}
			if t.left[i] {
				line += fmt.Sprintf("%-*s", wide[i], c)
			} else {
				line += fmt.Sprintf("%*s", wide[i], c)
			}
		}
		if note := t.notes[n]; note != "" {
			line += "  " + note
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// paragraph writes text in lines of textWidth, the first behind first, the others behind indent.
func paragraph(out io.Writer, first, indent, text string) {
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > textWidth {
			fmt.Fprintln(out, line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(out, line)
}

// textWidth is how wide the text of results is; words and tables may be wider.
const textWidth = 96
