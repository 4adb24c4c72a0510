package eval

import (
	"fmt"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/internal/message"
	"cfq/internal/statistics"
)

// Shift is how far the people of an evaluation are from those that the quantized model was calibrated on.
type Shift struct {
	PSI         Float          `json:"psi"`              // the largest of Features, undefined when that of one is
	People      int            `json:"people"`           // who were read
	Calibration int            `json:"calibration"`      // people of the calibration data
	Features    []FeatureShift `json:"features"`         // in the order of the task; never nil
	Reason      string         `json:"reason,omitempty"` // why nothing is known
}

// FeatureShift is the shift of one feature.
type FeatureShift struct {
	Feature  string `json:"feature"`
	PSI      Float  `json:"psi"`      // undefined when the calibration data does not have the feature
	Bins     int    `json:"bins"`     // with somebody in them
	Expected Float  `json:"expected"` // the mean of PSI when people do not differ
	P        Float  `json:"p"`        // of Pearson's chi-squared test of the same bins, by Holm for the number of features
}

// Binned counts people by the value of a feature.
type Binned struct {
	Feature    string
	Calibrated []int // people of the calibration data, by bin
	Read       []int // people who were read, in the same bins; nil when the calibration data does not have the feature
}

// The usual bands of PSI: below the first a change is small, above the second large. What has a larger p than the
// third may be chance.
const (
	modestShift = 0.1
	largeShift  = 0.25
	shiftChance = 0.001
)

// largeSize is the FeatureShift.Size that is warned of.
const largeSize = "large"

// NewShift measures the shift of features.
func NewShift(features []Binned) *Shift {
	s := UnknownShift("")
	p := make([]float64, len(features))
	for i := range features {
		b := &features[i]
		f := FeatureShift{Feature: b.Feature, PSI: undefined(), Expected: undefined(), P: undefined()}
		if b.Read != nil {
			n, m := total(b.Read), total(b.Calibrated)
			psi, bins := statistics.PSI(b.Calibrated, b.Read)
			if f.PSI, f.Bins = Float(psi), bins; f.PSI.Defined() {
				f.Expected = Float(float64(bins-1) * (1/float64(n) + 1/float64(m)))
			}
			s.People, s.Calibration = max(s.People, n), max(s.Calibration, m)
			if f.PSI.Defined() && !(float64(s.PSI) >= psi) {
				s.PSI = f.PSI
			}
		}
		s.Features, p[i] = append(s.Features, f), alike(b.Calibrated, b.Read)
	}
	for i, x := range statistics.Holm(p) {
		s.Features[i].P = Float(x)
	}
	if lacks := message.List(s.unknown(), 5); lacks != "" {
		s.PSI, s.Reason = undefined(), "the calibration data has no "+lacks+" as the task reads it"
	}
	return s
}

// unknown are the features whose shift is not known.
func (s *Shift) unknown() (names []string) {
	for i := range s.Features {
		if !s.Features[i].PSI.Defined() {
			names = append(names, s.Features[i].Feature)
		}
	}
	return names
}

// UnknownShift is a Shift that is not known, and why.
func UnknownShift(reason string) *Shift {
	return &Shift{PSI: undefined(), Features: []FeatureShift{}, Reason: reason}
}

func total(counts []int) (n int) {
	for _, k := range counts {
		n += k
	}
	return n
}

// alike is the p of Pearson's chi-squared test that two samples are of one population; undefined when one is empty.
// PSI has the same distribution for many people; of few, its tail is heavier than that of this test.
func alike(a, b []int) float64 {
	n, m := float64(total(a)), float64(total(b))
	if n == 0 || m == 0 {
		return float64(undefined())
	}
	var sum float64
	bins := 0
	for i := range a {
		if both := float64(a[i] + b[i]); both > 0 {
			bins++
			d := float64(a[i])*m - float64(b[i])*n
			sum += d * d / (n * m * both)
		}
	}
	if bins < 2 {
		return 1
	}
	return distuv.ChiSquared{K: float64(bins - 1)}.Survival(sum)
}

// Size says how large the shift of the feature is: large, moderate or small by the usual bands, "may be chance", and ""
// when it is not known.
func (f *FeatureShift) Size() string {
	switch {
	case !f.PSI.Defined():
		return ""
	case f.PSI < modestShift:
		return "small"
	case !f.certain():
		return "may be chance"
	case f.PSI > largeShift:
		return largeSize
	}
	return "moderate"
}

// certain says that people differ by more than chance.
func (f *FeatureShift) certain() bool { return f.P <= shiftChance }

// Above names the features with a PSI above a limit. certain says that one of them is more than chance.
func (s *Shift) Above(limit float64) (names []string, certain bool) {
	for i := range s.Features {
		if f := &s.Features[i]; float64(f.PSI) > limit {
			names = append(names, fmt.Sprintf("%s (PSI %.2f)", f.Feature, float64(f.PSI)))
			certain = certain || f.certain()
		}
	}
	return names, certain
}

// Warning names the features with a large shift, "" when there are none.
func (s *Shift) Warning() string {
	var names []string
	for i := range s.Features {
		if f := &s.Features[i]; f.Size() == largeSize {
			names = append(names, fmt.Sprintf("%s (%.2f)", f.Feature, float64(f.PSI)))
		}
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf("the people differ from the calibration data, with a PSI above %v: %s. The model was quantized "+
		"for other people", largeShift, message.List(names, 6))
}

func shiftMetrics() []Metric {
	return []Metric{family("shift.", "number", RequiresShift)("psi", "shift of the people since calibration", "PSI", Lower,
		"Siddiqi (2006); Yurdakul and Naranjo (2020)",
		"Population stability index: sum over bins of (p - q) ln(p/q), p of the people read, q of the calibration "+
			"data; largest of all features. Bins: deciles of the calibration data, or categories, and missing values; an "+
			"empty bin counts half a person. Small below 0.1, large above 0.25; for n and m people who do not differ "+
			"about (bins - 1)(1/n + 1/m). What may be chance (chi-squared test, 0.1 %) is no warning and no FAIL.")}
}
