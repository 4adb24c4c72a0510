package task

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// Selection decides which rows are read.
type Selection struct {
	row          int   // number of the row that Next was last asked about
	only, except []int // ascending
}

// NewSelection starts before the first row.
func NewSelection(o ReadOptions) *Selection {
	s := &Selection{row: -1, only: slices.Clone(o.Only), except: slices.Clone(o.Except)}
	slices.Sort(s.only)
	slices.Sort(s.except)
	return s
}

// Next moves to the next row and says whether it is selected.
func (s *Selection) Next() bool {
	s.row++
	_, only := slices.BinarySearch(s.only, s.row)
	_, except := slices.BinarySearch(s.except, s.row)
	return (s.only == nil || only) && !except
}

// End is called when the file ends: numbers beyond it mean that the selection belongs to other data.
func (s *Selection) End() error {
	if last := slices.Max(slices.Concat(s.only, s.except, []int{-1})); last > s.row {
		return fmt.Errorf("row %d is selected, but the file has %d rows (numbered from 0, after the filter); the selection "+
			"belongs to other data", last, s.row+1)
	}
	return nil
}

// LoadRows reads row numbers as ReadOptions counts them: a JSON list, or an object with the list "test_rows".
func LoadRows(path string) ([]int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("row list: %w", err)
	}
	rows, err := parseRows(data)
	if err != nil {
		return nil, fmt.Errorf("row list %s: %w", path, err)
	}
	return rows, nil
}

func parseRows(data []byte) ([]int, error) {
	list := data
	var split struct {
		Rows json.RawMessage `json:"test_rows"`
	}
	if err := json.Unmarshal(data, &split); err == nil && split.Rows != nil {
		list = split.Rows
	}
	var rows []int
	if err := json.Unmarshal(list, &rows); err != nil {
		return nil, fmt.Errorf("%w; want a JSON list of row numbers, or a JSON object with such a list as test_rows", err)
	}
	sorted := slices.Sorted(slices.Values(rows))
	for i, r := range sorted {
		if r < 0 {
			return nil, fmt.Errorf("%d is not a row number; rows are numbered from 0", r)
		}
		if i > 0 && r == sorted[i-1] {
			return nil, fmt.Errorf("row %d is listed twice", r)
		}
	}
	if rows == nil {
		rows = []int{}
	}
	return rows, nil
}
