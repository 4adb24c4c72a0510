package eval

import (
	"errors"
	"fmt"
	"strings"

	"cfq/eval/metrics"
	"cfq/internal/message"
)

// Summarize computes every metric of a Result from records, which hold one Step for each of the margins if they are
// evaluated. It depends on its arguments alone, and not on the order of the records: they may be some of those of
// Judge, or those of several machines. It fails when they were not made with the settings. Others who look at the
// records do so meanwhile. Close frees the records when they are not wanted any more.
func Summarize(records *Records, s Settings, file DataFile, others ...Visitor) (*Result, error) {
	points := bottomK[judgedPoint]{most: batchPoints, once: true}
	judged, copies := &judgedSample{seed: s.Seed, facts: points, ends: points}, newCopies(records)
	defer copies.rows.Close() //nolint:errcheck // nothing in it is wanted any more
	r, err := metricsOf(records, s, file, append(others, judged.visitor(), copies.visitor())...)
	if err != nil {
		return nil, err
	}
	records.judged = judged
	records.copies, err = copies.count()
	return r, err
}

func metricsOf(records *Records, s Settings, file DataFile, others ...Visitor) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	if m := len(records.layout.Margins); m != len(s.Margins) && records.Len() > 0 {
		return nil, fmt.Errorf("eval: records of %d required margins, and %d in the settings", m, len(s.Margins))
	}
	l := newLists(records.limits)
	defer l.spilled.Close() //nolint:errcheck // nothing in it is wanted any more
	y := newResultAccumulator(&s, l)
	own := func(_ []*Record, persons [][]*Record) error {
		for _, of := range persons {
			y.add(of)
		}
		return nil
	}
	if err := records.Visit(append([]Visitor{own}, others...)...); err != nil {
		return nil, err
	}
	if y.notDrawn < y.drawn {
		return nil, ErrSamples
	}
	r := y.result(file)
	r.Records = records
	return r, l.err
}

// ErrSamples reports records that were sampled part by part: those of a small part would count too much.
var ErrSamples = errors.New("eval: the records are of several samples of the people")

// Check reports settings without margins or a confidence.
func (s *Settings) Check() error {
	switch {
	case len(s.Margins) == 0:
		return errors.New("no required margins in the settings")
	case !(s.Confidence > 0 && s.Confidence < 1):
		return fmt.Errorf("invalid confidence %v: want more than 0 and less than 1", s.Confidence)
	}
	return nil
}

func (y *resultAccumulator) result(file DataFile) *Result {
	s := *y.s
	r := &Result{Settings: s, Population: y.population(file), Margins: make([]AtMargin, len(s.Margins))}
	r.Values, _ = y.once.values(s.Confidence)
	for i := range r.Margins {
		m := &r.Margins[i]
		m.Margin = s.Margins[i]
		m.Values, m.Steps = y.margins[i].values(s.Confidence)
	}
	r.Tau01, r.RTau01 = y.tau01(ofFull), y.tau01(ofQuant)
	if s.Issued {
		n := y.issued
		n.Unjudgeable = NewTally(file.Unmatched, file.Unmatched+n.Unsampled+n.Promises)
		n.Invalid, n.Infeasible = NewTally(n.Invalid.Num, n.Promises), NewTally(n.Infeasible.Num, n.Promises)
		n.Approved, n.Needless = NewTally(n.Approved.Num, n.Approved.Den), NewTally(n.Needless.Num, n.Promises)
		r.Issued = &n
	}
	r.Warnings = y.warnings(r)
	return r
}

