package task

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"

	"cfq/internal/message"
)

// maxProblems is how many problems are kept in detail; the others are counted.
const maxProblems = 1000

// maxGroups bounds the values of a Data.Subgroups column: more of them are no groups.
const maxGroups = 1000

// Read reads the people of a data file: delimited text of raw columns or of model inputs (a header that names the
// model's inputs, or Task.Encoded). It may be compressed with gzip, which is recognised by content.
//
// A row that cannot be used is a Problem, not an error: a wrong number of fields, a number that is none, a missing
// number or binary value, an unknown category. A missing category is no problem but an all-zero one-hot group. It is an
// error when no row at all can be used.
func Read(ctx context.Context, path string, t *Task, o ReadOptions) (*People, error) {
	return FromFile(path, func(r io.Reader) (*People, error) { return ReadFrom(ctx, r, t, o) })
}

// ReadFrom is Read for a stream.
func ReadFrom(ctx context.Context, r io.Reader, t *Task, o ReadOptions) (*People, error) {
	return newReader(ctx, t, o).read(r)
}

func newReader(ctx context.Context, t *Task, o ReadOptions) *reader {
	return &reader{
		ctx: ctx, task: t, o: o, people: &People{Dim: t.Dim()}, pick: NewSelection(o),
		rng: rand.New(rand.NewPCG(o.Seed, 0x5a3b)),
	}
}

// read reads all of r.
func (rd *reader) read(r io.Reader) (*People, error) {
	rows, err := rd.task.Data.rows(r)
	if err != nil {
		return nil, err
	}
	if err = rd.table(rows); err == nil {
		err = rd.flush(true)
	}
	if err != nil {
		return nil, err
	}
	return rd.finish()
}

// reader turns records into people.
type reader struct {
	ctx      context.Context //nolint:containedctx // lives as long as one call of Read
	task     *Task
	o        ReadOptions
	people   *People
	pick     *Selection
	rng      *rand.Rand // for the sample of ReadOptions.Most
	seen     int        // people that the sample was drawn from
	cols     *columns
	lookup   []map[string]int // per feature: value -> input, for OneHot
	favour   int              // people with the favourable label
	others   others           // what the other people's labels are
	rowsOnly bool             // the file has rows and no lines
	hint     string           // the likely delimiter when it is not the task's, for errors
	known    int              // people with a label
	kept     []int            // where the columns to be kept as text are, -1 when the file has none
	order    []int            // of the fields in the hash of a record
	text     []byte           // scratch of the hash
	batch    *batch           // nil when all people are wanted at once
}

// table reads delimited text.
func (rd *reader) table(rows *Rows) error {
	var bad *Problem
	first, line, data, err := rd.open(rows)
	if err != nil {
		if rd.hint != "" {
			err = fmt.Errorf("%s\n%w", rd.hint, err)
		}
		return err
	}
	for n := 0; ; n++ {
		if !data {
			if n%1024 == 0 && rd.ctx.Err() != nil {
				return context.Cause(rd.ctx)
			}
			first, line, err = rows.Next()
		}
		data = false
		switch {
		case errors.Is(err, io.EOF):
			return rd.pick.End()
		case errors.As(err, &bad):
			if rd.take() {
				rd.problem(bad)
			}
		case err != nil:
			return err
		default:
			rd.row(first, line)
			if err := rd.flush(false); err != nil {
				return err
			}
		}
		if rd.pick.full() {
			return nil
		}
	}
}

// open finds the columns of the file. The first record is returned when it is data.
func (rd *reader) open(rows *Rows) (first []string, line int, data bool, err error) {
	var cols *columns
	if p := rows.parquet; p != nil {
		rd.rowsOnly = true
		if cols, err = rd.task.resolve(p.names, p.unreadable); err != nil {
			return nil, 0, false, err
		}
	} else {
		rd.hint = otherDelimiter(rows.text.head, rd.task.Data.Delimiter)
		var bad *Problem
		switch first, line, err = rows.Next(); {
		case errors.Is(err, io.EOF):
			return nil, 0, false, errors.New("the file is empty")
		case errors.As(err, &bad):
			return nil, 0, false, fmt.Errorf("the first row: %w", err)
		case err != nil:
			return nil, 0, false, err
		}
		if cols, data, err = rd.task.header(first); err != nil {
			return nil, 0, false, err
		}
	}
	cols.header = !data
	rd.setColumns(cols)
	return first, line, data, nil
}

