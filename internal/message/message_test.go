package message

import (
	"math"
	"strings"
	"testing"

	"cfq/internal/must"
)

func TestNearest(t *testing.T) {
	colours := []string{"red", "Green", "blue", "ultramarine"}
	for _, c := range []struct{ word, want string }{
		{"rde", ""}, // two letters of three are wrong
		{"ref", "red"},
		{"GREN", "Green"},
		{"ultramerin", "ultramarine"},
		{"ultra", ""},
		{"xyz", ""},
		{"", ""},
		{strings.Repeat("blue", 100), ""},
	} {
		if got := Nearest(c.word, colours); got != c.want {
			t.Errorf("%s: %q, want %q", Clip(c.word), got, c.want)
		}
	}
	if got := Nearest("blu", []string{strings.Repeat("blu", 100)}); got != "" {
		t.Errorf("the nearest is %q", Clip(got))
	}
}

func TestDidYouMean(t *testing.T) {
	for _, c := range []struct {
		word  string
		known []string
		want  string
	}{
		{"ref", []string{"red", "blue"}, `; did you mean "red"?`},
		{"xyz", []string{"red", "blue"}, "; one of: red, blue"},
		{"xyz", nil, ""},
		{"xyz", strings.Fields(strings.Repeat("a ", 23)), "; one of: " + strings.Repeat("a, ", 19) + "a and 3 more"},
	} {
		must.Same(t, c.want, DidYouMean(c.word, c.known))
	}
}

func TestQuoting(t *testing.T) {
	long := strings.Repeat("ä", 61)
	for _, c := range []struct{ got, want string }{
		{Clip("short"), "short"},
		{Clip(long[:120]), long[:120]}, // characters are counted, not bytes
		{Clip(long), long[:120] + "…"},
		{ClipTo("abc", 2), "ab…"},
		{Quote("a\nb"), `"a\nb"`},
		{Legible("40 %"), "40 %"},
		{Legible("a\x1b[2J"), `"a\x1b[2J"`},
		{Legible("\xff"), `"\xff"`},
		{List([]string{"a", "b\n"}, 5), `a, "b\n"`},
	} {
		must.Same(t, c.want, c.got)
	}
}

func TestNumbers(t *testing.T) {
	for have, want := range map[string]string{
		Count(1, "row"): "1 row", Count(0, "row"): "0 rows", Plural(1, "person", "people"): "person",
		Percent(0.1234, 1): "12.3 %", Percent(0, 1): "0.0 %", Percent(1e-5, 2): "<0.01 %", Percent(math.NaN(), 1): "-",
		Percent(-0.02, 0): "-2 %",
	} {
		must.Same(t, want, have)
	}
}

func TestTemplates(t *testing.T) {
	const file = "{{define \"a\"}}a{{template \"b\" .}}{{end}}\n\n{{define \"b\"}}{{.}}{{- template \"c\"}}{{end}}\n" +
		"{{define \"c\"}}c{{end -}}\nroot {{template \"b\" 1}}"
	words := NewTemplates(file, nil)
	for range 2 {
		for name, want := range map[string]string{"a": "a2c", "b": "2c", "c": "c", "": "root 1c"} {
			if got := strings.TrimSpace(words.Text(name, 2)); got != want {
				t.Errorf("%q: %q, want %q", name, got, want)
			}
		}
	}
}
