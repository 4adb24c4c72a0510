// Package rowio reads people from a stream of rows and writes rows to another: the layer of a command that stands
// between two others in a pipe.
//
// In: rows as CSV or tab-delimited text, and a task. Out: batches of people (see [Reader.Each]), and rows of cells in
// the same format (see [Writer]).
//
// The invariant: every row that is read is accounted for, in order, as a person, as filtered or with the problem why it
// cannot be read. Batches are bounded, and what has arrived is handed on when nothing more arrives. What is written
// ends with a whole row, whenever it ends.
package rowio

import "cfq/task"

// Format is how rows are written.
type Format string

// The formats.
const (
	// CSV is text with commas as of RFC 4180, lines ending in \n; an empty field is null.
	CSV Format = "csv"
	// TSV is text with tabs, as Apache Hive and Spark exchange with scripts: without quotes, and \N is null.
	TSV Format = "tsv"
)

// Formats returns all formats.
func Formats() []Format { return []Format{CSV, TSV} }

// Options say how a stream is read.
type Options struct {
	Format Format
	// Columns are the names of the columns of rows without a header; nil when the first row names them.
	Columns []string
	// Keep are columns whose fields are handed on as they came, besides the column Data.ID of the task.
	Keep []string
	Hash bool // fill People.Content and Others, see task.ReadOptions
}

// Row is a row of a stream: a person, or filtered, or unreadable.
type Row struct {
	Kept    []any         // cells of the columns of [Reader.Kept]; nil where the row could not be told into fields
	Person  int           // position among the people of the batch; -1 when the row is none of them
	Problem *task.Problem // why the row cannot be read; nil for a person and for a row that data.filter leaves out
}

// Batch is some rows of a stream, one after the other.
type Batch struct {
	Rows   []Row
	People *task.People // those of the rows who could be read; People.Rows count those of the stream
}

// Counts are the rows of a stream.
type Counts struct{ Rows, Unreadable int }
