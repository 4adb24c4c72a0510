package draft

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/gonum/stat"

	"cfq/internal/message"
	"cfq/task"
)

// Table counts the distinct fields of each column of a data file.
type Table struct {
	Data   task.Data // how the file is read; Columns only for a text without header
	Names  []string
	Rows   int // rows that were taken
	Broken int // rows that are not well-formed, or have another number of fields than there are columns
	cols   []column
}

// column counts the distinct fields of a column.
type column struct {
	name   string
	values []string // in order of appearance
	counts []int    // rows per value
	index  map[string]int
	rows   int
}

func newColumn(name string) column { return column{name: name, index: map[string]int{}} }

func (c *column) add(field string) {
	i, ok := c.index[field]
	if !ok {
		field = strings.Clone(field) // it shares memory with its whole record
		i = len(c.values)
		c.index[field] = i
		c.values, c.counts = append(c.values, field), append(c.counts, 0)
	}
	c.counts[i]++
	c.rows++
}

// Open reads the data file at path and finds out how it is to be read: delimiter, comment lines, lines before the
// header, blanks around fields. names are the columns of a text without header; nil takes them from its first row when
// that looks like a header, and numbers the columns otherwise. o selects rows.
func Open(ctx context.Context, path string, names []string, o task.ReadOptions) (*Table, error) {
	return task.FromFile(path, func(r io.Reader) (*Table, error) { return readFrom(ctx, r, names, o) })
}

func readFrom(ctx context.Context, r io.Reader, names []string, o task.ReadOptions) (*Table, error) {
	t := &Table{}
	rows, err := task.NewRows(r, func(head []byte) (*task.Data, error) {
		d, err := sniff(head, names)
		t.Data = d
		return &t.Data, err
	})
	if err != nil {
		return nil, err
	}
	if t.Names = t.Data.Columns; t.Names == nil {
		t.Names = rows.Names()
	}
	pick := task.NewSelection(o)
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		rec, _, err := rows.Next()
		var bad *task.Problem
		switch {
		case errors.Is(err, io.EOF):
			if err := pick.End(); err != nil {
				return nil, err
			}
			return t, t.finish()
		case err != nil && (t.Names == nil || !errors.As(err, &bad)):
			return nil, err
		case t.Names == nil:
			for _, name := range rec {
				t.Names = append(t.Names, strings.TrimSpace(name))
			}
		case pick.Next():
			t.add(rec, err == nil)
		}
	}
}

func (t *Table) add(rec []string, whole bool) {
	if !whole || len(rec) != len(t.Names) {
		t.Broken++
		return
	}
	if t.cols == nil {
		for _, name := range t.Names {
			t.cols = append(t.cols, newColumn(name))
		}
	}
	for i, field := range rec {
		t.cols[i].add(field)
	}
	t.Rows++
}

// finish checks what was read.
func (t *Table) finish() error {
	if t.Rows == 0 {
		return errors.New("the file has no data rows that can be read")
	}
	for i := range t.cols {
		texts := append([]string{t.Names[i]}, t.cols[i].values...)
		if at := slices.IndexFunc(texts, func(s string) bool { return !utf8.ValidString(s) }); at >= 0 {
			return fmt.Errorf("column %q: %.40q is not UTF-8 text; save the file as UTF-8", t.Names[i], texts[at])
		}
	}
	return nil
}

// column returns the first column with the name, nil when there is none.
func (t *Table) column(name string) *column {
	for i := range t.cols {
		if t.cols[i].name == name {
			return &t.cols[i]
		}
	}
	return nil
}

// sniffed is how many lines are looked at.
const sniffed = 200

// sniff finds out how a file that starts with head is read. names are its columns when it has no header.
func sniff(head []byte, names []string) (task.Data, error) {
	d := task.Data{Delimiter: ','}
	if head == nil { // Parquet
		if names != nil {
			return d, errors.New("a Parquet file names its columns itself: remove --columns")
		}
		return task.Data{}, nil
	}
	text := string(head)
	if end := strings.LastIndexByte(text, '\n'); end >= 0 { // the last line may be cut
		text = text[:end+1]
	}
	var lines []string
	for line := range strings.Lines(text) {
		if lines = append(lines, strings.TrimRight(line, "\r\n")); len(lines) == sniffed {
			break
		}
	}
	if len(lines) == 0 {
		return d, errors.New("the file is empty")
	}
	d.Delimiter = delimiter(lines)
	d.Comment, d.Skip = preface(lines, d.Delimiter)
	sample := records(lines[d.Skip:], &d)
	d.Trim = padded(sample)
	if d.Trim {
		sample = records(lines[d.Skip:], &d)
	}
	if len(sample) == 0 {
		return d, errors.New("no row of the file can be read")
	}
	for i, n := range names {
		if strings.TrimSpace(n) == "" || slices.Contains(names[:i], n) {
			return d, fmt.Errorf("the columns' names must differ and not be empty; %s is not right", message.Quote(n))
		}
	}
	switch named := hasHeader(sample); {
	case names != nil && len(names) != len(sample[0]):
		return d, fmt.Errorf("%d columns are named, but the first row has %d fields", len(names), len(sample[0]))
	case names != nil:
		d.Columns = names
	case !named:
		for i := range sample[0] {
			d.Columns = append(d.Columns, fmt.Sprintf("column%d", i+1))
		}
	}
	return d, nil
}

