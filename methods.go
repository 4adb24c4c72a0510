package cfq

import (
	"fmt"
	"strings"
)

// Method is one way to quantize: what it is calibrated on and how it gives bits.
// Flags, help and documentation are made from the table that Methods returns.
type Method struct {
	Name string
	Doc  string
	// Counterfactual calibration uses factual rows and teacher recourse points
	// (U_cal), otherwise factual rows alone.
	Counterfactual bool
	// Recourse sensitivity looks at recourse points, otherwise at factual rows.
	RecourseSensitivity bool
	// Allocator and Rounding are the method's own.
	Allocator, Rounding string
}

// The ways of rounding weights.
const (
	RoundNearest    = "nearest"     // each weight to the nearest code
	RoundCompensate = "compensated" // each weight makes up for the error of those before it; the bias for the rest
)

// Roundings lists the ways of rounding.
func Roundings() []string { return []string{RoundNearest, RoundCompensate} }

// The allocators.
const (
	AllocatorUniform = "uniform" // one width for all layers, the largest that fits
	AllocatorExact   = "exact"   // least measured margin damage, exact knapsack
	AllocatorPaper   = "paper"   // the paper's greedy rule over gradient scores
)

// Allocators lists the allocators.
func Allocators() []string { return []string{AllocatorExact, AllocatorPaper, AllocatorUniform} }

// Methods is the table of methods, in the paper's order.
func Methods() []Method {
	return []Method{
		{Name: "ptq", Allocator: AllocatorUniform, Rounding: RoundNearest, Doc: "factual calibration, the same width in every layer"},
		{Name: "mixed-ptq", Allocator: AllocatorExact, Rounding: RoundNearest, Doc: "factual calibration, widths by what hurts the margin on factual rows"},
		{Name: "cf-ptq-calib", Counterfactual: true, Allocator: AllocatorExact, Rounding: RoundNearest, Doc: "calibration on factual rows and teacher recourse points, widths as in mixed-ptq"},
		{Name: "cf-ptq", Counterfactual: true, RecourseSensitivity: true, Allocator: AllocatorExact, Rounding: RoundCompensate, Doc: "calibration on factual rows and teacher recourse points, widths by what hurts the margin at recourse points, compensated rounding"},
	}
}

// FindMethod returns the method called name.
func FindMethod(name string) (Method, error) {
	var names []string
	for _, m := range Methods() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Method{}, fmt.Errorf("unknown method %q; the methods are %s", name, strings.Join(names, ", "))
}
