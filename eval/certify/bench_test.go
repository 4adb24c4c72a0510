package certify_test

import (
	"testing"
)

// How many people a second: of the census model, within 0.05.
func BenchmarkProve(b *testing.B) {
	f, g, p := adultPair(b, 0.25)
	k := opened(b, f, g, 1)
	half := p.boxes(0.05)
	b.ResetTimer()
	for b.Loop() {
		if _, err := k.k.Prove(b.Context(), p.points, half, p.n); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(p.n)*float64(b.N)/b.Elapsed().Seconds(), "people/s")
}
