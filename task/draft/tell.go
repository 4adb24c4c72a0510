package draft

import (
	"fmt"
	"slices"
	"strings"

	"cfq/internal/message"
	"cfq/task"
)

// tell says what was found and guessed.
func (p *plan) tell() {
	p.tellFile()
	p.tellTarget()
	p.tellColumns()
	p.tellModel()
}

func (p *plan) tellFile() {
	d := &p.table.Data
	how := fmt.Sprintf("fields separated by %q", string(d.Delimiter))
	if d.Trim {
		how += ", blanks around them removed"
	}
	if d.Skip > 0 {
		how += fmt.Sprintf(", %s skipped", plural(d.Skip, "line"))
	}
	if d.Comment != 0 {
		how += fmt.Sprintf(", lines that start with %q left out", string(d.Comment))
	}
	p.note("%s of %s, %s", plural(p.table.Rows, "row"), plural(len(p.table.Names), "column"), how)
	if len(d.Columns) > 0 && d.Columns[0] == "column1" {
		p.warn("the first row does not look like a header, so the columns are numbered; --columns names them")
	}
	if p.table.Broken > 0 {
		p.warn("%s with a wrong number of fields or a stray quote", plural(p.table.Broken, "row"))
	}
	if missing := p.chosen.missing(); len(missing) > 0 {
		p.note("taken as \"not known\": %s", list(missing, 10))
	}
}

func (p *plan) tellTarget() {
	t := p.target
	switch {
	case t == nil:
		p.warn("no column looks like the outcome; --label names it and --favourable the value that people want")
		return
	case t.guessed:
		p.warn("a guess: column %s is the outcome, with the values %s (--label says otherwise)", message.Quote(t.column), list(t.values, 6))
	}
	switch {
	case t.favourable == "":
		p.warn("which value of %s is the favourable one is not obvious: --favourable takes one of %s. Until then the file has no outcome", message.Quote(t.column), list(t.values, 6))
	case t.obvious:
		p.warn("a guess: %s is the favourable value of %s (--favourable says otherwise)", message.Quote(t.favourable), message.Quote(t.column))
	}
}

func (p *plan) tellColumns() {
	var left, guessed []string
	for _, s := range p.dropped() {
		left = append(left, fmt.Sprintf("%s (%s)", legible(s.name), s.reason()))
	}
	switch {
	case p.o.Features != nil:
		p.note("%s are no features: they were not named", plural(len(left), "column"))
	case len(left) > 0:
		p.note("no features: %s", strings.Join(left, ", "))
	}
	actionable := 0
	for _, s := range p.chosen.columns {
		if s.protect != "" {
			guessed = append(guessed, fmt.Sprintf("%s (%s)", legible(s.name), s.protect))
		}
	}
	for i := range p.features {
		if p.features[i].Actionable {
			actionable++
		}
	}
	if len(guessed) > 0 {
		p.warn("a guess: nobody can be asked to change %s; the file says actionable: false", strings.Join(guessed, ", "))
	}
	if actionable == 0 {
		p.warn("no feature is left that people can change")
	}
	for _, s := range p.chosen.columns {
		if slices.Contains(p.twins, s.name) {
			p.warn("the file has two columns %s; the first counts, and rows in which they differ cannot be read", message.Quote(s.name))
		}
		if s.numeric && s.missing > 0 {
			p.warn("column %s: %s of the rows have no number, and cannot be read; fill the gaps in, or leave the column out with --features",
				message.Quote(s.name), percent(float64(s.missing)/float64(p.table.Rows)))
		}
		if len(s.strange) > 0 {
			p.warn("column %s: these are no numbers, and rows with them cannot be read: %s", message.Quote(s.name), list(s.strange, 5))
		}
	}
	for _, g := range p.binaries() {
		p.warn("the columns %s are the values of one category: an action must set one and clear another. The file keeps them as they are and does not let actions change them", g)
	}
}

func (p *plan) tellModel() {
	if p.o.Model == nil {
		p.warn("mean and std are those of this file and must be those that the model was trained with; give the model too, and they are checked")
		return
	}
	p.note("%s", p.inputs())
	if len(p.chosen.steps) > 0 {
		p.note("to make %d inputs: %s", p.o.Model.Dim(), strings.Join(p.chosen.steps, "; "))
	}
	switch p.chosen.scaling {
	case raw:
		p.note("the model takes numbers as they are: no mean and std")
	case span:
		p.note("the model takes numbers scaled from 0 for the least to 1 for the greatest: mean is the least value and std the range")
	case standard:
		if p.o.Scaled {
			p.warn("the model begins with a scaling of its own, but decides better when its inputs are standardised before it")
		}
	}
	if n := len(p.chosen.orders) + len(p.chosen.flipped); n > 0 {
		p.note("for %s the model decides better by another order of values than the alphabet's; the file says where", plural(n, "feature"))
	}
	if p.score != nil {
		p.note("%s", p.score.describe())
	}
	if p.score != nil && p.score.Fits() && p.target.favourable != "" {
		p.note("class index of the favourable outcome: %d, by the rows' outcomes", p.index())
	}
}

// inputs says what the model's inputs are made of.
func (p *plan) inputs() string {
	numbers, singles, groups, width := 0, 0, 0, 0
	for i := range p.features {
		f := &p.features[i]
		switch f.Kind {
		case task.OneHot:
			groups++
			width += f.Width
		case task.Binary:
			singles++
		default:
			numbers++
		}
	}
	order := "in the order of the columns"
	if p.chosen.numbersFirst {
		order = "numbers first, then 0/1 inputs, then groups"
	}
	var parts []string
	if numbers > 0 {
		parts = append(parts, plural(numbers, "number"))
	}
	if singles > 0 {
		parts = append(parts, plural(singles, "0/1 input"))
	}
	if groups > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s", width, plural(groups, "group")))
	}
	return fmt.Sprintf("%s: %s; %s", plural(numbers+singles+width, "input"), strings.Join(parts, ", "), order)
}

// index is the class index of the favourable outcome.
func (p *plan) index() int {
	if p.score == nil || !p.score.Fits() || p.target.favourable == "" {
		return 1
	}
	return p.score.Index
}

// dropped returns the columns that are no features.
func (p *plan) dropped() []*source {
	var out []*source
	for _, s := range p.all {
		used := false
		for i := range p.features {
			used = used || p.features[i].from == s
		}
		for _, c := range p.chosen.columns {
			used = used || c == s
		}
		if !used {
			out = append(out, s)
		}
	}
	return out
}

// reason says why a column is no feature.
func (s *source) reason() string {
	if s.leave == "" {
		return "the model has no input for it"
	}
	return s.leave
}
