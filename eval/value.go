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
