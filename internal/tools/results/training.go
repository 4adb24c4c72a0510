package main

import (
	"context"
	"fmt"
	"io"
	"syscall"

	"cfq/eval"
	"cfq/ptq"
	"cfq/qat"
)

// trainings are the rows of a data set: without and with training, weights in few bits and computing in float.
func trainings(budgets ...float64) []variant {
	var out []variant
	for _, b := range budgets {
		for _, m := range []ptq.MethodName{ptq.CFPTQ, ptq.CFQQAT} {
			out = append(out, variant{fmt.Sprintf("%s, %.1f", m, b), ptq.Options{Method: m, Budget: b, WeightOnly: true}})
		}
	}
	return out
}

// objectives are the other trained rows, of Adult.
func objectives() []variant {
	out := []variant{
		{"cf-ptq, 4.0, integer", ptq.Options{Budget: 4}},
		{"cfq-qat, 4.0, integer", ptq.Options{Method: ptq.CFQQAT, Budget: 4}},
	}
	for _, m := range []ptq.MethodName{ptq.LSQ, ptq.MixedQAT} {
		out = append(out, variant{fmt.Sprintf("%s, 4.0", m), ptq.Options{Method: m, Budget: 4, WeightOnly: true}})
	}
	return append(out, variant{
		"cfq-qat, 4.0, the paper's validity loss",
		ptq.Options{Method: ptq.CFQQAT, Budget: 4, Objective: qat.Validity, WeightOnly: true},
	})
}

// training writes the tables of methods that train beside cf-ptq. One variant runs at a time, so that its processor
// seconds are its own.
func training(ctx context.Context, w io.Writer, o settings) error {
	o.workers = 1
	budgets := map[string][]float64{
		"adult": {4, 3, 2.5, 2}, "german": {2.5, 2}, "compas": {2.5, 2}, "bank": {3, 2.5}, "default": {3, 2.5},
	}
	columns := []column{
		{"bytes", "%.0f", func(m measured) eval.Float { return eval.Float(m.Bytes) }},
		{"accuracy", "%+.4f", func(m measured) eval.Float { return accuracy(m) - accuracyFull(m) }},
		{"VD(0.1)", "%.4f", vd},
		{"RVD(0.1)", "%.4f", rvd},
		{"CRG sums", "%+.4f", func(m measured) eval.Float { return m.eval.Margins[1].CRG.RatioOfSums.Value }},
		{"DirSim", "%.3f", func(m measured) eval.Float { return m.eval.Margins[1].DirSim.Value }},
		{"seconds", "%.0f", func(m measured) eval.Float { return eval.Float(m.seconds) }},
	}
	for _, d := range datasets() {
		vs := trainings(budgets[d.name]...)
		if d.name == "adult" {
			vs = append(vs, objectives()...)
		}
		rows, err := measure(ctx, o, d, min(o.seeds, d.networks), vs)
		if err != nil {
			return fmt.Errorf("%s: %w", d.title, err)
		}
		writeColumns(w, d.title+", without and with training", rows, columns)
	}
	return nil
}

// processorSeconds is what the process has used so far.
func processorSeconds() float64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(r.Utime) + seconds(r.Stime)
}
