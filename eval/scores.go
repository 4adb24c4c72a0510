package eval

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"cfq/internal/statistics"
)

// Scores is how well the two models' scores tell the people with the favourable outcome from the others: what a review
// of model risk asks for. All are undefined without people of both outcomes.
type Scores struct {
	AUCFull          Estimate `json:"auc_full"`
	AUCQuant         Estimate `json:"auc_quant"`
	KSFull           Estimate `json:"ks_full"`
	KSQuant          Estimate `json:"ks_quant"`
	BrierFull        Estimate `json:"brier_full"`
	BrierQuant       Estimate `json:"brier_quant"`
	CalibrationFull  Estimate `json:"calibration_full"`
	CalibrationQuant Estimate `json:"calibration_quant"`
}

func scoreMetrics() []Metric {
	of := family("scores.", "number", RequiresNothing)
	number := func(key, name, symbol string, better Better, source, definition string) Metric {
		m := of(key, name, symbol, better, source, definition)
		m.Instead = "accuracy_drop" // these are for reviews: their bounds are approximate, or there are none
		return m
	}
	return []Metric{
		number("auc_full", "area under the ROC curve, original", "AUC f", Higher, standardMetric,
			"Probability that f gives a person with the favourable outcome a larger margin than one without, ties counting "+
				"one half. Interval: DeLong."),
		number("auc_quant", "area under the ROC curve, quantized model", "AUC g", Higher, standardMetric, "The same for g."),
		number("ks_full", "Kolmogorov-Smirnov distance, original", "KS f", Higher, standardMetric,
			"Largest difference between the distributions of f's margin among people with the favourable outcome and "+
				"without."),
		number("ks_quant", "Kolmogorov-Smirnov distance, quantized model", "KS g", Higher, standardMetric,
			"The same for g."),
		number("brier_full", "Brier score, original", "Brier f", Lower, standardMetric,
			"Mean of (p - y)^2 with p the probability of the favourable outcome under f, y 1 or 0. Models of two classes only."),
		number("brier_quant", "Brier score, quantized model", "Brier g", Lower, standardMetric, "The same for g."),
		number("calibration_full", "calibration error, original", "ECE f", Lower, standardMetric,
			"Expected calibration error: mean over people of |mean p - mean y| in their one of ten bins of p of equal "+
				"width. Models of two classes only."),
		number("calibration_quant", "calibration error, quantized model", "ECE g", Lower, standardMetric,
			"The same for g."),
	}
}

// scoreScope is the margins of people with a known outcome under one model.
type scoreScope struct {
	good, bad numbers              // of people with the favourable outcome, and of the others
	squares   moments              // of the errors of probabilities
	off       [bins]statistics.Sum // outcomes less probabilities, by bin of probability
}

func (x *scoreScope) add(label int8, margin float64) {
	list, p := x.bad, probability(margin)
	if label == 1 {
		list = x.good
	}
	list.add(margin)
	x.squares.add((float64(label) - p) * (float64(label) - p))
	x.off[max(0, min(int(p*bins), bins-1))].Add(float64(label) - p)
}

// scores are the metrics of the people with a known outcome.
func (y *scope) scores() (s Scores) {
	s.AUCFull, s.KSFull, s.BrierFull, s.CalibrationFull = y.full.scores(y.s)
	s.AUCQuant, s.KSQuant, s.BrierQuant, s.CalibrationQuant = y.quant.scores(y.s)
	return s
}

func (x *scoreScope) scores(s *Settings) (auc, ks, brier, calibration Estimate) {
	good, bad := x.good.ranked(), x.bad.ranked()
	auc, ks, brier, calibration = aucOf(good, bad, s.Confidence), ksOf(good, bad), unknown(), unknown()
	if s.Classes <= 2 && good.len() > 0 && bad.len() > 0 { // of more, a margin does not say the probability
		brier = x.squares.mean(s.Confidence)
		calibration.N = good.len() + bad.len()
		calibration.Value = x.calibrationError(calibration.N)
	}
	return auc, ks, brier, calibration
}

// calibrationError is the expected one of n people.
//
// References: Guo et al. (2017), On Calibration of Modern Neural Networks, equation 3.
func (x *scoreScope) calibrationError(n int) Float {
	var sum float64
	for i := range x.off {
		sum += math.Abs(x.off[i].Value())
	}
	return Float(sum / float64(n))
}

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

// ksOf is the largest difference between two distributions.
func ksOf(good, bad ranked) Estimate {
	e := unknown()
	if good.len() > 0 && bad.len() > 0 {
		e.Value = Float(stat.KolmogorovSmirnov(good.x, good.weights(), bad.x, bad.weights()))
		e.N = good.len() + bad.len()
	}
	return e
}

// probability is that of the favourable one of two classes.
func probability(margin float64) float64 { return 1 / (1 + math.Exp(-margin)) }

// bins of probability in which calibration is measured.
const bins = 10
