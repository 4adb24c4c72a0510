package report

import (
	"strings"
	"testing"
	"unicode"
)

// hostile is a name that a file may have: it moves the cursor, turns the direction of the text, and is markup, a link
// and an address.
const hostile = "\x1b]0;x\x07\u009b2J\u202eevil\u2028[pay](http://evil.example) <script>alert(1)</script> " +
	"www.evil.example # `x`"

func TestHostileNames(t *testing.T) {
	d := complete()
	d.Title, d.Full.Name, d.Data.Name = hostile, hostile, hostile
	d.Recipe = map[string]string{hostile: hostile}
	d.Environment = map[string]string{"CFQ_BY": hostile}
	d.Warnings = []string{hostile}
	d.Gate.Notes = []string{hostile}
	d.Layers[0].Node = hostile
	for i := range d.Gate.Findings {
		f := &d.Gate.Findings[i]
		f.Check, f.Why, f.Remark = hostile, hostile, hostile
	}
	by := &d.Result.Groups[0]
	by.By, by.Groups[0].Name = hostile, hostile
	d.Broken = []Broken{{Row: 1, Action: []string{hostile}, Repair: hostile}}
	c := comparison()
	c.Title, c.Comparison.Names[0] = hostile, hostile
	all := map[string]string{}
	for _, v := range Views() {
		all[v.Name] = shown(t, Views(), v.Name, d)
	}
	for _, v := range ComparisonViews() {
		all["comparison, "+v.Name] = shown(t, ComparisonViews(), v.Name, c)
	}
	for name, text := range all {
		if strings.HasSuffix(name, "json") { // programs read them
			continue
		}
		bad := func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) || r == 0x2028
		}
		if i := strings.IndexFunc(text, bad); i >= 0 {
			t.Errorf("%s: %q", name, text[max(0, i-40):min(len(text), i+40)])
		}
		markup := []string{}
		switch {
		case strings.HasSuffix(name, "md"):
			markup = []string{"[pay](", "http://evil", "<script", "www.evil"}
		case strings.HasSuffix(name, "html"), name == junitView:
			markup = []string{"<script", "href=\"http"}
		}
		for _, m := range markup {
			if strings.Contains(text, m) {
				t.Errorf("%s: has %s", name, m)
			}
		}
	}
}
