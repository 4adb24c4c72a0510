package eval

import (
	"fmt"
	"strings"
)

// Below these counts, or above these shares, a statistic is doubtful.
const (
	fewPeople      = 30
	muchInfeasible = 0.5
	muchFree       = 0.05
	muchUnreadable = 0.01
)

// warnings says which statistics of r are doubtful, and why. It never returns nil.
func warnings(r *Result) []string {
	ws := []string{}
	warn := func(format string, a ...any) { ws = append(ws, fmt.Sprintf(format, a...)) }
	p := r.Population
	switch {
	case p.Read == 0:
		warn("there is nobody in the data: nothing was evaluated")
		return ws
	case p.Refused == 0:
		warn("the original refuses nobody of %d people: there is no recourse to evaluate", p.Read)
		return ws
	case p.Evaluated > 0 && p.BothRefuse == 0 && !r.Settings.OneSided:
		warn("the quantized model refuses none of the %d evaluated people: the mirrored rates are empty", p.Evaluated)
	}
	if p.Labelled == 0 {
		warn("no outcome is known: there is no accuracy")
	}
	if p.Favoured == 0 {
		warn("the original approves nobody of %d people: check which class is the favourable one", p.Read)
	}
	if p.Evaluated < fewPeople {
		warn("only %d people are evaluated: the rates are little more than anecdotes (see the intervals)", p.Evaluated)
	}
	if free := p.Evaluated - p.BothRefuse; float64(free) > muchFree*float64(p.Evaluated) && !r.Settings.OneSided {
		warn("the quantized model approves %d of the %d evaluated people as they are: CRG counts those of them who have the required margin at cost 0 (crg_both leaves these out)", free, p.Evaluated)
	}
	for i := range r.Margins {
		ws = append(ws, marginWarnings(&r.Margins[i], p.Evaluated, r.Settings.Given)...)
	}
	if p.Evaluated >= fewPeople && r.First.FRR.Num == 0 && !r.Settings.OneSided {
		warn("gradient descent found a valid recourse for nobody: there is no PGD-first value")
	}
	ws = append(ws, tauWarnings(r.Tau01, r.RTau01)...)
	return ws
}

func tauWarnings(tau, rtau Tau) []string {
	var ws, few []string
	for i, t := range []Tau{tau, rtau} {
		name := MetricAt([]string{"tau01", "rtau01"}[i]).Symbol
		if t.Extrapolated {
			ws = append(ws, fmt.Sprintf("%s (%.2f) lies above the largest margin evaluated: it is extrapolated from margin %g; evaluate at a larger margin to know", name, t.Value, t.From))
		}
		if t.N > 0 && t.N < 100 {
			few = append(few, fmt.Sprintf("%s rests on %d promises", name, t.N))
		}
	}
	if len(few) > 0 {
		ws = append(ws, strings.Join(few, " and ")+": with fewer than 100, at most 1 % means none")
	}
	return ws
}

func marginWarnings(a *AtMargin, evaluated int, given bool) []string {
	var ws []string
	warn := func(format string, x ...any) {
		ws = append(ws, fmt.Sprintf("margin %g: ", a.Margin)+fmt.Sprintf(format, x...))
	}
	switch {
	case given && a.VD.Den == 0:
		warn("none of the promises given to %d people reaches it", evaluated)
		return ws
	case given && a.VD.Den < fewPeople:
		warn("only %d of the promises given reach it", a.VD.Den)
		return ws
	case given:
		return ws
	case a.VD.Den == 0:
		warn("no recourse was found for any of %d people", evaluated)
		return ws
	case a.VD.Den < fewPeople && evaluated >= fewPeople:
		warn("recourse was found for only %d people", a.VD.Den)
	}
	if float64(a.FRR.Value) < 1-muchInfeasible {
		warn("no recourse was found for %d of %d people: what is said of the others may not hold for them", a.FRR.Den-a.FRR.Num, a.FRR.Den)
	}
	return ws
}

func fileWarnings(p Population) []string {
	if float64(p.Unreadable) > muchUnreadable*float64(p.Rows) {
		return []string{fmt.Sprintf("%d of %d rows could not be read", p.Unreadable, p.Rows)}
	}
	return nil
}
