package eval

import "slices"

// Footprint is the size of a quantized model, and of the full-precision one.
type Footprint struct {
	Full  Weight `json:"full"`
	Quant Weight `json:"quant"`
	// Saturating counts layers of the quantized model that multiply integers with 8-bit weights beyond 64: x64 processors
	// without VNNI cut their sums off, and compute other numbers than the rest.
	Saturating int `json:"saturating_layers,omitempty"`
}

// Weight is the size of a model file and of the work of one decision; 0 is a number that is not known.
type Weight struct {
	Bytes int64 `json:"bytes"` // of the file, external data included
	// StoredBits are the stored bits per weight, with all that the weights need; 32 in float.
	StoredBits float64 `json:"stored_bits_per_weight"`
	// bit operations of one row: multiplications times bits of weight times bits of activation
	BOPs float64 `json:"bops"`
}

// Timing is how fast ONNX Runtime runs the two models on this machine.
type Timing struct {
	Threads int  `json:"threads"`
	One     Pace `json:"batch_1"`   // one row at a time
	Many    Pace `json:"batch_256"` // 256 rows at a time
}

// Pace is the median time of one run, in seconds, over many runs of the two models in turn.
type Pace struct {
	Full       Estimate `json:"full"`
	Quant      Estimate `json:"quant"`
	Throughput Estimate `json:"throughput"` // rows per second of the quantized model in such runs
}

// NewPace makes a Pace of the times of runs of that many rows.
func NewPace(rows int, full, quant []float64, confidence float64) Pace {
	median := func(times []float64) Estimate { return rank(slices.Clone(times)).quantile(0.5, confidence) }
	p := Pace{Full: median(full), Quant: median(quant)}
	n := Float(rows)
	p.Throughput = Estimate{Value: n / p.Quant.Value, N: p.Quant.N, Lo: n / p.Quant.Hi, Hi: n / max(0, p.Quant.Lo)}
	return p
}
