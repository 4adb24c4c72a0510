package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"cfq/eval/gate"
)

// The elements of JUnit's XML, in the form that build servers agree on.
type (
	junitSuites struct {
		XMLName xml.Name   `xml:"testsuites"`
		Suite   junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string          `xml:"name,attr"`
		Tests    int             `xml:"tests,attr"`
		Failures int             `xml:"failures,attr"`
		Errors   int             `xml:"errors,attr"`
		Skipped  int             `xml:"skipped,attr"`
		Time     string          `xml:"time,attr"` // no clock: a report is the same each time
		Props    []junitProperty `xml:"properties>property"`
		Cases    []junitCase     `xml:"testcase"`
		Out      string          `xml:"system-out,omitempty"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Time    string        `xml:"time,attr"`
		Skipped *junitMessage `xml:"skipped"`
		Error   *junitMessage `xml:"error"`
		Failure *junitMessage `xml:"failure"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

const junitName = "cfq gate"

// JUnit writes the checks of d's gate as test cases: what fails is a failure, what is inconclusive an error, and what
// does not pass but only warns is skipped, with the reason. It fails without a gate.
func JUnit(w io.Writer, d *Document) error {
	g := d.Gate
	if g == nil {
		return errors.New("report: no gate for the junit view: use cfq gate")
	}
	s := junitSuite{Name: junitName, Tests: len(g.Findings), Time: "0", Out: strings.Join(g.Notes, "\n")}
	property := func(name string, values ...string) {
		for _, v := range values {
			s.Props = append(s.Props, junitProperty{name, v})
		}
	}
	property("verdict", string(g.Verdict))
	for _, row := range runBlock(&d.Run).Rows {
		property(row[0], row[1])
	}
	property("original", d.Full.Name)
	property("quantized", d.Quantized.Name)
	property("decisions", changedDecisions(d.Result)...)
	property("next step", g.Next...)
	property("note", g.Notes...)
	property("warning", slices.Concat(d.Warnings, d.Result.Warnings)...)
	property("environment", environment(d.Environment).Lines...)
	seen := map[string]bool{}
	for i := range g.Findings {
		f := &g.Findings[i]
		name := f.Name()
		if seen[name] { // a check with several limits
			name += " " + f.Limit
		}
		seen[name] = true
		c := junitCase{Name: name, Class: junitName + "." + f.Metric, Time: "0"}
		text := f.Why
		if f.Margin != nil {
			text += "; required margin " + margin(*f.Margin)
		}
		m := &junitMessage{Message: f.Why, Type: string(f.Verdict), Text: text}
		switch {
		case f.Verdict == gate.Pass:
			c.Out = text
		case f.OK():
			c.Skipped = &junitMessage{Message: verdictOf(f) + ": " + f.Why}
			s.Skipped++
		case f.Verdict == gate.Fail:
			c.Failure = m
			s.Failures++
		default:
			c.Error = m
			s.Errors++
		}
		s.Cases = append(s.Cases, c)
	}
	out, err := xml.MarshalIndent(junitSuites{Suite: s}, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = io.WriteString(w, legible(xml.Header+string(out)+"\n"))
	return err
}
