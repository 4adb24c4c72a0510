package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cfq/ptq"
)

// writeQuantized shows a result: what was made and how, the layers, what is to be known.
func writeQuantized(out io.Writer, path string, r *ptq.Result) error {
	method := string(r.Method)
	if method == "" {
		method = "by plan"
	}
	fmt.Fprintf(out, "%s: %s, %.2f bits per weight", path, method, r.Bits)
	if r.Budget > 0 {
		fmt.Fprintf(out, " (budget %g%s)", r.Budget, by(r.Cost))
	}
	fmt.Fprintln(out)
	for _, line := range summary(r) {
		paragraph(out, "  ", "    ", line)
	}
	fmt.Fprintln(out)
	layerTable(r).write(out, "  ")
	if len(r.Verified.Advice) > 0 {
		fmt.Fprintln(out)
	}
	for _, a := range r.Verified.Advice {
		paragraph(out, "  note: ", "    ", a)
	}
	return nil
}

// summary says in a line each what was done.
func summary(r *ptq.Result) []string {
	lines := []string{fmt.Sprintf("%d bytes (float %d, %.1fx smaller); %.2f bits per weight with all that weights need",
		r.Bytes, r.FloatBytes, float64(r.FloatBytes)/float64(r.Bytes), r.Stored)}
	if len(r.Equalized) > 0 {
		lines = append(lines, "cross-layer equalization: "+strings.Join(r.Equalized, ", "))
	}
	switch {
	case r.Factual == 0: // by a plan
	case r.Recourse > 0:
		what := "teacher recourse point"
		if r.Promised {
			what = "promised point"
		}
		lines = append(lines, fmt.Sprintf("calibrated on %s and %s (%d past the decision)", calibratedOn(r), counted(r.Recourse, what), r.Reached))
	default:
		lines = append(lines, "calibrated on "+calibratedOn(r))
	}
	switch o := r.Refined; {
	case o == nil:
	case o.Rounds == 0:
		lines = append(lines, fmt.Sprintf("refinement made nothing better: margin error %.3g logits (rms at points held out)", o.Before))
	default:
		lines = append(lines, fmt.Sprintf("refined in %s: margin error %.3g -> %.3g logits (rms at points held out)", counted(o.Rounds, "round"), o.Before, o.After))
	}
	l := r.Verified.Levels
	return append(lines, fmt.Sprintf("verified on %s: optimizations change outputs by %.2g at most", counted(l.Rows, "row"), l.Diff))
}

// by says what a budget counts, if not bits.
func by(cost ptq.Cost) string {
	if cost == "" || cost == ptq.CostBits {
		return ""
	}
	return " by " + string(cost)
}

// calibratedOn says how many rows were looked at, and of how many.
func calibratedOn(r *ptq.Result) string {
	if r.People > r.Factual {
		return fmt.Sprintf("%d of %d rows", r.Factual, r.People)
	}
	return counted(r.Factual, "row")
}

// layerTable lists the layers; where rows of a layer differ in width, with their numbers by width.
func layerTable(r *ptq.Result) *grid {
	widths := map[int]bool{}
	mixed, scored := false, false
	for _, l := range r.Layers {
		mixed, scored = mixed || len(l.Rows) > 0, scored || l.Score != 0
		for w := range l.Rows {
			widths[w] = true
		}
		if l.Float == "" && len(l.Rows) == 0 {
			widths[int(l.Bits)] = true
		}
	}
	sorted := slices.Sorted(maps.Keys(widths))
	if !mixed {
		sorted = nil
	}
	head := []string{"layer", "weights", "bits"}
	for _, w := range sorted {
		head = append(head, fmt.Sprintf("%d-bit", w))
	}
	head = append(head, "scales")
	if scored { // a plan has no scores
		head = append(head, "sensitivity")
	}
	t := &grid{left: map[int]bool{0: true, len(head): true}}
	if mixed {
		t.add("", "", "", "rows of")
	}
	t.add(append(head, "kernel")...)
	kernels := map[string]string{}
	for _, l := range r.Verified.Layers {
		kernels[l.Node] = l.Kernel
	}
	for i := range r.Layers {
		l := &r.Layers[i]
		row := make([]string, len(head)+1)
		row[0], row[1], row[2] = l.Node, strconv.Itoa(l.Params), "float"
		row[len(head)] = l.Float
		if l.Float == "" {
			row[2], row[3+len(sorted)], row[len(head)] = bitsOf(l), strconv.Itoa(l.Channels), kernels[l.Node]
			for k, w := range sorted {
				row[3+k] = rowsOf(l, w)
			}
			if l.Score != 0 {
				row[len(head)-1] = fmt.Sprintf("%.3g", l.Score)
			}
		}
		t.add(row...)
	}
	return t
}

// bitsOf is the mean width of a layer's weights.
func bitsOf(l *ptq.Layer) string {
	if len(l.Rows) == 0 {
		return fmt.Sprintf("%g", l.Bits)
	}
	return fmt.Sprintf("%.2f", l.Bits)
}

// rowsOf is how many rows of a layer have the given width, "" for none.
func rowsOf(l *ptq.Layer, width int) string {
	n := l.Rows[width]
	if len(l.Rows) == 0 && l.Bits == float64(width) {
		n = l.Channels // rows differ in width only where each has a scale of its own
	}
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// grid is text in columns, aligned right except for those of left.
type grid struct {
	left map[int]bool
	rows [][]string
}

func (t *grid) add(cells ...string) { t.rows = append(t.rows, cells) }

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
	for _, row := range t.rows {
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
