package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/internal/ordered"
)

const maxProblems = 1000

const maxGroups = 1000

// Read reads the people of a data file: delimited text of raw columns or of model inputs (a header that names the
// model's inputs, or Task.Encoded). It may be compressed with gzip, which is recognised by content.
//
// A row that cannot be used is a Problem, not an error: a wrong number of fields, a number that is none, a missing
// number or binary value without Feature.Impute, an unknown category. A missing category is no problem but an all-zero
// one-hot group. It is an error when no row at all can be used.
func Read(ctx context.Context, path string, t *Task, o ReadOptions) (*People, error) {
	return FromFile(path, func(r io.Reader) (*People, error) { return ReadFrom(ctx, r, t, o) })
}

// ReadFrom is Read for a stream.
func ReadFrom(ctx context.Context, r io.Reader, t *Task, o ReadOptions) (*People, error) {
	var p *People
	rd := newReader(ctx, t, o)
	draw := &rd.draw
	draw.most = o.Most
	read, err := rd.read(r, math.MaxInt, func(all *People) error { p = all; return nil })
	if err != nil {
		return nil, err
	}
	if len(draw.drawn) < draw.seen {
		slices.SortFunc(draw.drawn, func(a, b int) int { return cmp.Compare(p.Rows[a], p.Rows[b]) })
		draw.keep(p) // in the order of the file
	}
	p.Reading = read.Reading
	p.Undrawn = draw.seen - len(draw.drawn)
	if err := rd.codes(p); err != nil {
		return nil, err
	}
	if o.Hash {
		p.compare()
	}
	return p, nil
}

func newReader(ctx context.Context, t *Task, o ReadOptions) *peopleReader {
	return &peopleReader{
		ctx: ctx, task: t, o: o, people: &People{Dim: t.Dim()}, pick: o.Selection(),
		source: &Rows{}, outcomes: labelTally{others: map[string]int{}},
		draw: sampleDraw{rng: rand.New(rand.NewPCG(o.Seed, 0x5a3b))},
	}
}

type peopleReader struct {
	ctx      context.Context //nolint:containedctx // lives as long as one call of Read
	task     *Task
	o        ReadOptions
	people   *People // of this batch
	n        int     // people of all batches
	pick     *Selection
	cols     *columns
	outcomes labelTally
	source   *Rows      // that is read; folder "" of a stream
	hashes   *rowHashes // nil without ReadOptions.Hash
	rounded  []string   // features of which a number lost digits
	draw     sampleDraw // from people
	Reading             // of all rows
}

type labelTally struct {
	favour int            // people with the favourable label
	known  int            // people with a label
	others map[string]int // how often other labels occur
}

// read gives each the people in batches of size.
func (rd *peopleReader) read(r io.Reader, size int, each func(*People) error) (*People, error) {
	rows, err := rd.rows(r)
	if err != nil {
		return nil, err
	}
	if file, ok := r.(*os.File); ok {
		rows.folder = cmp.Or(rows.folder, filepath.Dir(file.Name()))
	}
	rd.source = rows
	first, line, err := rd.open(rows)
	if err != nil {
		return nil, err
	}
	record := func(fields []string, line int, bad *Problem) error {
		if bad == nil {
			if person, _ := rd.row(fields, line); person {
				rd.draw.from(rd.people)
			}
		} else if rd.take() {
			rd.problem(bad)
		}
		if rd.people.N < size {
			return nil
		}
		return each(rd.batch())
	}
	if first != nil {
		err = record(first, line, nil)
	}
	if err == nil {
		err = rows.Each(rd.ctx, record)
	}
	if err == nil {
		err = rd.pick.End()
	}
	if err == nil && rd.people.N > 0 {
		err = each(rd.batch())
	}
	if err != nil {
		return nil, err
	}
	return rd.finish()
}

func (rd *peopleReader) open(rows *Rows) (first []string, line int, err error) {
	t, names, header := rd.task, rows.Names, true
	if names == nil {
		switch first, line, err = rows.Next(); {
		case errors.Is(err, io.EOF):
			return nil, 0, errors.New("the file is empty")
		case err != nil:
			return nil, 0, fmt.Errorf("the first row: %w; is data.delimiter %q right?", err, t.Data.Delimiter)
		}
		names, header = t.header(first)
	}
	rd.NoLines = rows.Names != nil
	if err := rd.columns(names, header, rows.unreadable); err != nil {
		return nil, 0, err
	}
	if header {
		first = nil
	}
	return first, line, nil
}

