package draft

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"text/template"

	"cfq/internal/message"
	"cfq/task"
)

// pageText is the text of a draft, a template of YAML with comments. A key stands before the questions of a mapping:
// YAML reads one of comments alone as null.
//
//go:embed page.tmpl
var pageText string

type page struct {
	About       string
	Open        string // how many questions there are, "" for none
	Data        task.Data
	Guessed     bool     // the label is
	Values      string   // of the label
	Drop        []string // columns that are no features, with comments
	Missing     bool     // Data.Missing is written
	Index       int      // class index of the favourable outcome, -1: not known
	Features    []pageFeature
	Image       bool
	MaxFeatures int // 0 is no limit
	pageQuestions
}

// pageQuestions are the questions about all features, or what they depend on.
type pageQuestions struct {
	Asked               []string // of images
	Inputs, Made        int      // of the model, 0 where it is not known, and of the features
	Columns             []string // of the features
	Codes               []string // numbers that are taken for "not known", and where
	Inferred            bool     // no encoding is known
	Ordered             bool     // the order of the features is that of the model's inputs
	Numbers, Categories bool     // there are such features
}

type pageFeature struct {
	Protected string
	Asked     []string
	Keys      string
}

func (p *page) draft(notes []string) (*Draft, error) {
	t := template.Must(template.New("draft").Funcs(template.FuncMap{
		"scalar": scalar,
		"char":   func(c rune) string { return scalar(string(c)) },
		"join":   strings.Join,
		"shell":  shell,
		"list":   func(v []string) string { return strings.Join(texts(v), ", ") },
		"wrap":   func(lead string, v []string) string { return wrap(lead, texts(v), "]", strings.Repeat(" ", len(lead))) },
		"line":   func(s string) string { return strings.Join(strings.Fields(s), " ") },
	}).Parse(pageText))
	var text bytes.Buffer
	for range 2 { // the second time it says how many questions there are
		text.Reset()
		if err := t.Execute(&text, p); err != nil {
			return nil, fmt.Errorf("template of drafts: %w", err)
		}
		if n := len(Questions(text.Bytes())); n > 0 {
			p.Open = message.Count(n, "question")
		}
	}
	parsed, err := task.Parse("the draft", text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the draft is not a task file that can be read, which is a mistake of this program: %w", err)
	}
	return &Draft{Text: text.Bytes(), Task: parsed, Notes: notes, Questions: Questions(text.Bytes())}, nil
}
