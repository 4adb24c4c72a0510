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
	b := block{title: "Promises by required margin t", after: legend("margins[].vd", "margins[].rvd", "margins[].frr")}
	b.table.head = []string{
		"t", symbol("margins[].vd"), "broken", "interval", symbol("margins[].rvd"), "broken", "interval", symbol("margins[].frr"), "helped",
	}
	for _, a := range r.Margins {
		b.table.rows = append(b.table.rows, []string{
			margin(a.Margin), percent(a.VD.Value, 1), fraction(a.VD), interval(a.VD, 1),
			percent(a.RVD.Value, 1), fraction(a.RVD), interval(a.RVD, 1), percent(a.FRR.Value, 1), fraction(a.FRR),
		})
	}
	b.after = append(b.after, "interval: where the share lies with "+confidence(r)+" confidence (Wilson)", tau("tau01", r.Tau01), tau("rtau01", r.RTau01),
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

func costs(r *eval.Result) block {
	crg, sums, median := "margins[].crg.mean", "margins[].crg.ratio_of_sums", "margins[].crg.median"
	sim, overlap := "margins[].dir_sim", "margins[].act_overlap"
	b := block{title: "Cost and shape of the recourse", after: legend(crg, sums, median, sim, overlap)}
	b.table.head = []string{"t", symbol(crg), "sums", "median", "people", "cost 0", symbol(sim), symbol(overlap), "people"}
	for _, a := range r.Margins {
		b.table.rows = append(b.table.rows, []string{
			margin(a.Margin), signed(a.CRG.Mean.Value, 3), signed(a.CRG.RatioOfSums.Value, 3), signed(a.CRG.Median.Value, 3),
			strconv.Itoa(a.CRG.N), strconv.Itoa(a.CRG.Free),
			fixed(a.DirSim.Value, 3), fixed(a.ActOverlap.Value, 3), strconv.Itoa(a.DirSim.N),
		})
	}
	b.after = append(b.after, "Positive: recourse costs more under the quantized model. cost 0: people to whom it gives the margin as they are.")
	return b
}

func marginErrors(r *eval.Result) block {
	keys := []string{"margins[].margin_error.mean", "margins[].margin_error.rms", "margins[].margin_error.p99", "margins[].margin_error.max"}
	b := block{title: "Margin error e at the original's recourse points", after: legend(keys...)}
	b.table.head = []string{"t", symbol(keys[0]), symbol(keys[1]), symbol(keys[2]), symbol(keys[3]), "people"}
	for _, a := range r.Margins {
		e := a.MarginError
		b.table.rows = append(b.table.rows, []string{
			margin(a.Margin), signed(e.Mean.Value, 3), fixed(e.RMS.Value, 3), fixed(e.P99.Value, 3), fixed(e.Max.Value, 3), strconv.Itoa(e.N),
		})
	}
	return b
}

func decisions(r *eval.Result) block {
	d := r.Decisions
	b := block{title: "Decisions on people as they are", table: table{left: 1}}
	row := func(key string, x eval.Rate) {
		b.table.rows = append(b.table.rows, []string{eval.MetricAt(key).Name, percent(x.Value, 2), counts(x), interval(x, 2)})
	}
	row("decisions.accuracy_full", d.AccuracyFull)
	row("decisions.accuracy_quant", d.AccuracyQuant)
	row("decisions.favourable_full", d.FavourableFull)
	row("decisions.favourable_quant", d.FavourableQuant)
	row("decisions.disagreement", d.Disagreement)
	row("decisions.lost", d.Lost)
	row("decisions.gained", d.Gained)
	return b
}