func (rd *peopleReader) columns(names []string, header bool, unreadable map[string]string) error {
	t := rd.task
	cols, err := t.resolve(names, rd.o.Codes, unreadable)
	if err != nil {
		return err
	}
	rd.cols = cols
	cols.imputes = !cols.encoded && slices.ContainsFunc(t.Features, func(f Feature) bool { return f.Impute != "" })
	if rd.o.Hash {
		rd.hashes = newRowHashes(cols)
		rd.people.OtherColumns = rd.hashes.names
	}
	for _, name := range rd.o.Keep {
		cols.keep = append(cols.keep, slices.Index(names, name))
	}
	for _, name := range t.Data.Subgroups {
		if !cols.encoded {
			rd.people.Subgroups = append(rd.people.Subgroups, Subgroup{Feature: name, Open: true})
		}
	}
	if cols.encoded && !t.Encoded {
		rd.note("the header names the model's inputs: the rows are taken as encoded already")
	}
	if cols.encoded && len(t.Data.Subgroups) > 0 {
		rd.note("encoded data has no results by " + strings.Join(t.Data.Subgroups, ", "))
	}
	switch {
	case cols.label >= 0:
	case t.Data.Label == "":
		rd.note("the task names no label column: outcomes are not known")
	case header:
		rd.warn(fmt.Sprintf("the file has no column %q, which data.label names: outcomes are not known%s", t.Data.Label,
			message.Likely(t.Data.Label, names)))
	default:
		rd.note(fmt.Sprintf("the file has no column %q: outcomes are not known", t.Data.Label))
	}
	return nil
}

func (rd *peopleReader) note(s string) { rd.Notes = append(rd.Notes, s) }

func (rd *peopleReader) warn(s string) { rd.Warnings = append(rd.Warnings, s) }

func (rd *peopleReader) take() bool {
	rd.Total++
	if !rd.pick.Next() {
		rd.Excluded++
		return false
	}
	return true
}

func (rd *peopleReader) problem(p *Problem) {
	if rd.NoLines {
		p.Row, p.Line = true, rd.pick.row
	}
	rd.Failed++
	if len(rd.Problems) < maxProblems {
		rd.Problems = append(rd.Problems, *p)
	}
}

type columns struct {
	names    []string
	images   []imageColumn
	encoded  bool
	imputes  bool  // some feature has Impute, and rows are raw
	uncoded  bool  // codes of Task.Latent are not read from the file
	features []int // per feature, or per model input when encoded; -1 of the pixels of images
	label    int   // -1: the file has none
	filter   []int
	groups   []int    // per Data.Subgroups
	id       []int    // of Data.ID
	keep     []int    // of ReadOptions.Keep, -1 when the file has none
	twins    [][2]int // fields of columns with the same name, of which the first is used
}

