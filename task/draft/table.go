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
	"strconv"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/task"
)

type table struct {
	Data   task.Data // how the file is read; Columns only for a text without header
	Names  []string
	Rows   int // rows that were taken
	Broken int // rows that are not well-formed, or have another number of fields than there are columns
	cols   []fieldCounts
}

type fieldCounts struct {
	name   string
	values []string // in order of appearance
	counts []int    // rows per value
	index  map[string]int
	rows   int
}

func newColumn(name string) fieldCounts { return fieldCounts{name: name, index: map[string]int{}} }

func (c *fieldCounts) add(field string) {
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

// readTable reads the data file and finds out how it is to be read: delimiter, comment lines, lines before the header,
// blanks around fields. Columns of a text without names are those of its first row when that looks like a header, and
// numbered otherwise. Blanks around fields belong to these where that makes some of them the model's values.
func readTable(ctx context.Context, from Source, values ...string) (*table, error) {
	return task.FromFile(from.Path, func(r io.Reader) (*table, error) { return readFrom(ctx, r, from, values) })
}

func readFrom(ctx context.Context, r io.Reader, from Source, values []string) (*table, error) {
	t := &table{}
	rows, err := task.NewRows(r, func(head []byte) (*task.Data, error) {
		d, err := sniff(head, from.Names, values)
		t.Data = d
		return &t.Data, err
	})
	if err != nil {
		return nil, err
	}
	if t.Names = t.Data.Columns; t.Names == nil {
		t.Names = rows.Names
	}
	pick := from.Rows.Selection()
	err = rows.Each(ctx, func(rec []string, _ int, bad *task.Problem) error {
		switch {
		case t.Names == nil && bad != nil:
			return bad
		case t.Names == nil:
			t.Names = lists.Map(rec, strings.TrimSpace)
		case pick.Next():
			t.add(rec, bad == nil)
		}
		return nil
	})
	if err == nil {
		err = pick.End()
	}
	if err == nil {
		err = t.finish()
	}
	return t, err
}

func (t *table) add(rec []string, whole bool) {
	if !whole || len(rec) != len(t.Names) {
		t.Broken++
		return
	}
	if t.cols == nil {
		t.cols = lists.Map(t.Names, newColumn)
	}
	for i, field := range rec {
		t.cols[i].add(field)
	}
	t.Rows++
}

func (t *table) finish() error {
	if t.Rows == 0 {
		return errors.New("the file has no data rows with as many fields as the first line")
	}
	for i := range t.cols {
		texts := append([]string{t.Names[i]}, t.cols[i].values...)
		if at := slices.IndexFunc(texts, func(s string) bool { return !utf8.ValidString(s) }); at >= 0 {
			return fmt.Errorf("column %q: %.40q is not UTF-8 text; save the file as UTF-8", t.Names[i], texts[at])
		}
	}
	return nil
}

func (t *table) lacks(name string) error {
	return fmt.Errorf("there is no column %s; the file's columns are %s", message.Quote(name), message.List(t.Names, 60))
}

func (t *table) column(name string) *fieldCounts {
	for i := range t.cols {
		if t.cols[i].name == name {
			return &t.cols[i]
		}
	}
	return nil
}

func sniff(head []byte, names, values []string) (task.Data, error) {
	if head == nil { // Parquet
		if names != nil {
			return task.Data{}, errors.New("a Parquet file names its columns itself: remove --columns")
		}
		return task.Data{}, nil
	}
	d := task.Data{Delimiter: ','}
	text := strings.TrimLeft(string(head), "\r\n")
	if text == "" {
		return d, errors.New("the file is empty")
	}
	if strings.ContainsRune("#|%", rune(text[0])) {
		d.Comment = rune(text[0])
	}
	for line := range strings.Lines(text) {
		if d.Comment == 0 || rune(line[0]) != d.Comment {
			d.Delimiter = cmp.Or(guessDelimiter(line), d.Delimiter)
			break
		}
	}
	sample := records(text, &d)
	if len(sample) == 0 {
		return d, errors.New("no row of the file can be read")
	}
	padded := slices.DeleteFunc(slices.Concat(sample[1:]...), func(s string) bool { return strings.Trim(s, " \t") == s })
	d.Trim = len(padded) > 0 && !slices.ContainsFunc(padded, func(s string) bool { return slices.Contains(values, s) })
	for i, n := range names {
		if strings.TrimSpace(n) == "" || slices.Contains(names[:i], n) {
			return d, fmt.Errorf("the columns' names must differ and not be empty; %s is not right", message.Quote(n))
		}
	}
	switch {
	case names != nil && len(names) != len(sample[0]):
		return d, fmt.Errorf("%d columns are named, but the first row has %d fields", len(names), len(sample[0]))
	case names != nil:
		d.Columns = names
	case !hasHeader(sample):
		for i := range sample[0] {
			d.Columns = append(d.Columns, fmt.Sprintf("column%d", i+1))
		}
	}
	return d, nil
}

func guessDelimiter(line string) (best rune) {
	most := 0
	for _, c := range ",;\t| " { // a blank is the last guess: it stands in names, too
		rec := records(strings.TrimSpace(line), &task.Data{Delimiter: c})
		if len(rec) > 0 && len(rec[0])-1 > most && (c != ' ' || best == 0) {
			best, most = c, len(rec[0])-1
		}
	}
	return best
}

func records(text string, d *task.Data) (out [][]string) {
	const enough = 200
	r := csv.NewReader(strings.NewReader(text))
	r.Comma, r.Comment, r.LazyQuotes, r.FieldsPerRecord = d.Delimiter, d.Comment, true, -1
	for len(out) < enough {
		rec, err := r.Read()
		var bad *csv.ParseError
		if err != nil && !errors.As(err, &bad) { // the end
			break
		}
		if err == nil && (len(out) == 0 || len(rec) == len(out[0])) {
			out = append(out, rec)
		}
	}
	return out
}

// hasHeader says whether the first record names the columns: it has no numbers, and what is below differs from it.
func hasHeader(sample [][]string) bool {
	for i, name := range sample[0] {
		name = strings.TrimSpace(name)
		_, number := task.Number(name)
		if number || name != "" && slices.ContainsFunc(sample[1:], func(rec []string) bool {
			return strings.TrimSpace(rec[i]) == name
		}) {
			return false
		}
	}
	return true
}

type profile struct {
	name    string
	col     *fieldCounts
	markers []string // fields that mean "not known", without the empty one
	missing int      // rows whose field is missing
	texts   []string // distinct fields that are not missing, in order of appearance
	numeric bool
	strange []string  // fields of a numeric column that are no numbers
	whole   bool      // all numbers are whole
	points  []float64 // distinct numbers, ascending
	weights []float64 // rows per number
}

func unknown(field string) bool {
	field = strings.ToLower(strings.TrimSpace(field))
	return slices.Contains([]string{"", "?", "na", "n/a", "#n/a", "<na>", "nan", "null"}, field)
}

// markers are the values of a category that mean "not known"; none when there is no other one.
func markers(values []string) (all []string) {
	for _, v := range values {
		if unknown(v) || slices.Contains([]string{"unknown", "not known", "missing"}, strings.ToLower(strings.TrimSpace(v))) {
			all = append(all, v)
		}
	}
	if len(all) == len(values) {
		return nil
	}
	return all
}

// look profiles a column. A column is numeric when four of five fields that are not missing are numbers.
func look(c *fieldCounts) *profile {
	p := &profile{name: c.name, col: c, whole: true}
	numbers, others := 0, 0
	for i, s := range c.values {
		if _, ok := task.Number(s); ok {
			numbers += c.counts[i]
		} else if !unknown(s) {
			others += c.counts[i]
		}
	}
	p.numeric = numbers > 0 && 4*others <= numbers
	rows := map[float64]float64{}
	for i, s := range c.values {
		v, number := task.Number(s)
		again := rows[v] > 0
		if number {
			rows[v] += float64(c.counts[i])
			p.whole = p.whole && v == math.Trunc(v)
		}
		switch {
		case number && again: // 1 and 1.0 are the same value
		case number || !p.numeric && !unknown(s):
			p.texts = append(p.texts, s)
		case !unknown(s):
			p.strange = append(p.strange, s)
		default:
			p.missing += c.counts[i]
			if s != "" {
				p.markers = append(p.markers, s)
			}
		}
	}
	p.points = slices.Sorted(maps.Keys(rows))
	p.weights = lists.Map(p.points, func(v float64) float64 { return rows[v] })
	return p
}

// claim makes fields that look like "not known" values of the column where they are among those of the model.
func (p *profile) claim(values []string) {
	p.markers = slices.DeleteFunc(slices.Clone(p.markers), func(m string) bool {
		is := slices.Contains(values, m)
		if is {
			p.texts = append(p.texts, m)
			p.missing -= p.col.counts[p.col.index[m]]
		}
		return is
	})
}

// moments returns the mean and the standard deviation of the population, as scikit-learn's StandardScaler has them.
func (p *profile) moments() (mean, std float64) {
	mean, variance := stat.PopMeanVariance(p.points, p.weights)
	return mean, math.Sqrt(variance)
}

func (p *profile) quantile(q float64) float64 {
	return stat.Quantile(q, stat.Empirical, p.points, p.weights)
}

const ranks = 21

func (p *profile) quantiles() []float64 {
	return lists.Make(ranks, func(i int) float64 { return p.quantile(float64(i) / (ranks - 1)) })
}

func (p *profile) mad() float64 {
	middle, weights := p.quantile(0.5), slices.Clone(p.weights)
	away := lists.Map(p.points, func(v float64) float64 { return math.Abs(v - middle) })
	stat.SortWeighted(away, weights)
	return stat.Quantile(0.5, stat.Empirical, away, weights)
}

// step returns the largest step whose whole multiples are all differences between values: 1 or more for whole numbers,
// a decimal such as 0.5 or 0.01 otherwise, 0 when the values have more places than people would give.
func (p *profile) step() float64 {
	for _, scale := range []float64{1, 10, 100, 1000} {
		if common := p.divisor(scale); common > 0 {
			return short(common / scale)
		}
	}
	return 0
}

func (p *profile) divisor(scale float64) float64 {
	common, first := 0.0, math.Round(p.points[0]*scale)
	for _, v := range p.points {
		whole := math.Round(v * scale)
		if math.Abs(whole) > 1<<52 || math.Abs(v*scale-whole) > 1e-6 {
			return 0
		}
		for rest := whole - first; rest != 0; {
			common, rest = rest, math.Mod(common, rest)
		}
	}
	if common == 0 || len(p.points) < 5 { // few values say little about the steps between them
		return 1
	}
	return math.Abs(common)
}

func (p *profile) bounds() (lo, hi float64) {
	if lo, hi = p.quantile(0.01), p.quantile(0.99); lo == hi {
		return p.points[0], p.points[len(p.points)-1]
	}
	return lo, hi
}

func (p *profile) share(v string) float64 {
	n := 0
	for i, s := range p.col.values {
		if task.Find([]string{s}, v) == 0 {
			n += p.col.counts[i]
		}
	}
	return task.Rounded(float64(n)/float64(max(p.col.rows, 1)), 6)
}

func (p *profile) shares(values []string) []float64 { return lists.Map(values, p.share) }

func (p *profile) reaching(thresholds []float64) []float64 {
	all := floats.Sum(p.weights)
	return lists.Map(thresholds, func(t float64) float64 {
		at, _ := slices.BinarySearch(p.points, t)
		return short(floats.Sum(p.weights[at:]) / all)
	})
}

const digits = 8

func short(v float64) float64 { return task.Rounded(v, digits) }

const mostCodes = 5

// codes returns the numbers of a column that look like codes for "not known" instead of values, ascending: numbers that
// people take for that, see isCode, which lie apart from all others at an end of the column.
func (p *profile) codes() []float64 {
	low := p.codesAt(true)
	high := p.without(low).codesAt(false)
	rest := p.without(high)
	if low = rest.codesAt(true); low == nil && high != nil { // where one number is a code, negative ones are, too
		k := max(0, slices.IndexFunc(rest.points, func(v float64) bool { return v >= 0 }))
		if low = rest.points[:k]; k > mostCodes || slices.ContainsFunc(low, func(v float64) bool { return !isCode(v) }) {
			low = nil
		}
	}
	return append(slices.Clone(low), high...)
}

// isCode says whether people take v for "not known": -1 to -9; two nines or more, of which the last may be 5 to 8;
// sevens or eights; the largest whole numbers of 16 and 32 bits.
func isCode(v float64) bool {
	a := math.Abs(v)
	switch {
	case a != math.Trunc(a) || a >= 1e15:
		return false
	case a < 10:
		return v < 0
	}
	s := strconv.FormatFloat(a, 'f', 0, 64)
	last := len(s) - 1
	return strings.Trim(s[:last], "9") == "" && s[last] >= '5' ||
		strings.Trim(s, "8") == "" || strings.Trim(s, "7") == "" ||
		slices.Contains([]float64{math.MaxInt16, math.MaxUint16, math.MaxInt32, math.MaxUint32}, a)
}

func (p *profile) without(numbers []float64) *profile {
	q := *p
	q.points, q.weights, q.whole = nil, nil, true
	for i, v := range p.points {
		if !slices.Contains(numbers, v) {
			q.points, q.weights = append(q.points, v), append(q.weights, p.weights[i])
			q.whole = q.whole && v == math.Trunc(v)
		}
	}
	return &q
}

func (p *profile) rowsOf(numbers []float64) int {
	n := 0.0
	for i, v := range p.points {
		if slices.Contains(numbers, v) {
			n += p.weights[i]
		}
	}
	return int(n)
}

// codesAt finds codes at one end of the column: at most mostCodes, apart from the other numbers.
func (p *profile) codesAt(below bool) []float64 {
	points, weights := slices.Clone(p.points), slices.Clone(p.weights)
	if !below {
		slices.Reverse(points)
		slices.Reverse(weights)
	}
	number := func(v float64) bool { return !isCode(v) || v < 0 != below }
	for k := min(mostCodes, len(points)-2); k > 0; k-- {
		codes := points[:k]
		if !slices.ContainsFunc(codes, number) && p.areCodes(codes, points[k:], floats.Sum(weights[:k]), weights[k:]) {
			slices.Sort(codes)
			return codes
		}
	}
	return nil
}

// areCodes says whether codes at an end of a column, in so many rows, are apart from the others, the nearest of which
// comes first: in three rows or more each, and farther away than the nearest of these are from each other, by a
// multiple, or if they are more frequent, or if numbers as frequent as on both sides would fill the gap with seven rows
// or more. Below counts, of which zero is the most frequent, there need not be a gap.
func (p *profile) areCodes(codes, others []float64, coded float64, weights []float64) bool {
	near := min(5, len(others))
	gap, span, widest := math.Abs(others[0]-codes[len(codes)-1]), math.Abs(others[len(others)-1]-others[0]), 0.0
	for i := 1; i < near; i++ {
		widest = max(widest, math.Abs(others[i]-others[i-1]))
	}
	each := coded / float64(len(codes))
	frequent := each >= 3*slices.Max(weights[:near])
	switch {
	case each < 3:
		return false
	case codes[0] > 0: // prices that end in 9 are none
		other := func(v float64) bool { return math.Mod(codes[0]-v, 5) != 0 }
		return len(others) >= 3 && slices.ContainsFunc(others, other) &&
			(gap >= 3*span || frequent && gap >= max(span/20, 2*widest))
	case others[0] < 0:
		return gap >= span && codes[len(codes)-1] <= -77
	case gap >= 3*widest || frequent && (gap > widest || gap == widest && others[0] == 0) ||
		(gap/widest-1)*min(each, slices.Min(weights[:near])) >= 7:
		return true
	}
	return p.whole && others[0] == 0 && len(others) >= 8*len(codes) && slices.Max(weights) == weights[0] &&
		coded >= max(10, (coded+floats.Sum(weights))/200)
}
