package ptq

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"cfq/internal/realdata"
)

// BenchmarkMethods measures the whole of `cfq quantize`, from start to exit, by each method,
// and its ratio to plain ptq. The methods take turns, so that a busy machine does
// not favour one. seconds is the least wall time of all turns, cpu-seconds the least of user and
// system time, x-ptq and x-ptq-cpu the ratios of those.
func BenchmarkMethods(b *testing.B) {
	dir, err := realdata.Find()
	if err != nil {
		b.Skipf("these ratios are about Adult: %v", err)
	}
	program := filepath.Join(b.TempDir(), "cfq")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/cfq").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	methods := Methods()
	wall, cpu := make([]time.Duration, len(methods)), make([]time.Duration, len(methods))
	peak := make([]float64, len(methods))
	const turns = 5
	for turn := range turns {
		for i, m := range methods {
			c := exec.CommandContext(context.Background(), program, "quantize", filepath.Join(dir, "models", "adult",
				"mlp2-s0.onnx"),
				"-d", filepath.Join(dir, "data", "adult", "adult.data.gz"), "-t",
				filepath.Join("..", "reproduce", "testdata", "tasks", "adult.yaml"),
				"-o", filepath.Join(b.TempDir(), "q.onnx"), "--overwrite", "--method", string(m.Name), "--budget",
				"4")
			c.Env = os.Environ()
			start := time.Now()
			if out, err := c.CombinedOutput(); err != nil {
				b.Fatalf("%s: %v\n%s", m.Name, err, out)
			}
			w, p := time.Since(start), c.ProcessState.UserTime()+c.ProcessState.SystemTime()
			if turn == 0 || w < wall[i] {
				wall[i] = w
			}
			if turn == 0 || p < cpu[i] {
				cpu[i] = p
			}
			if u, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
				peak[i] = max(peak[i], float64(u.Maxrss)/1024)
			}
		}
	}
	plain := slices.IndexFunc(methods, func(m Method) bool { return m.Name == PTQ })
	for i, m := range methods {
		b.Run(string(m.Name), func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(wall[i].Seconds(), "seconds")
			b.ReportMetric(cpu[i].Seconds(), "cpu-seconds")
			b.ReportMetric(wall[i].Seconds()/wall[plain].Seconds(), "x-ptq")
			b.ReportMetric(cpu[i].Seconds()/cpu[plain].Seconds(), "x-ptq-cpu")
			b.ReportMetric(peak[i], "peak-MB")
		})
	}
}
