package draft

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cfq/internal/message"
	"cfq/task"
)

// Options of Infer. The zero value guesses everything from the data alone.
type Options struct {
	Label      string   // column of the outcome
	Favourable string   // its value that people want
	Features   []string // columns that are the model's inputs, in their order; nil = found
	Model      Model    // nil = none
	Scaled     bool     // the model begins with a scaling of its own, so that its inputs are raw numbers
	File       string   // name of the data file, for the comments
}

// Proposal is a first draft of a task file.
type Proposal struct {
	Text     []byte // the file, in YAML with comments
	Task     *task.Task
	Score    *Score      // how well the model decides by it; nil without a model or outcomes
	Notes    []string    // what was found and done
	Warnings []string    // what somebody has to look at before the file is used
	inserted []insertion // by Fill, in the order of the file
}

// plan is what Infer has found out, for the writer.
type plan struct {
	o        Options
	table    *Table
	all      []*source
	target   *target
	chosen   candidate
	features []feature
	encoded  bool
	twins    []string // names that two columns have
	score    *Score
	notes    []string
	warnings []string
}

func (p *plan) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *plan) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// Infer drafts a task file for the data: kinds, scaling, bounds (1st to 99th percentile), steps, shares, the outcome, and which features nobody
// can change. With a model it looks for the encoding that makes as many inputs as the model has and, when outcomes are known, by which it decides
// best. An error says that the data, or what the options name, cannot be used.
func Infer(ctx context.Context, t *Table, o Options) (*Proposal, error) {
	p := &plan{o: o, table: t}
	profiles := make([]*profile, len(t.cols))
	for i := range t.cols {
		profiles[i] = look(&t.cols[i])
	}
	var err error
	if p.target, err = findLabel(profiles, o.Label, o.Favourable); err != nil {
		return nil, err
	}
	label := ""
	if p.target != nil {
		label = p.target.column
	}
	p.all = sources(profiles, label)
	if err := p.order(); err != nil {
		return nil, err
	}
	if err := p.layout(ctx); err != nil {
		return nil, err
	}
	if len(p.features) == 0 {
		return nil, errors.New("no column can be a feature")
	}
	p.tell()
	text := p.write()
	out := &Proposal{Text: text, Score: p.score, Notes: p.notes, Warnings: p.warnings}
	if out.Task, err = task.Parse("the inferred task file", text); err != nil {
		return nil, fmt.Errorf("the draft is not a task file that can be read, which is a mistake of this program: %w", err)
	}
	return out, nil
}

// order applies Options.Features.
func (p *plan) order() error {
	seen := map[string]bool{}
	p.all = slices.DeleteFunc(p.all, func(s *source) bool { // a data file's reader takes the first of columns with the same name
		twin := seen[s.name]
		if twin {
			p.twins = append(p.twins, s.name)
		}
		seen[s.name] = true
		return twin
	})
	if p.o.Features == nil {
		return nil
	}
	var ordered []*source
	var errs []error
	unknown := false
	for _, name := range p.o.Features {
		i := slices.IndexFunc(p.all, func(s *source) bool { return s.name == name })
		switch {
		case p.target != nil && name == p.target.column:
			errs = append(errs, fmt.Errorf("column %s is the outcome and cannot be a feature", message.Quote(name)))
		case i < 0:
			errs = append(errs, fmt.Errorf("there is no column %s", message.Quote(name)))
			unknown = true
		case slices.Contains(ordered, p.all[i]):
			errs = append(errs, fmt.Errorf("column %s is named twice", message.Quote(name)))
		default:
			ordered = append(ordered, p.all[i])
		}
	}
	if unknown {
		errs = append(errs, fmt.Errorf("the file's columns are %s", list(p.table.Names, 60)))
	}
	for _, s := range p.all {
		if !slices.Contains(ordered, s) {
			s.leave = "it is not among the features that were named"
		}
	}
	for _, s := range ordered {
		if s.class == nothing && !s.numeric {
			errs = append(errs, fmt.Errorf("column %s cannot be a feature: %s", message.Quote(s.name), s.leave))
		}
		s.leave = ""
	}
	p.all = slices.Concat(ordered, slices.DeleteFunc(p.all, func(s *source) bool { return slices.Contains(ordered, s) }))
	return errors.Join(errs...)
}

// layout chooses how columns become inputs.
func (p *plan) layout(ctx context.Context) error {
	var used []*source
	for _, s := range p.all {
		if s.leave == "" {
			used = append(used, s)
		}
	}
	p.chosen.columns = used
	if p.o.Model != nil {
		if err := p.match(ctx, used); err != nil {
			return err
		}
	}
	p.features = p.chosen.features()
	p.group()
	return nil
}

// match looks for the layout that the model was made for.
func (p *plan) match(ctx context.Context, used []*source) error {
	dim, fixed := p.o.Model.Dim(), p.o.Features != nil
	from := p.all
	if fixed {
		from = used
	}
	all := candidates(from, dim, fixed)
	if len(all) == 0 {
		p.unmatched(used, dim)
		return nil
	}
	p.chosen = all[0]
	scalings := []scaling{standard, raw, span}
	if p.o.Scaled {
		scalings = []scaling{raw, standard, span}
		p.chosen.scaling = raw
	}
	if p.target == nil {
		p.warn("no outcomes are known, so nothing tells whether order, scale and class index of the model's %d inputs are right; --label names their column", dim)
		return nil
	}
	s := &search{ctx: ctx, model: p.o.Model, labels: p.target.labels(p.table.column(p.target.column), p.table.Data.Missing)}
	if err := s.run(all, fixed, scalings); err != nil {
		return err
	}
	score, err := s.judge(&s.top.layout, sample(s.labels, finalRows))
	if err != nil {
		return err
	}
	if !score.Fits() {
		p.warn("no encoding that was tried suits the model (%s): is the order of its inputs that of the columns, and is this the data that it was made for? --features names the columns in the model's order", score.describe())
		p.score = &score
		return nil
	}
	p.chosen, p.score = s.top, &score
	return nil
}

// unmatched says how far the columns are from what the model takes.
func (p *plan) unmatched(used []*source, dim int) {
	var plain layout
	total := 0
	for _, s := range used {
		total += plain.width(s)
	}
	p.warn("the model has %d inputs, and the %s that could be features make %d; neither other encodings of categories and missing values nor up to three columns more or less make %d. --features names the model's columns in their order",
		dim, plural(len(used), "column"), total, dim)
}
