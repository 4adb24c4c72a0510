package eval

// The metrics of what happens at and around recourse points.

func marginMetrics() []Metric {
	return []Metric{
		{
			"margins[].margin_error.mean", "mean margin error at recourse points", "mean e", "logits", Zero,
			"Mean of e = m_g(u_f) - m_f(u_f) over the recourse points of f. Positive: g is more lenient there. The report quotes it at the smallest required margin, where promises are closest to the boundary.",
			"this project",
			estimates(func(a *AtMargin) Estimate { return a.MarginError.Mean }),
		},
		{
			"margins[].margin_error.rms", "typical margin error at recourse points", "rms e", "logits", Lower,
			"Root mean square of the same e: the continuous quantity under VD, RVD and tau01.",
			"this project",
			estimates(func(a *AtMargin) Estimate { return a.MarginError.RMS }),
		},
		{
			"margins[].margin_error.p99", "margin error that 99 % stay below", "p99 |e|", "logits", Lower,
			"99th percentile (nearest rank) of |e|.",
			"this project",
			estimates(func(a *AtMargin) Estimate { return a.MarginError.P99 }),
		},
		{
			"margins[].margin_error.max", "largest margin error", "max |e|", "logits", Lower,
			"Maximum of |e|.",
			"this project",
			estimates(func(a *AtMargin) Estimate { return a.MarginError.Max }),
		},
		{
			"margins[].margins_full.median", "margin of the original at its recourse points, median", "", "logits", None,
			"Median of m_f(u_f) over the recourse points of f; smallest, p05, p95 and largest are beside it.",
			"Diagnostics: margins at recourse points",
			estimates(func(a *AtMargin) Estimate { return a.FullMargins.Median }),
		},
		{
			"margins[].margins_quant.median", "margin of the quantized model at the same points, median", "", "logits", None,
			"Median of m_g(u_f).",
			"Diagnostics: margins at recourse points",
			estimates(func(a *AtMargin) Estimate { return a.QuantMargins.Median }),
		},
		{
			"margins[].margins_quant.p05", "margin of the quantized model that 95 % of the points exceed", "", "logits", None,
			"5th percentile (nearest rank) of m_g(u_f): above 0, at most 5 % of the promises break.",
			"Diagnostics: margins at recourse points",
			estimates(func(a *AtMargin) Estimate { return a.QuantMargins.P05 }),
		},
	}
}

func certaintyMetrics() []Metric {
	p95 := func(p *Perturbed) Estimate { return p.P95 }
	return []Metric{
		{
			"margins[].certified.share", "promises that provably survive", "", "share", Higher,
			"Of the recourse points of f at margin t, the share around which g provably approves: in the box of the given radius, in model-input units, around the inputs that stand for numbers which actions may change. " +
				"A certificate is a sound bound on the network as ONNX Runtime runs it; a point without one may still be safe.",
			"this project",
			certifiedShare(),
		},
		{
			"margins[].certified.apart", "how far the models can be apart nearby", "", "logits", Lower,
			"Median over the recourse points of a sound bound on |m_g - m_f| in the same box: whoever ends there with a larger margin under f is approved by g.",
			"this project",
			certified(func(p *Proofs) Estimate { return p.Apart }),
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
			perturbationShare(InBall, func(p *Perturbed) Rate { return p.Safe }),
		},
		{
			"margins[].perturbation.ball.broken_inside", "promises that break inside the safe set", "", "share", Lower,
			"Of the points with a safe margin, the share that g refuses: 0, since u itself is among the points that eps hat is taken over.",
			"Table margin_diagnostics",
			perturbationShare(InBall, func(p *Perturbed) Rate { return p.BrokenInside }),
		},
		{
			"margins[].perturbation.ball.broken_outside", "promises that break outside the safe set", "", "share", Lower,
			"Of the points without a safe margin, the share that g refuses.",
			"Table margin_diagnostics",
			perturbationShare(InBall, func(p *Perturbed) Rate { return p.BrokenOutside }),
		},
	}
}
