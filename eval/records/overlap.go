package records

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"cfq/eval"
	"cfq/internal/extsort"
)

// rowOverlap finds a row of the data that several tables have: the same number, line and content. People with an ID
// count once anyway, and rows of a stream have no numbers.
type rowOverlap struct {
	tables []string
	rows   *extsort.Lists // by hash: of each row its hash, line, table and number
}

const overlapShards = 1024 // of which one is in memory at a time

func (o *rowOverlap) add(r *eval.Record) error {
	if r.ID != "" && !strings.HasPrefix(r.ID, eval.RowID) || r.Row == 0 && r.Line == 0 {
		return nil
	}
	h := fnv.New64a()
	content := append([]uint64{uint64(r.Row), r.Hash}, r.Others...)
	binary.Write(h, binary.LittleEndian, content) //nolint:errcheck // a hash takes all
	row := []uint64{h.Sum64(), uint64(r.Line), uint64(len(o.tables) - 1), uint64(r.Row)}
	b, _ := binary.Append(nil, binary.LittleEndian, row) // numbers can be written
	return o.rows.Append(int(row[0]%overlapShards), b)
}

// check refuses such a row: the person would count twice. A table may not know its lines.
func (o *rowOverlap) check() error {
	for shard := range overlapShards {
		numbers := make([]uint64, o.rows.Size(shard)/8)
		if err := binary.Read(o.rows.Reader(shard), binary.LittleEndian, numbers); err != nil {
			return fmt.Errorf("temporary file: %w", err)
		}
		before := make([]uint64, 4)
		for _, x := range slices.SortedFunc(slices.Chunk(numbers, 4), slices.Compare) {
			if x[0] == before[0] && (x[1] == before[1] || before[1] == 0) && x[2] != before[2] {
				return fmt.Errorf("row %d of the data is in %s and in %s, with the same content, and would count twice: give "+
					"each row once, or name an id in the task file if these are different people", x[3], o.tables[before[2]],
					o.tables[x[2]])
			}
			before = x
		}
	}
	return nil
}
