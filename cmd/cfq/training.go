package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/ptq"
)

func addCheckpoint(fs *pflag.FlagSet, path *string) {
	fs.StringVar(path, "checkpoint", "", "keep the state of training in a `file` after each round, and go on from it if "+
		"it exists; removed once the model is written")
}

func noteCheckpoint(ctx context.Context, e *env, path string) {
	if ctx.Err() != nil && exists(path) {
		e.msg.Note("the training is in %s; the same command goes on from there", path)
	}
}

func removeCheckpoint(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// writeLog writes a table as a CSV file, if there is to be one.
func writeLog(path string, table [][]string) error {
	if path == "" {
		return nil
	}
	return cli.Write(path, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(table) })
}

// csvNumber writes a number; what is undefined is empty.
func csvNumber(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func trainingTable(r *ptq.Result) [][]string {
	rows := [][]string{{"stage", "round", "steps", "loss", "vd", "rvd", "bits"}}
	add := func(stage string, rounds []ptq.Round) {
		for i, r := range rounds {
			rows = append(rows, []string{
				stage, strconv.Itoa(i + 1), strconv.Itoa(r.Steps), csvNumber(float64(r.Loss)), csvNumber(float64(r.VD)),
				csvNumber(float64(r.RVD)), csvNumber(r.Bits),
			})
		}
	}
	if r.Learned != nil {
		add("widths", r.Learned.Rounds)
	}
	add("train", r.Training.Rounds)
	return rows
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
