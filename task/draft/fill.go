package draft

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/internal/message"
	"cfq/task"
)

// Fill puts what the data say into the gaps of a task file: mean and std, bounds of numbers that can change, shares, mad and quantiles. All other
// bytes of text stay as they are, comments included. name is the task file's in messages, and path the data file, of which the rows of ro that can be read count.
// Of the options only Model and Scaled are used: a model whose inputs are raw numbers gets no mean and std.
func Fill(ctx context.Context, name string, text []byte, path string, ro task.ReadOptions, o Options) (*Proposal, error) {
	t, percentiles, err := parseGaps(name, text)
	if err != nil {
		return nil, err
	}
	if t.Encoded {
		return nil, fmt.Errorf("%s: the task says encoded: true, and model inputs tell nothing about raw units; there is nothing to fill in", name)
	}
	people, err := task.Read(ctx, path, t, ro)
	if err != nil {
		return nil, err
	}
	table, err := openAs(ctx, path, &t.Data, people.Lines)
	if err != nil {
		return nil, err
	}
	where, err := places(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f := &filler{t: t, percentiles: percentiles, text: text, name: name, table: table, where: where}
	scaled, err := f.scale(ctx, people, o)
	if err != nil {
		return nil, err
	}
	return f.fill(people, scaled)
}

// filler fills in a task file.
type filler struct {
	t           *task.Task
	percentiles []bool // per feature: its bounds are percentiles of quantiles that are still to come
	text        []byte
	name        string
	table       *Table
	where       []place
	warnings    []string
	score       *Score
}

// fill returns the file with all gaps filled; scaled says that mean and std are wanted.
func (f *filler) fill(people *task.People, scaled bool) (*Proposal, error) {
	quote := json.Valid(bytes.TrimPrefix(f.text, []byte("\xef\xbb\xbf")))
	newline := "\n"
	if bytes.Contains(f.text, []byte("\r\n")) {
		newline = "\r\n"
	}
	want := *f.t
	want.Features = slices.Clone(f.t.Features)
	var all []insertion
	var notes []string
	var errs []error
	for i := range want.Features {
		col := f.table.column(want.Features[i].Column)
		if col == nil {
			errs = append(errs, fmt.Errorf("the data file has no column %s, of raw values, for feature %s", message.Quote(want.Features[i].Column), message.Quote(want.Features[i].Name)))
			continue
		}
		entries := f.entries(&want.Features[i], f.where[i].keys, look(col), scaled)
		if len(entries) == 0 {
			continue
		}
		keys := make([]string, len(entries))
		for j, e := range entries {
			keys[j] = e.key
		}
		notes = append(notes, fmt.Sprintf("%s: %s filled in", legible(want.Features[i].Name), strings.Join(keys, ", ")))
		all = append(all, f.where[i].render(entries, newline, quote))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	out := &Proposal{Text: splice(f.text, all), inserted: all, Notes: notes, Warnings: f.warnings, Score: f.score}
	if f.score != nil {
		out.Notes = append(out.Notes, f.score.describe())
	}
	if len(all) == 0 {
		out.Notes = append(out.Notes, "nothing is missing")
	} else if scaled {
		out.Warnings = append(out.Warnings, fmt.Sprintf("what is filled in is that of the %s read; mean and std must be those that the model was trained with", plural(people.N, "row")))
	}
	var err error
	if out.Task, err = task.Parse(f.name, out.Text); err != nil {
		return nil, fmt.Errorf("filled in, the task file could not be read any more: %w", err)
	}
	for i, on := range f.percentiles {
		if on {
			want.Features[i].Bounds = out.Task.Features[i].Bounds
		}
	}
	if !bytes.Equal(out.Task.JSON(), want.JSON()) {
		return nil, fmt.Errorf("%s: filled in, the task file would not mean what it should; write its features with plain keys, one list entry each", f.name)
	}
	return out, nil
}

// entries returns what the feature lacks, and sets it.
func (f *filler) entries(ft *task.Feature, keys []string, p *profile, scaled bool) []entry {
	var out []entry
	lacks := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(keys, n) })
	}
	switch {
	case ft.Kind == task.OneHot && ft.Shares == nil && lacks("shares"):
		for _, v := range ft.Values {
			ft.Shares = append(ft.Shares, task.Rounded(p.shareAny(v), 6))
		}
		out = append(out, entry{"shares", "[" + strings.Join(decimals(ft.Shares), ", ") + "]"})
	case ft.Kind == task.Binary && ft.Shares == nil && lacks("shares"):
		ft.Shares = []float64{task.Rounded(p.shareAny(ft.One), 6)}
		out = append(out, entry{"shares", task.Decimal(ft.Shares[0])})
	case !ft.Kind.IsNumber() || !p.numeric:
		return nil
	default:
		return append(out, f.numbers(ft, lacks, p, scaled)...)
	}
	return out
}