// setColumns prepares the encoding of records.
func (rd *reader) setColumns(cols *columns) {
	t := rd.task
	rd.cols = cols
	rd.hashBy(cols.names)
	for _, name := range rd.o.Keep {
		rd.kept = append(rd.kept, slices.Index(cols.names, name))
	}
	for i := range t.Features {
		m := map[string]int{}
		for j, v := range t.Features[i].Values {
			m[v] = j
		}
		rd.lookup = append(rd.lookup, m)
	}
	for _, name := range t.Data.Subgroups {
		if !cols.encoded {
			rd.people.Subgroups = append(rd.people.Subgroups, Subgroup{Feature: name})
		}
	}
	if cols.encoded && !t.Encoded {
		rd.note("the header names the model's inputs: the rows are taken as encoded already")
	}
	if cols.encoded && len(t.Data.Subgroups) > 0 {
		rd.note("encoded data has no results by " + strings.Join(t.Data.Subgroups, ", "))
	}
	switch {
	case cols.label < 0 && t.Data.Label != "" && cols.header:
		rd.warn(fmt.Sprintf("the file has no column %q, which data.label names: outcomes are not known%s", t.Data.Label,
			suggest(t.Data.Label, cols.unused())))
	case cols.label < 0 && t.Data.Label != "":
		rd.note(fmt.Sprintf("the file has no column %q: outcomes are not known", t.Data.Label))
	case cols.label < 0:
		rd.note("the task names no label column: outcomes are not known")
	}
}

func (rd *reader) note(s string) { rd.people.Notes = append(rd.people.Notes, s) }

func (rd *reader) warn(s string) { rd.people.Warnings = append(rd.people.Warnings, s) }

// take counts a row that the filter kept and says whether it was selected.
func (rd *reader) take() bool {
	rd.people.Total++
	if !rd.pick.Next() {
		rd.people.Excluded++
		return false
	}
	return true
}

func (rd *reader) problem(p *Problem) {
	p.Row = rd.rowsOnly
	rd.people.Failed++
	if len(rd.people.Problems) < maxProblems {
		rd.people.Problems = append(rd.people.Problems, *p)
	}
}

// columns says where in a record everything is.
type columns struct {
	names    []string
	encoded  bool
	header   bool  // the file names its columns
	width    int   // fields that a record must have
	features []int // per feature, or per model input when encoded
	label    int   // -1: the file has none
	filter   []int
	groups   []int    // per Data.Subgroups
	twins    [][2]int // fields of columns with the same name, of which the first is used
}

// resolve finds the task's columns among names; unreadable says why a column that is not among them cannot be read.
func (t *Task) resolve(names []string, unreadable func(column string) string) (*columns, error) {
	c := &columns{names: names, width: len(names), label: -1}
	at := make(map[string]int, len(names))
	for i, n := range names {
		if _, ok := at[n]; !ok {
			at[n] = i
		}
	}
	inputs := t.InputNames()
	raw := make([]string, len(t.Features))
	for i := range t.Features {
		raw[i] = t.Features[i].Column
	}
	c.encoded = t.Encoded || (!contains(at, raw) && contains(at, inputs))
	var errs []error
	need := func(column, by string) int {
		i, ok := at[column]
		switch why := unreadable(column); {
		case !ok && why != "":
			errs = append(errs, fmt.Errorf("column %s (%s) cannot be read: %s", message.Quote(column), message.Clip(by), why))
			return -1
		case !ok:
			errs = append(errs, fmt.Errorf("there is no column %s (%s)%s", message.Quote(column), message.Clip(by),
				suggest(column, names)))
			return -1
		}
		return i
	}
	if c.encoded {
		for _, in := range inputs {
			c.features = append(c.features, need(in, "model input"))
		}
	} else {
		for i := range t.Features {
			c.features = append(c.features, need(t.Features[i].Column, "feature "+t.Features[i].Name))
		}
		for _, f := range t.Data.Filter {
			c.filter = append(c.filter, need(f.Column, "data.filter"))
		}
		for _, g := range t.Data.Subgroups {
			c.groups = append(c.groups, need(g, "data.subgroups"))
		}
	}
	if i, ok := at[t.Data.Label]; ok && t.Data.Label != "" {
		c.label = i
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("the file's columns are: %s", message.List(names, 100)))
		return nil, errors.Join(errs...)
	}
	c.findTwins(at)
	return c, nil
}

