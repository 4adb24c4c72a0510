// Command loansgen makes testdata/loans: a synthetic population of loan
// applicants, the task file that describes it, and a classifier trained on it.
//
// In: nothing but the constants in this package. Out: train.csv, test.csv,
// task.yaml, model.onnx and README.md. The invariant: the same bytes on every
// machine. Hence the arithmetic here is +, -, *, / and math.Sqrt only, which
// IEEE 754 rounds exactly, every product goes through mul so that no compiler
// fuses it with an addition, and no package's random number or exponential
// function is used.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

func main() {
	dir := flag.String("o", filepath.Join("testdata", "loans"), "existing `directory` to write to, or to compare with")
	check := flag.Bool("check", false, "write nothing; exit 1 when a file differs from what would be written")
	flag.Parse()
	if err := run(*dir, *check); err != nil {
		fmt.Fprintf(os.Stderr, "loansgen: %v\n", err)
		os.Exit(1)
	}
}

// run writes the files, or with check names every file in dir that is not as generated.
func run(dir string, check bool) error {
	files, err := generate()
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if !check {
			errs = append(errs, renameio.WriteFile(path, f.data, 0o644))
			continue
		}
		have, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(have, f.data) {
			err = fmt.Errorf("%s differs from what the generator makes", path)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
