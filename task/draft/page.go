package draft

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"cfq/internal/lists"
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

type imageDraft struct {
	page
	file   *task.ImageFile
	pixels task.Pixels
	notes  []string
}

// findImages looks for images at path, an IDX file or a folder, for a model whose input has these sizes after the
// batch; nil when there are none. Without a model sizes are nil: grey images have a shape all the same.
func findImages(path string, sizes []int) (*imageDraft, error) {
	p, numbers := &imageDraft{
		page:   page{Index: -1, Image: true, Missing: true},
		pixels: task.Pixels{Layout: "chw", Standardized: task.Standardized{Std: 255}},
	}, 1
	for _, n := range sizes {
		numbers *= n
	}
	var err error
	if p.file, err = task.FindImages(path); err != nil || p.file == nil {
		return nil, err
	}
	h, w := p.file.Rows, p.file.Columns
	if len(sizes) == 0 && !p.file.Grey {
		return nil, fmt.Errorf("data file %s holds images: name the model, whose input says their shape", path)
	} else if len(sizes) == 0 {
		sizes, numbers = []int{1, h, w}, h*w
	}
	if p.pixels.Shape = sizes; h == 0 && len(sizes) == 3 {
		if sizes[2] <= 4 && sizes[0] > 4 {
			p.pixels.Layout = "hwc"
		}
		return p, nil
	}
	channels := numbers / max(h*w, 1)
	first, last := []int{channels, h, w}, []int{h, w, channels}
	switch {
	case channels < 1 || channels > 4 || channels*h*w != numbers || len(sizes) == 3 && !slices.Equal(sizes, first) &&
		!slices.Equal(sizes, last):
		return nil, fmt.Errorf("data file %s: the images have %d x %d pixels (rows x columns), and the model takes %v: "+
			"bring them to its size first", path, h, w, sizes)
	case len(sizes) == 3 && !slices.Equal(sizes, first):
		p.pixels.Layout = "hwc"
	case len(sizes) != 3:
		if p.pixels.Shape = first; channels > 1 {
			p.Asked = []string{"are the model's inputs channels, rows, columns (chw), or rows, columns, channels (hwc)?"}
		}
	}
	return p, nil
}

func (p *imageDraft) draft(ctx context.Context, from Source, o Options, m *Model) (*Draft, error) {
	p.Data = task.Data{Label: o.Label, Favourable: o.Favourable}
	if p.Data.Label == "" && len(p.file.Names) > 1 {
		p.Data.Label = p.file.Names[1]
	}
	plain, err := p.write(o.File)
	if err != nil {
		return nil, err
	}
	from.Rows.Most, from.Rows.Seed, from.Rows.Keep = maxSample, 1, []string{p.Data.Label}
	people, err := task.Read(ctx, from.Path, plain.Task, from.Rows)
	if err != nil {
		return nil, err
	}
	labels := lists.Map(people.Kept, func(kept []string) string { return kept[0] })
	if p.Data.Favourable != "" && p.Data.Label != "" && task.Find(labels, p.Data.Favourable) < 0 {
		return nil, fmt.Errorf("column %s has no value %q in %d rows", p.Data.Label, p.Data.Favourable, people.N)
	}
	if m == nil {
		p.Index = 1
		p.notes = append(p.notes, "there is no model: one of `cfq train` takes pixels between 0 and 1, and its favourable "+
			"class has the index 1")
		return p.write(o.File)
	}
	class, sorted := classOf(p.Data.Favourable, labels, m)
	if p.Index = class; class >= 0 && !sorted {
		p.notes = append(p.notes, fmt.Sprintf("the class index of the label %s is %d", p.Data.Favourable, class))
	}
	asked := []string{"does the model take pixels between 0 and 1 (std: 255), as here, as bytes (std: 1), " +
		"between -1 and 1 (mean and std: 127.5), or standardised? `cfq task check` compares them by the labels."}
	if sorted {
		asked = append(asked, "are the model's classes in the order of the labels in the alphabet?")
	}
	p.Asked = append(asked, p.Asked...)
	return p.write(o.File)
}

func (p *imageDraft) write(file string) (*Draft, error) {
	f := task.Feature{Name: p.file.Names[0], Column: p.file.Names[0], Encoding: &p.pixels, Action: task.Free()}
	f.Bounds, f.Step = [2]float64{0, 255}, 1
	out := p.page
	out.About = fmt.Sprintf("A draft from %s. Which pixels can change, how far, and at what cost is for you to say: "+
		"sparsity.max_features bounds how many.", message.Legible(file))
	out.Features = []pageFeature{{Keys: entry(&f)}}
	return out.draft(p.notes)
}

// classOf returns the class of a label, -1 where it is not known, of a model that has the labels itself, or numbers its
// classes from 0 by them, or, with sorted set, has as many classes as labels, in the order of the alphabet.
func classOf(label string, labels []string, m *Model) (class int, sorted bool) {
	distinct := slices.Compact(slices.Sorted(slices.Values(labels)))
	distinct = slices.DeleteFunc(distinct, func(l string) bool { return l == "" })
	named := func(l string) int { return task.Find(m.Labels, l) }
	number := func(l string) int {
		if k, err := strconv.Atoi(l); err == nil && k >= 0 && k < m.Classes {
			return k
		}
		return -1
	}
	for _, of := range []func(string) int{named, number} {
		unknown := func(l string) bool { return of(l) < 0 }
		if len(distinct) > 0 && !slices.ContainsFunc(distinct, unknown) {
			return of(label), false
		}
	}
	if len(distinct) == m.Classes {
		return slices.Index(distinct, label), true
	}
	return -1, false
}
