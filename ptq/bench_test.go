package ptq

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/task"
)

// adult reads Adult's training rows and a model from the shared data, or the loans when they are not there.
func adult(b *testing.B) (name string, m *graph.Model, t *task.Task, people *task.People) {
	dir, err := realdata.Find()
	if err != nil {
		b.Logf("measuring the loans: %v", err)
		m, t, people = loans(b, "train.csv")
		return "loans", m, t, people
	}
	m = must.Get(codec.ReadFile(filepath.Join(dir, "models", "adult", "mlp2-s0.onnx")))(b)
	t = must.Get(task.Load(filepath.Join("..", "reproduce", "testdata", "tasks", "adult.yaml")))(b)
	data := filepath.Join(dir, "data", "adult", "adult.data.gz")
	people = must.Get(task.Read(b.Context(), data, t, task.ReadOptions{}))(b)
	return "adult", m, t, people
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

// BenchmarkWide measures the growth of quantize: random networks of four layers and, at 2048 units, 13 million weights,
// 12000 people of 13 numbers. cpu-seconds are user and system time, peak-MB is the most memory so far, with garbage
// collected as by the command.
func BenchmarkWide(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	seconds := func() float64 {
		var u syscall.Rusage
		must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return float64(u.Utime.Nano()+u.Stime.Nano()) / math.Pow10(9)
	}
	for _, width := range []int{256, 1024, 2048} {
		s := &sparse{rng: rand.New(rand.NewPCG(4, 15)), far: 12, hidden: []int{width, width, width, width}}
		m, people, t := loaded(b, s.model()), s.people(12000), sparseTask(b)
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) {
			before := seconds()
			for b.Loop() {
				must.Get(Quantize(b.Context(), m, t, people, mustRecipe(CFPTQ), Run{Workers: runtime.GOMAXPROCS(0)}))(b)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric((seconds()-before)/float64(b.N), "cpu-seconds")
			b.ReportMetric(peakMB(), "peak-MB")
		})
	}
}
