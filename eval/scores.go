package eval

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Scores is how well the two models' scores tell the people with the favourable outcome from the others: what a review
// of model risk asks for. Both are undefined without people of both outcomes.
type Scores struct {
	AUCFull  Estimate `json:"auc_full"`
	AUCQuant Estimate `json:"auc_quant"`
}

func scoreMetrics() []Metric {
	of := family("scores.", "number", RequiresNothing)
	auc := func(key, name, symbol, definition string) Metric {
		m := of(key, name, symbol, Higher, standardMetric, definition)
		m.Instead = "accuracy_drop" // it is for reviews: its bounds are approximate
		return m
	}
	return []Metric{
		auc("auc_full", "area under the ROC curve, original", "AUC f",
			"Probability that f gives a person with the favourable outcome a larger margin than one without, ties counting "+
				"one half. Interval: DeLong."),
		auc("auc_quant", "area under the ROC curve, quantized model", "AUC g", "The same for g."),
	}
}

// scoreScope has the margins of people with a known outcome under one model.
type scoreScope struct {
	good, bad numbers // of people with the favourable outcome, and of the others
}

func (x *scoreScope) add(label int8, margin float64) {
	list := x.bad
	if label == 1 {
		list = x.good
	}
	list.add(margin)
}

// scores are the metrics of the people with a known outcome.
func (y *scope) scores() Scores {
	return Scores{AUCFull: y.full.auc(y.s.Confidence), AUCQuant: y.quant.auc(y.s.Confidence)}
}

func (x *scoreScope) auc(confidence float64) Estimate {
	return aucOf(x.good.ranked(), x.bad.ranked(), confidence)
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
