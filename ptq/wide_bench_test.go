package ptq

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"

	"cfq/internal/must"
)

// BenchmarkWide measures the growth of quantize: random networks of four layers and, at 2048 units, 13 million weights,
// 12000 people of 13 numbers. cpu-seconds are user and system time, peak-MB is the most memory so far, with garbage
// collected as by the command.
func BenchmarkWide(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	usage := func() (seconds, mb float64) {
		var u syscall.Rusage
		must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return float64(u.Utime.Nano()+u.Stime.Nano()) / math.Pow10(9), float64(u.Maxrss) / 1024
	}
	for _, width := range []int{256, 1024, 2048} {
		s := &sparse{rng: rand.New(rand.NewPCG(4, 15)), far: 12, hidden: []int{width, width, width, width}}
		m, people, t := loaded(b, s.model()), s.people(12000), sparseTask(b)
		b.Run(fmt.Sprintf("width=%d", width), func(b *testing.B) {
			before, _ := usage()
			for b.Loop() {
				if _, err := Quantize(b.Context(), m, t, people,
					mustRecipe(CFPTQ), Run{Workers: runtime.GOMAXPROCS(0)}); err != nil {
					b.Fatal(err)
				}
			}
			after, peak := usage()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric((after-before)/float64(b.N), "cpu-seconds")
			b.ReportMetric(peak, "peak-MB")
		})
	}
}
