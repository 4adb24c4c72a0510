package task

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"cfq/internal/lists"
)

// People are the rows of a data file as the model sees them. Total = N + Undrawn + Failed + Filtered + Excluded.
type People struct {
	X      []float32 // N x Dim model inputs, row-major
	Dim    int       // model inputs per person
	N      int       // people that were read
	Labels []int8    // per person: 1 favourable, 0 not, -1 not known
	Lines  []int     // per person: 1-based line of the (uncompressed) file; the row, from 1, of a Parquet file
	Rows   []int     // per person: index of the row, see ReadOptions
	// Kept are, per person, the fields of the columns ReadOptions.Keep, "" where the file has no such column.
	Kept [][]string
	// Imputed are, per person, the features whose value is that of Feature.Impute; nil where no feature has one.
	Imputed   [][]int
	IDs       []string   // per person: the field of Data.ID, nil without; rows with the same one are about one person
	Subgroups []Subgroup // one per feature with Subgroup set, then one per Data.Subgroups column
	RowHashes
	Reading
}

// RowHashes are, with ReadOptions.Hash, per person: a hash of what the task reads of the row, and of the field of each
// of OtherColumns, 0 where it is missing. Read adds Hashes, the same number for rows that are equal, see Equality.
type RowHashes struct {
	Content      []uint64
	Others       [][]uint64
	Hashes       []uint64
	OtherColumns []string // columns that are neither input nor outcome nor ID, ascending
}

// Reading is what became of the rows of a file.
type Reading struct {
	Problems []Problem // the first maxProblems rows that could not be read
	Failed   int       // all rows that could not be read
	Filtered int       // rows that Data.Filter leaves out
	Excluded int       // rows left out by ReadOptions.Only or Except
	Undrawn  int       // people who could be read and were not drawn, see ReadOptions.Most
	Total    int       // data rows looked at
	NoLines  bool      // the file has rows only: Parquet
	Notes    []string  // things about the file worth telling the user once
	Warnings []string  // things that probably make results wrong, such as labels that look mistaken
}

// Subgroup holds the value that each person has of one feature.
type Subgroup struct {
	Feature string
	Values  []string
	Codes   []int32 // per person: index into Values, -1 when missing
	Open    bool    // Values are in the order in which they occur, and people who were not read may have others
}

// Of is the value of a person, "" when it is missing.
func (s *Subgroup) Of(person int) string {
	if c := s.Codes[person]; c >= 0 {
		return s.Values[c]
	}
	return ""
}

// Problem says why a row could not be read.
type Problem struct {
	Line   int    // 1-based line of the uncompressed file
	Column string // "" when the whole line is at fault
	Reason string
	Row    bool // Line is the number of a row, see ReadOptions: a Parquet file has no lines
}

// ReadOptions selects rows of a data file. The zero value reads all.
//
// Rows are numbered from 0 among the data rows that Data.Filter keeps: header, skipped, comment and blank lines have no
// number, rows that cannot be read have one. So numbers made by any tool that applies the same filter mean the same
// rows here.
type ReadOptions struct {
	Only   []int // rows to read; nil = all
	Except []int // rows to leave out

	// Most bounds the people and the memory: of more, so many are drawn by Seed, in the order of the file. 0 = all.
	Most int
	Seed uint64

	// Hash fills People.Content and Others: hashes of what the task reads of a row (model inputs and outcome), and of the
	// other columns' fields, in the order of their names. Numbers are the same in every format. People.Hashes of Read
	// leave out columns among these whose fields nearly all differ, or count copies: they number rows. So copies of a row
	// are equal. Of a stream, Equality says that.
	Hash bool

	Keep []string // columns whose fields are returned as text, in People.Kept

	// Codes reads the codes of Task.Latent, where the file has all of them, as promises have: they are where actions lead.
	// Codes of people as they are are what the encoder makes of them, whatever a column of the same name says.
	Codes bool
}

// Subset returns the people at some positions, in that order, without counts of what could not be read.
func (p *People) Subset(rows []int) *People {
	q := &People{
		X: make([]float32, 0, len(rows)*p.Dim), Dim: p.Dim, N: len(rows), Labels: pick(p.Labels, rows),
		Lines: pick(p.Lines, rows), Rows: pick(p.Rows, rows), Kept: pick(p.Kept, rows), Imputed: pick(p.Imputed, rows),
		IDs: pick(p.IDs, rows), Reading: Reading{Total: len(rows), NoLines: p.NoLines},
		RowHashes: RowHashes{pick(p.Content, rows), pick(p.Others, rows), pick(p.Hashes, rows), p.OtherColumns},
	}
	for _, r := range rows {
		q.X = append(q.X, p.X[r*p.Dim:(r+1)*p.Dim]...)
	}
	for _, s := range p.Subgroups {
		s.Codes = pick(s.Codes, rows)
		q.Subgroups = append(q.Subgroups, s)
	}
	return q
}

// AllRows are the rows of n people: the numbers below n.
func AllRows(n int) []int {
	return lists.Make(n, func(i int) int { return i })
}

func pick[T any](s []T, rows []int) []T {
	if s == nil {
		return nil
	}
	return lists.Map(rows, func(r int) T { return s[r] })
}

// Line is the line that a person stands on in the (uncompressed) file, from 1; 0 when the file has none.
func (p *People) Line(person int) int {
	if p.NoLines || p.Lines == nil {
		return 0
	}
	return p.Lines[person]
}

// Place says where a person stands: on a line or, in a file that has none, in a row.
func (p *People) Place(person int) string {
	if line := p.Line(person); line > 0 {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("row %d", p.Row(person))
}

// ImputedOf returns the features whose value is not a person's own, see Imputed.
func (p *People) ImputedOf(person int) []int {
	if p.Imputed == nil {
		return nil
	}
	return p.Imputed[person]
}

// Row is the row of a person, see ReadOptions; of people who were not read from a file, their position.
func (p *People) Row(person int) int {
	if p.Rows == nil {
		return person
	}
	return p.Rows[person]
}

// Place is the line of the problem or, in a file that has none, the row.
func (p *Problem) Place() string {
	if p.Row {
		return fmt.Sprintf("row %d", p.Line)
	}
	return fmt.Sprintf("line %d", p.Line)
}

// Error returns the problem as one line.
func (p *Problem) Error() string {
	if p.Column == "" {
		return p.Place() + ": " + p.Reason
	}
	return fmt.Sprintf("%s, column %q: %s", p.Place(), p.Column, p.Reason)
}

// InputHash is a hash of a row's model inputs: equal ones have the same, however the row was written.
func InputHash(x []float32) uint64 { return shortSHA(appendInputs(nil, x)) }

func appendInputs(buf []byte, x []float32) []byte {
	for _, v := range x {
		buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v+0)) // no -0
	}
	return buf
}

// Uniform is a number from 0 to below 1 by a seed and a hash of a person's ID or, without IDs, of their inputs: equal
// rows have the same, wherever they stand, so that parts that are drawn by it have no rows in common.
func (p *People) Uniform(seed uint64, i int) float64 {
	key := appendInputs(nil, p.X[i*p.Dim:(i+1)*p.Dim])
	if p.IDs != nil {
		key = []byte(p.IDs[i])
	}
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(key, seed))
	return float64(binary.LittleEndian.Uint64(sum[:])>>11) * 0x1p-53
}
