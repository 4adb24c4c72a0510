package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cfq/internal/cli"
	"cfq/internal/must"
	"cfq/onnxio/ort/orttest"
)

func TestInterruptedRecourse(t *testing.T) {
	orttest.Need(t)
	loans := filepath.Join("..", "..", "testdata", "loans")
	text, err := os.ReadFile(filepath.Join(loans, "test.csv"))
	must.Do(t, err)
	header, rows, _ := bytes.Cut(text, []byte("\n"))
	data := filepath.Join(t.TempDir(), "people.csv")
	must.Do(t, os.WriteFile(data, append(append(header, '\n'), bytes.Repeat(rows, 200)...), 0o600))
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := make(chan bool, 1)
	go func() { // until the first batch has been written
		for ctx.Err() == nil {
			files, _ := filepath.Glob(filepath.Join(dir, ".cfq-*.tmp")) // it grows there until it takes its place
			for _, f := range files {
				if info, err := os.Stat(f); err == nil && info.Size() > 0 {
					began <- true
					cancel()
					return
				}
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var stdout, stderr bytes.Buffer
	err = dispatch(ctx, []string{
		"recourse",
		filepath.Join(loans, "model.onnx"),
		"-d",
		data,
		"-t",
		filepath.Join(loans, "task.yaml"),
		"-o",
		filepath.Join(dir, "promises.csv"),
	}, &stdout, &cli.Printer{Out: &stderr})
	if cli.Code(err) != cli.Interrupted || stdout.Len() > 0 || len(began) == 0 {
		t.Errorf("code %d (%v), stdout %q, began %d", cli.Code(err), err, stdout.String(), len(began))
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}
