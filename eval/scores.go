package eval

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
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

// scores are the metrics of the people with a known outcome.
func (y *summary) scores() (s Scores) {
	s.AUCFull, s.KSFull, s.BrierFull, s.CalibrationFull = y.scoresBy(func(r *Record) Float { return r.Full })
	s.AUCQuant, s.KSQuant, s.BrierQuant, s.CalibrationQuant = y.scoresBy(func(r *Record) Float { return r.Quant })
	return s
}

// scoresBy are the scores of the model with these margins.
func (y *summary) scoresBy(margin func(r *Record) Float) (auc, ks, brier, calibration Estimate) {
	good, bad := y.scored(margin)
	auc, ks, brier, calibration = aucOf(good, bad, y.s.Confidence), ksOf(good, bad), unknown(), unknown()
	if y.s.Classes <= 2 { // of more, a margin does not say the probability
		brier, calibration = brierOf(good, bad, y.s.Confidence), calibrationOf(good, bad)
	}
	return auc, ks, brier, calibration
}

// scored lists the margins of the people with the favourable outcome and of the others, ascending.
func (y *summary) scored(of func(r *Record) Float) (good, bad []float64) {
	for _, person := range y.persons { // who has several rows counts by the first
		switch r := &y.records[person[0]]; r.Label {
		case 1:
			good = append(good, float64(of(r)))
		case 0:
			bad = append(bad, float64(of(r)))
		}
	}
	slices.Sort(good)
	slices.Sort(bad)
	return good, bad
}

// aucOf estimates the probability that one of good is larger than one of bad, both sorted, ties counting one half.
//
// References: DeLong, DeLong and Clarke-Pearson (1988), Comparing the Areas under Two or More Correlated Receiver
// Operating Characteristic Curves.
func aucOf(good, bad []float64, confidence float64) Estimate {
	e := unknown()
	if len(good) == 0 || len(bad) == 0 {
		return e
	}
	wins, losses := placements(good, bad), placements(bad, good)
	auc := stat.Mean(wins, nil)
	e.Value, e.N = Float(auc), len(good)+len(bad)
	if len(good) > 1 && len(bad) > 1 {
		se := math.Sqrt(stat.Variance(wins, nil)/float64(len(good)) + stat.Variance(losses, nil)/float64(len(bad)))
		z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
		e.Lo, e.Hi = Float(max(0, auc-z*se)), Float(min(1, auc+z*se))
	}
	return e
}

// placements are, for each of xs, the share of ys that is smaller; both are sorted, and equal numbers count one half.
func placements(xs, ys []float64) []float64 {
	out := make([]float64, len(xs))
	below, upTo := 0, 0
	for i, x := range xs {
		for below < len(ys) && ys[below] < x {
			below++
		}
		for upTo < len(ys) && ys[upTo] <= x {
			upTo++
		}
		out[i] = float64(below+upTo) / 2 / float64(len(ys))
	}
	return out
}

// ksOf is the largest difference between the distributions of two sorted lists.
func ksOf(good, bad []float64) Estimate {
	e := unknown()
	if len(good) > 0 && len(bad) > 0 {
		e.Value, e.N = Float(stat.KolmogorovSmirnov(good, nil, bad, nil)), len(good)+len(bad)
	}
	return e
}

// probability is that of the favourable one of two classes.
func probability(margin float64) float64 { return 1 / (1 + math.Exp(-margin)) }

// brierOf estimates the mean squared error of probabilities.
func brierOf(good, bad []float64, confidence float64) Estimate {
	var squares []float64
	for _, m := range good {
		squares = append(squares, math.Pow(1-probability(m), 2))
	}
	for _, m := range bad {
		squares = append(squares, math.Pow(probability(m), 2))
	}
	if len(good) == 0 || len(bad) == 0 {
		return unknown()
	}
	return meanOf(squares, confidence)
}

// bins of probability in which calibration is measured.
const bins = 10

// calibrationOf is the expected calibration error.
//
// References: Guo et al. (2017), On Calibration of Modern Neural Networks, equation 3.
func calibrationOf(good, bad []float64) Estimate {
	e := unknown()
	if len(good) == 0 || len(bad) == 0 {
		return e
	}
	var off [bins]float64
	add := func(margins []float64, outcome float64) {
		for _, m := range margins {
			p := probability(m)
			off[min(int(p*bins), bins-1)] += outcome - p
		}
	}
	add(good, 1)
	add(bad, 0)
	e.N = len(good) + len(bad)
	var sum float64
	for _, x := range off {
		sum += math.Abs(x)
	}
	e.Value = Float(sum / float64(e.N))
	return e
}
