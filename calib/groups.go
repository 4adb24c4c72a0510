package calib

import (
	"context"
	"fmt"

	"cfq/quant"
)

// forGroups makes room for the sums of all groups of a convolution, one group's
// behind the other's.
func (s *Stats) forGroups(l quant.LayerInfo) {
	if l.Conv == nil || l.Conv.Group == 1 {
		return
	}
	for _, v := range []*[]float64{&s.Gram, &s.Mean, &s.LogitGram, &s.LogitMean} {
		if *v != nil {
			*v = make([]float64, len(*v)*l.Conv.Group)
		}
	}
}

// part returns the statistics of group g of a convolution, sharing the sums of s;
// s itself for other layers.
func (s *Stats) part(l quant.LayerInfo, g int) Stats {
	if l.Conv == nil || l.Conv.Group == 1 {
		return *s
	}
	cut := func(v []float64) []float64 {
		if v == nil {
			return nil
		}
		n := len(v) / l.Conv.Group
		return v[g*n : (g+1)*n : (g+1)*n]
	}
	out := *s
	out.Gram, out.Mean, out.LogitGram, out.LogitMean = cut(s.Gram), cut(s.Mean), cut(s.LogitGram), cut(s.LogitMean)
	return out
}

// pooled returns the mean of the statistics of all groups.
func (s *Stats) pooled(l quant.LayerInfo) *Stats {
	mean := func(v []float64) []float64 {
		if v == nil {
			return nil
		}
		n := len(v) / l.Conv.Group
		out := make([]float64, n)
		for k, x := range v {
			out[k%n] += x / float64(l.Conv.Group)
		}
		return out
	}
	out := *s
	out.Gram, out.Mean, out.LogitGram, out.LogitMean = mean(s.Gram), mean(s.Mean), mean(s.LogitGram), mean(s.LogitMean)
	return &out
}

// fitGroups is FitWeights for a convolution in groups, each of which reads other
// numbers: each is fitted by itself. One scale for all is fitted, and with it the
// codes, on what the groups read on average.
func fitGroups(ctx context.Context, l quant.LayerInfo, s *Stats, formats []quant.Format, o WeightOptions) ([]quant.Layer, error) {
	groups := l.Groups()
	if o.PerTensor {
		whole := l
		whole.Conv = groups[0].Conv
		fits, err := FitWeights(ctx, whole, s.pooled(l), formats, o)
		if err != nil {
			return nil, err
		}
		for i := range fits {
			if fits[i].Bias != nil {
				correctGroups(&fits[i], l, s, o.Range)
			}
		}
		return fits, nil
	}
	var out []quant.Layer
	for g, part := range groups {
		stats := s.part(l, g)
		part.Node = fmt.Sprintf("%s/%d", l.Node, g) // random numbers of its own
		fits, err := FitWeights(ctx, part, &stats, formats, o)
		if err != nil {
			return nil, err
		}
		for i, f := range fits {
			if g == 0 {
				f.Node = l.Node
				out = append(out, f)
				continue
			}
			out[i].Scales = append(out[i].Scales, f.Scales...)
			out[i].Codes = append(out[i].Codes, f.Codes...)
			out[i].Bias = append(out[i].Bias, f.Bias...)
		}
	}
	return out, nil
}

// correctGroups sets the bias to what takes up what the codes do to the mean of the
// outputs, each group by the mean of what it reads.
func correctGroups(fit *quant.Layer, l quant.LayerInfo, s *Stats, kind Range) {
	for r := range l.Out {
		part := s.part(l, r/(l.Out/l.Conv.Group))
		_, mean := part.moments(kind)
		shift := 0.0
		for j, w := range l.Row(r) {
			q := quant.Dequantize(fit.Codes[r*l.In+j], fit.Scales[r%len(fit.Scales)])
			shift += (float64(w) - float64(q)) * mean[j]
		}
		fit.Bias[r] = float32(float64(l.B[r]) + shift)
	}
}
