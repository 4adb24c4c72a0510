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
	if len(good) == 0 || len(bad) == 0 {
		return e
	}
	auc, spread := placements(good, bad)
	e.Value, e.N = Float(auc), len(good)+len(bad)
	if len(good) > 1 && len(bad) > 1 {
		_, others := placements(bad, good)
		se := math.Sqrt(spread/float64(len(good)) + others/float64(len(bad)))
		z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
		e.Lo, e.Hi = Float(max(0, auc-z*se)), Float(min(1, auc+z*se))
	}
	return e
}

// placements are, for each of xs, the share of ys that is smaller, equal numbers counting one half: their mean and
// variance.
func placements(xs, ys ranked) (mean, variance float64) {
	var m moments
	below, upTo := 0, 0 // of ys, those below x and up to it
	for _, x := range xs {
		for below < len(ys) && ys[below] < x {
			below++
		}
		for upTo < len(ys) && ys[upTo] <= x {
			upTo++
		}
		m.add(float64(below+upTo) / 2 / float64(len(ys)))
	}
	return m.value(), m.variance()
}
