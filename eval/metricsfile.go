package eval

func decisionMetrics() []Metric {
	return []Metric{
		{
			"decisions.accuracy_full", "accuracy of the original", "accuracy f", "share", Higher,
			"Of the people with a known outcome, the share that f decides as they turned out. A model decides favourably if and only if its margin is > 0.",
			"standard",
			oneShare(func(r *Result) Rate { return r.Decisions.AccuracyFull }),
		},
		{
			"decisions.accuracy_quant", "accuracy of the quantized model", "accuracy g", "share", Higher,
			"The same for g.",
			"standard",
			oneShare(func(r *Result) Rate { return r.Decisions.AccuracyQuant }),
		},
		{
			"decisions.accuracy_drop", "loss of accuracy", "", "share", Lower,
			"Accuracy of f less accuracy of g, on the same people: (those whom f alone decides rightly - those whom g alone does) / people with a known outcome.",
			"standard",
			oneEstimate(func(r *Result) Estimate { return r.Decisions.AccuracyDrop }),
		},
		{
			"decisions.favourable_full", "approved by the original", "", "share", None,
			"Of all people read, the share f approves.",
			"standard",
			oneShare(func(r *Result) Rate { return r.Decisions.FavourableFull }),
		},
		{
			"decisions.favourable_quant", "approved by the quantized model", "", "share", None,
			"Of all people read, the share g approves.",
			"standard",
			oneShare(func(r *Result) Rate { return r.Decisions.FavourableQuant }),
		},
		{
			"decisions.disagreement", "decisions that differ", "", "share", Lower,
			"Of all people read, as they are, the share on whom f and g decide differently.",
			"this project",
			oneShare(func(r *Result) Rate { return r.Decisions.Disagreement }),
		},
		{
			"decisions.lost", "approved by the original, refused by the quantized model", "", "share", Lower,
			"Of the people f approves, the share g refuses.",
			"this project",
			oneShare(func(r *Result) Rate { return r.Decisions.Lost }),
		},
		{
			"decisions.gained", "refused by the original, approved by the quantized model", "", "share", Lower,
			"Of the people f refuses, the share g approves.",
			"this project",
			oneShare(func(r *Result) Rate { return r.Decisions.Gained }),
		},
	}
}

func fileMetrics() []Metric {
	return []Metric{
		{
			"footprint.quant.bytes", "size of the file", "", "bytes", Lower,
			"Bytes of the quantized model's file, with its external data.",
			"standard",
			footprint(func(w *Weight) float64 { return float64(w.Bytes) }),
		},
		{
			"footprint.quant.weight_bits", "stored bits per weight", "", "bits", Lower,
			"Bits that the file stores for its weights, with their scales, zero points and widths, divided by the number of weights; 32 for weights in float.",
			"this project; the paper's BitCost counts the weights' own bits alone",
			footprint(func(w *Weight) float64 { return w.WeightBits }),
		},
		{
			"footprint.quant.bops", "bit operations of one decision", "BOPs", "bit operations", Lower,
			"Sum over the layers of multiplications for one row, times bits of the weight, times bits of the activation (32 in float).",
			"standard",
			footprint(func(w *Weight) float64 { return w.BOPs }),
		},
		{
			"timing.batch_1.quant", "latency", "", "seconds", Lower,
			"Median time of one run of one row in ONNX Runtime on this machine, and the interval of the median. Asked for by --latency; the only numbers that differ between runs.",
			"standard",
			timing(func(t *Timing) Estimate { return t.One.Quant }),
		},
		{
			"timing.batch_256.quant", "time of 256 rows", "", "seconds", Lower,
			"The same for one run of 256 rows.",
			"standard",
			timing(func(t *Timing) Estimate { return t.Many.Quant }),
		},
		{
			"timing.batch_256.throughput", "throughput", "", "rows/s", Higher,
			"256 rows divided by that time.",
			"standard",
			timing(func(t *Timing) Estimate { return t.Many.Throughput }),
		},
	}
}
