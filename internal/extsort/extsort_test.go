package extsort

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/internal/must"
)

func TestLists(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	rapid.Check(t, func(t *rapid.T) {
		const n = 5
		l := New(n, rapid.IntRange(0, 200).Draw(t, "limit"))
		var want [n][]byte
		for range rapid.IntRange(0, 60).Draw(t, "appends") {
			to := rapid.IntRange(0, n-1).Draw(t, "to")
			b := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
			want[to] = append(want[to], b...)
			must.Do(t, l.Append(to, b))
			if rapid.IntRange(0, 9).Draw(t, "rest") == 0 {
				if err := l.Rest(); err != nil || l.held > 0 {
					t.Fatalf("%d bytes are held at rest: %v", l.held, err)
				}
			}
			if l.held > l.limit {
				t.Fatalf("%d bytes are held, more than %d", l.held, l.limit)
			}
		}
		for i, w := range want {
			got, err := io.ReadAll(l.Reader(i))
			if err != nil || !bytes.Equal(got, w) || l.Size(i) != int64(len(w)) {
				t.Fatalf("list %d: %d bytes of size %d, want %d: %v", i, len(got), l.Size(i), len(w), err)
			}
		}
		must.Do(t, l.Close())
	})
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestMemory fills many blocks: what a list holds is not copied as it grows.
func TestMemory(t *testing.T) {
	const size = 16 << 20
	var before, after runtime.MemStats
	l, b, want := New(1, Limit), []byte(strings.Repeat("x", 299)+"\n"), 0
	runtime.ReadMemStats(&before)
	for ; want < size; want += len(b) {
		must.Do(t, l.Append(0, b))
	}
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > size*3/2 {
		t.Errorf("a list of %d bytes took %d", size, made)
	}
	if got := must.Get(io.ReadAll(l.Reader(0)))(t); len(got) != want || bytes.Count(got, b) != want/len(b) {
		t.Errorf("%d bytes are read of %d", len(got), want)
	}
}

func TestNoFolder(t *testing.T) {
	t.Setenv("TMPDIR", "/nowhere")
	l := New(1, 0)
	if err := l.Append(0, []byte("x")); !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("bytes without a place to go to: %v", err)
	}
	must.Do(t, l.Close())
}
