package report

import (
	"fmt"
	"strconv"

	"cfq/eval"
)

// legend explains a symbol of a table's head: "VD(t): promises that break".
func legend(keys ...string) []string {
	lines := make([]string, len(keys))
	for i, k := range keys {
		m := eval.MetricAt(k)
		lines[i] = m.Symbol + ": " + m.Name
		if m.Unit == "logits" {
			lines[i] += " (" + m.Unit + ")"
		}
	}
	return lines
}

func symbol(key string) string { return eval.MetricAt(key).Symbol }

func promises(r *eval.Result) block {
	b := block{title: "Promises by required margin t", after: legend("margins[].vd", "margins[].rvd", "margins[].frr"), figures: curve(r)}
	if r.Settings.OneSided {
		b.after = legend("margins[].vd", "margins[].frr")
	}
	b.table.head = []string{
		"t", symbol("margins[].vd"), "broken", "interval", symbol("margins[].rvd"), "broken", "interval", symbol("margins[].frr"), "helped",
	}
	for _, a := range r.Margins {
		b.table.row(margin(a.Margin), percent(a.VD.Value, 1), fraction(a.VD), interval(a.VD, 1),
			percent(a.RVD.Value, 1), fraction(a.RVD), interval(a.RVD, 1), percent(a.FRR.Value, 1), fraction(a.FRR))
	}
	b.after = append(b.after, "interval: where the share lies with "+confidence(r)+" confidence (Wilson)", tau("tau01", r.Tau01))
	if r.Settings.OneSided {
		b.after = append(b.after, "The quantized model's own recourse was not asked for: nothing mirrored is known.")
		return b
	}
	b.after = append(b.after, tau("rtau01", r.RTau01),
		fmt.Sprintf("%s: %s, %s (%s); it found a recourse for %s", symbol("pgd_first.vd"), percent(r.First.VD.Value, 1), counts(r.First.VD),
			interval(r.First.VD, 1), counts(r.First.FRR)))
	return b
}

func tau(key string, t eval.Tau) string {
	m := eval.MetricAt(key)
	s := fmt.Sprintf("%s %s: %s", m.Symbol, fixed(t.Value, 3), m.Name)
	if t.Extrapolated {
		s += " (extrapolated)"
	}
	return s
}

// costs shows what becomes of the cost of recourse, beside what the solver's own noise makes of it.
func costs(r *eval.Result, how detail) block {
	crg, sums, median, p95, abs, floor := "margins[].crg.mean", "margins[].crg.ratio_of_sums", "margins[].crg.median", "margins[].crg.p95",
		"margins[].crg.abs_mean", "margins[].crg_noise.abs_mean"
	keys := []string{crg, sums, median, p95, abs}
	b := block{title: "Cost of the recourse"}
	b.table.head = []string{"t", symbol(crg), "interval", "sums", "median", "p95", symbol(abs), "noise", "people", "cost 0", "lost"}
	known, noisy, lost := false, false, false
	for i := range r.Margins {
		a := &r.Margins[i]
		known, noisy, lost = known || a.CRG.N > 0, noisy || a.Noise != nil, lost || a.LostRecourse.Den > 0
		noise := missing
		if a.Noise != nil {
			noise = with(a.Noise.AbsMean, fixed, how)
		}
		b.table.row(margin(a.Margin), signed(a.CRG.Mean.Value, 3), between(a.CRG.Mean, three), with(a.CRG.RatioOfSums, signed, how), with(a.CRG.Median, signed, how),
			with(a.CRG.P95, signed, how), with(a.CRG.AbsMean, fixed, how), noise, strconv.Itoa(a.CRG.N), strconv.Itoa(a.CRG.Free), fraction(a.LostRecourse))
	}
	if !known && !lost {
		return block{}
	}
	if noisy {
		keys = append(keys, floor)
	}
	b.after = append(legend(keys...), "Positive: recourse costs more under the quantized model. cost 0: people to whom it gives the margin as they are.")
	if lost {
		b.after = append(b.after, "lost: "+eval.MetricAt("margins[].lost_recourse").Name+", of those whom both refuse and the original can help")
	}
	return b
}

