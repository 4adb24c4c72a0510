package eval

// Kind is how sure a metric's value is.
type Kind int

// The kinds.
const (
	KindShare    Kind = iota // of people: counts, whose bounds are exact
	KindEstimate             // a number with an interval
	KindExact                // nothing was sampled: the value is what it is
)

// Part is what a metric needs of an evaluation beside f's promises. What was not asked for has no value.
type Part int

// The parts.
const (
	PartAlways       Part = iota // nothing else
	PartMirrored                 // g's own recourse, or the first valid iterates: not with Options.OneSided
	PartNoise                    // Options.Noise
	PartProofs                   // Options.Prove
	PartPerturbation             // Options.Perturb
	PartTiming                   // Result.Timing, which the caller takes
	PartFootprint                // Result.Footprint, likewise
)

// Value is what a Result says of one metric.
type Value struct {
	Estimate
	Num  int // of a share: Num of N
	Kind Kind
}

func shareValue(r Rate) Value {
	return Value{Estimate: Estimate{Value: r.Value, N: r.Den, Lo: r.Lo, Hi: r.Hi}, Num: r.Num, Kind: KindShare}
}

func tauValue(t Tau) Estimate { return Estimate{Value: t.Value, N: t.N, Lo: t.Lo, Hi: t.Hi} }

func exactly(x float64) Value {
	v := Float(x)
	return Value{Estimate: Estimate{Value: v, N: 1, Lo: v, Hi: v}, Kind: KindExact}
}

// getter takes a metric's value from a Result, at the at-th required margin if it has one for each.
type getter struct {
	of   func(r *Result, at int) Value
	kind Kind
	part Part
}

// shares and estimates make getters of what stands at each required margin, oneShare and oneEstimate of what is there once.

func shares(f func(*AtMargin) Rate) getter {
	return getter{func(r *Result, at int) Value { return shareValue(f(&r.Margins[at])) }, KindShare, PartAlways}
}

func estimates(f func(*AtMargin) Estimate) getter {
	return getter{func(r *Result, at int) Value { return Value{Estimate: f(&r.Margins[at]), Kind: KindEstimate} }, KindEstimate, PartAlways}
}

func oneShare(f func(*Result) Rate) getter {
	return getter{func(r *Result, _ int) Value { return shareValue(f(r)) }, KindShare, PartAlways}
}

func oneEstimate(f func(*Result) Estimate) getter {
	return getter{func(r *Result, _ int) Value { return Value{Estimate: f(r), Kind: KindEstimate} }, KindEstimate, PartAlways}
}

// ofMirror marks what is not there when g's own recourse was not computed.
func ofMirror(g getter) getter {
	g.part = PartMirrored
	return g
}

func noise(f func(*Gap) Estimate) getter {
	g := estimates(func(a *AtMargin) Estimate {
		if a.Noise == nil {
			return unknown()
		}
		return f(a.Noise)
	})
	g.part = PartNoise
	return g
}

func certified(f func(*Proofs) Estimate) getter {
	g := estimates(func(a *AtMargin) Estimate {
		if a.Certified == nil {
			return unknown()
		}
		return f(a.Certified)
	})
	g.part = PartProofs
	return g
}

func certifiedShare() getter {
	g := shares(func(a *AtMargin) Rate {
		if a.Certified == nil {
			return nobody()
		}
		return a.Certified.Certified
	})
	g.part = PartProofs
	return g
}

// nobody is a share of nobody.
func nobody() Rate { return NewRate(0, 0, 0.95) }

func perturbationShare(kind Perturbation, f func(*Perturbed) Rate) getter {
	g := shares(func(a *AtMargin) Rate {
		p, ok := a.Perturbed[kind]
		if !ok {
			return nobody()
		}
		return f(&p)
	})
	g.part = PartPerturbation
	return g
}

func perturbation(kind Perturbation, f func(*Perturbed) Estimate) getter {
	g := estimates(func(a *AtMargin) Estimate {
		p, ok := a.Perturbed[kind]
		if !ok {
			return unknown()
		}
		return f(&p)
	})
	g.part = PartPerturbation
	return g
}

func footprint(f func(*Weight) float64) getter {
	return getter{func(r *Result, _ int) Value {
		if r.Footprint != nil {
			if x := f(&r.Footprint.Quant); x > 0 {
				return exactly(x)
			}
		}
		return Value{Estimate: unknown(), Kind: KindExact}
	}, KindExact, PartFootprint}
}

func timing(f func(*Timing) Estimate) getter {
	g := oneEstimate(func(r *Result) Estimate {
		if r.Timing == nil {
			return unknown()
		}
		return f(r.Timing)
	})
	g.part = PartTiming
	return g
}
