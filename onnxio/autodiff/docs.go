package autodiff

import (
	"fmt"
	"strings"
)

// Markdown returns the table of operators as a Markdown document.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# Operators that can be differentiated\n\n" +
		"`x`, `a`, `b` are inputs, `y` the output, `g` the gradient of `y`. Sums over broadcast axes are left out.\n" +
		"Where a derivative does not exist, the convention is stated. An operator marked *zero* passes no gradient on;\n" +
		"one marked *expanded* is first written out in the others.\n\n" +
		"| operator | opset | derivative | rule |\n|---|---|---|---|\n")
	for _, op := range Operators() {
		fmt.Fprintf(&b, "| %s | %d–%d | %s | %s |\n", op.Name, op.Since, op.Until, op.Kind, op.Doc)
	}
	return b.String()
}
