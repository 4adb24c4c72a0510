package eval

// Summarize computes every metric of a Result from records, which hold one
// Step for each of the margins if they are evaluated. It is what Compare does
// with all records; a caller may do it with some of them. Population counts
// only what records show (the caller knows about the file), Warnings are those
// of the statistics, and Records is records itself.
func Summarize(records []Record, s Settings) *Result {
	r := &Result{
		Settings: s, Population: population(records), Decisions: decisions(records, s.Confidence),
		First: first(records, s), Margins: make([]AtMargin, len(s.Margins)), Records: records,
	}
	full, quant := make([][]Promise, len(s.Margins)), make([][]Promise, len(s.Margins))
	for i := range s.Margins {
		r.Margins[i], full[i], quant[i] = atMargin(records, i, s)
	}
	r.Tau01, r.RTau01 = tau01(s.Margins, full, s.Confidence), tau01(s.Margins, quant, s.Confidence)
	if s.Given && len(full) > 0 {
		r.Tau01 = givenTau(s.Margins[0], full[0], s.Confidence)
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
	var labelled, rightF, rightG, alone, other, favF, favG, lost, gained int
	for i := range records {
		r := &records[i]
		f, g := approves(r.Full), approves(r.Quant)
		if r.Label >= 0 {
			labelled++
			rightF += count(f == (r.Label == 1))
			rightG += count(g == (r.Label == 1))
			alone += count(f == (r.Label == 1) && f != g)
			other += count(g == (r.Label == 1) && f != g)
		}
		favF += count(f)
		favG += count(g)
		lost += count(f && !g)
		gained += count(!f && g)
	}
	n := len(records)
	rate := func(num, den int) Rate { return NewRate(num, den, confidence) }
	return Decisions{
		AccuracyFull: rate(rightF, labelled), AccuracyQuant: rate(rightG, labelled), AccuracyDrop: dropOf(alone, other, labelled, confidence),
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

func first(records []Record, s Settings) First {
	var evaluated, made, broken int
	for i := range records {
		if r := &records[i]; r.Evaluated && !s.OneSided {
			evaluated++
			made += count(r.First.Made())
			broken += count(r.First.Broken())
		}
	}
	return First{FRR: NewRate(made, evaluated, s.Confidence), VD: NewRate(broken, made, s.Confidence)}
}

// tally collects what people contribute at one required margin.
type tally struct {
	full, quant                                             []Promise
	evaluated, reverse, broken, mismatch, rbroken           int
	asked, lost, free                                       int
	own, other, errs                                        []float64 // margins at f's recourse points, and their difference
	costF, costG, bothF, bothG, sims, overlaps, once, again []float64
}

// atMargin computes the metrics at the i-th required margin, and returns
// the promises of f and of g that they count.
func atMargin(records []Record, i int, s Settings) (a AtMargin, full, quant []Promise) {
	var y tally
	for k := range records {
		if r := &records[k]; r.Evaluated {
			y.add(&r.Steps[i], r.mirrored(&s))
		}
	}
	rate := func(num, den int) Rate { return NewRate(num, den, s.Confidence) }
	a = AtMargin{
		Margin: s.Margins[i],
		FRR:    rate(len(y.full), y.evaluated), RFRR: rate(len(y.quant), y.reverse),
		VD: rate(y.broken, len(y.full)), VDMismatch: rate(y.mismatch, len(y.full)), RVD: rate(y.rbroken, len(y.quant)), LostRecourse: rate(y.lost, y.asked),
		CRG: gap(y.costF, y.costG, s.Confidence), CRGBoth: gap(y.bothF, y.bothG, s.Confidence),
		DirSim: meanOf(y.sims, s.Confidence), ActOverlap: meanOf(y.overlaps, s.Confidence), MarginError: marginError(y.errs, s.Confidence),
		FullMargins: spreadOf(y.own, s.Confidence), QuantMargins: spreadOf(y.other, s.Confidence),
		Certified: proofs(records, i, s), Perturbed: perturbed(records, i, s.Confidence),
	}
	a.CRG.Free = y.free
	if len(y.once) > 0 {
		noise := gap(y.once, y.again, s.Confidence)
		a.Noise = &noise
	}
	return a, y.full, y.quant
}

// add counts one person; mirrored says that they can get a promise of g.
func (y *tally) add(s *Step, mirrored bool) {
	y.evaluated++
	if s.Full.Made() {
		y.full = append(y.full, s.Full)
		y.broken += count(s.Full.Broken())
		y.mismatch += count(approves(s.Full.Own) != approves(s.Full.Other))
		y.own, y.other = append(y.own, float64(s.Full.Own)), append(y.other, float64(s.Full.Other))
		y.errs = append(y.errs, float64(s.Full.Other-s.Full.Own))
		if s.Again.Defined() {
			y.once, y.again = append(y.once, float64(s.Full.Cost)), append(y.again, float64(s.Again))
		}
	}
	if mirrored {
		y.reverse++
		if s.Quant.Made() {
			y.quant = append(y.quant, s.Quant)
			y.rbroken += count(s.Quant.Broken())
		}
		if s.Full.Made() {
			y.asked++
			y.lost += count(!s.Quant.Made() && !s.free())
		}
	}
	if s.common() {
		y.costF, y.costG = append(y.costF, float64(s.Full.Cost)), append(y.costG, float64(s.Quant.Cost))
		y.free += count(s.free())
	}
	if s.Full.Made() && s.Quant.Made() {
		y.bothF, y.bothG = append(y.bothF, float64(s.Full.Cost)), append(y.bothG, float64(s.Quant.Cost))
		y.sims, y.overlaps = append(y.sims, float64(s.DirSim)), append(y.overlaps, float64(s.Overlap))
	}
}
