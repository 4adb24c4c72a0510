package eval

import (
	"testing"

	"cfq/task"
)

func TestRecordsNameRowsOfTheData(t *testing.T) {
	t.Parallel()
	people := &task.People{Dim: 1, N: 3, X: make([]float32, 3), Rows: []int{4, 7, 9}, Lines: []int{6, 9, 11}}
	for _, noLines := range []bool{false, true} {
		people.NoLines = noLines
		for i, row := range people.Rows {
			line, place := people.Lines[i], "line 9"
			if noLines {
				line, place = 0, "row 7"
			}
			if people.Row(i) != row || people.Line(i) != line || i == 1 && people.Place(i) != place {
				t.Errorf("person %d: row %d, line %d, %s", i, people.Row(i), people.Line(i), people.Place(i))
			}
		}
	}
}
