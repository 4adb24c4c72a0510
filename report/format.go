package report

import (
	"fmt"
	"strconv"

	"cfq/eval"
)

const missing = "-"

// percent shows a share with a number of decimals; a share that is not zero
// never looks like it.
func percent(x eval.Float, decimals int) string {
	if !x.Defined() {
		return missing
	}
	s := strconv.FormatFloat(100*float64(x), 'f', decimals, 64)
	if zero := strconv.FormatFloat(0, 'f', decimals, 64); x > 0 && s == zero {
		return "<" + zero[:len(zero)-1] + "1 %"
	}
	return s + " %"
}

// interval shows the bounds of a rate: "1.0-3.2 %".
func interval(r eval.Rate, decimals int) string {
	if r.Den == 0 {
		return missing
	}
	return fmt.Sprintf("%.*f-%.*f %%", decimals, 100*float64(r.Lo), decimals, 100*float64(r.Hi))
}

// counts shows what a rate is made of: "12 of 640".
func counts(r eval.Rate) string { return fmt.Sprintf("%d of %d", r.Num, r.Den) }

// fraction is counts for a crowded table: "12/640".
func fraction(r eval.Rate) string { return fmt.Sprintf("%d/%d", r.Num, r.Den) }

// fixed shows a number with a number of decimals, signed shows its sign too.
func fixed(x eval.Float, decimals int) string {
	if !x.Defined() {
		return missing
	}
	return strconv.FormatFloat(float64(x), 'f', decimals, 64)
}

func signed(x eval.Float, decimals int) string {
	s := fixed(x, decimals)
	switch zero := fixed(0, decimals); {
	case s == zero || s == "-"+zero:
		return zero
	case x > 0:
		return "+" + s
	default:
		return s
	}
}

// margin shows a required margin as it was asked for.
func margin(t float64) string { return strconv.FormatFloat(t, 'g', -1, 64) }

// symbolAt returns a metric's symbol with t in it: "VD(0.1)".
func symbolAt(key string, t float64) string {
	s := eval.MetricAt(key).Symbol
	if n := len(s) - len("(t)"); n > 0 && s[n:] == "(t)" {
		return s[:n] + "(" + margin(t) + ")"
	}
	return s
}

// plural returns one when n is 1, else many.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// byteCount shows a file size.
func byteCount(n int64) string {
	if n == 0 {
		return missing
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s + " bytes"
}

// short shows the beginning of a hash.
func short(hash string) string {
	if hash == "" {
		return missing
	}
	return hash[:min(12, len(hash))]
}
