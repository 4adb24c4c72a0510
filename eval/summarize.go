package eval

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"cfq/internal/ordered"
)

// Summarize computes every metric of a Result from records, which hold one Step for each of the margins if they are
// evaluated. It depends on its arguments alone, and not on the order of the records: they may be some of those of
// Judge, or those of several machines. It fails when they were not made with the settings. Others who look at the
// records do so meanwhile. Close frees the records when they are not wanted any more.
func Summarize(records *Records, s Settings, file DataFile, others ...Visitor) (*Result, error) {
	judged, copies := newJudgedSample(&s), newCopies(records)
	defer copies.rows.Close() //nolint:errcheck // nothing in it is wanted any more
	r, err := metricsOf(records, s, file, append(others, judged.visitor(), copies.visitor())...)
	if err != nil {
		return nil, err
	}
	records.judged = judged
	records.copies, err = copies.count()
	return r, err
}

// metricsOf is Summarize without what else a Result needs of the records.
func metricsOf(records *Records, s Settings, file DataFile, others ...Visitor) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	if m := records.layout.margins; m != len(s.Margins) && records.Len() > 0 {
		return nil, fmt.Errorf("eval: records of %d required margins, and %d in the settings", m, len(s.Margins))
	}
	l := newLists(records.limits)
	defer l.spilled.Close() //nolint:errcheck // nothing in it is wanted any more
	y := newScope(&s, l)
	one := oneSample{highest: 0, lowest: math.MaxUint64}
	own := Visitor{to: toNumbers, persons: func(some [][]*Record) error {
		for _, of := range some {
			if s.Sample > 0 {
				one.add(of, s.Seed)
			}
			y.add(of)
		}
		return nil
	}}
	if s.Sample > 0 {
		own.to = toInputs
	}
	if err := records.Visit(append([]Visitor{own}, others...)...); err != nil {
		return nil, err
	}
	if one.lowest < one.highest {
		return nil, ErrSamples
	}
	r := y.result(file, ranking)
	r.Records = records
	return r, l.err
}

// ErrSamples reports records that were sampled part by part: those of a small part would count too much.
var ErrSamples = errors.New("eval: the records are of several samples of the people")

// oneSample is the largest priority of those in a sample, and the smallest of the others who could be in it: in one
// sample of all people, the first is not above the second.
type oneSample struct{ highest, lowest uint64 }

func (o *oneSample) add(of []*Record, seed uint64) {
	for _, r := range of {
		switch {
		case r.Evaluated:
			o.highest = max(o.highest, priority(seed, r.X))
		case r.eligible():
			o.lowest = min(o.lowest, priority(seed, r.X))
		}
	}
}

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

// result is what the people added so far come to, of which so many parts are computed at a time.
func (y *scope) result(file DataFile, atOnce int) *Result {
	s := *y.s
	r := &Result{
		Settings: s, Population: y.population(file), Decisions: y.decisions(),
		First:   First{FRR: y.share("pgd_first.frr", -1), VD: y.share("pgd_first.vd", -1)},
		Margins: make([]AtMargin, len(s.Margins)),
	}
	work := []func() error{func() error {
		r.Scores = y.scores()
		return nil
	}}
	for i := range s.Margins {
		work = append(work, func() error {
			r.Margins[i] = y.atMargin(i)
			return nil
		})
	}
	_ = ordered.All(atOnce, work...) // what fails is an error of the lists
	r.Tau01 = y.tau01(func(m *marginScope) *breakScope { return &m.full })
	r.RTau01 = y.tau01(func(m *marginScope) *breakScope { return &m.quant })
	if s.Issued {
		r.Issued = y.issuedCounts(file.Unmatched)
		r.Tau01 = y.issued.tau(s.Margins[0], s.Confidence)
	}
	r.Warnings = y.warnings(r)
	return r
}

// issuedCounts counts the promises that people were issued, of which some may belong to none of the records.
func (y *scope) issuedCounts(unmatched int) *Issued {
	n := &y.issued
	return &Issued{
		Promises: n.promises, Unsampled: n.unsampled,
		Unjudgeable: newTally(unmatched, unmatched+n.unsampled+n.promises),
		Invalid:     newTally(n.invalid, n.promises), Infeasible: newTally(n.infeasible, n.promises),
	}
}

func (y *scope) population(file DataFile) Population {
	p := y.people
	p.DataFile = file
	p.Rows = max(p.Rows, p.Read)
	p.Refused = p.Read - p.Favoured
	p.UnreadableRows = newTally(p.Unreadable, p.Unreadable+y.rows.all)
	if y.rows.labelled > 0 {
		p.UnlabelledRows = newTally(y.rows.all-y.rows.labelled, y.rows.all)
	}
	return p
}

