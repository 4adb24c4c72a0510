package eval

import "math"

// Epsilon keeps the ratios of CRG, DirSim and ActOverlap from dividing by
// zero (the paper's epsilon). It is far below any cost a person could notice,
// so it does not tame the mean of ratios; the ratio of sums and the median do.
const Epsilon = 1e-9

// SupportTau is the change, in model-input units, from which on an input
// counts as changed (the paper's tau of supp_tau).
const SupportTau = 1e-6

// gap computes the Counterfactual Recourse Gap of paired costs.
//
// References: CRG in "Metrics".
func gap(full, quant []float64) Gap {
	g := Gap{Mean: undefined(), RatioOfSums: undefined(), Median: undefined(), N: len(full)}
	if len(full) == 0 {
		return g
	}
	ratios := make([]float64, len(full))
	for i := range full {
		ratios[i] = (quant[i] - full[i]) / (full[i] + Epsilon)
	}
	g.Mean = Float(sum(ratios) / float64(len(ratios)))
	g.Median = Float(Median(ratios))
	if s := sum(full); s > 0 {
		g.RatioOfSums = Float((sum(quant) - s) / s)
	}
	return g
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
func marginError(e []float64) MarginError {
	m := MarginError{N: len(e), Mean: undefined(), RMS: undefined(), P99: undefined(), Max: undefined()}
	if len(e) == 0 {
		return m
	}
	abs := make([]float64, len(e))
	var squares float64
	for i, x := range e {
		abs[i] = math.Abs(x)
		squares += x * x
	}
	m.Mean = Float(sum(e) / float64(len(e)))
	m.RMS = Float(math.Sqrt(squares / float64(len(e))))
	m.P99 = Float(Quantile(abs, 0.99))
	m.Max = Float(Quantile(abs, 1))
	return m
}
