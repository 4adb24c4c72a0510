package sensitivity

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// TraceRows is how many rows are enough for Trace: 1024 for a network that a table is enough for, fewer for layers that
// take many multiplications, 128 at least.
func TraceRows(layers []quant.LayerInfo) int {
	return min(1024, max(128, 1<<30/max(1, Multiplications(layers))))
}

// DefaultProbes is how many random vectors estimate a trace by default.
const DefaultProbes = 64

// TraceOptions of Trace. The zero value takes DefaultProbes.
type TraceOptions struct {
	Probes int // random vectors for each layer, 2 or more (DefaultProbes)
	Seed   uint64
	// Progress is called after each probe; nil for none.
	Progress func(done, total int)
}

// Trace estimates, for each layer, the trace of the Hessian by the layer's weights of the mean cross-entropy over the
// rows of x; classes as in Gradient. It is Hutchinson's estimate: the mean of v' H v over random vectors v of -1 and 1,
// drawn for each layer and probe by the seed, so that neither other layers nor more probes change them. H v is the
// gradient of <gradient, v>; no Hessian is ever formed. The trace divided by the number of weights, the mean of H's
// eigenvalues, is the sensitivity of HAWQ-V2.
//
// A trace may be negative: the cross-entropy is not convex in the weights of layers
// that are followed by others. Between the kinks of a piecewise linear network it is.
//
// errs are the standard errors of the traces that the random vectors make. What another
// choice of rows would change is not in them.
func Trace(
	ctx context.Context, c *classifier.Model, layers []quant.LayerInfo, x []float32, classes []int, o TraceOptions,
) (traces, errs []float64, err error) {
	o.Probes = cmp.Or(o.Probes, DefaultProbes)
	for i := range layers {
		l := &layers[i]
		var sum, squares float64
		for p := range o.Probes {
			v := rademacher(len(l.W), o.Seed, l.Node, p)
			hv, err := c.HessianVector(ctx, x, classes, l.Weight, v)
			if err != nil {
				return nil, nil, fmt.Errorf("trace of layer %q: %w", l.Node, err)
			}
			q := dot(v, hv)
			sum += q
			squares += q * q
			if o.Progress != nil {
				o.Progress(i*o.Probes+p+1, len(layers)*o.Probes)
			}
		}
		n := float64(o.Probes)
		mean := sum / n
		traces = append(traces, mean)
		errs = append(errs, math.Sqrt(max(0, squares-n*mean*mean)/(n-1)/n))
	}
	return traces, errs, nil
}

func rademacher(n int, seed uint64, node string, probe int) []float32 {
	h := fnv.New64a()
	h.Write([]byte(node))
	r := rand.New(rand.NewPCG(seed, h.Sum64()+uint64(probe)))
	v := make([]float32, n)
	var bits uint64
	for i := range v {
		if i%64 == 0 {
			bits = r.Uint64()
		}
		v[i] = 1 - 2*float32(bits&1)
		bits >>= 1
	}
	return v
}
