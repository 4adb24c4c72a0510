package eval

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// aucOf estimates the probability that one of good is larger than one of bad, ties counting one half.
//
// References: DeLong, DeLong and Clarke-Pearson (1988), Comparing the Areas under Two or More Correlated Receiver
// Operating Characteristic Curves.
func aucOf(good, bad ranked, confidence float64) Estimate {
	e := unknown()
	if good.len() == 0 || bad.len() == 0 {
		return e
	}
	auc, spread := placements(good, bad)
	e.Value, e.N = Float(auc), good.len()+bad.len()
	if good.len() > 1 && bad.len() > 1 {
		_, others := placements(bad, good)
		se := math.Sqrt(spread/float64(good.len()) + others/float64(bad.len()))
		z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
		e.Lo, e.Hi = Float(max(0, auc-z*se)), Float(min(1, auc+z*se))
	}
	return e
}

// placements are, for each of xs, the share of ys that is smaller, equal numbers counting one half: their mean and
// variance.
func placements(xs, ys ranked) (mean, variance float64) {
	var m moments
	below, upTo, i, k, total := 0, 0, 0, 0, float64(ys.len()) // of ys, those below x and up to it
	for x, n := range xs.runs() {
		for ; i < len(ys.x) && ys.x[i] < x; i++ {
			below += ys.times(i)
		}
		for ; k < len(ys.x) && ys.x[k] <= x; k++ {
			upTo += ys.times(k)
		}
		m.addTimes(float64(below+upTo)/2/total, n)
	}
	return m.value(), m.variance()
}
