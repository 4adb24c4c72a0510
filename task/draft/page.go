package draft

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"cfq/internal/message"
	"cfq/task"
)

// pageText is the text of a draft, a template of YAML with comments, and in "notes" what is said of it. A key stands
// before the questions of a mapping: YAML reads one of comments alone as null.
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

func pageTemplates() *message.Templates {
	return message.NewTemplates(pageText, template.FuncMap{
		"scalar": scalar, "shell": shell, "quote": message.Quote,
		"quoted": func(c rune) string { return strconv.Quote(string(c)) },
		"char":   func(c rune) string { return scalar(string(c)) },
		"flow":   flow, "wrap": wrap,
		"line": func(s string) string { return strings.Join(strings.Fields(s), " ") },
	})
}

func (p *page) draft(notes []string) (*Draft, error) {
	templates := pageTemplates()
	text := []byte(templates.Text("", p))
	if n := len(Questions(text)); n > 0 {
		p.Open = message.Count(n, "question")
		text = []byte(templates.Text("", p))
	}
	parsed, err := task.Parse("the draft", text)
	if err != nil {
		return nil, fmt.Errorf("the draft is not a task file that can be read, which is a mistake of this program: %w", err)
	}
	return &Draft{Text: text, Task: parsed, Notes: notes, Questions: Questions(text)}, nil
}
