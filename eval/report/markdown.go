package report

import (
	_ "embed" // the form of a page
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/template"
)

//go:embed page.md.txt
var pageMarkdown string

// markdown is a page with tables, in which what few readers need is closed.
func (p *reportPage) markdown(w io.Writer) error {
	var out strings.Builder
	t := template.Must(template.New("").Funcs(template.FuncMap{"escape": escape}).Parse(pageMarkdown))
	if err := t.Execute(&out, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	text := regexp.MustCompile("\n{3,}").ReplaceAllString(strings.TrimSpace(out.String()), "\n\n")
	_, err := io.WriteString(w, legible(text)+"\n")
	return err
}

// escape keeps text from being read as markup, and addresses in it from becoming links.
func escape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`, "`", "\\`",
		"[", `\[`, "]", `\]`, "#", `\#`, "://", "&#58;//", "www.", "www&#46;", "\n", " ").Replace(s)
}
