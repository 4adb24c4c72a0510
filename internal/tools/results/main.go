// Command results measures on the real data sets and writes the tables of pages
// in docs/.
//
//	make results SHARED=DIR [PAGE=NAME]
//
// DIR holds data/ and models/ as described in docs/results.md. The numbers are
// those of the tool itself: cfq.Quantize writes each file, ONNX Runtime runs it.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"github.com/google/renameio/v2"
)

// page is a page of docs/ with tables between two marks.
type page struct {
	name   string
	tables func(ctx context.Context, w io.Writer, o settings) error
}

func pages() []page {
	return []page{
		{"results", results},
		{"robust", robust},
		{"gap", gap},
	}
}

// settings are the flags.
type settings struct {
	shared                 string
	seeds, sample, workers int
}

func main() {
	var o settings
	flag.StringVar(&o.shared, "shared", filepath.Join("..", "shared"), "folder that holds data/ and models/")
	only := flag.String("page", "results", "page of docs/ whose tables are replaced")
	flag.IntVar(&o.seeds, "seeds", 5, "models of each data set")
	flag.IntVar(&o.sample, "sample", 1000, "people evaluated of each model, at most")
	flag.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "variants measured at once; no number depends on it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *only, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

// run replaces the tables of a page.
func run(ctx context.Context, name string, o settings) error {
	for _, p := range pages() {
		if p.name != name {
			continue
		}
		var tables bytes.Buffer
		if err := p.tables(ctx, &tables, o); err != nil {
			return err
		}
		return replace(filepath.Join("docs", name+".md"), tables.Bytes())
	}
	return fmt.Errorf("there is no page %q", name)
}

// replace puts tables between the marks of a page, which is read only then: it may have
// been edited in the meantime.
func replace(path string, tables []byte) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := []byte("<!-- results: begin -->\n"), []byte("<!-- results: end -->")
	i, j := bytes.Index(text, begin), bytes.Index(text, end)
	if i < 0 || j < i {
		return fmt.Errorf("%s has no lines %q and %q", path, bytes.TrimSpace(begin), end)
	}
	i += len(begin)
	return renameio.WriteFile(path, bytes.Join([][]byte{text[:i], tables, text[j:]}, nil), 0o644)
}
