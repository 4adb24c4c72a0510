package eval

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/internal/statistics"
)

// Summarize computes every metric of a Result from records, which hold one Step for each of the margins if they are
// evaluated. It depends on its arguments alone: records may be some of those of Judge, or those of several machines. It
// fails when they were not made with the settings.
func Summarize(records []Record, s Settings, file DataFile) (*Result, error) {
	if err := s.Check(records); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	return summarize(records, s, file), nil
}

// Check reports records that were not made with the settings, and settings without margins or a confidence.
func (s *Settings) Check(records []Record) error {
	switch {
	case len(s.Margins) == 0:
		return errors.New("no required margins in the settings")
	case !(s.Confidence > 0 && s.Confidence < 1):
		return fmt.Errorf("invalid confidence %v: want more than 0 and less than 1", s.Confidence)
	}
	for i := range records {
		r := &records[i]
		if r.Evaluated && len(r.Steps) != len(s.Margins) {
			return fmt.Errorf("record %d has %d steps for %d required margins", i+1, len(r.Steps), len(s.Margins))
		}
		for _, p := range r.Steps {
			if n := len(p.Perturbed); n != 0 && n != len(Perturbations()) {
				return fmt.Errorf("record %d has %d perturbations, want %d", i+1, n, len(Perturbations()))
			}
		}
	}
	return nil
}

// summarize is Summarize of records that were made with the settings.
func summarize(records []Record, s Settings, file DataFile) *Result {
	y := newSummary(records, &s)
	r := &Result{
		Settings: s, Population: population(records, file), Decisions: y.decisions(), Scores: y.scores(),
		First: First{FRR: y.rate("pgd_first.frr", -1), VD: y.rate("pgd_first.vd", -1)}, Records: records,
		Margins: make([]AtMargin, len(s.Margins)),
	}
	for i := range s.Margins {
		r.Margins[i] = y.atMargin(i)
	}
	full, _ := promises(records, upTo(len(records)), &s, false)
	quant, _ := promises(records, upTo(len(records)), &s, true)
	r.Tau01, r.RTau01 = tau01(s.Margins, full, s.Confidence), tau01(s.Margins, quant, s.Confidence)
	if s.Issued {
		r.Issued = issued(records, file.Unmatched)
		r.Tau01 = issuedTau(s.Margins[0], full[0], s.Confidence)
	}
	r.Warnings = warnings(r)
	return r
}

// issued counts the promises that people were issued, of which some may belong to none of the records.
func issued(records []Record, unmatched int) *Issued {
	n := &Issued{}
	var invalid, infeasible int
	for i := range records {
		switch r := &records[i]; {
		case r.Issued == nil:
		case !r.Evaluated:
			n.Unsampled++
		default:
			n.Promises++
			invalid += count(!approves(r.Issued.Own))
			infeasible += count(r.Issued.Violation != "")
		}
	}
	n.Unjudgeable = newTally(unmatched, unmatched+n.Unsampled+n.Promises)
	n.Invalid, n.Infeasible = newTally(invalid, n.Promises), newTally(infeasible, n.Promises)
	return n
}

func population(records []Record, file DataFile) Population {
	p := Population{DataFile: file, Read: len(records), People: len(persons(records))}
	rows, labelled := map[int]bool{}, 0 // a row stands there several times for several promises
	p.Rows = max(p.Rows, p.Read)
	for i := range records {
		r := &records[i]
		p.Labelled += count(r.Label >= 0)
		if !rows[r.Row] {
			rows[r.Row] = true
			labelled += count(r.Label >= 0)
		}
		p.Favoured += count(approves(r.Full))
		p.Evaluated += count(r.Evaluated)
		p.BothRefuse += count(r.reverse())
	}
	p.Refused = p.Read - p.Favoured
	p.UnreadableRows = newTally(p.Unreadable, p.Unreadable+len(rows))
	if labelled > 0 {
		p.UnlabelledRows = newTally(len(rows)-labelled, len(rows))
	}
	return p
}

