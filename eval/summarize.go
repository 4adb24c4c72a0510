package eval

import "cfq/recourse"

// Summarize computes every metric of a Result from records, which hold one
// Step for each of the margins if they are evaluated. It is what Compare does
// with all records; a caller may do it with some of them. Population counts
// only what records show (the caller knows about the file), Warnings are those
// of the statistics, and Records is records itself.
func Summarize(records []Record, s Settings) *Result {
	r := &Result{
		Settings: s, Population: population(records), Decisions: decisions(records, s.Confidence),
		First: first(records, s.Confidence), Margins: make([]AtMargin, len(s.Margins)), Records: records,
	}
	full, quant := make([][]Promise, len(s.Margins)), make([][]Promise, len(s.Margins))
	for i, t := range s.Margins {
		r.Margins[i], full[i], quant[i] = atMargin(records, i, t, s.Confidence)
	}
	r.Tau01, r.RTau01 = tau01(s.Margins, full), tau01(s.Margins, quant)
	if s.Given && len(full) > 0 {
		r.Tau01 = givenTau(s.Margins[0], full[0])
	}
	r.Warnings = warnings(r)
	return r
}

func population(records []Record) Population {
	p := Population{Rows: len(records), Read: len(records)}
	for i := range records {
		r := &records[i]
		if r.Label >= 0 {
			p.Labelled++
		}
		if approves(r.Full) {
			p.Favoured++
		} else {
			p.Refused++
		}
		if r.Evaluated {
			p.Evaluated++
		}
		if r.reverse() {
			p.BothRefuse++
		}
	}
	return p
}

func decisions(records []Record, confidence float64) Decisions {
	var labelled, rightF, rightG, favF, favG, lost, gained int
	for i := range records {
		r := &records[i]
		f, g := approves(r.Full), approves(r.Quant)
		if r.Label >= 0 {
			labelled++
			rightF += count(f == (r.Label == 1))
			rightG += count(g == (r.Label == 1))
		}
		favF += count(f)
		favG += count(g)
		lost += count(f && !g)
		gained += count(!f && g)
	}
	n := len(records)
	rate := func(num, den int) Rate { return NewRate(num, den, confidence) }
	return Decisions{
		AccuracyFull: rate(rightF, labelled), AccuracyQuant: rate(rightG, labelled),
		FavourableFull: rate(favF, n), FavourableQuant: rate(favG, n),
		Disagreement: rate(lost+gained, n), Lost: rate(lost, favF), Gained: rate(gained, n-favF),
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func first(records []Record, confidence float64) First {
	var evaluated, made, broken int
	for i := range records {
		if r := &records[i]; r.Evaluated {
			evaluated++
			made += count(r.First.Made())
			broken += count(r.First.Broken())
		}
	}
	return First{FRR: NewRate(made, evaluated, confidence), VD: NewRate(broken, made, confidence)}
}

// atMargin computes the metrics at the i-th required margin t, and returns
// the promises of f and of g that they count.
func atMargin(records []Record, i int, t, confidence float64) (a AtMargin, full, quant []Promise) {
	var evaluated, reverse, broken, rbroken, free int
	var costF, costG, bothF, bothG, sims, overlaps, errs []float64
	for k := range records {
		r := &records[k]
		if !r.Evaluated {
			continue
		}
		s := &r.Steps[i]
		evaluated++
		if s.Full.Made() {
			full = append(full, s.Full)
			broken += count(s.Full.Broken())
			errs = append(errs, float64(s.Full.Other-s.Full.Own))
		}
		if r.reverse() {
			reverse++
			if s.Quant.Made() {
				quant = append(quant, s.Quant)
				rbroken += count(s.Quant.Broken())
			}
		}
		isFree := s.Quant.Status == recourse.AlreadyFavourable
		if s.Full.Made() && (s.Quant.Made() || isFree) {
			costF, costG = append(costF, float64(s.Full.Cost)), append(costG, float64(s.Quant.Cost))
			free += count(isFree)
		}
		if s.Full.Made() && s.Quant.Made() {
			bothF, bothG = append(bothF, float64(s.Full.Cost)), append(bothG, float64(s.Quant.Cost))
			sims, overlaps = append(sims, float64(s.DirSim)), append(overlaps, float64(s.Overlap))
		}
	}
	a = AtMargin{
		Margin: t,
		FRR:    NewRate(len(full), evaluated, confidence), RFRR: NewRate(len(quant), reverse, confidence),
		VD: NewRate(broken, len(full), confidence), RVD: NewRate(rbroken, len(quant), confidence),
		CRG: gap(costF, costG), CRGBoth: gap(bothF, bothG),
		DirSim: newMean(sims), ActOverlap: newMean(overlaps), MarginError: marginError(errs),
	}
	a.CRG.Free = free
	return a, full, quant
}
