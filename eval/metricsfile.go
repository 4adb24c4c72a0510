package eval

// Value is what a Result says of one metric.
type Value struct {
	Estimate
	Num   int  // of a share: Num of N
	Share bool // it is a share of people
	Exact bool // nothing was sampled: the interval is the value
}

func shareValue(r Rate) Value {
	return Value{Estimate: Estimate{Value: r.Value, N: r.Den, Lo: r.Lo, Hi: r.Hi}, Num: r.Num, Share: true}
}

func tauValue(t Tau) Value {
	return Value{Estimate: Estimate{Value: t.Value, N: t.N, Lo: t.Lo, Hi: t.Hi}}
}

func exactly(x float64) Value {
	v := Float(x)
	return Value{Estimate: Estimate{Value: v, N: 1, Lo: v, Hi: v}, Exact: true}
}

// The getters of metrics by where they stand.

func share(f func(*AtMargin) Rate) func(*Result, int) Value {
	return func(r *Result, at int) Value { return shareValue(f(&r.Margins[at])) }
}

func estimate(f func(*AtMargin) Estimate) func(*Result, int) Value {
	return func(r *Result, at int) Value { return Value{Estimate: f(&r.Margins[at])} }
}

func decision(f func(*Decisions) Rate) func(*Result, int) Value {
	return once(func(r *Result) Value { return shareValue(f(&r.Decisions)) })
}

func once(f func(*Result) Value) func(*Result, int) Value {
	return func(r *Result, _ int) Value { return f(r) }
}

func noise(a *AtMargin) Gap {
	if a.Noise == nil {
		return gap(nil, nil, 0.95)
	}
	return *a.Noise
}

func perturbation(kind Perturbation, f func(*Perturbed) Value) func(*Result, int) Value {
	return func(r *Result, at int) Value {
		p, ok := r.Margins[at].Perturbed[kind]
		if !ok {
			return Value{Estimate: unknown()}
		}
		return f(&p)
	}
}

func certified(f func(*Proofs) Value) func(*Result, int) Value {
	return func(r *Result, at int) Value {
		if p := r.Margins[at].Certified; p != nil {
			return f(p)
		}
		return Value{Estimate: unknown()}
	}
}

func footprint(f func(*Weight) float64) func(*Result, int) Value {
	return once(func(r *Result) Value {
		if r.Footprint == nil {
			return Value{Estimate: unknown()}
		}
		if x := f(&r.Footprint.Quant); x > 0 {
			return exactly(x)
		}
		return Value{Estimate: unknown()}
	})
}

func timing(f func(*Timing) Estimate) func(*Result, int) Value {
	return once(func(r *Result) Value {
		if r.Timing == nil {
			return Value{Estimate: unknown()}
		}
		return Value{Estimate: f(r.Timing)}
	})
}

