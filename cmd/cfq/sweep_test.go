package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cfq/engine/enginetest"
	"cfq/internal/cli"
)

// TestSweepStopped checks that a sweep that was stopped, even in the middle of a line, and called
// again ends with the files of one run.
func TestSweepStopped(t *testing.T) {
	enginetest.Need(t)
	loans := filepath.Join("..", "..", "testdata", "loans")
	dir := t.TempDir()
	run := func(ctx context.Context, out, workers string) (stderr string, err error) {
		var stdout, messages bytes.Buffer
		err = dispatch(ctx, []string{
			"sweep", filepath.Join(loans, "model.onnx"), "-d", filepath.Join(loans, "train.csv"), "-t", filepath.Join(loans, "task.yaml"),
			"--test", filepath.Join(loans, "test.csv"), "-o", out, "--methods", "mixed-ptq,ptq", "--budgets", "2,3,4,5,8", "--sample", "10", "--workers", workers,
		}, &stdout, &cli.Printer{Out: &messages})
		return messages.String(), err
	}
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	if stderr, err := run(t.Context(), one, "2"); err != nil {
		t.Fatal(err, stderr)
	}
	log := filepath.Join(two, sweepPoints)
	lines := func() int {
		have, _ := os.ReadFile(log) // there is none at first
		return bytes.Count(have, []byte{'\n'})
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for lines() < 3 { // the inputs and two points
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	stderr, err := run(ctx, two, "1")
	if n := lines(); cli.Code(err) != cli.Interrupted || n < 3 || n > 10 || !strings.Contains(stderr, "the same command goes on from there") {
		t.Fatalf("%d lines, code %d (%v), %s", n, cli.Code(err), err, stderr)
	}
	if _, err := os.Stat(filepath.Join(two, sweepSVG)); err == nil {
		t.Error("a sweep that was stopped drew curves")
	}
	have, err := os.ReadFile(log)
	if err == nil {
		err = os.WriteFile(log, have[:len(have)-7], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if stderr, err := run(t.Context(), two, "2"); err != nil || !strings.Contains(stderr, "finished before") {
		t.Fatal(err, stderr)
	}
	for _, name := range []string{sweepPoints, sweepTable, sweepSVG} {
		a, errA := os.ReadFile(filepath.Join(one, name))
		b, errB := os.ReadFile(filepath.Join(two, name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: another than of one run (%v, %v)", name, errA, errB)
		}
	}
}