// with shows an estimate, with its interval where there is room.
func with(e eval.Estimate, show func(eval.Float, int) string, how detail) string {
	s := show(e.Value, 3)
	if how == brief || !e.Value.Defined() || !e.Lo.Defined() && !e.Hi.Defined() {
		return s
	}
	return s + " (" + between(e, three) + ")"
}

func three(x eval.Float) string { return fixed(x, 3) }

// shape shows how alike the two models' actions are.
func shape(r *eval.Result, how detail) block {
	sim, overlap := "margins[].dir_sim", "margins[].act_overlap"
	b := block{title: "Shape of the recourse", after: legend(sim, overlap), fold: true}
	b.table.head = []string{"t", symbol(sim), symbol(overlap), "people"}
	known := false
	for _, a := range r.Margins {
		known = known || a.DirSim.N > 0
		b.table.row(margin(a.Margin), with(a.DirSim, fixed, how), with(a.ActOverlap, fixed, how), strconv.Itoa(a.DirSim.N))
	}
	if !known {
		return block{}
	}
	return b
}

func marginErrors(r *eval.Result, how detail) block {
	keys := []string{"margins[].margin_error.mean", "margins[].margin_error.rms", "margins[].margin_error.p99", "margins[].margin_error.max"}
	b := block{title: "Margin error e at the original's recourse points", after: legend(keys...), fold: true}
	b.table.head = []string{"t", symbol(keys[0]), symbol(keys[1]), symbol(keys[2]), symbol(keys[3]), "people"}
	for _, a := range r.Margins {
		e := a.MarginError
		b.table.row(margin(a.Margin), with(e.Mean, signed, how), with(e.RMS, fixed, how), with(e.P99, fixed, how), with(e.Max, fixed, how), strconv.Itoa(e.N))
	}
	return b
}

// spreads shows where the two models' margins lie at the original's recourse points: at the margin that stands for the curve, or at all.
func spreads(r *eval.Result, how detail) block {
	b := block{title: "Margins at the original's recourse points", table: table{left: 2}, figures: distribution(r), fold: true}
	b.table.head = []string{"t", "model", "smallest", "p05", "median", "p95", "largest", "people"}
	for i, a := range r.Margins {
		if how == brief && i != r.Headline() {
			continue
		}
		for _, m := range []struct {
			name string
			eval.Spread
		}{{"original", a.FullMargins}, {"quantized", a.QuantMargins}} {
			if m.N > 0 {
				b.table.row(margin(a.Margin), m.name, signed(m.Min, 3), signed(m.P05.Value, 3), signed(m.Median.Value, 3), signed(m.P95.Value, 3), signed(m.Max, 3), strconv.Itoa(m.N))
			}
		}
	}
	return b
}

func decisions(r *eval.Result) block {
	d := r.Decisions
	b := block{title: "Decisions on people as they are", table: table{left: 1}}
	row := func(key string, x eval.Rate) {
		if x.Den == 0 {
			return
		}
		b.table.row(eval.MetricAt(key).Name, percent(x.Value, 2), counts(x), interval(x, 2))
	}
	row("decisions.accuracy_full", d.AccuracyFull)
	row("decisions.accuracy_quant", d.AccuracyQuant)
	if e := d.AccuracyDrop; e.Value.Defined() {
		b.table.row(eval.MetricAt("decisions.accuracy_drop").Name, difference("share", e.Value), missing, between(e, func(x eval.Float) string { return signed(100*x, 1) })+" pp")
	}
	row("decisions.favourable_full", d.FavourableFull)
	row("decisions.favourable_quant", d.FavourableQuant)
	row("decisions.disagreement", d.Disagreement)
	row("decisions.lost", d.Lost)
	row("decisions.gained", d.Gained)
	return b
}
