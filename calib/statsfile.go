package calib

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

// PackStats writes statistics so that UnpackStats reads them back to the bit:
// second moments without what symmetry repeats, histograms without the empty bins.
func PackStats(stats []Stats) []byte {
	p := packer{binary.AppendUvarint(nil, uint64(len(stats)))}
	for i := range stats {
		p.stats(&stats[i])
	}
	return p.b
}

type packer struct{ b []byte }

func (p *packer) count(n int) { p.b = binary.AppendUvarint(p.b, uint64(n)) }

func (p *packer) floats(v ...float64) {
	for _, x := range v {
		p.b = binary.LittleEndian.AppendUint64(p.b, math.Float64bits(x))
	}
}

func (p *packer) stats(s *Stats) {
	n := 0
	if len(s.Mean) > 0 {
		n = len(s.Gram) / len(s.Mean)
	}
	logits := 0
	if s.LogitGram != nil {
		logits = 1
	}
	p.count(len(s.Mean))
	p.count(n)
	p.count(logits)
	p.floats(float64(s.Min), float64(s.Max), s.Zeros)
	p.moments(s.Gram, s.Mean, n)
	p.hist(s.Hist)
	p.hist(s.OutputHist)
	if logits > 0 {
		p.moments(s.LogitGram, s.LogitMean, n)
		p.hist(s.LogitHist)
	}
}

// moments writes the upper triangles of the n x n matrices that gram holds.
func (p *packer) moments(gram, mean []float64, n int) {
	p.floats(mean...)
	for r := range len(mean) {
		p.floats(gram[r*n+r%n : (r+1)*n]...)
	}
}

// hist writes each bin that is not empty behind the number of empty ones before
// it. Weights are mostly whole numbers: with the bytes turned round, short ones.
func (p *packer) hist(h []float64) {
	gap := 0
	for _, x := range h {
		if x == 0 {
			gap++
			continue
		}
		p.count(gap)
		p.b = binary.AppendUvarint(p.b, bits.ReverseBytes64(math.Float64bits(x)))
		gap = 0
	}
	p.count(histBins) // more than there can be: the end
}

var errNoStats = errors.New("these are no statistics of layers")

// UnpackStats is the inverse of PackStats.
func UnpackStats(b []byte) ([]Stats, error) {
	u := unpacker{b: b}
	n := u.count(len(b))
	stats := make([]Stats, 0, min(n, len(b)))
	for range n {
		stats = append(stats, u.stats())
		if u.bad {
			return nil, errNoStats
		}
	}
	if u.bad || len(u.b) > 0 {
		return nil, errNoStats
	}
	return stats, nil
}

type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) number() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.b, u.bad = nil, true
		return 0
	}
	u.b = u.b[n:]
	return v
}

// count reads a number of things, of which there are most at most.
func (u *unpacker) count(most int) int {
	v := u.number()
	if v > uint64(most) {
		u.bad = true
		return 0
	}
	return int(v)
}

// floats reads numbers into v.
func (u *unpacker) floats(v []float64) {
	if len(u.b) < 8*len(v) {
		u.b, u.bad = nil, true
		return
	}
	for i := range v {
		v[i] = math.Float64frombits(binary.LittleEndian.Uint64(u.b[8*i:]))
	}
	u.b = u.b[8*len(v):]
}

func (u *unpacker) stats() Stats {
	var s Stats
	means := u.count(len(u.b) / 8)
	n := u.count(means)
	logits := u.count(1) > 0
	// What the matrices take in the file bounds what they take in memory.
	if u.bad || n == 0 || means%n != 0 || means*(n+1)/2 > len(u.b)/8 {
		u.bad = true
		return s
	}
	var head [3]float64
	u.floats(head[:])
	s.Min, s.Max, s.Zeros = float32(head[0]), float32(head[1]), head[2]
	s.Gram, s.Mean = u.moments(means, n)
	s.Hist, s.OutputHist = u.hist(), u.hist()
	if logits && !u.bad {
		s.LogitGram, s.LogitMean = u.moments(means, n)
		s.LogitHist = u.hist()
	}
	return s
}

func (u *unpacker) moments(means, n int) (gram, mean []float64) {
	gram, mean = make([]float64, means*n), make([]float64, means)
	u.floats(mean)
	for r := range means {
		u.floats(gram[r*n+r%n : (r+1)*n])
		for c := r%n + 1; c < n; c++ {
			gram[(r-r%n+c)*n+r%n] = gram[r*n+c]
		}
	}
	return gram, mean
}

func (u *unpacker) hist() []float64 {
	h := make([]float64, histBins)
	rest := h // bins not read yet
	for {
		gap := u.count(histBins)
		if u.bad || gap == histBins {
			return h
		}
		if gap >= len(rest) {
			u.bad = true
			return h
		}
		rest = rest[gap:]
		rest[0] = math.Float64frombits(bits.ReverseBytes64(u.number()))
		rest = rest[1:]
	}
}