// decisions compares the two models on people as they are.
func (y *summary) decisions() Decisions {
	d := Decisions{
		AccuracyFull: y.rate("accuracy_full", -1), AccuracyQuant: y.rate("accuracy_quant", -1),
		FavourableFull: y.rate("favourable_full", -1), FavourableQuant: y.rate("favourable_quant", -1),
		Disagreement: y.rate("disagreement", -1), Lost: y.rate("lost", -1), Gained: y.rate("gained", -1),
		FPRFull: y.rate("fpr_full", -1), FPRQuant: y.rate("fpr_quant", -1),
		FNRFull: y.rate("fnr_full", -1), FNRQuant: y.rate("fnr_quant", -1),
	}
	var alone, other int // people with a known outcome that only one model decides correctly
	full, quant := y.of["accuracy_full"], y.of["accuracy_quant"]
	for _, of := range y.persons {
		f, _ := y.worst(of, full, -1, Lower) // at its best, so that no loss of the quantized model is missed
		g, _ := y.worst(of, quant, -1, Higher)
		alone, other = alone+count(f > g), other+count(g > f)
	}
	d.AccuracyDrop = dropOf(alone, other, d.AccuracyFull.Den, y.s.Confidence)
	d.BalancedAccuracy = y.balancedAccuracy()
	return d
}

// balancedAccuracy is that of f.
func (y *summary) balancedAccuracy() Estimate {
	var n, right [2]int // people by outcome, and of them those that f decides correctly
	for _, of := range y.persons {
		x, known := y.worst(of, y.of["accuracy_full"], -1, Higher)
		if known > 0 {
			label := y.outcome(of)
			n[label]++
			right[label] += int(x)
		}
	}
	return meanOfShares(right, n, y.s.Confidence)
}

