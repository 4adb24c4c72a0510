package draft

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/internal/message"
	"cfq/task"
)

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

// delimiter returns the character that splits most lines into the same number of fields, the largest such number; a blank only when nothing else does.
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
			counts[splits(line, c)]++
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

// splits counts c outside of quotes.
func splits(line string, c rune) int {
	n, quoted := 0, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted = !quoted
		case r == c && !quoted:
			n++
		}
	}
	return n
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
		case splits(line, delimiter) != want && comment == 0:
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

// hasHeader says whether the first record names the columns: it has no numbers and hardly a name twice, and what is below is numbers, or texts that differ from it.
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
