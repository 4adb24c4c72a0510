package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"cfq/eval"
)

// CSV writes one line for each person, RFC 4180 with a head: the columns of each required margin end in @ and the
// margin; points are model inputs with spaces between. What does not exist is empty, as are points that were not kept.
// It fails without records, as for a report that was written without them.
func CSV(w io.Writer, d *Document) error {
	records := d.Result.Records
	if records == nil {
		records = d.Records
	}
	if records == nil && d.Result.Population.Read > 0 {
		return errors.New("report: no records for the csv view: evaluate with --records")
	}
	return write(w, func(out *csv.Writer) error {
		if err := out.Write(personHead(d)); err != nil {
			return err
		}
		for i := range records {
			if err := out.Write(personLine(d, &records[i])); err != nil {
				return err
			}
		}
		return nil
	})
}

// write writes a CSV with the line ends of RFC 4180.
func write(w io.Writer, f func(*csv.Writer) error) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	err := f(out)
	out.Flush()
	if err = errors.Join(err, out.Error()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func personHead(d *Document) []string {
	head := []string{"row", "line", "label"}
	head = append(head, "margin_full", "margin_quant", "evaluated", "first_status", "first_cost", "first_own",
		"first_other", "first_broken")
	for _, t := range d.Result.Settings.Margins {
		for _, name := range []string{
			"status", "cost", "own", "other", "broken", "quant_status", "quant_cost", "quant_own", "quant_other", "quant_broken",
			"dir_sim", "act_overlap", "certified_lower", "certified_apart", "point", "quant_point",
		} {
			head = append(head, name+"@"+margin(t))
		}
	}
	return head
}

func personLine(d *Document, r *eval.Record) []string {
	label := ""
	if r.Label >= 0 {
		label = strconv.Itoa(int(r.Label))
	}
	lineNumber := ""
	if r.Line > 0 {
		lineNumber = strconv.Itoa(r.Line)
	}
	line := []string{strconv.Itoa(r.Row), lineNumber, label}
	line = append(line, exact(r.Full), exact(r.Quant), strconv.FormatBool(r.Evaluated))
	if !r.Evaluated {
		return append(line, make([]string, 5+16*len(d.Result.Settings.Margins))...)
	}
	mirrored := !d.Result.Settings.OneSided
	line = append(line, promiseCells(r.First, mirrored)...)
	for i := range r.Steps {
		s := &r.Steps[i]
		line = append(line, promiseCells(s.Full, true)...)
		line = append(line, promiseCells(s.Quant, mirrored)...)
		line = append(line, exact(s.DirSim), exact(s.Overlap))
		if s.Proof != nil {
			line = append(line, exact(s.Proof.Lower), exact(s.Proof.Apart))
		} else {
			line = append(line, "", "")
		}
		line = append(line, inputs(s.Full.Point), inputs(s.Quant.Point))
	}
	return line
}

// promiseCells are status, cost, both margins and whether the promise breaks; nothing when it was not asked for.
func promiseCells(p eval.Promise, asked bool) []string {
	if !asked {
		return make([]string, 5)
	}
	cells := []string{p.Status.String(), exact(p.Cost), exact(p.Own), exact(p.Other), ""}
	if p.Made() {
		cells[4] = strconv.FormatBool(p.Broken())
	}
	return cells
}

// inputs shows a recourse point in model inputs, to the last bit, so that others can ask the models about it.
func inputs(point []float32) string {
	cells := make([]string, len(point))
	for i, v := range point {
		cells[i] = strconv.FormatFloat(float64(v), 'g', -1, 32)
	}
	return strings.Join(cells, " ")
}

// exact shows all digits of a number, nothing when there is none.
func exact(x eval.Float) string {
	if !x.Defined() {
		return ""
	}
	return strconv.FormatFloat(float64(x), 'g', -1, 64)
}

// compareCSV writes one line for each metric and model.
func compareCSV(w io.Writer, c *Comparison) error {
	return write(w, func(out *csv.Writer) error {
		err := out.Write([]string{
			"metric", "margin", "model", "value", "lo", "hi", "n", "delta", "delta_lo", "delta_hi", "delta_n", "p", "test",
			"call",
		})
		for _, row := range c.Comparison.Rows {
			t := ""
			if row.Margin != nil {
				t = margin(*row.Margin)
			}
			for k, cell := range row.Cells {
				line := []string{
					row.Metric, t, c.Comparison.Names[k], exact(cell.Value.Value), exact(cell.Value.Lo), exact(cell.Value.Hi),
					strconv.Itoa(cell.Value.N),
				}
				if k == 0 {
					line = append(line, make([]string, 7)...)
				} else {
					line = append(line, exact(cell.Delta.Value), exact(cell.Delta.Lo), exact(cell.Delta.Hi),
						strconv.Itoa(cell.Delta.N),
						exact(cell.P), cell.Test, string(cell.Call))
				}
				err = errors.Join(err, out.Write(line))
			}
		}
		return err
	})
}
