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
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("loansgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("o", filepath.Join("testdata", "loans"), "`directory` to write to, or to compare with")
	check := flags.Bool("check", false, "write nothing; exit 1 when a file differs from what would be written")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	files, err := generate()
	if err != nil {
		fmt.Fprintf(stderr, "loansgen: %v\n", err)
		return 1
	}
	if *check {
		return compare(*dir, files, stderr)
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		fmt.Fprintf(stderr, "loansgen: %v\n", err)
		return 1
	}
	for _, f := range files {
		path := filepath.Join(*dir, f.Name)
		if err := renameio.WriteFile(path, f.Data, 0o644); err != nil {
			fmt.Fprintf(stderr, "loansgen: writing %s: %v\n", path, err)
			return 1
		}
		fmt.Fprintf(stdout, "%8d  %s\n", len(f.Data), path)
	}
	return 0
}

// compare names every file in dir that is not as generated.
func compare(dir string, files []file, stderr io.Writer) int {
	code := 0
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		have, err := os.ReadFile(path)
		switch {
		case err != nil:
			fmt.Fprintf(stderr, "loansgen: %v\n", err)
		case !bytes.Equal(have, f.Data):
			fmt.Fprintf(stderr, "loansgen: %s differs from what the generator makes (%d bytes, generated %d)\n", path, len(have), len(f.Data))
		default:
			continue
		}
		code = 1
	}
	return code
}
