package eval

import (
	"math"
)

// contested is a metric of a contest, and what it is computed from.
type contested struct {
	id          string
	share       bool // all models are judged on the same trials
	own         bool // each model has trials of its own: who has one in either model counts, not who has in both
	ifDifferent bool // not worth a row where all values are equal
	// part is what a person adds: x to the sum, of to what the sum is divided by. of is 0 for who does not count.
	part func(r *Record, at int, s *Settings) (x, of float64)
	// statistic of the parts of people; nil when shares, which are counted, and numbers that are exact.
	statistic func(parts) statistic
	// whole is the statistic of a model where it is not made of parts.
	whole func(b *bootstrap, r *Result) statistic
}

// contests lists the metrics of a contest, in the order of Metrics.
func contests() []contested {
	crg := func(f func(full, quant float64) (x, of float64)) func(*Record, int, *Settings) (float64, float64) {
		return atStep(func(_ *Record, p *Step, _ *Settings) (float64, float64) {
			if !p.common() {
				return 0, 0
			}
			return f(float64(p.Full.Cost), float64(p.Quant.Cost))
		})
	}
	of := func(f func(p *Step) Float) func(*Record, int, *Settings) (float64, float64) {
		return atStep(func(_ *Record, p *Step, _ *Settings) (float64, float64) { return defined(f(p)) })
	}
	return []contested{
		{id: "vd", share: true, part: atStep(func(_ *Record, p *Step, _ *Settings) (float64, float64) { return yes(p.Full.Broken(), p.Full.Made()) })},
		{id: "rvd", own: true, statistic: parts.ratio, part: atStep(func(r *Record, p *Step, s *Settings) (float64, float64) {
			return yes(p.Quant.Broken(), p.Quant.Made() && r.mirrored(s))
		})},
		{id: "lost_recourse", own: true, statistic: parts.ratio, part: atStep(func(r *Record, p *Step, s *Settings) (float64, float64) {
			return yes(!p.Quant.Made() && !p.free(), p.Full.Made() && r.mirrored(s))
		})},
		{id: "tau01", whole: fullTau},
		{id: "rtau01", own: true, whole: quantTau},
		{id: "pgd_first.vd", share: true, part: func(r *Record, _ int, s *Settings) (float64, float64) {
			return yes(r.First.Broken(), r.Evaluated && r.First.Made() && !s.OneSided)
		}},
		{id: "rfrr", own: true, ifDifferent: true, statistic: parts.ratio, part: atStep(func(r *Record, p *Step, s *Settings) (float64, float64) {
			return yes(p.Quant.Made(), r.mirrored(s))
		})},
		{id: "crg.mean", statistic: parts.ratio, part: crg(func(full, quant float64) (float64, float64) { return costRatio(full, quant), 1 })},
		{id: "crg.ratio_of_sums", statistic: parts.ratio, part: crg(func(full, quant float64) (float64, float64) { return quant - full, full })},
		{id: "crg.median", statistic: parts.median, part: crg(func(full, quant float64) (float64, float64) { return costRatio(full, quant), 1 })},
		{id: "crg.abs_mean", statistic: parts.ratio, part: crg(func(full, quant float64) (float64, float64) { return math.Abs(costRatio(full, quant)), 1 })},
		{id: "dir_sim", statistic: parts.ratio, part: of(func(p *Step) Float { return p.DirSim })},
		{id: "act_overlap", statistic: parts.ratio, part: of(func(p *Step) Float { return p.Overlap })},
		{id: "margin_error.rms", statistic: parts.root, part: of(func(p *Step) Float { e := p.Full.Other - p.Full.Own; return e * e })},
		{id: "certified.share", share: true, part: atStep(func(_ *Record, p *Step, _ *Settings) (float64, float64) {
			return yes(p.Proof != nil && p.Proof.Certified(), p.Proof != nil)
		})},
		{id: "accuracy_quant", share: true, part: func(r *Record, _ int, _ *Settings) (float64, float64) {
			return yes(approves(r.Quant) == (r.Label == 1), r.Label >= 0)
		}},
		{id: "disagreement", share: true, part: func(r *Record, _ int, _ *Settings) (float64, float64) {
			return yes(approves(r.Full) != approves(r.Quant), true)
		}},
		{id: "lost", share: true, part: func(r *Record, _ int, _ *Settings) (float64, float64) {
			return yes(!approves(r.Quant), approves(r.Full))
		}},
		{id: "gained", share: true, part: func(r *Record, _ int, _ *Settings) (float64, float64) {
			return yes(approves(r.Quant), !approves(r.Full))
		}},
		{id: "bytes"},
		{id: "weight_bits"},
		{id: "bops"},
	}
}

func yes(does, asked bool) (x, of float64) {
	if !asked {
		return 0, 0
	}
	return float64(count(does)), 1
}

func defined(x Float) (float64, float64) {
	if !x.Defined() {
		return 0, 0
	}
	return float64(x), 1
}

// atStep makes a part of what evaluated people have at a required margin.
func atStep(f func(*Record, *Step, *Settings) (x, of float64)) func(*Record, int, *Settings) (float64, float64) {
	return func(r *Record, at int, s *Settings) (x, of float64) {
		if !r.Evaluated {
			return 0, 0
		}
		return f(r, &r.Steps[at], s)
	}
}
