package calib

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// statsOf draws statistics of one layer: groups x n x n moments and histograms.
func statsOf(t *rapid.T) Stats {
	number := rapid.OneOf(rapid.Float64(),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, 3, math.Inf(1), 5e-324}))
	n, groups := rapid.IntRange(1, 5).Draw(t, "inputs"), rapid.IntRange(1, 3).Draw(t, "groups")
	moments := func() Moments {
		gram, mean := make([]float64, groups*n*n), rapid.SliceOfN(number, groups*n, groups*n).Draw(t, "means")
		for g := range groups {
			for i := range n {
				for j := range i + 1 {
					v := number.Draw(t, "moment")
					gram[g*n*n+i*n+j], gram[g*n*n+j*n+i] = v, v
				}
			}
		}
		return Moments{gram, mean}
	}
	hist := func() []float64 {
		h := make([]float64, histBins)
		for range rapid.IntRange(0, 20).Draw(t, "bins") {
			h[rapid.SampledFrom([]int{0, 1, 7, 8, 100, histBins - 2, histBins - 1}).Draw(t, "bin")] = math.Abs(number.Draw(t,
				"weight"))
		}
		return h
	}
	s := Stats{
		Min: rapid.Float32().Draw(t, "min"), Max: rapid.Float32().Draw(t, "max"),
		Zeros: math.Abs(number.Draw(t, "zeros")),
	}
	s.Moments = moments()
	s.Hist, s.OutputHist = hist(), hist()
	if rapid.Bool().Draw(t, "logits") {
		s.Logits = moments()
		s.LogitHist = hist()
	}
	return s
}

// bitsOf returns all numbers of statistics.
func bitsOf(s *Stats) []uint64 {
	var out []uint64
	for _, v := range [][]float64{
		{float64(s.Min), float64(s.Max), s.Zeros},
		s.Gram, s.Mean, s.Hist, s.OutputHist,
		s.Logits.Gram, s.Logits.Mean, s.LogitHist,
	} {
		out = append(out, uint64(len(v)))
		for _, x := range v {
			out = append(out, math.Float64bits(x))
		}
	}
	return out
}

// What is read back is what was written, to the bit; anything cut or longer is refused.
func TestPackStats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stats := make([]Stats, rapid.IntRange(0, 3).Draw(t, "layers"))
		for i := range stats {
			stats[i] = statsOf(t)
		}
		packed := PackStats(stats)
		got, err := UnpackStats(packed)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(stats) {
			t.Fatalf("%d layers, want %d", len(got), len(stats))
		}
		for i := range got {
			if !slices.Equal(bitsOf(&got[i]), bitsOf(&stats[i])) ||
				(got[i].Logits.Gram == nil) != (stats[i].Logits.Gram == nil) {
				t.Fatalf("layer %d differs", i)
			}
		}
		if _, err := UnpackStats(packed[:rapid.IntRange(0, len(packed)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("a part was taken")
		}
		if _, err := UnpackStats(append(packed, 0)); err == nil {
			t.Fatal("something behind was taken")
		}
	})
}

// Nothing makes it panic or take much more memory than there are bytes.
func FuzzUnpackStats(f *testing.F) {
	s := unit(2)
	s.Hist, s.OutputHist = make([]float64, histBins), make([]float64, histBins)
	s.Hist[5], s.OutputHist[9] = 3, 1.5
	f.Add(PackStats([]Stats{*s, *s}))
	f.Add([]byte{1, 255, 255, 255, 3, 255, 255, 3, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		stats, err := UnpackStats(b)
		if err != nil {
			return
		}
		for _, s := range stats {
			if len(s.Gram) > len(b) || len(s.Mean) == 0 || len(s.Hist) != histBins {
				t.Errorf("%d moments of %d bytes", len(s.Gram), len(b))
			}
		}
		if again, err := UnpackStats(PackStats(stats)); err != nil || len(again) != len(stats) {
			t.Errorf("what was read cannot be written and read: %v", err)
		}
	})
}
