package report

import (
	"encoding/xml"
	"io"
	"strconv"
	"strings"
	"testing"

	"cfq/eval/gate"

	"cfq/internal/must"
)

// node is any element, so that the test does not read with what wrote.
type node struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []node     `xml:",any"`
}

func (n *node) attr(name string) string {
	for _, a := range n.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (n *node) all(name string) (out []node) {
	for _, c := range n.Children {
		if c.XMLName.Local == name {
			out = append(out, c)
		}
	}
	return out
}

// The rules are those of the schema that Jenkins publishes: which elements and attributes there are, and which must be.
func TestJUnit(t *testing.T) {
	d := complete()
	twice := d.Gate.Findings[0]
	twice.Limit = ">= -0.5"
	d.Gate.Findings = append(d.Gate.Findings, twice)
	d.Gate.Findings[1].Why += " \x00\x1b[31m\xff <&\"'>"
	text := shown(t, Views(), "junit", d)
	var root node
	must.Do(t, xml.Unmarshal([]byte(text), &root))
	if root.XMLName.Local != "testsuites" || len(root.all("testsuite")) != 1 {
		t.Fatalf("the root is %v with %d suites", root.XMLName, len(root.Children))
	}
	suite := root.all("testsuite")[0]
	count := map[string]int{}
	got := map[string]string{}
	for _, c := range suite.all("testcase") {
		if c.attr("name") == "" || c.attr("classname") == "" {
			t.Errorf("a test case without a name or a class: %v", c.Attrs)
		}
		must.Get(strconv.ParseFloat(c.attr("time"), 64))(t)
		outcome := "pass"
		for _, x := range c.Children {
			switch name := x.XMLName.Local; name {
			case "failure", "error", "skipped":
				if outcome != "pass" {
					t.Errorf("%s has two outcomes", c.attr("name"))
				}
				outcome = name
				if x.attr("message") == "" {
					t.Errorf("%s does not say why", c.attr("name"))
				}
			case "system-out":
			default:
				t.Errorf("a test case has no %s", name)
			}
		}
		count[outcome]++
		if _, known := got[c.attr("name")]; known {
			t.Errorf("two test cases %s", c.attr("name"))
		}
		got[c.attr("name")] = outcome
	}
	for _, k := range []struct {
		attr    string
		outcome string
	}{{"failures", "failure"}, {"errors", "error"}, {"skipped", "skipped"}} {
		must.Same(t, strconv.Itoa(count[k.outcome]), suite.attr(k.attr))
	}
	if suite.attr("name") != "cfq gate" || suite.attr("tests") != strconv.Itoa(len(d.Gate.Findings)) {
		t.Errorf("%v", suite.Attrs)
	}
	for name, want := range map[string]string{
		"accuracy": "pass", "accuracy >= -0.5": "pass", "vd": "failure", "vd by sex [Female]": "error",
		"vd by sex [Male <b>]": "skipped", "crg": "skipped",
	} {
		must.Same(t, want, got[name])
	}
	if strings.ContainsAny(text, "\x00\x1b") || !strings.Contains(text, "FAIL, warning: promises that break") {
		t.Error("what XML cannot hold is in it, or a reason is not")
	}
}

func TestJUnitNeedsAGate(t *testing.T) {
	must.Fail(t, junit(io.Discard, loans()), "gate")
	d := loans()
	d.Gate = &gate.Report{Verdict: gate.Pass}
	for _, view := range []string{"text", "html", "junit"} {
		shown(t, Views(), view, d)
	}
}