// unused returns the columns that are neither features nor filters nor subgroups.
func (c *columns) unused() []string {
	used := append(append(slices.Clone(c.features), c.filter...), c.groups...)
	var names []string
	for i, n := range c.names {
		if !slices.Contains(used, i) {
			names = append(names, n)
		}
	}
	return names
}

// findTwins notes the repeated columns among those that are used.
func (c *columns) findTwins(at map[string]int) {
	used := append(append(append(slices.Clone(c.features), c.filter...), c.groups...), c.label)
	for i, n := range c.names {
		if first := at[n]; first != i && slices.Contains(used, first) {
			c.twins = append(c.twins, [2]int{first, i})
		}
	}
}

func contains(at map[string]int, names []string) bool {
	for _, n := range names {
		if _, ok := at[n]; !ok {
			return false
		}
	}
	return true
}

// suggest names the column that was probably meant; the list of all follows elsewhere.
func suggest(column string, names []string) string {
	if n := message.Nearest(column, names); n != "" {
		return fmt.Sprintf("; did you mean %s?", message.Quote(n))
	}
	return ""
}

// header returns the columns of the file: from the task for a headerless file, otherwise from the first record; data
// says that this record is data itself.
func (t *Task) header(first []string) (c *columns, data bool, err error) {
	names := trimmed(first)
	switch given := t.Data.Columns; {
	case slices.Equal(names, given): // a header that the task did not expect
	case len(given) > 1 && len(first) == len(given)-1 && given[len(given)-1] == t.Data.Label:
		names, data = given[:len(given)-1], true // people without outcome
	case len(given) > 0:
		names, data = given, true
	case t.Encoded && len(first) == t.Dim() && allNumbers(first):
		names, data = t.InputNames(), true
	}
	c, err = t.resolve(names, func(string) string { return "" })
	return c, data, err
}

func trimmed(rec []string) []string {
	out := make([]string, len(rec))
	for i, s := range rec {
		out[i] = strings.TrimSpace(s)
	}
	return out
}

func allNumbers(rec []string) bool {
	for _, s := range rec {
		if _, ok := Number(strings.TrimSpace(s)); !ok {
			return false
		}
	}
	return true
}

// row filters, selects and encodes one record.
func (rd *reader) row(rec []string, line int) {
	p, c := rd.people, rd.cols
	if len(rec) == c.width && !rd.keep(rec) {
		p.Total++
		p.Filtered++
		return
	}
	if !rd.take() {
		return
	}
	if len(rec) != c.width {
		rd.problem(&Problem{Line: line, Reason: fmt.Sprintf("%d fields where %d are expected", len(rec), c.width)})
		return
	}
	for _, tw := range c.twins {
		if a, b := rec[tw[0]], rec[tw[1]]; !same(a, b) {
			rd.problem(&Problem{
				Line: line, Column: c.names[tw[0]],
				Reason: fmt.Sprintf("the column occurs twice with different values, %s and %s", message.Quote(a),
					message.Quote(b)),
			})
			return
		}
	}
	start := len(p.X)
	if cap(p.X)-start < p.Dim { // by as much as there is: of large files the numbers are most of the work of growing
		p.X = slices.Grow(p.X, max(p.Dim, start))
	}
	p.X = p.X[:start+p.Dim]
	if prob := rd.encode(rec, p.X[start:]); prob != nil {
		prob.Line = line
		rd.problem(prob)
		p.X = p.X[:start]
		return
	}
	p.N++
	p.Lines, p.Rows, p.Labels = append(p.Lines, line), append(p.Rows, rd.pick.row), append(p.Labels, rd.label(rec))
	for i, at := range c.groups {
		rd.group(&p.Subgroups[i], rec[at])
	}
	if rd.o.Hash {
		p.Hashes = append(p.Hashes, rd.hash(rec))
	}
	if rd.kept != nil {
		fields := make([]string, len(rd.kept))
		for i, j := range rd.kept {
			if j >= 0 {
				fields[i] = strings.Clone(rec[j]) // the field shares memory with its whole record
			}
		}
		p.Kept = append(p.Kept, fields)
	}
	rd.sample()
}

