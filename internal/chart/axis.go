package chart

import (
	"math"
	"strconv"
)

// axis maps numbers to 0 at its beginning and 1 at its end.
type axis struct {
	min, max float64
	log      bool
	ticks    []tick
}

type tick struct {
	value float64
	label string
}

// origin says what zero is to an axis that is not logarithmic.
type origin int

const (
	nothing    origin = iota // a number as any other
	worthwhile               // shown where it is not far from the values
	needed                   // always shown
)

// axisOf makes an axis that shows all values that can be shown.
func axisOf(log bool, zero origin, values ...[]float64) axis {
	a := axis{min: math.Inf(1), max: math.Inf(-1), log: log}
	for _, list := range values {
		for _, v := range list {
			if shown(v, log) {
				a.min, a.max = math.Min(a.min, v), math.Max(a.max, v)
			}
		}
	}
	if a.min > a.max {
		a.min, a.max = 0, 1
		if log {
			a.min = 0.1
		}
	}
	if log {
		a.padLog()
	} else {
		a.pad(zero)
	}
	return a
}

// pad leaves room at the ends, but not beyond a zero at which the axis begins.
func (a *axis) pad(zero origin) {
	if zero == needed {
		a.min, a.max = math.Min(a.min, 0), math.Max(a.max, 0)
	}
	size := math.Max(math.Abs(a.min), math.Abs(a.max))
	if a.max-a.min <= 1e-9*size || size < 1/largest {
		half := math.Max(0.05*size, 1e-3)
		a.min, a.max = a.min-half, a.max+half
		if size < 1/largest {
			a.min = 0
		}
	}
	room := 0.05 * (a.max - a.min)
	switch {
	case zero != nothing && a.min >= 0 && a.min < 0.4*a.max:
		a.min, a.max = 0, a.max+room
	case zero != nothing && a.max <= 0 && a.max > 0.4*a.min:
		a.min, a.max = a.min-room, 0
	default:
		a.min, a.max = a.min-room, a.max+room
	}
	a.ticks = even(a.min, a.max)
}

func (a *axis) padLog() {
	room := math.Max(0.05*math.Log10(a.max/a.min), 0.02)
	if math.IsInf(room, 0) {
		room = 1
	}
	a.min, a.max = a.min*math.Pow(10, -room), a.max*math.Pow(10, room)
	decades := math.Log10(a.max) - math.Log10(a.min)
	steps, stride := []float64{1}, max(1, int(math.Ceil(decades/6)))
	if decades < 2.5 {
		steps = []float64{1, 2, 5}
	}
	first, last := int(math.Floor(math.Log10(a.min))), int(math.Ceil(math.Log10(a.max)))
	for e := first; e <= last; e++ {
		if e%stride != 0 {
			continue
		}
		for _, s := range steps {
			if v := s * math.Pow10(e); v >= a.min && v <= a.max {
				a.ticks = append(a.ticks, tick{v, strconv.FormatFloat(v, shape(v), -1, 64)})
			}
		}
	}
	if len(a.ticks) < 3 {
		a.ticks = even(a.min, a.max)
	}
}

// shape is the verb that a number is formatted with.
func shape(v float64) byte {
	if v = math.Abs(v); v != 0 && (v < 1e-4 || v >= 1e6) {
		return 'g'
	}
	return 'f'
}

// even returns about six ticks at multiples of a round number.
func even(lo, hi float64) []tick {
	raw := (hi - lo) / 6
	size := math.Pow(10, math.Floor(math.Log10(raw)))
	step := size * 10
	for _, s := range []float64{1, 2, 2.5, 5} {
		if s*size >= raw {
			step = s * size
			break
		}
	}
	var ticks []tick
	for k := math.Ceil(lo / step); k <= math.Floor(hi/step) && len(ticks) < 20; k++ {
		// Twelve digits are less than a number has: they round 3*0.1 to 0.3.
		v, err := strconv.ParseFloat(strconv.FormatFloat(k*step, 'g', 12, 64), 64)
		if err != nil {
			break
		}
		v += 0 // no -0
		ticks = append(ticks, tick{v, strconv.FormatFloat(v, shape(v), -1, 64)})
	}
	return ticks
}

// at returns where v lies.
func (a *axis) at(v float64) float64 {
	if a.log {
		return (math.Log(v) - math.Log(a.min)) / (math.Log(a.max) - math.Log(a.min))
	}
	return (v - a.min) / (a.max - a.min)
}
