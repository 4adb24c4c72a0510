package promise

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// Writer writes a promises file: plain comma-separated text with a header, one row per person. The columns are row, line, status, method,
// cost, margin, before and action (one that the task uses as a column itself is called promise.NAME), and then the columns that the task reads,
// with the values the person has after the action. So the file can be read as data.
type Writer struct {
	csv   *csv.Writer
	table *table
	rec   []string
}

// Line is one row of a promises file.
type Line struct {
	Row, Line int     // of the person in the data
	Before    float64 // margin as they are
	X         []float32
	Action    recourse.Action
	Method    recourse.Method     // how it was come to; "" when nobody knows or nothing is needed
	Changes   []constraint.Change // of Action.Point; nil when there is none
}

// NewWriter writes the header. Call Flush at the end.
func NewWriter(w io.Writer, t *task.Task) (*Writer, error) {
	p := &Writer{csv: csv.NewWriter(w), table: newTable(t)}
	for _, name := range ownColumns() {
		p.rec = append(p.rec, p.table.column(name))
	}
	return p, p.csv.Write(append(p.rec, p.table.names...))
}

// Write writes one person. It is an error when the raw values would not be read back as exactly the point that was judged.
func (p *Writer) Write(l Line) error {
	point, cost, margin, action := l.X, "", "", ""
	switch l.Action.Status {
	case recourse.AlreadyFavourable:
		cost, margin = "0", decimal(float32(l.Before))
	case recourse.Found:
		point, cost, margin = l.Action.Point, strconv.FormatFloat(l.Action.Cost, 'g', 9, 64), decimal(float32(l.Action.Margin))
		action = words(l.Changes)
	}
	p.rec = append(p.rec[:0], strconv.Itoa(l.Row), strconv.Itoa(l.Line), l.Action.Status.String(), string(l.Method), cost, margin, decimal(float32(l.Before)), action)
	var err error
	if p.rec, err = p.table.texts(p.rec, point); err != nil {
		return fmt.Errorf("row %d: %w", l.Row, err)
	}
	return p.csv.Write(p.rec)
}

// Flush writes what is still held back.
func (p *Writer) Flush() error {
	p.csv.Flush()
	return p.csv.Error()
}