// keep says whether a record satisfies the filter.
func (rd *reader) keep(rec []string) bool {
	for i, at := range rd.cols.filter {
		if c := &rd.task.Data.Filter[i]; !c.keeps(rec[at]) {
			return false
		}
	}
	return true
}

func (c *Condition) keeps(field string) bool {
	if !math.IsInf(c.Min, 0) || !math.IsInf(c.Max, 0) {
		if v, ok := Number(field); !ok || v < c.Min || v > c.Max {
			return false
		}
	}
	return find(c.Not, field) < 0
}

// encode writes the model inputs of a record to dst, or returns the first problem.
func (rd *reader) encode(rec []string, dst []float32) *Problem {
	if rd.cols.encoded {
		return rd.copyInputs(rec, dst)
	}
	for i := range rd.task.Features {
		f := &rd.task.Features[i]
		field := rec[rd.cols.features[i]]
		if f.Kind == OneHot {
			if j, ok := rd.lookup[i][field]; ok {
				out := dst[f.Offset : f.Offset+f.Width]
				clear(out)
				out[j] = 1
				continue
			}
		}
		if rd.missing(field) {
			field = ""
		}
		if err := f.Encode(field, dst[f.Offset:f.Offset+f.Width]); err != nil {
			reason := err.Error()
			if strings.TrimSpace(field) != field {
				reason += "; data.trim: true removes blanks around fields"
			}
			return &Problem{Column: f.Column, Reason: reason}
		}
	}
	return nil
}

// copyInputs reads a record of model inputs.
func (rd *reader) copyInputs(rec []string, dst []float32) *Problem {
	for i := range dst {
		field := rec[rd.cols.features[i]]
		v, ok := Number(field)
		if !ok {
			return &Problem{Column: rd.task.InputName(i), Reason: message.Quote(field) + " is not a number"}
		}
		dst[i] = float32(v)
	}
	return rd.task.checkInputs(dst)
}

// checkInputs says why x cannot be the model inputs of a person.
func (t *Task) checkInputs(x []float32) *Problem {
	for i := range t.Features {
		f := &t.Features[i]
		if err := f.check(x[f.Offset : f.Offset+f.Width]); err != nil {
			return &Problem{Column: f.Name, Reason: err.Error()}
		}
	}
	return nil
}

func (rd *reader) missing(field string) bool {
	return field == "" || slices.Contains(rd.task.Data.Missing, field)
}

func (rd *reader) label(rec []string) int8 {
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
	rd.known++
	if same(field, d.Favourable) {
		rd.favour++
		return 1
	}
	rd.others.add(field)
	return 0
}

// group appends the code of a subgroup column's field.
func (rd *reader) group(g *Subgroup, field string) {
	if rd.missing(field) {
		g.Codes = append(g.Codes, -1)
		return
	}
	i := slices.Index(g.Values, field)
	if i < 0 {
		if len(g.Values) == maxGroups {
			g.Codes = append(g.Codes, -1)
			return
		}
		i = len(g.Values)
		g.Values = append(g.Values, strings.Clone(field))
	}
	g.Codes = append(g.Codes, int32(i))
}

