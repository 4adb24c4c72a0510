package ptq

import (
	"context"
	"path/filepath"
	"runtime"
	"syscall"
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

// adult reads Adult's training or test rows and a model from the shared data, or the loans when they are not there.
func adult(b *testing.B, rows string) (name string, m *graph.Model, t *task.Task, people *task.People) {
	dir, err := realdata.Find()
	if err != nil {
		b.Logf("measuring the loans: %v", err)
		m, t, people = loans(b, "train.csv")
		return "loans", m, t, people
	}
	m = must.Get(codec.ReadFile(filepath.Join(dir, "models", "adult", "mlp2-s0.onnx")))(b)
	t = must.Get(task.Load(filepath.Join("..", "reproduce", "testdata", "tasks", "adult.yaml")))(b)
	people = must.Get(task.Read(b.Context(), filepath.Join(dir, "data", "adult", rows), t, task.ReadOptions{}))(b)
	return "adult", m, t, people
}

// BenchmarkTeacher measures the teacher actions, K = 3, of all training rows. The
// ratio is their time to that of one plain gradient of all rows in the same run.
func BenchmarkTeacher(b *testing.B) {
	name, m, t, people := adult(b, "adult.data.gz")
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
	name, m, t, people := adult(b, "adult.data.gz")
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			r := must.Get(Quantize(b.Context(), loaded(b, m), t, people,
				mustRecipe(CFPTQ), Run{Workers: runtime.GOMAXPROCS(0)}))(b)
			must.Do(b, r.Verified.Err())
		}
		b.ReportMetric(float64(people.N)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		b.ReportMetric(peakMB(), "peak-MB")
	})
}

// peakMB is the largest resident size of this process in megabytes, where the system counts kilobytes, as Linux does.
func peakMB() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Maxrss) / 1024
}
