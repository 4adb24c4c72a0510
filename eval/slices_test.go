package eval

import (
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/task"
)

// The statistics of slices, as tests have them.

func sum(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}

func meanOf(xs []float64, confidence float64) Value {
	var m moments
	for _, x := range xs {
		m.add(x)
	}
	return m.mean(confidence)
}

func rmsOf(xs []float64, confidence float64) Value {
	var m moments
	for _, x := range xs {
		m.add(x * x)
	}
	return m.rootMean(confidence)
}

func ratioOf(a, b []float64, confidence float64) Value {
	var m pairMoments
	for i := range a {
		m.add(a[i], b[i]-a[i])
	}
	return m.ratio(confidence)
}

func quantileOf(xs []float64, q, confidence float64) Value {
	return rank(slices.Clone(xs)).quantile(q, confidence)
}

func gap(full, quant []float64, confidence float64) Values {
	all := newAccumulators(true, newLists(usualLimits()))
	for i := range full {
		p, q := Promise{Status: recourse.Found, Cost: Float(full[i])}, Promise{Status: recourse.Found, Cost: Float(quant[i])}
		r := &Record{Evaluated: true, Steps: []Step{{Full: p, Quant: q}}}
		all.add(&personRecords{[]*Record{r}, &Settings{}}, 0)
	}
	values, _ := all.values(confidence)
	return values
}

func errorsOf(e []float64, confidence float64) Values {
	s := &Settings{Margins: []float64{0}, Confidence: confidence}
	all := newAccumulators(true, newLists(usualLimits()))
	for _, x := range e {
		p := Promise{Status: recourse.Found, Other: Float(x)}
		all.add(&personRecords{[]*Record{{Evaluated: true, Steps: []Step{{Full: p}}}}, s}, 0)
	}
	values, _ := all.values(confidence)
	return values
}

func tau01(margins []float64, promises [][]Promise, confidence float64) Tau {
	return tauOf(Settings{Margins: margins, Confidence: confidence}, promises)
}

func issuedTau(lowest float64, promises []Promise, confidence float64) Tau {
	return tauOf(Settings{Margins: []float64{lowest}, Confidence: confidence, Issued: true}, [][]Promise{promises})
}

func tauOf(s Settings, promises [][]Promise) Tau {
	y := newResultAccumulator(&s, newLists(usualLimits()))
	for at, made := range promises {
		for i := range made {
			y.promises[ofFull][at].add(&made[i], s.Margins[at])
		}
	}
	return y.tau01(ofFull)
}

func summarize(t testing.TB, list []Record, s Settings, file DataFile) *Result {
	t.Helper()
	return summarizeGroups(t, list, nil, s, file)
}

func summarizeGroups(t testing.TB, list []Record, attributes []task.Subgroup, s Settings, file DataFile) *Result {
	t.Helper()
	records := NewRecords(s.Margins, attributes)
	for _, x := range list {
		for i := range attributes {
			x.Groups = append(x.Groups[:i:i], attributes[i].Of(x.Person))
		}
		must.Do(t, records.Add(&x))
	}
	return must.Get(Summarize(records, s, file, nil))(t)
}

func listed(t testing.TB, r *Result) []Record {
	t.Helper()
	return all(t, r.Records)
}

func all(t testing.TB, r *Records) (list []Record) {
	t.Helper()
	for x, err := range r.All() {
		must.Do(t, err)
		list = append(list, *x)
	}
	return list
}