// numbers returns what a feature on a scale lacks.
func (f *filler) numbers(ft *task.Feature, lacks func(...string) bool, p *profile, scaled bool) []entry {
	var out []entry
	mean, std := p.moments()
	switch {
	case !scaled || !lacks("mean", "std"):
	case std == 0:
		f.warnings = append(f.warnings, fmt.Sprintf("feature %s has one value in the data: no std is filled in", message.Quote(ft.Name)))
	default:
		ft.Mean, ft.Std = short(mean), short(std)
		out = append(out, entry{"mean", task.Decimal(ft.Mean)}, entry{"std", task.Decimal(ft.Std)})
	}
	open := math.IsInf(ft.Bounds[0], -1) && math.IsInf(ft.Bounds[1], 1)
	if ft.Kind == task.Numeric && open && (ft.Actionable || ft.Mutable) && lacks("bounds") {
		lo, hi, _ := p.bounds()
		ft.Bounds = [2]float64{lo, hi}
		out = append(out, entry{"bounds", "[" + task.Decimal(lo) + ", " + task.Decimal(hi) + "]"})
	}
	if lacks("mad") {
		ft.MAD = short(p.mad())
		out = append(out, entry{"mad", task.Decimal(ft.MAD)})
	}
	if ft.Quantiles == nil && lacks("quantiles") {
		ft.Quantiles = p.quantiles()
		out = append(out, entry{"quantiles", "[" + strings.Join(decimals(ft.Quantiles), ", ") + "]"})
	}
	return out
}

// shareAny is the share of a value, whatever the profile takes it for.
func (p *profile) shareAny(v string) float64 {
	n := 0
	for i, s := range p.col.values {
		if s == v || sameNumber(s, v) {
			n += p.col.counts[i]
		}
	}
	return float64(n) / float64(max(len(p.col.codes), 1))
}

// scale says whether mean and std are to be filled in where they are missing.
func (f *filler) scale(ctx context.Context, people *task.People, o Options) (bool, error) {
	lacking := 0
	for i := range f.t.Features {
		if f.t.Features[i].Kind.IsNumber() && !slices.Contains(f.where[i].keys, "mean") {
			lacking++
		}
	}
	if o.Model == nil || lacking == 0 {
		return true, nil
	}
	if o.Model.Dim() != f.t.Dim() {
		f.warnings = append(f.warnings, fmt.Sprintf("the model has %d inputs, but the task's features make %d", o.Model.Dim(), f.t.Dim()))
		return !o.Scaled, nil
	}
	asIs, err := judgePeople(ctx, o.Model, people.X, people)
	if err != nil {
		return false, err
	}
	x := slices.Clone(people.X)
	for i := range f.t.Features {
		if ft := &f.t.Features[i]; ft.Kind.IsNumber() && !slices.Contains(f.where[i].keys, "mean") {
			f.standardise(ft, x, people)
		}
	}
	filled, err := judgePeople(ctx, o.Model, x, people)
	if err != nil {
		return false, err
	}
	if asIs.Rows == 0 {
		return !o.Scaled, nil
	}
	if asIs.Loss < filled.Loss {
		f.score = &asIs
		f.warnings = append(f.warnings, "the model decides better without mean and std than with them, so none are filled in: its inputs are raw numbers")
		return false, nil
	}
	f.score = &filled
	return true, nil
}

// standardise replaces the raw numbers of a feature among the people's inputs.
func (f *filler) standardise(ft *task.Feature, x []float32, people *task.People) {
	col := f.table.column(ft.Column)
	if col == nil {
		return
	}
	mean, std := look(col).moments()
	if std == 0 {
		return
	}
	for i := range people.N {
		at := i*people.Dim + ft.Offset
		x[at] = float32((float64(x[at]) - mean) / std)
	}
}

// judgePeople scores the model on inputs x of people.
func judgePeople(ctx context.Context, m Model, x []float32, people *task.People) (Score, error) {
	logits, classes, err := m.Logits(ctx, x)
	if err != nil {
		return Score{}, fmt.Errorf("running the model: %w", err)
	}
	return best(logits, classes, people.Labels), nil
}
