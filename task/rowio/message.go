package rowio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	flatbuffers "github.com/google/flatbuffers/go"
)

// messages hands on the messages of an Arrow stream whose metadata holds what it says. The library that reads them
// takes lengths of lists on trust, and would allocate memory for any number.
type messages struct {
	r    io.Reader
	head []byte // of a message that was checked, still to be handed on
	body int64  // bytes that follow
}

// maxMetadata bounds the bytes of the metadata of a message.
const maxMetadata = 16 << 20

func (m *messages) Read(p []byte) (int, error) {
	if len(m.head) == 0 && m.body == 0 {
		if err := m.next(); err != nil {
			return 0, err
		}
	}
	if len(m.head) > 0 {
		n := copy(p, m.head)
		m.head = m.head[n:]
		return n, nil
	}
	n, err := m.r.Read(p[:min(int64(len(p)), m.body)])
	m.body -= int64(n)
	return n, err
}

// next reads the metadata of a message: a mark, which old streams lack, its length, and a flat buffer.
func (m *messages) next() error {
	prefix := make([]byte, 4)
	if _, err := io.ReadFull(m.r, prefix); err != nil {
		return err
	}
	m.head = prefix
	length := binary.LittleEndian.Uint32(prefix)
	if length == math.MaxUint32 {
		size := make([]byte, 4)
		if _, err := io.ReadFull(m.r, size); err != nil {
			return noEnd(err)
		}
		m.head = append(m.head, size...)
		length = binary.LittleEndian.Uint32(size)
	}
	if length == 0 { // the end
		return nil
	}
	if length > maxMetadata {
		return fmt.Errorf("a message with %d bytes of metadata", length)
	}
	meta := make([]byte, length)
	if _, err := io.ReadFull(m.r, meta); err != nil {
		return noEnd(err)
	}
	m.head = append(m.head, meta...)
	return m.check(meta)
}

// noEnd is the error of a stream that ends within a message.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// The fields of the tables of Message.fbs and Schema.fbs of Arrow that matter here, by their places in a table.
const (
	messageKind, messageHeader, messageBody, messageExtra = 6, 8, 10, 12
	schemaFields, schemaExtra, schemaFeatures             = 6, 8, 10
	fieldKind, fieldType, fieldChildren, fieldExtra       = 8, 10, 14, 16
	unionIDs                                              = 6
	batchNodes, batchBuffers, batchVariadic               = 6, 8, 12
	dictionaryBatch                                       = 6

	kindSchema, kindDictionary, kindBatch = 1, 2, 3
	typeUnion                             = 14
)

var errMetadata = errors.New("the metadata of an Arrow message are damaged")

// check looks at the lengths in the metadata of a message, and notes how long its body is.
func (m *messages) check(meta []byte) (err error) {
	defer func() {
		if recover() != nil { // an offset leads out of the buffer
			err = errMetadata
		}
	}()
	var root flatbuffers.Table
	root.Bytes, root.Pos = meta, flatbuffers.GetUOffsetT(meta)
	m.body = root.GetInt64Slot(messageBody, 0)
	if m.body < 0 || m.body > maxMessage {
		return fmt.Errorf("a record batch of %d bytes: write smaller ones", m.body)
	}
	c := checker{left: len(meta)}
	c.list(root, messageExtra, 4)
	if at := root.Offset(messageHeader); at != 0 {
		var header flatbuffers.Table
		root.Union(&header, flatbuffers.UOffsetT(at))
		switch root.GetByteSlot(messageKind, 0) {
		case kindSchema:
			c.schema(header)
		case kindDictionary:
			if at := header.Offset(dictionaryBatch); at != 0 {
				c.batch(table(header, header.Pos+flatbuffers.UOffsetT(at)))
			}
		case kindBatch:
			c.batch(header)
		}
	}
	if c.left < 0 {
		return errMetadata
	}
	return nil
}

// table is the one that an offset at a place leads to.
func table(of flatbuffers.Table, at flatbuffers.UOffsetT) flatbuffers.Table {
	return flatbuffers.Table{Bytes: of.Bytes, Pos: of.Indirect(at)}
}

// checker counts the bytes that lists claim: altogether no more than there are, as in what a writer makes.
type checker struct{ left int }

// list counts a list of elements of a size, and returns where it starts and how many they are.
func (c *checker) list(t flatbuffers.Table, slot flatbuffers.VOffsetT, size int) (start flatbuffers.UOffsetT, n int) {
	at := flatbuffers.UOffsetT(t.Offset(slot))
	if at == 0 || c.left < 0 {
		return 0, 0
	}
	n = t.VectorLen(at)
	if c.left -= n * size; c.left < 0 {
		return 0, 0
	}
	return t.Vector(at), n
}

func (c *checker) schema(t flatbuffers.Table) {
	c.list(t, schemaExtra, 4)
	c.list(t, schemaFeatures, 8)
	c.fields(t, schemaFields)
}

func (c *checker) fields(t flatbuffers.Table, slot flatbuffers.VOffsetT) {
	start, n := c.list(t, slot, 4)
	for i := range n {
		f := table(t, start+flatbuffers.UOffsetT(4*i))
		c.list(f, fieldExtra, 4)
		c.fields(f, fieldChildren)
		if at := f.Offset(fieldType); at != 0 && f.GetByteSlot(fieldKind, 0) == typeUnion {
			var union flatbuffers.Table
			f.Union(&union, flatbuffers.UOffsetT(at))
			c.list(union, unionIDs, 4)
		}
	}
}

func (c *checker) batch(t flatbuffers.Table) {
	c.list(t, batchNodes, 16)
	c.list(t, batchBuffers, 16)
	c.list(t, batchVariadic, 8)
}
