package report

import (
	_ "embed" // the form of build servers
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"cfq/eval/gate"
)

//go:embed junit.xml
var junitXML string

// junitCase is a finding as a test case. It has no time: a report is the same each time.
type junitCase struct {
	*gate.Finding
	Case, Outcome, Text, Skipped string
}

// junit writes the checks of d's gate as test cases: what fails is a failure, what is inconclusive an error, and what
// does not pass but only warns is skipped, with the reason. It fails without a gate.
func junit(w io.Writer, d *Document) error {
	g := d.Gate
	if g == nil {
		return errors.New("report: no gate for the junit view: use cfq gate")
	}
	var cases []junitCase
	seen, count := map[string]bool{}, map[string]int{}
	for i := range g.Findings {
		f := &g.Findings[i]
		c := junitCase{Finding: f, Case: f.Name(), Outcome: "error", Text: f.Why, Skipped: verdictOf(f) + ": " + f.Why}
		if seen[c.Case] { // a check with several limits
			c.Case += " " + f.Limit
		}
		if f.Margin != nil {
			c.Text += "; required margin " + margin(*f.Margin)
		}
		switch {
		case f.Verdict == gate.Pass:
			c.Outcome = "pass"
		case f.OK():
			c.Outcome = "skipped"
		case f.Verdict == gate.Fail:
			c.Outcome = "failure"
		}
		seen[c.Case] = true
		count[c.Outcome]++
		cases = append(cases, c)
	}
	escapeXML := func(s string) (string, error) {
		var b strings.Builder
		err := xml.EscapeText(&b, []byte(s))
		return b.String(), err
	}
	var out strings.Builder
	words := newSentences()
	t := template.Must(template.New("").Funcs(template.FuncMap{
		"xml": escapeXML, "pair": func(name, value string) []string { return []string{name, value} }, "join": strings.Join,
	}).Parse(junitXML))
	if err := t.Execute(&out, map[string]any{
		"Document": d, "Cases": cases, "Count": count, "Run": words.section("run", &d.Run).Rows,
		"Decisions": words.Lines("decisions", d.Result), "Warnings": slices.Concat(d.Warnings, d.Result.Warnings),
		"Environment": words.Lines("environment", d.Environment),
	}); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err := io.WriteString(w, legible(out.String()))
	return err
}
