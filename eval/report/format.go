package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/internal/message"
)

const missing = "-"

func orMissing(s string) string { return cmp.Or(s, missing) }

func percent(x eval.Float, decimals int) string { return message.Percent(float64(x), decimals) }

func confidence(c float64) string { return fmt.Sprintf("%.6g %%", 100*c) }

// interval shows the bounds of a rate: "1.0-3.2 %".
func interval(r eval.Rate, decimals int) string {
	if r.Den == 0 {
		return missing
	}
	return fmt.Sprintf("%.*f-%.*f %%", decimals, 100*float64(r.Lo), decimals, 100*float64(r.Hi))
}

func counts(r eval.Rate) string { return fmt.Sprintf("%d of %d", r.Num, r.Den) }

// fraction is counts for a crowded table: "12/640".
func fraction(r eval.Rate) string {
	if r.Den == 0 {
		return missing
	}
	return fmt.Sprintf("%d/%d", r.Num, r.Den)
}

// between shows the ends of an interval, each as show does; one that is not known is left open.
func between(e eval.Estimate, show func(eval.Float) string) string {
	switch lo, hi := e.Lo.Defined(), e.Hi.Defined(); {
	case lo && hi:
		return show(e.Lo) + " to " + show(e.Hi)
	case lo:
		return ">= " + show(e.Lo)
	case hi:
		return "<= " + show(e.Hi)
	}
	return missing
}

func seconds(x eval.Float) string {
	switch {
	case !x.Defined():
		return missing
	case x >= 1:
		return fixed(x, 2) + " s"
	case x >= 1e-3:
		return fixed(x/1e-3, 2) + " ms"
	}
	return fixed(x/1e-6, 1) + " us"
}

func amount(unit string, x eval.Float) string {
	switch {
	case !x.Defined():
		return missing
	case unit == "share":
		return percent(x, 1)
	case unit == "ratio":
		return fixed(100*x, 1) + " %"
	case unit == "seconds":
		return seconds(x)
	case unit == "bytes", unit == "bit operations", unit == "rows/s":
		return thousands(int64(x))
	}
	return fixed(x, 3)
}

// difference is that of two amounts: of shares and ratios in percentage points.
func difference(unit string, x eval.Float) string {
	switch {
	case !x.Defined():
		return missing
	case unit == "share", unit == "ratio":
		return signed(100*x, 1) + " pp"
	case !slices.Contains([]string{"seconds", "bytes", "bit operations", "rows/s"}, unit):
		return signed(x, 3)
	case x < 0:
		return "-" + amount(unit, -x)
	case x > 0:
		return "+" + amount(unit, x)
	}
	return "0"
}

// fixed shows a number with a number of decimals, without the sign of what is rounded to 0; signed shows all others.
func fixed(x eval.Float, decimals int) string {
	if !x.Defined() {
		return missing
	}
	s := strconv.FormatFloat(float64(x), 'f', decimals, 64)
	if zero := strconv.FormatFloat(0, 'f', decimals, 64); s == "-"+zero {
		return zero
	}
	return s
}

func signed(x eval.Float, decimals int) string {
	s := fixed(x, decimals)
	if x > 0 && s != fixed(0, decimals) {
		return "+" + s
	}
	return s
}

// change shows a relative change in per cent, with its sign.
func change(x eval.Float, decimals int) string {
	if !x.Defined() {
		return missing
	}
	return signed(100*x, decimals) + " %"
}

func margin(t float64) string { return strconv.FormatFloat(t, 'g', -1, 64) }

// symbolAt returns a metric's symbol with t in it: "VD(0.1)".
func symbolAt(id string, t float64) string {
	s := metrics.Must(id).Symbol
	if stem, ok := strings.CutSuffix(s, "(t)"); ok && stem != "" {
		return stem + "(" + margin(t) + ")"
	}
	return s
}

func byteCount(n int64) string {
	if n == 0 {
		return missing
	}
	return thousands(n) + " bytes"
}

func thousands(n int64) string {
	if n/1000 == 0 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), max(n%1000, -(n%1000)))
}
