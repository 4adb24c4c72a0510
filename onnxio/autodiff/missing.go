package autodiff

import (
	"slices"
	"strings"

	"cfq/onnxio/graph"
)

// remedies are the rows of the page's last table: operators, why they have no rule, and what to use instead.
func remedies() (rows [][]string) {
	for row := range strings.Lines(page) {
		if cells := strings.Split(strings.Trim(row, "| \n"), " | "); len(cells) == 3 && cells[0] != "operators" {
			rows = append(rows, cells)
		}
	}
	return rows
}

// Remedies names the operators for which there is a remedy.
func Remedies() (names []string) {
	for _, r := range remedies() {
		names = append(names, strings.Split(r[0], ", ")...)
	}
	return names
}

// Remedy says why a standard operator has no gradient rule, and what to use instead; "" where nothing is known of it.
func Remedy(op string) (why, instead string) {
	for _, r := range remedies() {
		if slices.Contains(strings.Split(r[0], ", "), op) {
			return r[1], r[2]
		}
	}
	return "", ""
}

const fused = "an operator that only ONNX Runtime has; save the model without its optimizer, or at the level " +
	"ORT_ENABLE_EXTENDED at most, and without attention fusion"

func missing(nodes []*graph.Node) string {
	var names, hints []string
	hint := func(s string) {
		if !slices.Contains(hints, s) {
			hints = append(hints, s)
		}
	}
	for _, n := range nodes {
		label := n.Label()
		if !n.Standard() {
			label = n.Domain + "." + label
		}
		names = append(names, label)
		if strings.HasPrefix(n.Domain, "com.microsoft") {
			hint(fused)
		}
		if why, instead := Remedy(n.Op); n.Standard() && why != "" {
			hint(n.Op + ": " + why + "; " + instead)
		}
	}
	text := strings.Join(names, ", ")
	if hints != nil {
		text += " (" + strings.Join(hints, "; ") + ")"
	}
	return text
}
