package calib

// Range is a way of fitting the range, and with it the scale, of a quantizer.
type Range string

// The ways of fitting ranges.
const (
	MinMax     Range = "minmax"
	Percentile Range = "percentile"
	MSE        Range = "mse"
	Entropy    Range = "entropy"
	Output     Range = "output"
	Logits     Range = "logits"
)

// Rounding is a way of rounding weights to codes.
type Rounding string

// The ways of rounding weights.
const (
	Nearest  Rounding = "nearest"
	GPTQ     Rounding = "gptq"     // each weight makes up for the error of those before it
	AdaRound Rounding = "adaround" // up or down, learned by gradient
)

// RangeDoc says what a way of fitting ranges does.
type RangeDoc struct {
	Name Range
	Doc  string
}

// Ranges is the table of the ways of fitting ranges, for weights and activations alike.
func Ranges() []RangeDoc {
	return []RangeDoc{
		{MinMax, "nothing is clipped"},
		{Percentile, "the outer values are clipped: all but 99.99 % lie within"},
		{MSE, "least squared error of the numbers themselves"},
		{Entropy, "least divergence of the distribution after from that before"},
		{Output, "least squared error of what the layer makes of them (the paper's layerwise objective)"},
		{Logits, "the same, outputs weighted by how the margin depends on them"},
	}
}