// sample keeps a uniform sample of a stream of people (algorithm R): the first Most fill it, and the n-th of all takes
// a random one's place with probability Most/n. Memory does not grow with the stream.
func (rd *reader) sample() {
	p, most := rd.people, rd.o.Most
	if rd.seen++; most <= 0 || rd.seen <= most {
		return
	}
	last := p.N - 1
	if i := rd.rng.IntN(rd.seen); i < most {
		copy(p.X[i*p.Dim:(i+1)*p.Dim], p.X[last*p.Dim:])
		move(p.Lines, i)
		move(p.Rows, i)
		move(p.Labels, i)
		move(p.Kept, i)
		move(p.Hashes, i)
		for k := range p.Subgroups {
			move(p.Subgroups[k].Codes, i)
		}
	}
	p.N, p.Undrawn = last, p.Undrawn+1
	p.X = p.X[:last*p.Dim]
	p.Lines, p.Rows, p.Labels = p.Lines[:last], p.Rows[:last], p.Labels[:last]
	p.Kept, p.Hashes = p.Kept[:min(last, len(p.Kept))], p.Hashes[:min(last, len(p.Hashes))]
	for k := range p.Subgroups {
		p.Subgroups[k].Codes = p.Subgroups[k].Codes[:last]
	}
}

// move puts the last element at i.
func move[T any](s []T, i int) {
	if len(s) > 0 {
		s[i] = s[len(s)-1]
	}
}

// inOrder brings a sample, whose people stand where chance put them, into the order of the file.
func (p *People) inOrder() {
	if p.Undrawn == 0 {
		return
	}
	order := make([]int, p.N)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p.Rows[a], p.Rows[b]) })
	q := p.Subset(order)
	p.X, p.Lines, p.Rows, p.Labels = q.X, q.Lines, q.Rows, q.Labels
	p.Kept, p.Hashes, p.Subgroups = q.Kept, q.Hashes, q.Subgroups
}

// Stream is Read for files of any length: each is given the people in batches of size (the last may be smaller), in the
// order of the file, and keeps the batch it is given. Memory is bounded by the batch.
//
// Row numbers, filters, problems, notes and warnings are those of Read. Codes of Data.Subgroups columns mean the same
// in all batches, but their values stand in the order in which they first occur. The returned People have the counts,
// problems, notes and warnings of the whole file, and no people: X and all that is listed per person is nil. An error
// of each ends the reading and is returned as it is. With ReadOptions.Most the people drawn are handed on at the end of
// the file, and memory is bounded by their number.
func Stream(ctx context.Context, path string, t *Task, o ReadOptions, size int, each func(*People) error) (*People,
	error,
) {
	if o.Most > 0 {
		return drawn(ctx, path, t, o, max(size, 1), each)
	}
	rd := newReader(ctx, t, o)
	rd.batch = &batch{size: max(size, 1), each: each}
	p, err := FromFile(path, rd.read)
	if rd.batch.err != nil {
		return nil, rd.batch.err
	}
	return p, err
}

// drawn is Stream for a sample of the people.
func drawn(ctx context.Context, path string, t *Task, o ReadOptions, size int, each func(*People) error) (*People,
	error,
) {
	p, err := Read(ctx, path, t, o)
	if err != nil {
		return nil, err
	}
	for from := 0; from < p.N; from += size {
		var rows []int
		for i := from; i < min(from+size, p.N); i++ {
			rows = append(rows, i)
		}
		if err := each(p.Subset(rows)); err != nil {
			return nil, err
		}
	}
	p.X, p.Labels, p.Lines, p.Rows, p.Kept, p.Hashes, p.Subgroups = nil, nil, nil, nil, nil, nil, nil
	return p, nil
}

// batch is where people go while a file is being streamed.
type batch struct {
	size int
	each func(*People) error
	err  error // what each returned
}

