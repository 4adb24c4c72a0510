package task

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/internal/message"
)

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
			rd.problem(&Problem{Line: line, Column: c.names[tw[0]], Reason: fmt.Sprintf("the column occurs twice with different values, %s and %s", message.Quote(a), message.Quote(b))})
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
	if rd.hash != nil {
		p.Hashes = append(p.Hashes, rd.hash.record(rec))
	}
	if rd.kept != nil {
		p.Kept = append(p.Kept, copies(rec, rd.kept))
	}
	rd.sample()
}

// copies returns fields out of a record, "" for those it does not have.
func copies(rec []string, at []int) []string {
	out := make([]string, len(at))
	for i, j := range at {
		if j >= 0 {
			out[i] = strings.Clone(rec[j]) // the field shares memory with its whole record
		}
	}
	return out
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