// resolve finds the task's columns among names; unreadable says why one that is not among them cannot be read.
func (t *Task) resolve(names []string, codes bool, unreadable map[string]string) (*columns, error) {
	names = t.pixelColumns(names)
	c := &columns{names: names, label: -1}
	at := make(map[string]int, len(names))
	for i, n := range names {
		if first, twice := at[n]; twice {
			c.twins = append(c.twins, [2]int{first, i})
		} else {
			at[n] = i
		}
	}
	lacks := func(column string) bool {
		_, has := at[column]
		return !has
	}
	inputs, raw := t.InputNames(), lists.Map(t.Features, func(f Feature) string {
		if im := t.imageOf(&f); im != nil && lacks(im.image().pixelName(im.Column, 0)) {
			return im.Column // which has all pixels
		}
		return f.Column
	})
	c.encoded = t.Encoded || !t.Made() && slices.ContainsFunc(raw, lacks) && !slices.ContainsFunc(inputs, lacks)
	c.uncoded = t.Latent != nil &&
		(!codes || slices.ContainsFunc(t.Latent.Codes, func(f Feature) bool { return lacks(f.Column) }))
	var errs []error
	var missing []string
	need := func(column, by string) int {
		i, ok := at[column]
		by = message.Quote(column) + " (" + message.Clip(by) + ")"
		if why := unreadable[column]; why != "" && !ok {
			errs = append(errs, fmt.Errorf("column %s cannot be read: %s", by, why))
		} else if !ok {
			missing = append(missing, by+message.Likely(column, names))
		}
		return i
	}
	if c.encoded {
		c.features = lists.Map(inputs, func(in string) int { return need(in, "model input") })
	} else {
		for i := range t.Features {
			f := &t.Features[i]
			im := t.imageOf(f)
			switch {
			case f.isCode() && c.uncoded:
			case im == nil || raw[i] != im.Column:
				c.features = append(c.features, need(f.Column, "feature "+f.Name))
			case f.Offset == im.Offset:
				c.images = append(c.images, imageColumn{im, i, need(im.Column, "image "+im.Name)})
				fallthrough
			default:
				c.features = append(c.features, -1)
			}
		}
		c.filter = lists.Map(t.Data.Filter, func(f Condition) int { return need(f.Column, "data.filter") })
		c.groups = lists.Map(t.Data.Subgroups, func(g string) int { return need(g, "data.subgroups") })
	}
	if t.Data.ID != "" {
		c.id = append(c.id, need(t.Data.ID, "data.id"))
	}
	if t.Data.Label != "" {
		c.label = slices.Index(names, t.Data.Label)
	}
	if len(missing) > 2 { // one cause, not as many slips of the pen
		missing = []string{fmt.Sprintf("%s and %d more", missing[0], len(missing)-1)}
	}
	for _, m := range missing {
		errs = append(errs, fmt.Errorf("there is no column %s", m))
	}
	if errs != nil {
		errs = append(errs, fmt.Errorf("the file's columns are: %s", message.List(names, 100)))
		if len(names) == 1 {
			errs = append(errs, fmt.Errorf("the first line is one field; is data.delimiter %q right?", t.Data.Delimiter))
		}
		return nil, errors.Join(errs...)
	}
	used := slices.Concat(c.features, c.filter, c.groups, c.id, []int{c.label})
	c.twins = slices.DeleteFunc(c.twins, func(tw [2]int) bool { return !slices.Contains(used, tw[0]) })
	return c, nil
}

func (t *Task) header(first []string) (names []string, header bool) {
	given := t.Data.Columns
	isText := func(field string) bool {
		_, number := Number(field)
		return !number
	}
	switch names = lists.Map(first, strings.TrimSpace); {
	case slices.Equal(names, given): // a header that the task did not expect
	case len(given) > 1 && len(first) == len(given)-1 && given[len(given)-1] == t.Data.Label:
		return given[:len(given)-1], false // people without outcome
	case len(given) > 0:
		return given, false
	case t.Encoded && len(first) == t.Dim() && !slices.ContainsFunc(names, isText):
		return t.InputNames(), false
	}
	return names, true
}

// row reads a record, and says whether it is a person or why it cannot be read; neither of one that is left out.
func (rd *peopleReader) row(rec []string, line int) (person bool, bad *Problem) {
	if len(rec) == len(rd.cols.names) && !rd.passes(rec) {
		rd.Total++
		rd.Filtered++
		return false, nil
	}
	if !rd.take() {
		return false, nil
	}
	p := rd.people
	start := len(p.X)
	p.X = append(p.X, make([]float32, p.Dim)...)
	if bad = rd.unusable(rec); bad == nil {
		bad = rd.encode(rec, p.X[start:])
	}
	if bad != nil {
		p.X, bad.Line = p.X[:start], line
		rd.problem(bad)
		return false, bad
	}
	p.N++
	rd.n++
	p.Lines, p.Rows, p.Labels = append(p.Lines, line), append(p.Rows, rd.pick.row), append(p.Labels, rd.label(rec))
	if rd.cols.imputes {
		var list []int
		for i := range rd.task.Features {
			if f := &rd.task.Features[i]; f.Impute != "" && rd.lacks(f, rec[rd.cols.features[i]]) {
				list = append(list, i)
			}
		}
		p.Imputed = append(p.Imputed, list)
	}
	for i, at := range rd.cols.groups {
		rd.group(&p.Subgroups[i], rec[at])
	}
	for _, at := range rd.cols.id {
		p.IDs = append(p.IDs, strings.Clone(plainID(rec[at])))
	}
	if rd.hashes != nil {
		p.Content = append(p.Content, rd.hashes.content(p.X[start:], p.Labels[len(p.Labels)-1]))
		p.Others = append(p.Others, rd.hashes.others(rec, rd.missing))
	}
	if rd.cols.keep != nil {
		kept := make([]string, len(rd.cols.keep))
		for i, at := range rd.cols.keep {
			if at >= 0 {
				kept[i] = strings.Clone(rec[at]) // it shares memory with its whole record
			}
		}
		p.Kept = append(p.Kept, kept)
	}
	return true, nil
}

