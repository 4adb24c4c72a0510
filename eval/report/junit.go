package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"cfq/eval/gate"
	"cfq/internal/message"
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
	s := junitSuite{Name: junitName, Tests: len(g.Findings), Time: "0", Out: clean(strings.Join(g.Notes, "\n"))}
	property := func(name, value string) { s.Props = append(s.Props, junitProperty{name, clean(value)}) }
	property("verdict", string(g.Verdict))
	for _, row := range runBlock(&d.Run).table.rows {
		property(row[0], row[1])
	}
	property("original", d.Full.Name)
	property("quantized", d.Quantized.Name)
	if text := changes(d.Result); text != "" {
		property("decisions", text)
	}
	for _, next := range g.Next {
		property("next step", next)
	}
	for _, n := range g.Notes {
		property("note", n)
	}
	for _, w := range slices.Concat(d.Warnings, d.Result.Warnings) {
		property("warning", w)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Environment)) {
		property("environment", name+"="+d.Environment[name])
	}
	seen := map[string]bool{}
	for i := range g.Findings {
		f := &g.Findings[i]
		name := clean(f.Name())
		if seen[name] { // a check with several limits
			name += " " + clean(f.Limit)
		}
		seen[name] = true
		c := junitCase{Name: name, Class: junitName + "." + clean(f.Metric), Time: "0", Out: clean(measured(f))}
		m := &junitMessage{Message: clean(f.Why), Type: string(f.Verdict), Text: clean(measured(f))}
		switch {
		case f.Verdict == gate.Pass:
		case f.OK():
			m.Type, m.Text = "", ""
			m.Message = clean(verdictOf(f) + ": " + f.Why)
			c.Skipped = m
			s.Skipped++
		case f.Verdict == gate.Fail:
			c.Failure, c.Out = m, ""
			s.Failures++
		default:
			c.Error, c.Out = m, ""
			s.Errors++
		}
		s.Cases = append(s.Cases, c)
	}
	out, err := xml.MarshalIndent(junitSuites{Suite: s}, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = io.WriteString(w, xml.Header+string(out)+"\n")
	return err
}

func measured(f *gate.Finding) string {
	people := fmt.Sprintf("people: %d; ", f.N)
	switch {
	case f.Num != nil && f.Exact():
		people = fmt.Sprintf("%d of %d; ", *f.Num, f.N)
	case f.Num != nil:
		people = fmt.Sprintf("people: %d of %d; ", *f.Num, f.N)
	case f.Exact():
		people = ""
	}
	x := f.Shown()
	s := fmt.Sprintf("%s = %s (%sbounds: %s), limit %s", f.Metric, orMissing(x.Value), people, orMissing(x.Bounds),
		x.Limit)
	if f.Margin != nil {
		s += ", required margin " + margin(*f.Margin)
	}
	if f.Need > 0 {
		s += fmt.Sprintf(", %d people would be needed", f.Need)
	}
	return s
}

// clean takes out what XML cannot hold and what would steer a terminal that shows it; lines stay.
func clean(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\t", " "), "\n")
	for i, l := range lines {
		lines[i] = strings.Map(func(r rune) rune {
			if r == 0xfffe || r == 0xffff {
				return '\ufffd'
			}
			return r
		}, message.OneLine(l))
	}
	return strings.Join(lines, "\n")
}
