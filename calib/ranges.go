package calib

// Range is a way of fitting the range, and with it the scale, of a quantizer.
type Range struct{ Name, Doc string }

// The ways of fitting ranges.
const (
	MinMax     = "minmax"
	Percentile = "percentile"
	MSE        = "mse"
	Entropy    = "entropy"
	Output     = "output"
	Logits     = "logits"
)

// The ways of rounding weights.
const (
	Nearest     = "nearest"
	Compensated = "compensated"
	Adaptive    = "adaptive"
)

// Ranges is the table of the ways of fitting ranges, for weights and activations alike.
func Ranges() []Range {
	return []Range{
		{MinMax, "nothing is clipped"},
		{Percentile, "the outer values are clipped: all but 99.99 % lie within"},
		{MSE, "least squared error of the numbers themselves"},
		{Entropy, "least divergence of the distribution after from that before"},
		{Output, "least squared error of what the layer makes of them (the paper's layerwise objective)"},
		{Logits, "the same, outputs weighted by how the margin depends on them"},
	}
}
