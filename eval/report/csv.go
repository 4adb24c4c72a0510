package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"cfq/eval"
)

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