func (y *resultAccumulator) population(file DataFile) Population {
	p := y.people
	p.DataFile = file
	p.Rows = max(p.Rows, p.Read)
	p.Refused = p.Read - p.Favoured
	p.UnreadableRows = NewTally(p.Unreadable, p.Unreadable+y.rows.all)
	p.UnlabelledRows = NewTally(y.rows.all-y.rows.labelled, y.rows.all)
	return p
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Below these counts, or above these shares, a statistic is doubtful.
const (
	minPeople      = 30
	muchInfeasible = 0.5
	muchFree       = 0.05
)

// MuchUnreadable is the share of unreadable rows above which an evaluation has a warning, and a gate no verdict.
const MuchUnreadable = 0.01

// shortfall is how far, in logits, a recourse point's margin may lie below the required one before it is worth a
// warning: more than the rounding that another batch size brings.
const shortfall = 1e-3

// rounding is by how much, in logits, the margins of equal inputs may differ in two batches.
const rounding = 1e-5

func (y *resultAccumulator) warnings(r *Result) []string {
	ws := doubts{}
	ws.statistics(r, &y.doubts)
	if n := r.Issued; n != nil && n.Invalid.Num > 0 {
		ws.add("the original itself breaks %d of the %d promises given to people who are evaluated: they count at no margin",
			n.Invalid.Num, n.Promises)
	}
	if n := r.Issued; n != nil && n.Approved.Den > 0 {
		ws.add("%d of the %d promises given are to people whom the original approves as they are: they count at no margin",
			n.Approved.Den, n.Promises)
	}
	if p := r.Population; float64(p.Unreadable) > MuchUnreadable*float64(p.Rows) {
		ws.add("%d of %d rows could not be read", p.Unreadable, p.Rows)
	}
	if n := r.Population.Repeated; n > 0 {
		ws.add("tables of records overlap: %s in several (the same row, line and content) and counted once; "+
			"if they are different people, name an id in the task file",
			message.Count(n, "row")+message.Plural(n, " is", " are"))
	}
	if r.Issued == nil {
		ws.solver(&y.doubts.points[ofFull], "the original")
	} else if y.doubts.violation != "" {
		ws.add("the task does not allow %d of the promises given (such as: %v): they count all the same",
			r.Issued.Infeasible.Num, y.doubts.violation)
	}
	ws.solver(&y.doubts.points[ofQuant], "the quantized model")
	return ws
}

type doubts []string

func (ws *doubts) add(format string, a ...any) { *ws = append(*ws, fmt.Sprintf(format, a...)) }

// addIf is add where there is reason to.
func (ws *doubts) addIf(reason bool, format string, a ...any) {
	if reason {
		ws.add(format, a...)
	}
}

func (ws *doubts) solver(d *solverDoubts, name string) {
	ws.addIf(d.short > 0, "%d recourse points of %s fall short of the margin they were solved for by more than %g: the "+
		"model gave a different margin than during the search", d.short, name, shortfall)
	ws.addIf(d.unfit > 0, "%d actions of %s are not feasible (such as: %v): they were counted all the same, this is a "+
		"fault of the solver", d.unfit, name, d.violation)
}

func (ws *doubts) statistics(r *Result, d *doubtful) {
	warn := ws.add
	p := r.Population
	switch {
	case p.Read == 0:
		warn("the data have no people: nothing was evaluated")
		return
	case p.Refused == 0:
		warn("the original refuses none of %d people: there is no recourse to evaluate", p.Read)
		return
	case p.Evaluated > 0 && p.BothRefuse == 0 && !r.Settings.OneSided:
		warn("the quantized model refuses none of the %d evaluated people: the mirrored rates are empty", p.Evaluated)
	}
	ws.addIf(p.Labelled == 0, "no outcome is known: there is no accuracy")
	ws.addIf(p.Favoured == 0, "the original approves none of %d people: check which class is the favourable one", p.Read)
	evaluated, free := d.evaluated, d.free
	ws.addIf(evaluated < minPeople, "only %d people are evaluated: the rates are uncertain (see the intervals)", evaluated)
	ws.addIf(float64(free) > muchFree*float64(evaluated) && !r.Settings.OneSided,
		"the quantized model approves %d of the "+
			"%d evaluated people as they are: CRG counts those of them who have the required margin at cost 0 (crg_both leaves "+
			"these out)", free, evaluated)
	for i := range r.Margins {
		ws.margin(&r.Margins[i], p.Evaluated, r.Settings.Issued)
	}
	ws.addIf(p.Evaluated >= minPeople && r.Rate("pgd_first.frr").Num == 0 && !r.Settings.OneSided,
		"gradient descent found no valid recourse: there is no PGD-first value")
	var few []string
	for i, t := range []Tau{r.Tau01, r.RTau01} {
		name := metrics.Must([]string{"tau01", "rtau01"}[i]).Symbol
		ws.addIf(t.Extrapolated, "%s (%.2f) lies above the largest margin evaluated: it is extrapolated from margin %g; "+
			"evaluate at a larger margin to know", name, t.Value, t.From)
		if t.N > 0 && t.N < 100 {
			few = append(few, fmt.Sprintf("%s rests on %d promises", name, t.N))
		}
	}
	ws.addIf(len(few) > 0, "%s: with fewer than 100, at most 1 %% means none", strings.Join(few, " and "))
}

func (ws *doubts) margin(a *AtMargin, evaluated int, given bool) {
	warn := func(format string, x ...any) { ws.add("margin %g: "+format, append([]any{a.Margin}, x...)...) }
	vd, frr := a.Rate("vd"), a.Rate("frr")
	switch {
	case given && vd.Den == 0:
		warn("none of the promises issued to %d people reaches it", evaluated)
		return
	case given && vd.Den < minPeople:
		warn("only %d of the promises issued reach it", vd.Den)
		return
	case given:
		return
	case vd.Den == 0:
		warn("no recourse was found for any of %d people", evaluated)
		return
	case vd.Den < minPeople && evaluated >= minPeople:
		warn("recourse was found for only %d people", vd.Den)
	}
	if float64(frr.Value) < 1-muchInfeasible {
		warn("no recourse was found for %d of %d people: results for the others may not hold for them",
			frr.Den-frr.Num, frr.Den)
	}
}