// flush hands the people read so far on when they fill a batch, or when they are the last.
func (rd *reader) flush(last bool) error {
	b, p := rd.batch, rd.people
	if b == nil || len(p.Lines) == 0 || (!last && len(p.Lines) < b.size) {
		return nil
	}
	n := len(p.Lines)
	q := &People{
		X: p.X, Dim: p.Dim, N: n, Labels: p.Labels, Lines: p.Lines, Rows: p.Rows, Kept: p.Kept, Hashes: p.Hashes,
		Total: n,
	}
	q.Subgroups = rd.task.subgroups(q)
	p.X, p.Labels, p.Lines, p.Rows, p.Kept, p.Hashes = nil, nil, nil, nil, nil, nil
	for i := range p.Subgroups {
		s := &p.Subgroups[i]
		q.Subgroups = append(q.Subgroups, Subgroup{Feature: s.Feature, Values: slices.Clip(s.Values), Codes: s.Codes})
		s.Codes = nil
	}
	b.err = b.each(q)
	return b.err
}

// Header returns the names of the columns of a data file: of text its first row, without blanks around them.
// Data.Columns is not looked at.
func Header(path string, d *Data) ([]string, error) {
	return FromFile(path, func(r io.Reader) ([]string, error) {
		rows, err := d.rows(r)
		if err != nil {
			return nil, fmt.Errorf("the header: %w", err)
		}
		names := rows.Names()
		if names == nil {
			if names, _, err = rows.Next(); err != nil {
				return nil, fmt.Errorf("the header: %w", err)
			}
		}
		return trimmed(names), nil
	})
}

// finish adds what is known only at the end of the file.
func (rd *reader) finish() (*People, error) {
	p := rd.people
	if p.N == 0 {
		err := p.noneRead()
		if rd.hint != "" {
			err = fmt.Errorf("%s\n%w", rd.hint, err)
		}
		return nil, err
	}
	rd.checkLabels()
	p.inOrder()
	for i := range p.Subgroups {
		p.Subgroups[i].sort()
		if len(p.Subgroups[i].Values) == maxGroups {
			rd.note(fmt.Sprintf("column %q has %d values or more; the further ones are taken as missing", p.Subgroups[i].Feature,
				maxGroups))
		}
	}
	if rd.batch != nil {
		p.X, p.Subgroups = nil, nil
		return p, nil
	}
	p.Subgroups = append(rd.task.subgroups(p), p.Subgroups...)
	return p, nil
}

// subgroups reads the subgroups that are features back from the model inputs.
func (t *Task) subgroups(p *People) []Subgroup {
	var groups []Subgroup
	for i := range t.Features {
		if f := &t.Features[i]; f.Subgroup {
			groups = append(groups, f.subgroup(p))
		}
	}
	return groups
}

// noneRead explains why there is no person.
func (p *People) noneRead() error {
	switch {
	case p.Total == 0:
		return errors.New("the file has no data rows")
	case p.Failed == 0:
		return fmt.Errorf("no row is left: of %d rows, data.filter leaves out %d and the row selection %d", p.Total,
			p.Filtered, p.Excluded)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "none of %d rows can be read:", p.Failed)
	for i := range p.Problems[:min(3, len(p.Problems))] {
		fmt.Fprintf(&b, "\n  %s", p.Problems[i].Error())
	}
	if p.Failed > 3 {
		fmt.Fprintf(&b, "\n  and %d more", p.Failed-3)
	}
	return errors.New(b.String())
}

// sort puts the values in alphabetical order, so that it does not depend on the order of the rows.
func (s *Subgroup) sort() {
	sorted := slices.Sorted(slices.Values(s.Values))
	to := make([]int32, len(s.Values))
	for i, v := range s.Values {
		to[i] = int32(slices.Index(sorted, v))
	}
	for i, c := range s.Codes {
		if c >= 0 {
			s.Codes[i] = to[c]
		}
	}
	s.Values = sorted
}

// Bounds on what is kept of, and said about, the labels other than the favourable one.
const (
	maxLabels   = 1000
	shownLabels = 6
	fewLabels   = 20 // that many people may all have the unfavourable outcome without anything being wrong
)

// others counts the labels that are not the favourable one, as they are written.
type others struct {
	n    map[string]int
	more int // labels beyond the first maxLabels values
}

