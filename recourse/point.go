package recourse

// Point sets dst to the person after the action: x + delta in float32, the very
// numbers that models are given everywhere in this project. One-hot and binary
// inputs come out exactly 0 or 1, because for those the sum is exact.
// The slices have equal length; several rows at once are fine.
func Point(dst, x, delta []float32) {
	x = x[:len(dst)]
	delta = delta[:len(dst)]
	for i := range dst {
		dst[i] = x[i] + delta[i]
	}
}