// unusable says why a record is none whatever its values mean to the model; nil where it is one.
func (rd *peopleReader) unusable(rec []string) *Problem {
	names := rd.cols.names
	if len(rec) != len(names) {
		return &Problem{Reason: fmt.Sprintf("%d fields where %d are expected", len(rec), len(names))}
	}
	for _, tw := range rd.cols.twins {
		if a, b := rec[tw[0]], rec[tw[1]]; !sameValue(a, b) {
			return &Problem{Column: names[tw[0]], Reason: fmt.Sprintf("the column occurs twice with different values, %s and %s",
				message.Quote(a), message.Quote(b))}
		}
	}
	for _, at := range rd.cols.id {
		if rd.missing(rec[at]) {
			return &Problem{Column: names[at], Reason: "the field is empty: who is this row about?"}
		}
	}
	return nil
}

// plainID is an ID without blanks around it and, of a whole number, without the decimals that a tool adds to a column
// of numbers some of which are missing: 7.0 is 7. Zeros in front may tell IDs apart and stay.
func plainID(field string) string {
	id := strings.TrimSpace(field)
	whole, zeros, ok := strings.Cut(id, ".")
	if ok && whole != "" && zeros != "" && strings.Trim(zeros, "0") == "" && strings.Trim(whole, "0123456789") == "" {
		return whole
	}
	return id
}

func (rd *peopleReader) passes(rec []string) bool {
	for i, at := range rd.cols.filter {
		c, field := &rd.task.Data.Filter[i], rec[at]
		v, number := Number(field)
		limited := !math.IsInf(c.Min, 0) || !math.IsInf(c.Max, 0)
		if limited && (!number || v < c.Min || v > c.Max) || Find(c.Not, field) >= 0 {
			return false
		}
	}
	return true
}

func (rd *peopleReader) encode(rec []string, dst []float32) *Problem {
	if rd.cols.encoded {
		return rd.copyInputs(rec, dst)
	}
	for i := range rd.task.Features {
		f := &rd.task.Features[i]
		if f.isCode() && rd.cols.uncoded {
			dst[f.Offset] = 0
			continue
		}
		at := rd.cols.features[i]
		if at < 0 {
			continue
		}
		field := rec[at]
		if rd.lacks(f, field) {
			field = ""
		}
		if err := f.Encode(field, dst[f.Offset:f.Offset+f.Width]); err != nil {
			reason := err.Error()
			if strings.TrimSpace(field) != field {
				reason += "; data.trim: true removes blanks around fields"
			}
			return &Problem{Column: f.Column, Reason: reason}
		}
		if n := f.Number(); n != nil && n.Spread != 0 {
			rd.round(f, field, dst[f.Offset])
		}
	}
	for i := range rd.cols.images {
		im := &rd.cols.images[i]
		if prob := rd.encodeImage(im, rec[im.at], dst); prob != nil {
			return prob
		}
	}
	return nil
}

// round warns of a whole number that the model is to get as it is, and a 32-bit float has not.
func (rd *peopleReader) round(f *Feature, field string, x float32) {
	have := f.FromInput(x)
	if math.Abs(have) < 1<<24 || slices.Contains(rd.rounded, f.Name) {
		return
	}
	if v, _ := Number(cmp.Or(field, f.Impute)); v != have && v == math.Trunc(v) {
		rd.rounded = append(rd.rounded, f.Name)
		rd.warn(fmt.Sprintf("column %s: an input of the model (a 32-bit float) has not every whole number as large as %s, "+
			"which is taken for %s; if the digits matter, count in thousands, or subtract a constant before training",
			message.Quote(f.Column), Decimal(v), Decimal(have)))
	}
}

func (rd *peopleReader) copyInputs(rec []string, dst []float32) *Problem {
	for i := range dst {
		at := rd.cols.features[i]
		field := rec[at]
		v, ok := Number(field)
		if !ok {
			return &Problem{Column: rd.cols.names[at], Reason: message.Quote(field) + " is not a number"}
		}
		dst[i] = float32(v)
	}
	return rd.task.checkInputs(dst)
}

