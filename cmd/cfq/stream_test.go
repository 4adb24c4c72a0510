package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"cfq/internal/cli"
	"cfq/internal/must"
	"cfq/onnxio/ort/orttest"
)

// BenchmarkStream measures rows as a stream and in a file, one worker each.
func BenchmarkStream(b *testing.B) {
	orttest.Need(b)
	loans := filepath.Join("..", "..", "testdata", "loans")
	data := filepath.Join(loans, "test.csv")
	text, err := os.ReadFile(data)
	must.Do(b, err)
	rows := bytes.Count(text, []byte("\n")) - 1
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	for name, flags := range map[string][]string{
		"file":   {"-d", data, "-o", filepath.Join(b.TempDir(), "promises.csv"), "--overwrite"},
		"stream": {"--stream"},
	} {
		b.Run(name, func(b *testing.B) {
			args := append([]string{
				"recourse", filepath.Join(loans, "model.onnx"), "-t", filepath.Join(loans, "task.yaml"), "--workers", "1",
			}, flags...)
			for range b.N {
				if os.Stdin, err = os.Open(data); err != nil {
					b.Fatal(err)
				}
				must.Do(b, dispatch(b.Context(), args, io.Discard, &cli.Printer{Out: io.Discard}))
				os.Stdin.Close()
			}
			b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
