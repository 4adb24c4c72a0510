package task

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Limits on data files, so that memory stays in proportion to what a file honestly holds.
const (
	maxRecord = 1 << 20 // bytes of one row
	maxRatio  = 200     // a table compresses 5 to 30 times; deflate can pack zeros 1000 times
	ratioFrom = 1 << 24 // bytes from which maxRatio is looked at
)

// counter counts the bytes that are read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// inflater refuses a stream that expands out of proportion.
type inflater struct {
	packed *counter
	r      io.Reader
	n      int64
}

func (f *inflater) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	f.n += int64(n)
	if f.n > ratioFrom && f.n > maxRatio*f.packed.n {
		return n, fmt.Errorf("the compressed data expands more than %d times; decompress the file first if this is right", maxRatio)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("compressed data: %w", err)
	}
	return n, err
}

// PlainText returns what delimited text in r is: decompressed when its content is gzip, without a byte order mark. What
// expands out of proportion, and UTF-16, is an error.
func PlainText(r io.Reader) (*bufio.Reader, error) {
	packed := &counter{r: r}
	plain := bufio.NewReaderSize(packed, 1<<16)
	if head, _ := plain.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(plain)
		if err != nil {
			return nil, fmt.Errorf("compressed data: %w", err)
		}
		plain = bufio.NewReaderSize(&inflater{packed: packed, r: z}, 1<<16)
	}
	if head, _ := plain.Peek(3); bytes.Equal(head, []byte("\xef\xbb\xbf")) {
		_, _ = plain.Discard(3)
	}
	if head, _ := plain.Peek(2); bytes.Equal(head, []byte("\xff\xfe")) || bytes.Equal(head, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("the file is UTF-16; save it as UTF-8")
	}
	return plain, nil
}