func certaintyMetrics() []Metric {
	p95 := func(p *Perturbed) Value { return Value{Estimate: p.P95} }
	return []Metric{
		{
			"margins[].certified.share", "promises that provably survive", "", "share", Higher,
			"Of the recourse points of f at margin t, the share around which g provably approves: in the box of the given radius, in model-input units, around the inputs that stand for numbers which actions may change. " +
				"A certificate is a sound bound on the network as ONNX Runtime runs it; a point without one may still be safe.",
			"this project",
			certified(func(p *Proofs) Value { return shareValue(p.Certified) }),
		},
		{
			"margins[].certified.apart", "how far the models can be apart nearby", "", "logits", Lower,
			"Median over the recourse points of a sound bound on |m_g - m_f| in the same box: whoever ends there with a larger margin under f is approved by g.",
			"this project",
			certified(func(p *Proofs) Value { return Value{Estimate: p.Apart} }),
		},
		{
			"margins[].perturbation.point.p95", "logit perturbation at recourse points", "eps", "logits", Lower,
			"95th percentile over the recourse points u of f of eps(u), the largest difference over the classes between the logits of g and f at u. Safe are the points with m_f(u) > 2 eps; " +
				"of each kind of eps the share that is safe and the failures inside and outside the safe set are reported beside it.",
			"Theory, equation margin_condition; Empirical estimation of logit perturbation",
			perturbation(AtPoint, p95),
		},
		{
			"margins[].perturbation.ball.p95", "logit perturbation around recourse points", "eps hat", "logits", Lower,
			"The same for the largest difference at u and at random points of the l2 ball of the given radius around it: an estimate from below.",
			"Empirical estimation of logit perturbation, equations app_eps_hat_i and app_eps_agg",
			perturbation(InBall, p95),
		},
		{
			"margins[].perturbation.first_order.p95", "logit perturbation, first order", "", "logits", Lower,
			"The same for the difference at u plus the radius times the norm of its gradient there.",
			"Empirical estimation of logit perturbation, equation app_eps_grad_bound",
			perturbation(FirstOrder, p95),
		},
		{
			"margins[].perturbation.layerwise.p95", "logit perturbation, layerwise bound", "", "logits", Lower,
			"The same for the bound that sums each layer's error times the norms of the layers behind it: true, and far from tight.",
			"Bounding logit perturbation from quantization error, equation app_eps_upper",
			perturbation(Lipschitz, p95),
		},
		{
			"margins[].perturbation.ball.safe", "promises with a safe margin", "safe-margin fraction", "share", Higher,
			"Of the recourse points of f, the share with m_f(u) > 2 eps hat(u).",
			"Table margin_diagnostics",
			perturbation(InBall, func(p *Perturbed) Value { return shareValue(p.Safe) }),
		},
		{
			"margins[].perturbation.ball.broken_inside", "promises that break inside the safe set", "", "share", Lower,
			"Of the points with a safe margin, the share that g refuses: 0, since u itself is among the points that eps hat is taken over.",
			"Table margin_diagnostics",
			perturbation(InBall, func(p *Perturbed) Value { return shareValue(p.BrokenInside) }),
		},
		{
			"margins[].perturbation.ball.broken_outside", "promises that break outside the safe set", "", "share", Lower,
			"Of the points without a safe margin, the share that g refuses.",
			"Table margin_diagnostics",
			perturbation(InBall, func(p *Perturbed) Value { return shareValue(p.BrokenOutside) }),
		},
	}
}

func decisionMetrics() []Metric {
	return []Metric{
		{
			"decisions.accuracy_full", "accuracy of the original", "accuracy f", "share", Higher,
			"Of the people with a known outcome, the share that f decides as they turned out. A model decides favourably if and only if its margin is > 0.",
			"standard",
			decision(func(d *Decisions) Rate { return d.AccuracyFull }),
		},
		{
			"decisions.accuracy_quant", "accuracy of the quantized model", "accuracy g", "share", Higher,
			"The same for g.",
			"standard",
			decision(func(d *Decisions) Rate { return d.AccuracyQuant }),
		},
		{
			"decisions.accuracy_drop", "loss of accuracy", "", "share", Lower,
			"Accuracy of f less accuracy of g, on the same people: (those whom f alone decides rightly - those whom g alone does) / people with a known outcome.",
			"standard",
			once(func(r *Result) Value { return Value{Estimate: r.Decisions.AccuracyDrop} }),
		},
		{
			"decisions.favourable_full", "approved by the original", "", "share", None,
			"Of all people read, the share f approves.",
			"standard",
			decision(func(d *Decisions) Rate { return d.FavourableFull }),
		},
		{
			"decisions.favourable_quant", "approved by the quantized model", "", "share", None,
			"Of all people read, the share g approves.",
			"standard",
			decision(func(d *Decisions) Rate { return d.FavourableQuant }),
		},
		{
			"decisions.disagreement", "decisions that differ", "", "share", Lower,
			"Of all people read, as they are, the share on whom f and g decide differently.",
			"this project",
			decision(func(d *Decisions) Rate { return d.Disagreement }),
		},
		{
			"decisions.lost", "approved by the original, refused by the quantized model", "", "share", Lower,
			"Of the people f approves, the share g refuses.",
			"this project",
			decision(func(d *Decisions) Rate { return d.Lost }),
		},
		{
			"decisions.gained", "refused by the original, approved by the quantized model", "", "share", Lower,
			"Of the people f refuses, the share g approves.",
			"this project",
			decision(func(d *Decisions) Rate { return d.Gained }),
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
