// Package message puts what people wrote into messages: shortened, quoted, listed, and with the word that they probably
// meant; and it lays text out for a terminal, in paragraphs and grids. What goes in may be anything, a whole file
// included; what comes out fits a line of a terminal.
package message

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"unicode"

	"github.com/agext/levenshtein"

	"cfq/internal/lists"
)

// most is how many characters a message repeats of what somebody wrote, and
// listed how many words it offers instead of a wrong one.
const (
	most   = 60
	listed = 20
)

// Clip shortens s to what a message can repeat.
func Clip(s string) string { return ClipTo(s, most) }

// ClipTo shortens s to so many characters.
func ClipTo(s string, limit int) string {
	n := 0
	for i := range s {
		if n == limit {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// Tail shortens s to so many characters at its beginning: names of layers differ at their ends.
func Tail(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return "…" + string(r[len(r)-limit+1:])
	}
	return s
}

// Quote is %q of what a message can repeat of s.
func Quote(s string) string { return strconv.Quote(Clip(s)) }

// Legible is s without quotes, unless it is empty or has characters that would confuse a terminal or a list of words.
func Legible(s string) string {
	s = Clip(s)
	odd := func(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(",\"\\\uFFFD", r) }
	if s == "" || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}

// List names at most limit of the words, and says how many more there are.
func List(words []string, limit int) string {
	shown := lists.Map(words[:min(limit, len(words))], Legible)
	s := strings.Join(shown, ", ")
	if more := len(words) - len(shown); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// Or lists words as alternatives: "a, b or c".
func Or(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// longest bounds the words that are compared: the time grows with the square of their length.
const longest = 200

// Nearest returns the candidate most like s, or "" when none is close enough to be a slip of the pen.
func Nearest(s string, candidates []string) string {
	if len(s) > longest {
		return ""
	}
	s = strings.ToLower(s)
	best, least := "", max(1, (len(s)+2)/3)+1
	for _, c := range candidates {
		if len(c) > longest {
			continue
		}
		d := levenshtein.Distance(s, strings.ToLower(c), nil)
		if d < least && d < max(len(s), len(c)) { // at the maximum, they have nothing in common
			best, least = c, d
		}
	}
	return best
}

// Likely is the clause to put behind a message about the unknown word s: the likely word, "" when there is none.
func Likely(s string, candidates []string) string {
	if n := Nearest(s, candidates); n != "" {
		return fmt.Sprintf("; did you mean %s?", Quote(n))
	}
	return ""
}

// DidYouMean is Likely or, where there is no likely word, those that there are.
func DidYouMean(s string, candidates []string) string {
	if likely := Likely(s, candidates); likely != "" || len(candidates) == 0 {
		return likely
	}
	return "; one of: " + List(candidates, listed)
}

// Plural returns one for a single thing, else many.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Count is a number of things: "1 row", "2 rows".
func Count(n int, noun string) string { return fmt.Sprintf("%d %s", n, Plural(n, noun, noun+"s")) }

// Percent is a share with its unit: "-" when it is not defined, and never zero when it is more.
func Percent(share float64, decimals int) string {
	if math.IsNaN(share) || math.IsInf(share, 0) {
		return "-"
	}
	s := strconv.FormatFloat(100*share, 'f', decimals, 64)
	if zero := strconv.FormatFloat(0, 'f', decimals, 64); share > 0 && s == zero {
		return "<" + zero[:len(zero)-1] + "1 %"
	}
	return s + " %"
}

// Templates are texts with places that are filled in.
type Templates struct {
	parsed *template.Template
	lock   sync.Mutex
	rest   map[string]string // definitions that nobody asked for yet; "" is the whole file
}

// NewTemplates returns the templates of a file, each definition of which begins a line and is parsed when it is asked
// for. They use the functions of this package and those given; what a file says goes through oneLine, or it could add
// lines and columns.
func NewTemplates(file string, functions template.FuncMap) *Templates {
	own := template.FuncMap{
		"count": Count, "plural": Plural, "oneLine": OneLine, "list": List, "percentOf": Percent, "join": strings.Join,
		"minus": func(a, b int) int { return a - b },
	}
	t := &Templates{parsed: template.New("").Funcs(own).Funcs(functions), rest: map[string]string{"": file}}
	for _, text := range strings.Split("\n"+file, "\n{{define \"")[1:] {
		name, _, _ := strings.Cut(text, `"`)
		t.rest[name] = `{{define "` + text
	}
	return t
}

// parse adds a definition and those that it uses.
func (t *Templates) parse(name string) {
	text, ok := t.rest[name]
	if !ok {
		return
	}
	template.Must(t.parsed.Parse(text))
	if delete(t.rest, name); name == "" {
		clear(t.rest)
	}
	for _, used := range strings.Split(text, `template "`)[1:] {
		used, _, _ = strings.Cut(used, `"`)
		t.parse(used)
	}
}

// Text fills in a template; "" is what stands outside of all others.
func (t *Templates) Text(name string, data any) string {
	t.lock.Lock()
	t.parse(name)
	t.lock.Unlock()
	var b strings.Builder
	if err := t.parsed.ExecuteTemplate(&b, name, data); err != nil {
		panic(fmt.Errorf("template %s: %w", name, err))
	}
	return b.String()
}

// Lines are those of the text, without the empty ones.
func (t *Templates) Lines(name string, data any) []string {
	lines := strings.Split(t.Text(name, data), "\n")
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// Rows are the lines, in the parts that tabs separate.
func (t *Templates) Rows(name string, data any) [][]string {
	return lists.Map(t.Lines(name, data), func(line string) []string { return strings.Split(line, "\t") })
}

// Grid adds the rows to a grid.
func (t *Templates) Grid(g *Grid, name string, data any) *Grid {
	for _, row := range t.Rows(name, data) {
		g.Add(row...)
	}
	return g
}