// decisions compares the two models on people as they are.
func (y *scope) decisions() Decisions {
	share := func(id string) Rate { return y.share(id, -1) }
	d := Decisions{
		AccuracyFull: share("accuracy_full"), AccuracyQuant: share("accuracy_quant"),
		FavourableFull: share("favourable_full"), FavourableQuant: share("favourable_quant"),
		Disagreement: share("disagreement"), Lost: share("lost"), Gained: share("gained"),
		FPRFull: share("fpr_full"), FPRQuant: share("fpr_quant"), FNRFull: share("fnr_full"), FNRQuant: share("fnr_quant"),
	}
	d.AccuracyDrop = dropOf(y.alone, y.other, d.AccuracyFull.Den, y.s.Confidence)
	n, right := [2]int{}, [2]int{}
	for label, x := range y.outcomes {
		n[label], right[label] = x[0], x[1]
	}
	d.BalancedAccuracy = meanOfShares(right, n, y.s.Confidence)
	return d
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// atMargin computes the metrics at the i-th required margin.
func (y *scope) atMargin(i int) AtMargin {
	c, m := y.s.Confidence, &y.margins[i]
	at := AtMargin{
		Margin: y.s.Margins[i], FRR: y.share("frr", i), RFRR: y.share("rfrr", i),
		VD: y.share("vd", i), VDMismatch: y.share("vd_mismatch", i), RVD: y.share("rvd", i),
		LostRecourse: y.share("lost_recourse", i), CRG: m.crg.gap(m.free, c), CRGBoth: m.both.gap(0, c),
		DirSim: m.dirSim.mean(c), DirSimP05: m.dirSim.list.ranked().quantile(0.05, c),
		ActOverlap: m.overlap.mean(c), ActOverlapP05: m.overlap.list.ranked().quantile(0.05, c),
		MarginError: m.errors(c), FullMargins: m.own.spread(c), QuantMargins: m.others.spread(c),
		Certified: y.proofs(i), Perturbed: y.perturbed(i),
	}
	if m.pixels.n > 0 {
		mean, p95 := m.pixels.mean(c), m.pixels.list.ranked().quantile(0.95, c)
		at.Pixels, at.PixelsP95 = &mean, &p95
	}
	return at
}

// Epsilon keeps the ratios of CRG, DirSim and ActOverlap from dividing by
// zero (the paper's epsilon). It is far below any cost a person could notice,
// so it does not tame the mean of ratios; the ratio of sums and the median do.
const Epsilon = 1e-9

// SupportTau is the change, in model-input units, from which on an input
// counts as changed (the paper's tau of supp_tau).
const SupportTau = 1e-6

// costRatio is by how much of what it was a cost has changed.
//
// References: CRG in "Metrics".
func costRatio(full, quant float64) float64 { return (quant - full) / (full + Epsilon) }

// gap computes the Counterfactual Recourse Gap of paired costs.
//
// References: CRG in "Metrics".
func (g *gapScope) gap(free int, confidence float64) Gap {
	ratios := g.ratios.list.ranked()
	sizes := ratios.sizes()
	return Gap{
		Mean: g.ratios.mean(confidence), RatioOfSums: g.pairs.ratio(confidence),
		Median: ratios.quantile(0.5, confidence), P95: ratios.quantile(0.95, confidence),
		AbsMean: g.sizes.mean(confidence), AbsMedian: sizes.quantile(0.5, confidence),
		AbsP95: sizes.quantile(0.95, confidence),
		N:      g.pairs.n, Free: free,
	}
}

// dirSim is the cosine between two actions.
//
// References: DirSim in "Metrics".
func dirSim(a, b []float32) float64 {
	var ab, aa, bb float64
	for j := range a {
		x, y := float64(a[j]), float64(b[j])
		ab += x * y
		aa += x * x
		bb += y * y
	}
	return ab / (math.Sqrt(aa)*math.Sqrt(bb) + Epsilon)
}

// actOverlap is the Jaccard overlap of the inputs that two actions change.
//
// References: ActOverlap in "Metrics".
func actOverlap(a, b []float32) float64 {
	var both, either int
	for j := range a {
		x, y := math.Abs(float64(a[j])) > SupportTau, math.Abs(float64(b[j])) > SupportTau
		both += count(x && y)
		either += count(x || y)
	}
	return float64(both) / (float64(either) + Epsilon)
}

// errors summarises e = margin_g - margin_f.
func (m *marginScope) errors(confidence float64) MarginError {
	abs := m.marginError.list.ranked().sizes()
	return MarginError{
		N: abs.len(), Mean: m.marginError.mean(confidence), RMS: m.squares.rootMean(confidence),
		P95: abs.quantile(0.95, confidence), P99: abs.quantile(0.99, confidence), Max: abs.quantile(1, confidence),
	}
}

// maxSteps is how many steps of a distribution are kept: more cannot be told apart on a page.
const maxSteps = 240

// spread summarises margins.
func (x numbers) spread(confidence float64) Spread {
	r := x.ranked()
	s := Spread{
		N: r.len(), Min: undefined(), P05: r.quantile(0.05, confidence), Median: r.quantile(0.5, confidence),
		P95: r.quantile(0.95, confidence), Max: undefined(),
	}
	if s.N > 0 {
		s.Min, s.Max = Float(r.at(1)), Float(r.at(s.N))
	}
	for at, stride := 1, max(1, s.N/maxSteps); at <= s.N; at += stride {
		s.Steps = append(s.Steps, SpreadStep{r.at(at), at})
	}
	return s
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

// warnings says what is doubtful about r, and why. It never returns nil.
func (y *scope) warnings(r *Result) []string {
	ws := doubts{}
	ws.statistics(r, &y.doubts)
	if n := r.Issued; n != nil && n.Invalid.Num > 0 {
		ws.add("the original itself breaks %d of the %d promises given to people who are evaluated: they count at no margin",
			n.Invalid.Num, n.Promises)
	}
	if p := r.Population; float64(p.Unreadable) > MuchUnreadable*float64(p.Rows) {
		ws.add("%d of %d rows could not be read", p.Unreadable, p.Rows)
	}
	if r.Issued == nil {
		ws.solver(&y.doubts.full, "the original")
	} else if y.issued.violation != "" {
		ws.add("the task does not allow %d of the promises given (such as: %v): they count all the same",
			r.Issued.Infeasible.Num, y.issued.violation)
	}
	ws.solver(&y.doubts.quant, "the quantized model")
	return ws
}

// doubts are warnings.
type doubts []string

func (ws *doubts) add(format string, a ...any) { *ws = append(*ws, fmt.Sprintf(format, a...)) }

// solver warns of one model's points.
func (ws *doubts) solver(d *solverDoubts, name string) {
	if d.short > 0 {
		ws.add("%d recourse points of %s fall short of the margin they were solved for by more than %g: the model gave a "+
			"different margin than during the search", d.short, name, shortfall)
	}
	if d.unfit > 0 {
		ws.add("%d actions of %s are not feasible (such as: %v): they were counted all the same, this is a fault of the "+
			"solver", d.unfit, name, d.violation)
	}
}

// statistics says which statistics of r are doubtful.
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
	if p.Labelled == 0 {
		warn("no outcome is known: there is no accuracy")
	}
	if p.Favoured == 0 {
		warn("the original approves none of %d people: check which class is the favourable one", p.Read)
	}
	evaluated, free := d.evaluated, d.free
	if evaluated < minPeople {
		warn("only %d people are evaluated: the rates are uncertain (see the intervals)", evaluated)
	}
	if float64(free) > muchFree*float64(evaluated) && !r.Settings.OneSided {
		warn("the quantized model approves %d of the %d evaluated people as they are: CRG counts those of them who have "+
			"the required margin at cost 0 (crg_both leaves these out)", free, evaluated)
	}
	for i := range r.Margins {
		ws.margin(&r.Margins[i], p.Evaluated, r.Settings.Issued)
	}
	if p.Evaluated >= minPeople && r.First.FRR.Num == 0 && !r.Settings.OneSided {
		warn("gradient descent found no valid recourse: there is no PGD-first value")
	}
	var few []string
	for i, t := range []Tau{r.Tau01, r.RTau01} {
		name := MetricAt([]string{"tau01", "rtau01"}[i]).Symbol
		if t.Extrapolated {
			warn("%s (%.2f) lies above the largest margin evaluated: it is extrapolated from margin %g; evaluate at a larger "+
				"margin to know", name, t.Value, t.From)
		}
		if t.N > 0 && t.N < 100 {
			few = append(few, fmt.Sprintf("%s rests on %d promises", name, t.N))
		}
	}
	if len(few) > 0 {
		warn("%s: with fewer than 100, at most 1 %% means none", strings.Join(few, " and "))
	}
}

// margin says what is doubtful at one required margin.
func (ws *doubts) margin(a *AtMargin, evaluated int, given bool) {
	warn := func(format string, x ...any) { ws.add("margin %g: "+format, append([]any{a.Margin}, x...)...) }
	switch {
	case given && a.VD.Den == 0:
		warn("none of the promises issued to %d people reaches it", evaluated)
		return
	case given && a.VD.Den < minPeople:
		warn("only %d of the promises issued reach it", a.VD.Den)
		return
	case given:
		return
	case a.VD.Den == 0:
		warn("no recourse was found for any of %d people", evaluated)
		return
	case a.VD.Den < minPeople && evaluated >= minPeople:
		warn("recourse was found for only %d people", a.VD.Den)
	}
	if float64(a.FRR.Value) < 1-muchInfeasible {
		warn("no recourse was found for %d of %d people: results for the others may not hold for them",
			a.FRR.Den-a.FRR.Num, a.FRR.Den)
	}
}
