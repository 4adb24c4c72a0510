package eval

import "math"

// Epsilon keeps the ratios of CRG, DirSim and ActOverlap from dividing by
// zero (the paper's epsilon). It is far below any cost a person could notice,
// so it does not tame the mean of ratios; the ratio of sums and the median do.
const Epsilon = 1e-9

// SupportTau is the change, in model-input units, from which on an input
// counts as changed (the paper's tau of supp_tau).
const SupportTau = 1e-6

// costRatio is by how much of what it was a cost has changed.
//
// References: CRG in "Metrics".
func costRatio(full, quant float64) float64 { return (quant - full) / (full + Epsilon) }

// gap computes the Counterfactual Recourse Gap of paired costs.
//
// References: CRG in "Metrics".
func gap(full, quant []float64, confidence float64) Gap {
	ratios, abs := make([]float64, len(full)), make([]float64, len(full))
	for i := range full {
		ratios[i] = costRatio(full[i], quant[i])
		abs[i] = math.Abs(ratios[i])
	}
	return Gap{
		Mean: meanOf(ratios, confidence), RatioOfSums: ratioOf(full, quant, confidence),
		Median: quantileOf(ratios, 0.5, confidence), P95: quantileOf(ratios, 0.95, confidence),
		AbsMean: meanOf(abs, confidence), AbsMedian: quantileOf(abs, 0.5, confidence), AbsP95: quantileOf(abs, 0.95, confidence),
		N: len(full),
	}
}

// dirSim is the cosine between two actions.
//
// References: DirSim in "Metrics".
func dirSim(a, b []float32) float64 {
	var ab, aa, bb float64
	for j := range a {
		x, y := float64(a[j]), float64(b[j])
		ab += x * y
		aa += x * x
		bb += y * y
	}
	return ab / (math.Sqrt(aa)*math.Sqrt(bb) + Epsilon)
}

// actOverlap is the Jaccard overlap of the inputs that two actions change.
//
// References: ActOverlap in "Metrics".
func actOverlap(a, b []float32) float64 {
	var both, either int
	for j := range a {
		x, y := math.Abs(float64(a[j])) > SupportTau, math.Abs(float64(b[j])) > SupportTau
		if x && y {
			both++
		}
		if x || y {
			either++
		}
	}
	return float64(both) / (float64(either) + Epsilon)
}

// marginError summarises e = margin_g - margin_f.
func marginError(e []float64, confidence float64) MarginError {
	abs := make([]float64, len(e))
	for i, x := range e {
		abs[i] = math.Abs(x)
	}
	return MarginError{
		N: len(e), Mean: meanOf(e, confidence), RMS: rmsOf(e, confidence),
		P99: quantileOf(abs, 0.99, confidence), Max: quantileOf(abs, 1, confidence),
	}
}

// spreadOf summarises margins.
func spreadOf(m []float64, confidence float64) Spread {
	at := func(q float64) Estimate { return quantileOf(m, q, confidence) }
	return Spread{N: len(m), Min: Float(Quantile(m, 0)), P05: at(0.05), Median: at(0.5), P95: at(0.95), Max: Float(Quantile(m, 1))}
}