// delimiter returns the character that splits most lines into the same number of fields, the largest such number; a
// blank only when nothing else does.
func delimiter(lines []string) rune {
	best, most := ',', 0
	for _, c := range ",;\t| " {
		n, share := modal(lines, c)
		if n > most && share >= 0.8 && (c != ' ' || most == 0) {
			best, most = c, n
		}
	}
	return best
}

// modal returns the most frequent number of delimiters in a line, and the share of lines that have it.
func modal(lines []string, c rune) (n int, share float64) {
	counts := map[int]int{}
	all := 0
	for _, line := range lines {
		if strings.TrimSpace(line) != "" {
			counts[task.Delimiters(line, c)]++
			all++
		}
	}
	for k, have := range counts {
		if have > counts[n] || (have == counts[n] && k > n) {
			n = k
		}
	}
	return n, float64(counts[n]) / float64(max(all, 1))
}

// preface finds the lines in front of the table: comments, or a few lines with another number of fields.
func preface(lines []string, delimiter rune) (comment rune, skip int) {
	want, _ := modal(lines, delimiter)
	for _, line := range lines[:min(len(lines), 10)] {
		first := rune(0)
		for _, r := range line {
			first = r
			break
		}
		switch {
		case strings.TrimSpace(line) == "":
			if skip > 0 {
				skip++
			}
		case strings.ContainsRune("#|%", first) && first != delimiter && (comment == 0 || comment == first) && skip == 0:
			comment = first
		case task.Delimiters(line, delimiter) != want && comment == 0:
			skip++
		default:
			return comment, skip
		}
	}
	return comment, 0 // no table in sight
}

// records parses lines and keeps those with as many fields as the first.
func records(lines []string, d *task.Data) [][]string {
	r := csv.NewReader(strings.NewReader(strings.Join(lines, "\n")))
	r.Comma, r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord = d.Delimiter, d.Comment, d.Trim, -1
	var out [][]string
	for {
		rec, err := r.Read()
		var bad *csv.ParseError
		if err != nil && !errors.As(err, &bad) { // the end
			return out
		}
		if err == nil && (len(out) == 0 || len(rec) == len(out[0])) {
			if d.Trim {
				for i := range rec {
					rec[i] = strings.TrimRight(rec[i], " \t")
				}
			}
			out = append(out, rec)
		}
	}
}

// padded says whether fields below the first row stand between blanks.
func padded(sample [][]string) bool {
	for _, rec := range sample[min(1, len(sample)):] {
		for _, s := range rec {
			if strings.Trim(s, " \t") != s {
				return true
			}
		}
	}
	return false
}

// hasHeader says whether the first record names the columns: it has no numbers and hardly a name twice, and what is
// below is numbers, or texts that differ from it.
func hasHeader(sample [][]string) bool {
	first := sample[0]
	seen := map[string]bool{}
	for _, s := range first {
		if _, ok := task.Number(s); ok {
			return false
		}
		seen[s] = true
	}
	if 4*len(seen) < 3*len(first) {
		return false
	}
	for i := range first {
		again := slices.ContainsFunc(sample[1:], func(rec []string) bool { return rec[i] == first[i] })
		if again && first[i] != "" {
			return false
		}
	}
	return true
}

// profile is what the fields of a column say.
type profile struct {
	name    string
	col     *column
	markers []string // fields that mean "not known", without the empty one
	missing int      // rows whose field is missing
	texts   []string // distinct fields that are not missing, in order of appearance
	counts  []int    // rows per text
	numeric bool
	strange []string  // fields of a numeric column that are no numbers
	whole   bool      // all numbers are whole
	points  []float64 // distinct numbers, ascending
	weights []float64 // rows per number
	rows    float64   // rows with a number
}

// anywhere are fields that mean "not known" in any column, inNumbers those that do so among numbers only.
func anywhere() []string {
	return []string{"", "?", "NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NaN", "nan", "NAN", "NULL", "null", "Null"}
}

func inNumbers() []string {
	return []string{
		"-", "--", ".", "none", "None", "NONE", "unknown", "Unknown", "UNKNOWN", "missing", "Missing", "n.a.",
		"not available", "inf", "-inf",
	}
}

