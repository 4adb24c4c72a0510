package task

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"

	"cfq/internal/must"
)

// testdata/lz4.parquet was written by pyarrow 26 with compression="lz4".
func TestParquetLZ4(t *testing.T) {
	t.Parallel()
	file := must.Get(os.ReadFile("testdata/lz4.parquet"))(t)
	rows := must.Get((&Data{}).rows(bytes.NewReader(file)))(t)
	for i := range 300 {
		want := []string{fmt.Sprint(i * i % 7), strings.Repeat("abc", i%5) + strings.Repeat("xyz", i%90)}
		got, _, err := rows.Next()
		must.Do(t, err)
		must.Same(t, want, got)
	}
	for i := 0; i < len(file); i += 3 {
		damaged := bytes.Clone(file)
		damaged[i] ^= 0x55
		rows, err := (&Data{}).rows(bytes.NewReader(damaged))
		for n := 0; err == nil; n++ {
			if _, _, err = rows.Next(); n > 1000 {
				t.Fatalf("byte %d: no end", i)
			}
		}
	}
	if _, _, err := rows.Next(); err != io.EOF { //nolint:errorlint // as documented
		t.Error(err)
	}
}

func TestLZ4Blocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ block, want string }{
		"literals":       {"\x30abc", "abc"},
		"match":          {"\x32abc\x03\x00\x10d", "abcabcabcd"},
		"overlap":        {"\x1fa\x01\x00\x01\x10b", strings.Repeat("a", 21) + "b"},
		"many literals":  {"\xf0\xff\x00" + strings.Repeat("x", 270), strings.Repeat("x", 270)},
		"before start":   {"\x10a\x02\x00\x10b", ""},
		"offset 0":       {"\x10a\x00\x00\x10b", ""},
		"too few":        {"\x50ab", ""},
		"half an offset": {"\x10a\x01", ""},
		"endless length": {"\xf0\xff\xff", ""},
		"no last":        {"\x10a\x01\x00", ""},
	} {
		dst := make([]byte, 300)
		n := must.Get(lz4.UncompressBlock([]byte(c.block), dst))(t)
		if got := string(dst[:n]); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if _, err := lz4.UncompressBlock([]byte(c.block), dst[:max(0, len(c.want)-1)]); err == nil && c.want != "" {
			t.Errorf("%s: a destination that is too short is no error", name)
		}
	}
	for _, n := range []int{0, 1, 14, 15, 16, 269, 270, 271, 1000} {
		src, block, dst := bytes.Repeat([]byte("q"), n), make([]byte, lz4.CompressBlockBound(n)), make([]byte, n)
		m := must.Get(lz4.Compressor{}.CompressBlock(src, block))(t)
		must.Same(t, n, must.Get(lz4.UncompressBlock(block[:m], dst))(t))
		must.Same(t, src, dst)
	}
}