func (t *Task) checkInputs(x []float32) *Problem {
	for i := range t.Features {
		f := &t.Features[i]
		if err := f.check(x[f.Offset : f.Offset+f.Width]); err != nil {
			return &Problem{Column: f.Name, Reason: err.Error()}
		}
	}
	return nil
}

func (rd *peopleReader) missing(field string) bool {
	return field == "" || slices.Contains(rd.task.Data.Missing, field)
}

// lacks says whether a field is a missing value of f: what data.missing lists is none where it is among f's values.
func (rd *peopleReader) lacks(f *Feature, field string) bool {
	c := f.Category()
	return rd.missing(field) && (field == "" || c == nil || Find(c.Names(), field) < 0)
}

func (rd *peopleReader) label(rec []string) int8 {
	if rd.cols.label < 0 {
		return -1
	}
	field, d := rec[rd.cols.label], &rd.task.Data
	if rd.missing(field) {
		return -1
	}
	if d.LabelSuffix != "" {
		field = strings.TrimSuffix(field, d.LabelSuffix)
	}
	rd.outcomes.known++
	if sameValue(field, d.Favourable) {
		rd.outcomes.favour++
		return 1
	}
	rd.count(field)
	return 0
}

func (rd *peopleReader) group(g *Subgroup, field string) {
	i := slices.Index(g.Values, field)
	switch {
	case rd.missing(field) || i < 0 && len(g.Values) == maxGroups:
		i = -1
	case i < 0:
		i = len(g.Values)
		g.Values = append(g.Values, strings.Clone(field))
	}
	g.Codes = append(g.Codes, int32(i))
}

type sampleDraw struct {
	most  int
	rng   *rand.Rand
	seen  int   // people that the sample was drawn from
	drawn []int // positions in people
}

// from keeps a uniform sample of a stream of people (algorithm R), of whom the last is new: the first fill it, and the
// n-th of all takes a random one's place with probability most/n. Those who are not drawn are removed when they are as
// many as the sample, so memory does not grow with the stream.
func (s *sampleDraw) from(p *People) {
	if s.most <= 0 {
		return
	}
	if s.seen++; s.seen <= s.most {
		s.drawn = append(s.drawn, p.N-1)
	} else if i := s.rng.IntN(s.seen); i < s.most {
		s.drawn[i] = p.N - 1
	}
	if p.N >= 2*s.most {
		s.keep(p)
		s.drawn = AllRows(s.most)
	}
}

func (s *sampleDraw) keep(p *People) { *p = *p.Subset(s.drawn) }

