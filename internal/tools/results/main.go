// Command results measures on the real data sets and writes the tables of docs/results.md.
//
//	make results SHARED=DIR [SECTION=NAME] [PYTHON=FILE]
//
// In: DIR with data/ and models/, as that page describes them. Out: the tables of one section, or of all. The
// invariant: numbers are those of the tool itself. [ptq.Quantize], or the other tool, writes each
// file, ONNX Runtime runs it.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/renameio/v2"

	"cfq/recourse/mip"
)

// page is the file with the tables. Those of a section stand between two marks.
const page = "docs/results.md"

// settings are the flags.
type settings struct {
	shared, python         string
	seeds, sample, workers int
	solver                 *mip.Solver // nil: what needs one has no proof
}

func main() {
	var o settings
	flag.StringVar(&o.shared, "shared", filepath.Join("..", "shared"), "folder that holds data/ and models/")
	flag.StringVar(&o.python, "python", "", "interpreter with onnxruntime and nncf, for the rows of other tools")
	only := flag.String("section", "", "section whose tables are replaced; all if empty")
	flag.IntVar(&o.seeds, "seeds", 5, "models of each data set, at most")
	flag.IntVar(&o.sample, "sample", 1000, "people evaluated of each model, at most")
	flag.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "variants measured at once; no number depends on it")
	flag.Parse()
	log.SetPrefix("results: ")
	if err := run(context.Background(), *only, o); err != nil {
		log.Fatal(err)
	}
}

// run replaces the tables of a section, or of all if only is "".
func run(ctx context.Context, only string, o settings) error {
	sections := map[string]func(context.Context, io.Writer, settings) error{
		"training": training, "trained": trained, "gap": gap, "default": defaultMode,
	}
	if only != "" && sections[only] == nil {
		return fmt.Errorf("unknown section %q: want default, training, trained or gap", only)
	}
	for name, tables := range sections {
		if only != "" && name != only {
			continue
		}
		var b bytes.Buffer
		if err := tables(ctx, &b, o); err != nil {
			return err
		}
		if err := replace(page, name, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// replace puts tables between the marks of a section of the page, which is read only then: it may have
// been edited in the meantime.
func replace(path, name string, tables []byte) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := []byte("<!-- "+name+": begin -->\n"), []byte("<!-- "+name+": end -->")
	i, j := bytes.Index(text, begin), bytes.Index(text, end)
	if i < 0 || j < i {
		return fmt.Errorf("%s has no lines %q and %q", path, bytes.TrimSpace(begin), end)
	}
	i += len(begin)
	return renameio.WriteFile(path, bytes.Join([][]byte{text[:i], tables, text[j:]}, nil), 0o644)
}
