package cfq

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/calib"
	"cfq/quant/qdq"
)

// resolve fills in what the method says and reports every option that there is not.
func (o Options) resolve() (Options, Method, error) {
	if o.Method == "" {
		o.Method = Methods()[0].Name
	}
	method, err := FindMethod(o.Method)
	if err != nil {
		return o, method, err
	}
	if o.Budget == 0 {
		o.Budget = 4
	}
	if o.ActBits == 0 {
		o.ActBits = 8
	}
	if o.Refine == 0 {
		o.Refine = method.Refine
	}
	o.Refine = max(o.Refine, 0)
	if o.Rows == 0 {
		o.Rows = 4096
	}
	rows := o.Widths
	var errs []error
	errs = append(errs, checkBudget(o.Budget))
	if _, err := qdq.RuntimeOf(o.Runtime); err != nil {
		errs = append(errs, err)
	}
	if o.ActBits < 2 || o.ActBits > 8 {
		errs = append(errs, fmt.Errorf("activations of %d bits: the widths go from 2 to 8", o.ActBits))
	}
	ranges := make([]Choice, 0, len(calib.Ranges()))
	for _, r := range calib.Ranges() {
		ranges = append(ranges, Choice(r))
	}
	for _, c := range []struct {
		what    string
		value   *string
		def     string
		choices []Choice
	}{
		{"cost", &o.Cost, CostBits, Costs()},
		{"allocator", &o.Allocator, method.Allocator, Allocators()},
		{"widths", &o.Widths, method.Widths, Granularities()},
		{"scales", &o.Scales, method.Scales, ScaleKinds()},
		{"range of weights", &o.WeightRange, method.WeightRange, ranges},
		{"range of activations", &o.ActRange, method.ActRange, ranges},
		{"calibration", &o.CalibrateOn, method.CalibrateOn, Calibrations()},
		{"rounding", &o.Rounding, method.Rounding, Roundings()},
		{"input", &o.Input, InputAuto, InputKinds()},
	} {
		if *c.value == "" {
			*c.value = c.def
		}
		if names := Names(c.choices); !slices.Contains(names, *c.value) {
			errs = append(errs, fmt.Errorf("unknown %s %q; there are %s", c.what, *c.value, strings.Join(names, ", ")))
		}
	}
	switch {
	case o.Widths != WidthsRow || o.Scales == ScaleChannel && o.Allocator == AllocatorExact:
	case rows == "":
		o.Widths = WidthsLayer // the method's own, which what was asked for cannot have
	case o.Scales != ScaleChannel:
		errs = append(errs, fmt.Errorf("widths of rows need a scale for each %s", ScaleChannel))
	default:
		errs = append(errs, fmt.Errorf("widths of rows are given by the allocator %s alone", AllocatorExact))
	}
	return o, method, errors.Join(errs...)
}

func checkBudget(bits float64) error {
	if !(bits >= 2 && bits <= 8) {
		return fmt.Errorf("a budget of %v bits per weight: the widths go from 2 to 8", bits)
	}
	return nil
}
