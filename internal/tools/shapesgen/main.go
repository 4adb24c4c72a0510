// Command shapesgen makes images with known attributes, for recourse over attributes: task files of images and of their
// attributes, and two CSV files with the pixels, the attributes and a decision.
//
// Nobody drew or photographed these images. They stand in for attribute data of real images, as CelebA has them, which
// cannot be had here; what holds for them need not hold for photographs. The invariant: the same seed gives the same
// files.
package main

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

//go:embed task.yaml
var taskFile []byte

//go:embed attributes.yaml
var attributesFile []byte

func main() {
	dir := flag.String("o", ".", "existing `directory` to write two task files, train.csv and test.csv to")
	n := flag.Int("n", 20000, "`images` of train.csv; test.csv has a quarter as many")
	seed := flag.Uint64("seed", 1, "`seed` of the images")
	flag.Parse()
	if err := run(*dir, *n, *seed); err != nil {
		fmt.Fprintf(os.Stderr, "shapesgen: %v\n", err)
		os.Exit(1)
	}
}

func run(dir string, n int, seed uint64) error {
	if n < 4 {
		return fmt.Errorf("invalid -n %d: want 4 images or more", n)
	}
	return errors.Join(
		renameio.WriteFile(filepath.Join(dir, "task.yaml"), taskFile, 0o644),
		renameio.WriteFile(filepath.Join(dir, "attributes.yaml"), attributesFile, 0o644),
		write(filepath.Join(dir, "train.csv"), n, rand.New(rand.NewPCG(seed, 1))),
		write(filepath.Join(dir, "test.csv"), n/4, rand.New(rand.NewPCG(seed, 2))),
	)
}

// write makes a file of n images.
func write(path string, n int, rng *rand.Rand) error {
	out, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	defer out.Cleanup() //nolint:errcheck // what is in place is no longer there
	if err := table(out, n, rng); err != nil {
		return err
	}
	return out.CloseAtomicallyReplace()
}

func table(out io.Writer, n int, rng *rand.Rand) error {
	w := csv.NewWriter(out)
	if err := w.Write(header()); err != nil {
		return err
	}
	for range n {
		r := draw(rng)
		if err := w.Write(r.fields()); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
