package task

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
)

// Selection decides which rows are read.
type Selection struct {
	row    int // number of the row that next was last asked about
	left   int // rows still to look at, -1 = no limit
	only   map[int]bool
	except map[int]bool
	last   int // largest number in only and except
}

// NewSelection starts before the first row.
func NewSelection(o ReadOptions) *Selection {
	s := &Selection{row: -1, left: -1, last: -1}
	if o.Rows > 0 {
		s.left = o.Rows
	}
	asSet := func(rows []int) map[int]bool {
		if rows == nil {
			return nil
		}
		m := make(map[int]bool, len(rows))
		for _, r := range rows {
			m[r] = true
			s.last = max(s.last, r)
		}
		return m
	}
	s.only, s.except = asSet(o.Only), asSet(o.Except)
	return s
}

// Next moves to the next row and says whether it is selected.
func (s *Selection) Next() bool {
	s.row++
	if (s.only != nil && !s.only[s.row]) || s.except[s.row] {
		return false
	}
	if s.left > 0 {
		s.left--
	}
	return true
}

// full says that no further row is wanted.
func (s *Selection) full() bool { return s.left == 0 }

// End is called when the file ends: numbers beyond it mean that the selection belongs to other data.
func (s *Selection) End() error {
	if s.last > s.row {
		return fmt.Errorf(
			"row %d is selected, but the file has %d rows (numbered from 0, after the filter); the selection belongs to "+
				"other data",
			s.last,
			s.row+1,
		)
	}
	return nil
}

// LoadRows reads row numbers for ReadOptions: a JSON list, or an object with the list "test_rows". Numbers count as
// ReadOptions says.
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