// look profiles a column. A column is numeric when all its fields but missing ones and few others are numbers.
func look(c *column) *profile {
	p := &profile{name: c.name, col: c, whole: true}
	numbers, others := 0, 0
	for i, s := range c.values {
		if _, ok := task.Number(s); ok {
			numbers += c.counts[i]
		} else if !slices.Contains(anywhere(), s) && !slices.Contains(inNumbers(), s) {
			others += c.counts[i]
		}
	}
	p.numeric = numbers > 0 && others*20 <= numbers
	byValue, first := map[float64]float64{}, map[float64]int{}
	for i, s := range c.values {
		v, ok := task.Number(s)
		switch {
		case p.numeric && ok:
			byValue[v] += float64(c.counts[i])
			p.whole = p.whole && v == math.Trunc(v)
		case slices.Contains(anywhere(), s) || (p.numeric && slices.Contains(inNumbers(), s)):
			p.missing += c.counts[i]
			if s != "" {
				p.markers = append(p.markers, s)
			}
			continue
		case p.numeric:
			p.strange = append(p.strange, s)
			continue
		}
		if j, again := first[v]; ok && again { // 1 and 1.0 are the same value
			p.counts[j] += c.counts[i]
			continue
		}
		if ok {
			first[v] = len(p.texts)
		}
		p.texts, p.counts = append(p.texts, s), append(p.counts, c.counts[i])
	}
	p.tally(byValue)
	return p
}

// tally takes the rows of each number.
func (p *profile) tally(byValue map[float64]float64) {
	p.points = slices.Sorted(maps.Keys(byValue))
	for _, v := range p.points {
		p.weights = append(p.weights, byValue[v])
		p.rows += byValue[v]
	}
}

// moments returns the mean and the standard deviation of the population, as scikit-learn's StandardScaler has them.
func (p *profile) moments() (mean, std float64) {
	mean, variance := stat.PopMeanVariance(p.points, p.weights)
	return mean, math.Sqrt(variance)
}

// quantile returns the value at rank ceil(q n) of the sorted values; the least one for q = 0.
func (p *profile) quantile(q float64) float64 {
	return stat.Quantile(q, stat.Empirical, p.points, p.weights)
}

// ranks is the number of quantiles that are written.
const ranks = 21

// quantiles returns the values at equally spaced ranks from the least to the greatest.
func (p *profile) quantiles() []float64 {
	out := make([]float64, ranks)
	for i := range out {
		out[i] = p.quantile(float64(i) / (ranks - 1))
	}
	return out
}

// mad returns the median of the absolute deviations from the median.
func (p *profile) mad() float64 {
	middle := p.quantile(0.5)
	type deviation struct{ size, weight float64 }
	all := make([]deviation, len(p.points))
	for i, v := range p.points {
		all[i] = deviation{math.Abs(v - middle), p.weights[i]}
	}
	slices.SortFunc(all, func(a, b deviation) int { return cmp.Compare(a.size, b.size) })
	at := 0.0
	for _, d := range all {
		if at += d.weight; 2*at >= p.rows {
			return d.size
		}
	}
	return 0
}

// step returns the largest step whose whole multiples are all differences between values: 1 or more for whole numbers,
// a decimal such as 0.5 or 0.01 otherwise, 0 when the values have more places than people would give.
func (p *profile) step() float64 {
	const places = 3
	for k := range places + 1 {
		scale := math.Pow(10, float64(k))
		var common int64
		if fits := p.lattice(scale, &common); fits {
			if common == 0 || len(p.points) < 5 { // few values say little about the steps between them
				common = 1
			}
			return short(float64(common) / scale)
		}
	}
	return 0
}

// lattice says whether all values times scale are whole, and finds the greatest common divisor of their differences.
func (p *profile) lattice(scale float64, common *int64) bool {
	first := int64(math.Round(p.points[0] * scale))
	for _, v := range p.points {
		w := math.Round(v * scale)
		if math.Abs(w) > 1<<52 || math.Abs(v*scale-w) > 1e-6 {
			return false
		}
		a, b := *common, int64(w)-first
		for b != 0 {
			a, b = b, a%b
		}
		*common = max(a, -a)
	}
	return true
}

// bounds returns the 1st and 99th percentile, or the whole range when these are the same.
func (p *profile) bounds() (lo, hi float64, whole bool) {
	lo, hi = p.quantile(0.01), p.quantile(0.99)
	if lo == hi {
		return p.points[0], p.points[len(p.points)-1], true
	}
	return lo, hi, false
}

// sorted returns the texts in alphabetical order, or the distinct numbers.
func (p *profile) sorted() []string {
	if p.numeric {
		return decimals(p.points)
	}
	out := slices.Clone(p.texts)
	slices.SortFunc(out, func(a, b string) int {
		x, okX := task.Number(a)
		y, okY := task.Number(b)
		if okX && okY && x != y {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(a, b)
	})
	return out
}

// share returns the share of a field among all rows.
func (p *profile) share(v string) float64 {
	n := 0
	for i, s := range p.col.values {
		if s == v || sameNumber(s, v) {
			n += p.col.counts[i]
		}
	}
	return task.Rounded(float64(n)/float64(max(p.col.rows, 1)), 6)
}

// shares returns the share of each of some fields.
func (p *profile) shares(values []string) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = p.share(v)
	}
	return out
}

func sameNumber(a, b string) bool {
	x, okX := task.Number(a)
	y, okY := task.Number(b)
	return okX && okY && x == y
}

// digits of numbers that are written: more than a model input has.
const digits = 8

// short rounds v to the digits that are written.
func short(v float64) float64 { return task.Rounded(v, digits) }
