package report

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"cfq/eval"
)

// personColumn is a column of the report by person.
type personColumn struct {
	name string
	node parquet.Node // its type; a missing cell is null, a missing point an empty list
}

// personColumns are those of a document, the same in every view.
func personColumns(d *Document) []personColumn {
	whole, number := parquet.Optional(parquet.Int(64)), parquet.Optional(parquet.Leaf(parquet.DoubleType))
	truth, text := parquet.Optional(parquet.Leaf(parquet.BooleanType)), parquet.Optional(parquet.String())
	point := parquet.List(parquet.Leaf(parquet.FloatType))
	all := []personColumn{
		{"row", whole},
		{"line", whole},
		{"label", whole},
		{"margin_full", number},
		{"margin_quant", number},
		{"evaluated", truth},
		{"first_status", text},
		{"first_cost", number},
		{"first_own", number},
		{"first_other", number},
		{"first_broken", truth},
	}
	for _, t := range d.Result.Settings.Margins {
		for _, c := range []personColumn{
			{"status", text},
			{"cost", number},
			{"own", number},
			{"other", number},
			{"broken", truth},
			{"quant_status", text},
			{"quant_cost", number},
			{"quant_own", number},
			{"quant_other", number},
			{"quant_broken", truth},
			{"dir_sim", number},
			{"act_overlap", number},
			{"certified_lower", number},
			{"certified_apart", number},
			{"point", point},
			{"quant_point", point},
		} {
			all = append(all, personColumn{c.name + "@" + margin(t), c.node})
		}
	}
	return all
}

// eachPerson calls f with the cells of each person: nil, int, float64, bool, string or []float32.
func eachPerson(d *Document, f func(cells []any) error) error {
	records := d.Result.Records
	if records == nil {
		records = d.Records
	}
	if records == nil && d.Result.Population.Read > 0 {
		return errors.New("report: no records of people: evaluate with --records")
	}
	columns := len(personColumns(d))
	for i := range records {
		if err := f(personCells(d, &records[i], columns)); err != nil {
			return err
		}
	}
	return nil
}

// personCells are those of one person; who is not evaluated has empty ones behind the first.
func personCells(d *Document, r *eval.Record, columns int) []any {
	cells := []any{r.Row, nil, nil, number(r.Full), number(r.Quant), r.Evaluated}
	if r.Line > 0 {
		cells[1] = r.Line
	}
	if r.Label >= 0 {
		cells[2] = int(r.Label)
	}
	if !r.Evaluated {
		return append(cells, make([]any, columns-len(cells))...)
	}
	mirrored := !d.Result.Settings.OneSided
	cells = append(cells, promiseCells(r.First, mirrored)...)
	for i := range r.Steps {
		s := &r.Steps[i]
		cells = append(cells, promiseCells(s.Full, true)...)
		cells = append(cells, promiseCells(s.Quant, mirrored)...)
		cells = append(cells, number(s.DirSim), number(s.Overlap))
		if s.Proof != nil {
			cells = append(cells, number(s.Proof.Lower), number(s.Proof.Apart))
		} else {
			cells = append(cells, nil, nil)
		}
		cells = append(cells, s.Full.Point, s.Quant.Point)
	}
	return cells
}

// promiseCells are status, cost, both margins and whether the promise breaks; nothing when it was not asked for.
func promiseCells(p eval.Promise, asked bool) []any {
	if !asked {
		return make([]any, 5)
	}
	cells := []any{p.Status.String(), number(p.Cost), number(p.Own), number(p.Other), nil}
	if p.Made() {
		cells[4] = p.Broken()
	}
	return cells
}

// number is a cell, missing when there is no number.
func number(x eval.Float) any {
	if !x.Defined() {
		return nil
	}
	return float64(x)
}

// Parquet writes what [CSV] does, with types: numbers that do not exist are null, and points are lists.
func Parquet(w io.Writer, d *Document) error {
	columns := personColumns(d)
	group := parquet.Group{}
	for _, c := range columns {
		group[c.name] = c.node
	}
	schema := parquet.NewSchema("person", group)
	places := make([]int, len(columns)) // of leaves: a group is in alphabetical order
	for i, c := range columns {
		path := []string{c.name}
		if !c.node.Leaf() {
			path = append(path, "list", "element")
		}
		leaf, ok := schema.Lookup(path...)
		if !ok {
			return fmt.Errorf("report: no column %s", c.name)
		}
		places[i] = leaf.ColumnIndex
	}
	out := parquet.NewWriter(w, schema, parquet.Compression(&parquet.Zstd))
	err := eachPerson(d, func(cells []any) error {
		values := make([][]parquet.Value, len(columns))
		for i, c := range cells {
			values[places[i]] = parquetCell(c, places[i])
		}
		var row parquet.Row
		for _, v := range values {
			row = append(row, v...)
		}
		_, err := out.WriteRows([]parquet.Row{row})
		return err
	})
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// parquetCell is a cell with its levels.
func parquetCell(c any, column int) []parquet.Value {
	point, ok := c.([]float32)
	switch {
	case c == nil, ok && len(point) == 0:
		return []parquet.Value{parquet.NullValue().Level(0, 0, column)}
	case !ok:
		return []parquet.Value{parquet.ValueOf(c).Level(0, 1, column)}
	}
	values := make([]parquet.Value, len(point))
	for i, v := range point {
		values[i] = parquet.FloatValue(v).Level(min(i, 1), 1, column)
	}
	return values
}
