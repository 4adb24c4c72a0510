package task

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"cfq/internal/must"
)

func labelled(labels ...string) string {
	return "age,color,member,income\n40,red,no," + strings.Join(labels, "\n40,red,no,") + "\n"
}

func TestLabelsThatLookMistakenAreWarnedOf(t *testing.T) {
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprint("class ", i))
	}
	for name, c := range map[string]struct {
		favourable string
		labels     []string
		warning    string // "" = none
	}{
		"clean": {"high", []string{"high", "low", "low", "?", ""}, ""},
		"case": {
			"high",
			[]string{"high", "low", "High", "low"},
			`column "income": every label but "high" counts as unfavourable: "low" (2), "High" (1)`,
		},
		"misspelt": {
			"aproved",
			[]string{"approved", "denied", "denied"},
			`no row has the favourable label "aproved" in column "income", so all count as unfavourable; the labels are ` +
				`"denied" (2), "approved" (1)`,
		},
		"other words": {"yes", []string{"1", "0"}, `the labels are "0" (1), "1" (1)`},
		"classes": {
			"a",
			[]string{"a", "b", "c", "d", "e", "f", "g", "h", "i"},
			`"b" (1), "c" (1), "d" (1), "e" (1), "f" (1), "g" (1) and others`,
		},
		"more than are kept": {"x", many, "and others"},
		"one number":         {"1", []string{"1.0", "0", "0.0"}, ""},
		"opposites":          {">50K", []string{">50K", "<50K"}, ""},
		"opposite words":     {"paid", []string{"paid", "unpaid"}, ""},
		"a few, all low":     {"high", []string{"low", "low"}, ""},
		"many, all low":      {"high", strings.Fields(strings.Repeat("low ", 20)), `no row has the favourable label "high"`},
	} {
		t.Run(name, func(t *testing.T) {
			task := parse(t, strings.Replace(small, "favourable: high", fmt.Sprintf("favourable: %q", c.favourable), 1))
			p := read(t, task, labelled(c.labels...), ReadOptions{})
			switch {
			case c.warning == "" && len(p.Warnings) > 0:
				t.Errorf("warnings %q", p.Warnings)
			case c.warning != "" && (len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], c.warning) || len(p.Notes) > 0):
				t.Errorf("warnings %q, notes %q, want %q", p.Warnings, p.Notes, c.warning)
			}
		})
	}
}

func TestLabelColumnThatIsNotThereIsWarnedOf(t *testing.T) {
	p := read(t, parse(t, small), "age,color,member,incone\n40,red,no,high\n", ReadOptions{})
	want := `the file has no column "income", which data.label names: outcomes are not known; did you mean "incone"?`
	if len(p.Warnings) != 1 || p.Warnings[0] != want {
		t.Errorf("warnings %q, want %q", p.Warnings, want)
	}
}

func TestTaskFileErrorsStayShort(t *testing.T) {
	long := strings.Repeat("age 40 ", 20000)
	for _, file := range []string{
		long, strings.Repeat("k: v\n", 10000), long + ": 1\n",
		"version: 1\nfeatures: [{name: \"" + long + "\", kind: \"" + long + "\"}]\n",
	} {
		_, err := Parse("x.csv", []byte(file))
		if err == nil || !utf8.ValidString(err.Error()) || len(err.Error()) > 6000 ||
			strings.Contains(err.Error(), strings.Repeat("age 40 ", 30)) {
			t.Errorf("error %.1000v", err)
		}
	}
	_, err := Parse("x.csv", []byte(long))
	must.Fail(t, err, `not "`+long[:60]+`…"`)
}

func TestDataFilesOfAnotherKindAreRefusedLegibly(t *testing.T) {
	headerless := strings.Replace(small, `missing: "?"`, `columns: [age, color, member, income]`, 1)
	semicolons := strings.Replace(small, `missing: "?"`, `missing: "?", delimiter: ";"`, 1)
	for name, c := range map[string]struct{ task, data, want string }{
		"zeros": {small, "PK\x03\x04\x14\x00\x06", "this is a binary file and no delimited text; it starts with \"PK\\x03"},
		"control characters": {
			small, "\x1b[2J\x07\xff,b" + strings.Repeat("y", 100) + "\n1,2\n",
			`the file's columns are: "\x1b[2J\a\xff", b` + strings.Repeat("y", 59) + "…",
		},
		"long field": {
			small, "age,color,member\n" + strings.Repeat("z", 1000) + ",red,no\n",
			`"` + strings.Repeat("z", 60) + `…" is not a number`,
		},
		"quoted header": {
			small, "\"age\";\"color\";\"member\"\n1;\"red\";\"no\"\n",
			`or a quoted field never ends; is data.delimiter ',' right?`,
		},
		"commas": {
			semicolons, "\"age\",\"color\",\"member\"\n1,\"red\",\"no\"\n",
			`or a quoted field never ends; is data.delimiter ';' right?`,
		},
		"tabs":       {small, "age\tcolor is\tmember\n", `the first line is one field; is data.delimiter ',' right?`},
		"headerless": {headerless, "1|red|no\n2|red|no\n", `line 1: 1 fields where 4 are expected`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadFrom(context.Background(), strings.NewReader(c.data), parse(t, c.task), ReadOptions{})
			if must.Fail(t, err, c.want); err != nil && strings.ContainsAny(err.Error(), "\x1b\x07\x00") {
				t.Errorf("%q", err)
			}
		})
	}
}