// Stream is Read for files of any length: each is given the people in batches of size (the last may be smaller), in the
// order of the file, and keeps the batch it is given. Memory is bounded by the batch and the next two, which another
// goroutine reads meanwhile.
//
// Row numbers, filters, problems, notes and warnings are those of Read. Codes of Data.Subgroups columns mean the same
// in all batches. The returned People have the counts, problems, notes and warnings of the whole file, and no people: X
// and all that is listed per person is nil. An error of each ends the reading and is returned as it is.
// ReadOptions.Most is not looked at, and there are no Hashes: Equality makes them.
func Stream(ctx context.Context, path string, t *Task, o ReadOptions, size int, each func(*People) error) (*People,
	error,
) {
	var all *People
	var err error
	batches := func(yield func(*People, error) bool) {
		rd := newReader(ctx, t, o)
		each := func(p *People) error {
			if err := rd.codes(p); err != nil {
				return err
			}
			if !yield(p, nil) {
				return io.EOF // which nobody sees
			}
			return nil
		}
		all, err = FromFile(path, func(r io.Reader) (*People, error) { return rd.read(r, max(size, 1), each) })
	}
	for p, err := range ordered.Ahead(batches) {
		if err == nil {
			err = each(p)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, err
}

// batch returns the people of the batch, and begins another one.
func (rd *peopleReader) batch() *People {
	p := rd.people
	rd.people = rd.like()
	p.Reading = Reading{Total: p.N, NoLines: rd.NoLines}
	p.Subgroups = append(rd.task.subgroups(p), p.Subgroups...)
	return p
}

// like returns nobody, with the columns that the people of the batch have.
func (rd *peopleReader) like() *People {
	p := &People{Dim: rd.people.Dim, RowHashes: RowHashes{OtherColumns: rd.people.OtherColumns}}
	for _, s := range rd.people.Subgroups {
		s.Values, s.Codes = slices.Clip(s.Values), nil
		p.Subgroups = append(p.Subgroups, s)
	}
	return p
}

// Header returns the names of the columns of a data file, of text its first row; Data.Columns is not looked at.
func (d *Data) Header(path string) ([]string, error) {
	return FromFile(path, func(r io.Reader) ([]string, error) {
		rows, err := d.rows(r)
		if err != nil {
			return nil, err
		}
		return header(rows)
	})
}

func header(rows *Rows) ([]string, error) {
	names := rows.Names
	if names == nil {
		first, _, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty")
		}
		if err != nil {
			return nil, fmt.Errorf("the header: %w", err)
		}
		names = lists.Map(first, strings.TrimSpace)
	}
	return names, nil
}

func (rd *peopleReader) finish() (*People, error) {
	if rd.n == 0 {
		return nil, rd.noneRead()
	}
	rd.checkLabels()
	all := rd.like()
	for _, s := range all.Subgroups {
		if len(s.Values) == maxGroups {
			rd.note(fmt.Sprintf("column %q has %d values or more; the further ones are taken as missing", s.Feature, maxGroups))
		}
	}
	all.N, all.Subgroups, all.Reading = rd.n, nil, rd.Reading
	return all, nil
}

func (p *People) compare() {
	e := NewEquality(p.OtherColumns)
	for i, content := range p.Content {
		e.Add(content, p.Others[i])
	}
	p.Hashes = make([]uint64, len(p.Content))
	for i, content := range p.Content {
		p.Hashes[i] = e.Hash(content, p.Others[i])
	}
	if note := e.Note(); note != "" && p.IDs == nil {
		p.Notes = append(p.Notes, note)
	}
}

func (t *Task) subgroups(p *People) []Subgroup {
	var groups []Subgroup
	for i := range t.Features {
		if f := &t.Features[i]; f.Subgroup {
			groups = append(groups, f.Groups(p))
		}
	}
	return groups
}

func (r *Reading) noneRead() error {
	switch {
	case r.Total == 0:
		return errors.New("the file has no data rows")
	case r.Failed == 0:
		return fmt.Errorf("no row is left: of %d rows, data.filter leaves out %d and the row selection %d", r.Total,
			r.Filtered, r.Excluded)
	}
	lines := []string{fmt.Sprintf("none of %d rows can be read:", r.Failed)}
	for i := range r.Problems[:min(3, len(r.Problems))] {
		lines = append(lines, r.Problems[i].Error())
	}
	if r.Failed > 3 {
		lines = append(lines, fmt.Sprintf("and %d more", r.Failed-3))
	}
	return errors.New(strings.Join(lines, "\n  "))
}

// Bounds on what is kept of, and said about, the labels other than the favourable one.
const (
	maxLabels   = 1000
	shownLabels = 6
	fewLabels   = 20 // that many people may all have the unfavourable outcome without anything being wrong
)

func (rd *peopleReader) count(label string) {
	if v, ok := Number(label); ok {
		label = Decimal(v)
	}
	if _, ok := rd.outcomes.others[label]; ok {
		rd.outcomes.others[label]++
	} else if len(rd.outcomes.others) < maxLabels {
		rd.outcomes.others[strings.Clone(label)] = 1 // it shares memory with its whole record
	}
}

func (rd *peopleReader) checkLabels() {
	n := rd.outcomes.others
	all := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) })
	if len(all) == 0 {
		return
	}
	parts := lists.Map(all[:min(shownLabels, len(all))], func(l string) string {
		return fmt.Sprintf("%s (%d)", message.Quote(l), n[l])
	})
	list := strings.Join(parts, ", ")
	if len(all) > shownLabels {
		list += " and others"
	}
	favourable, column := message.Quote(rd.task.Data.Favourable), message.Quote(rd.task.Data.Label)
	switch {
	case rd.outcomes.favour == 0 && len(all) == 1 && rd.outcomes.known < fewLabels:
		rd.note(fmt.Sprintf("no row has the favourable label %s in column %s: the label is %s", favourable, column, list))
	case rd.outcomes.favour == 0:
		rd.warn(fmt.Sprintf("no row has the favourable label %s in column %s, so all count as unfavourable; the labels "+
			"are %s", favourable, column, list))
	case len(all) > 1 && len(rd.task.Images) == 0: // images have ten labels as often as two
		rd.warn(fmt.Sprintf("column %s: every label but %s counts as unfavourable: %s", column, favourable, list))
	}
}