// outcome is that of a person's first record with a known one; -1 without any.
func (y *summary) outcome(of []int) int8 {
	for _, i := range of {
		if l := y.records[i].Label; l >= 0 {
			return l
		}
	}
	return -1
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// atMargin computes the metrics at the i-th required margin.
func (y *summary) atMargin(i int) AtMargin {
	c := y.s.Confidence
	own := func(o person) (float64, float64) { return defined(o.p.Full.Own) }
	other := func(o person) (float64, float64) { return defined(o.p.Full.Other) }
	similar, overlap := y.values(i, y.of["dir_sim"], Higher), y.values(i, y.of["act_overlap"], Higher)
	a := AtMargin{
		Margin: y.s.Margins[i], FRR: y.rate("frr", i), RFRR: y.rate("rfrr", i),
		VD: y.rate("vd", i), VDMismatch: y.rate("vd_mismatch", i), RVD: y.rate("rvd", i),
		LostRecourse: y.rate("lost_recourse", i),
		CRG:          y.gap(i, func(p *Step) (Float, bool) { return p.Quant.Cost, p.common() }),
		CRGBoth:      y.gap(i, func(p *Step) (Float, bool) { return p.Quant.Cost, p.Full.Made() && p.Quant.Made() }),
		DirSim:       meanOf(similar, c), DirSimP05: quantileOf(similar, 0.05, c),
		ActOverlap: meanOf(overlap, c), ActOverlapP05: quantileOf(overlap, 0.05, c),
		MarginError: marginError(y.values(i, marginDifference, Zero), c),
		FullMargins: spreadOf(y.values(i, own, None), c), QuantMargins: spreadOf(y.values(i, other, None), c),
		Certified: y.proofs(i), Perturbed: y.perturbed(i),
	}
	a.CRG.Free = countPeople(y.records, func(r *Record) bool {
		return r.Evaluated && r.Steps[i].common() && r.Steps[i].free()
	})
	noise := y.gap(i, func(p *Step) (Float, bool) { return p.RepeatCost, p.Full.Made() && p.RepeatCost.Defined() })
	if noise.N > 0 {
		a.Noise = &noise
	}
	return a
}

// gap compares the costs of f's recourse with other costs of the same people.
func (y *summary) gap(at int, of func(p *Step) (cost Float, ok bool)) Gap {
	var full, other []float64
	ratio := func(o person) (x, n float64) {
		if cost, ok := of(o.p); ok {
			return costRatio(float64(o.p.Full.Cost), float64(cost)), 1
		}
		return 0, 0
	}
	for _, records := range y.persons {
		most, any := y.worst(records, ratio, at, Zero)
		for _, k := range records {
			if x, n := contribution(ratio).at(&y.records[k], at, y.s); any > 0 && n > 0 && x == most {
				cost, _ := of(&y.records[k].Steps[at])
				full, other = append(full, float64(y.records[k].Steps[at].Full.Cost)), append(other, float64(cost))
				break
			}
		}
	}
	return gap(full, other, y.s.Confidence)
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
func gap(full, quant []float64, confidence float64) Gap {
	ratios := make([]float64, len(full))
	for i := range full {
		ratios[i] = costRatio(full[i], quant[i])
	}
	abs := sizes(ratios)
	return Gap{
		Mean: meanOf(ratios, confidence), RatioOfSums: ratioOf(full, quant, confidence),
		Median: quantileOf(ratios, 0.5, confidence), P95: quantileOf(ratios, 0.95, confidence),
		AbsMean: meanOf(abs, confidence), AbsMedian: quantileOf(abs, 0.5, confidence),
		AbsP95: quantileOf(abs, 0.95, confidence),
		N:      len(full),
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

// marginError summarises e = margin_g - margin_f.
func marginError(e []float64, confidence float64) MarginError {
	abs := sizes(e)
	return MarginError{
		N: len(e), Mean: meanOf(e, confidence), RMS: rmsOf(e, confidence),
		P95: quantileOf(abs, 0.95, confidence), P99: quantileOf(abs, 0.99, confidence), Max: quantileOf(abs, 1, confidence),
	}
}

// sizes are the absolute values.
func sizes(xs []float64) []float64 {
	abs := make([]float64, len(xs))
	for i, x := range xs {
		abs[i] = math.Abs(x)
	}
	return abs
}

// spreadOf summarises margins.
func spreadOf(m []float64, confidence float64) Spread {
	at := func(q float64) Estimate { return quantileOf(m, q, confidence) }
	return Spread{
		N: len(m), Min: Float(statistics.Quantile(m, 0)), P05: at(0.05), Median: at(0.5), P95: at(0.95),
		Max: Float(statistics.Quantile(m, 1)),
	}
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
func warnings(r *Result) []string {
	ws := doubts{}
	ws.statistics(r)
	if n := r.Issued; n != nil && n.Invalid.Num > 0 {
		ws.add("the original itself breaks %d of the %d promises given to people who are evaluated: they count at no margin",
			n.Invalid.Num, n.Promises)
	}
	if p := r.Population; float64(p.Unreadable) > MuchUnreadable*float64(p.Rows) {
		ws.add("%d of %d rows could not be read", p.Unreadable, p.Rows)
	}
	if r.Issued != nil {
		infeasible := func(p Record) bool { return p.Issued != nil && p.Issued.Violation != "" }
		if i := slices.IndexFunc(r.Records, infeasible); i >= 0 {
			ws.add("the task does not allow %d of the promises given (the first: %v): they count all the same",
				r.Issued.Infeasible.Num, r.Records[i].Issued.Violation)
		}
	} else {
		ws.solver(r, "the original", func(r *Record, i int) *Promise {
			if i < 0 {
				return &r.First
			}
			return &r.Steps[i].Full
		})
	}
	ws.solver(r, "the quantized model", func(r *Record, i int) *Promise {
		if i < 0 {
			return &Promise{}
		}
		return &r.Steps[i].Quant
	})
	return ws
}

// doubts are warnings.
type doubts []string

func (ws *doubts) add(format string, a ...any) { *ws = append(*ws, fmt.Sprintf(format, a...)) }

// solver checks one model's points, those of the first valid iterates at -1. A point that is good for
// several margins is checked at the smallest.
func (ws *doubts) solver(r *Result, name string, of func(r *Record, i int) *Promise) {
	var short, unfit int
	var violation string
	for i := -1; i < len(r.Settings.Margins); i++ {
		t := 0.0
		if i >= 0 {
			t = r.Settings.Margins[i]
		}
		for k := range r.Records {
			if !r.Records[k].Evaluated {
				continue
			}
			p := of(&r.Records[k], i)
			if !p.Made() || i > 0 && p.same(of(&r.Records[k], i-1)) {
				continue
			}
			short += count(float64(p.Own) < t-shortfall)
			if p.Violation != "" {
				unfit++
				violation = cmp.Or(violation, p.Violation)
			}
		}
	}
	if short > 0 {
		ws.add("%d recourse points of %s fall short of the margin they were solved for by more than %g: the model gave a "+
			"different margin than during the search", short, name, shortfall)
	}
	if unfit > 0 {
		ws.add("%d actions of %s are not feasible (the first: %v): they were counted all the same, this is a fault of the "+
			"solver", unfit, name, violation)
	}
}

// statistics says which statistics of r are doubtful.
func (ws *doubts) statistics(r *Result) {
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
	evaluated := countPeople(r.Records, func(r *Record) bool { return r.Evaluated })
	if evaluated < minPeople {
		warn("only %d people are evaluated: the rates are uncertain (see the intervals)", evaluated)
	}
	free := countPeople(r.Records, func(r *Record) bool { return r.Evaluated && approves(r.Quant) })
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
