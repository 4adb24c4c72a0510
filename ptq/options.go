package ptq

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
	asked := o.Widths
	var errs []error
	errs = append(errs, checkBudget(o.Budget))
	if _, err := qdq.RuntimeOf(o.Runtime); err != nil {
		errs = append(errs, err)
	}
	if o.ActBits < 2 || o.ActBits > 8 {
		errs = append(errs, fmt.Errorf("activations of %d bits: the widths go from 2 to 8", o.ActBits))
	}
	for _, s := range Settings() {
		value := s.Of(&o)
		if *value == "" {
			*value = s.Default(method)
		}
		errs = append(errs, checkChoice(s.Name, *value, s.Choices))
	}
	switch {
	case o.Widths != WidthsRow || o.Scales == ScaleChannel && o.Allocator == AllocatorExact:
	case asked == "":
		o.Widths = WidthsLayer // the method's own, which what was asked for cannot have
	case o.Scales != ScaleChannel:
		errs = append(errs, fmt.Errorf("widths %s need scales %s; widths %s do without", WidthsRow, ScaleChannel, WidthsLayer))
	default:
		errs = append(errs, fmt.Errorf("widths %s are given by the allocator %s alone; widths %s by any", WidthsRow, AllocatorExact, WidthsLayer))
	}
	return o, method, errors.Join(errs...)
}

// checkChoice reports a value that is not among the choices.
func checkChoice(what, value string, choices []Choice) error {
	if names := Names(choices); !slices.Contains(names, value) {
		return fmt.Errorf("unknown %s %q; there are %s", what, value, strings.Join(names, ", "))
	}
	return nil
}

// The least and the largest budget, in bits per weight: those of quant.Formats.
const leastBudget, mostBudget = 2.0, 8.0

func checkBudget(bits float64) error {
	if !(bits >= leastBudget && bits <= mostBudget) {
		return fmt.Errorf("a budget of %v bits per weight: the widths go from 2 to 8", bits)
	}
	return nil
}
