package ptq

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/task"
)

// adult reads Adult's training rows and model from the shared data, or the loans
// when they are not there.
func adult(b *testing.B) (name string, m *graph.Model, t *task.Task, people *task.People) {
	dir, err := realdata.Find()
	if err != nil {
		b.Logf("measuring the loans: %v", err)
		m, t, people = loans(b, "train.csv")
		return "loans", m, t, people
	}
	if m, err = codec.ReadFile(filepath.Join(dir, "models", "adult", "mlp2-s0.onnx")); err != nil {
		b.Fatal(err)
	}
	if t, err = task.Load(filepath.Join("..", "reproduce", "testdata", "tasks", "adult.yaml")); err != nil {
		b.Fatal(err)
	}
	if people, err = task.Read(context.Background(), filepath.Join(dir, "data", "adult", "adult.data.gz"), t,
		task.ReadOptions{}); err != nil {
		b.Fatal(err)
	}
	return "adult", m, t, people
}

// BenchmarkTeacher measures the teacher actions, K = 3, of all training rows. The
// ratio is their time to that of one plain gradient of all rows in the same run.
func BenchmarkTeacher(b *testing.B) {
	name, m, t, people := adult(b)
	c := must.Get(OpenFor(loaded(b, m), t, runtime.GOMAXPROCS(0)))(b)
	defer c.Close()
	set := must.Get(constraint.Compile(t))(b)
	ctx := context.Background()
	b.Run(name, func(b *testing.B) {
		var gradient time.Duration
		for b.Loop() {
			if _, err := recourse.Teacher(ctx, c, set, people.X, recourse.TeacherOptions{}); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			start := time.Now()
			if _, _, err := c.LossGrads(ctx, people.X); err != nil {
				b.Fatal(err)
			}
			gradient += time.Since(start)
			b.StartTimer()
		}
		perOp := b.Elapsed().Seconds() / float64(b.N)
		b.ReportMetric(float64(people.N)/perOp, "rows/s")
		b.ReportMetric(b.Elapsed().Seconds()/gradient.Seconds(), "x-gradient")
	})
}

// BenchmarkQuantize measures the whole of quantize on all training rows, with the
// most memory that the process ever had.
func BenchmarkQuantize(b *testing.B) {
	name, m, t, people := adult(b)
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			r := must.Get(Quantize(b.Context(), loaded(b, m), t, people,
				mustRecipe(CFPTQ), Run{Workers: runtime.GOMAXPROCS(0)}))(b)
			must.Do(b, r.Verified.Err())
		}
		b.ReportMetric(float64(people.N)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		if mb := peakMB(); mb > 0 {
			b.ReportMetric(mb, "peak-MB")
		}
	})
}

// peakMB is the largest resident size of this process in megabytes, 0 where the
// system does not tell.
func peakMB() float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	var kb float64
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				return 0
			}
		}
	}
	return kb / 1024
}
