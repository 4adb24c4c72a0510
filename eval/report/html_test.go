package report

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"cfq/eval/gate"
	"cfq/internal/must"
)

// render returns the page, and fails when an element that is opened is not closed, in order.
func render[D any](t *testing.T, views []View[D], d *D) string {
	t.Helper()
	page := shown(t, views, "html", d)
	x := xml.NewDecoder(strings.NewReader(page))
	var open []string
	for {
		token, err := x.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		must.Do(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			open = append(open, e.Name.Local)
		case xml.EndElement:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("not closed: %v", open)
	}
	return page
}

func TestHTML(t *testing.T) {
	for name, d := range samples() {
		page := render(t, Views(), d)
		checkPage(t, name, page)
	}
	page := render(t, ComparisonViews(), comparison())
	checkPage(t, "comparison", page)
	for _, want := range []string{"McNemar exact", ">-1.7 pp<", "(p=0.012 n=640)", ">~<", `class="good"`, "cfq-qat.onnx"} {
		must.Has(t, page, want)
	}
	must.Same(t, 1, strings.Count(page, "<svg"))
}

func checkPage(t *testing.T, name, page string) {
	t.Helper()
	for _, no := range []string{"<script", "http://", "https://", "@import", "url(", "NaN", "ZgotmplZ", "<b>", "Inf "} {
		found := strings.Count(page, no)
		if no == "http://" {
			found -= strings.Count(page, `="http://www.w3.org/`) // names of XML, which nobody fetches
		}
		if found > 0 {
			t.Errorf("%s: %q is in the page", name, no)
		}
	}
	ids := regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1)
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id[1]] {
			t.Errorf("%s: two ids %s", name, id[1])
		}
		seen[id[1]] = true
	}
	for _, to := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !seen[to[1]] {
			t.Errorf("%s: nothing has the id %s", name, to[1])
		}
	}
	if strings.Count(page, "<svg") != strings.Count(page, `role="img" aria-label="`) || strings.Count(page, "<h1") != 1 {
		t.Errorf("%s: a picture without words, or not one title", name)
	}
}

func TestHTMLOrder(t *testing.T) {
	d := complete()
	page := render(t, Views(), d)
	_, body, _ := strings.Cut(page, "<body>")
	last := -1
	for _, want := range []string{
		`class="verdict bad">FAIL`, d.Title, "Of 5 checks 2 fail", `class="tiles"`, "Checks</h2>", "The promises</h2>",
		"Warnings</h2>", "Promises by required margin t</h2>",
		"Cost of the recourse</h2>", "Margins at the original&#39;s recourse points</h2>", "By sex</h2>",
		"Other conditions</h2>", "Transfer certificates</h2>", "Logit perturbation",
		"Broken promises", "Decisions</h2>", "Size and work</h2>", "Speed in ONNX Runtime",
		"Layers of the quantized model</h2>", "Files</h2>", "How the quantized model was made</h2>",
	} {
		i := strings.Index(body[max(last, 0):], want)
		if i < 0 {
			t.Errorf("%q is not in the page behind what should stand before it", want)
			continue
		}
		last = max(last, 0) + i
	}
	// The curve, the distribution, two groupings and scenarios.
	must.Same(t, 6, strings.Count(page, "<svg"))
	if !strings.Contains(page, "income 27000 -&gt; 31500, debt 9000 -&gt; 8200") || !strings.Contains(page,
		"some &amp; &lt;more&gt;") {
		t.Error("an action or a group's name is not there as it should be")
	}
}

func TestVerdictComesFirst(t *testing.T) {
	d := complete()
	for _, v := range []gate.Verdict{gate.Pass, gate.Fail, gate.Inconclusive} {
		d.Gate.Verdict = v
		for view, mark := range map[string]string{"text": "", "md": "# "} {
			if text := shown(t, Views(), view, d); !strings.HasPrefix(text, mark+string(v)+": ") {
				t.Errorf("the first line is not the verdict: %.80q", text)
			}
		}
	}
}

func TestMarkdownDetails(t *testing.T) {
	page := shown(t, Views(), "md", complete())
	lines := strings.Split(page, "\n")
	depth := 0
	for i, l := range lines {
		switch {
		case strings.HasPrefix(l, "<details>"):
			depth++
			if !strings.HasSuffix(l, "</summary>") || lines[i+1] != "" {
				t.Errorf("line %d: %q then %q", i+1, l, lines[i+1])
			}
		case l == "</details>":
			depth--
			must.Same(t, "", lines[i-1])
		}
		if depth < 0 || depth > 1 {
			t.Fatalf("line %d: depth %d", i+1, depth)
		}
	}
	if depth != 0 || !slices.Contains(lines, "</details>") {
		t.Error("details are not closed, or there are none")
	}
	if len(page) > 60_000 {
		t.Errorf("%d bytes: a summary is cut at a megabyte, and nobody reads that much", len(page))
	}
}

func TestMany(t *testing.T) {
	d := complete()
	for len(d.Broken) < 1000 {
		d.Broken = append(d.Broken, d.Broken[0])
	}
	for range 50 {
		d.Gate.Findings = append(d.Gate.Findings, d.Gate.Findings[0])
	}
	text := shown(t, Views(), "text", d)
	page := render(t, Views(), d)
	for _, c := range []struct{ in, want string }{
		{text, "5 of 1000 people; the JSON"}, {page, "200 of 1000 people; the JSON"}, {text, "39 more pass"},
	} {
		must.Has(t, c.in, c.want)
	}
	must.Same(t, 5, strings.Count(text, "income 27000"))
	if strings.Contains(page, "more pass") {
		t.Error("the page hides checks")
	}
}

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
		case strings.HasSuffix(name, "html"), name == "junit":
			markup = []string{"<script", "href=\"http"}
		}
		for _, m := range markup {
			if strings.Contains(text, m) {
				t.Errorf("%s: has %s", name, m)
			}
		}
	}
}