// label is a label value and how often it occurs.
type label struct {
	value string
	n     int
}

func (o *others) add(field string) {
	if _, ok := o.n[field]; ok {
		o.n[field]++
		return
	}
	if len(o.n) == maxLabels {
		o.more++
		return
	}
	if o.n == nil {
		o.n = map[string]int{}
	}
	o.n[strings.Clone(field)] = 1 // the field shares memory with its whole record
}

// sorted returns the values, the most frequent first; a number written in two ways is one value.
func (o *others) sorted() []label {
	numbers := map[float64]int{}
	var all []label
	for _, v := range slices.Sorted(maps.Keys(o.n)) {
		x, ok := Number(v)
		if i, seen := numbers[x]; ok && seen {
			all[i].n += o.n[v]
			continue
		}
		if ok {
			numbers[x] = len(all)
		}
		all = append(all, label{v, o.n[v]})
	}
	slices.SortStableFunc(all, func(a, b label) int { return cmp.Compare(b.n, a.n) })
	return all
}

// checkLabels warns of labels that count as unfavourable although they may not be meant so.
func (rd *reader) checkLabels() {
	all := rd.others.sorted()
	if len(all) == 0 {
		return
	}
	d := &rd.task.Data
	hint := slip(d.Favourable, all)
	list := listLabels(all, rd.others.more)
	switch {
	case rd.favour == 0 && len(all) == 1 && hint == "" && rd.known < fewLabels:
		rd.note(fmt.Sprintf("no row has the favourable label %s in column %s: the label is %s", message.Quote(d.Favourable),
			message.Quote(d.Label), list))
	case rd.favour == 0:
		rd.warn(
			fmt.Sprintf("no row has the favourable label %s in column %s, so all count as unfavourable; the labels are %s%s",
				message.Quote(d.Favourable), message.Quote(d.Label), list, hint),
		)
	case len(all) > 1 || hint != "":
		rd.warn(fmt.Sprintf("column %s: every label but %s counts as unfavourable: %s%s", message.Quote(d.Label),
			message.Quote(d.Favourable), list, hint))
	}
}

// listLabels lists the first values with their counts.
func listLabels(all []label, more int) string {
	var parts []string
	for _, l := range all[:min(shownLabels, len(all))] {
		parts = append(parts, fmt.Sprintf("%s (%d)", message.Quote(l.value), l.n))
	}
	s := strings.Join(parts, ", ")
	switch rest := len(all) - len(parts); {
	case more > 0:
		s += fmt.Sprintf(" and more than %d other values", rest)
	case rest > 0:
		s += fmt.Sprintf(" and %d other values", rest)
	}
	return s
}

// slip says which of the labels is the favourable one but for case, blanks or dashes, if any.
func slip(favourable string, all []label) (hint string) {
	for _, l := range all {
		if fold(l.value) == fold(favourable) {
			return fmt.Sprintf(
				"; %s differs from %s only in case or blanks: correct data.favourable or the file (data.trim removes blanks)",
				message.Quote(l.value),
				message.Quote(favourable),
			)
		}
	}
	return ""
}

// fold removes what people write differently without meaning anything by it.
func fold(s string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '_' || r == '-' {
			return -1
		}
		return r
	}, s), "."))
}

// hashBy orders the fields by the names of their columns for the hash of records; those of one name stay as they are.
func (rd *reader) hashBy(names []string) {
	for i := range names {
		rd.order = append(rd.order, i)
	}
	slices.SortStableFunc(rd.order, func(a, b int) int { return cmp.Compare(names[a], names[b]) })
}

// hash hashes the fields of a record, each behind its length.
func (rd *reader) hash(rec []string) uint64 {
	text := rd.text[:0]
	for _, i := range rd.order {
		field := strings.TrimSpace(rec[i])
		text = append(binary.AppendUvarint(text, uint64(len(field))), field...)
	}
	rd.text = text
	sum := sha256.Sum256(text)
	return binary.LittleEndian.Uint64(sum[:])
}
