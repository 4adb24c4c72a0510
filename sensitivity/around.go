package sensitivity

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"cfq/onnxio/classifier"
	"cfq/quant"
)

// around is the probe of what each layer reads and of the gradients by what it makes, and
// where they are in it: layers may read the same value, which is probed once.
func around(layers []quant.LayerInfo) (p classifier.Probe, reads, makes []int) {
	at := func(names *[]string, name string) int {
		i := slices.Index(*names, name)
		if i < 0 {
			i = len(*names)
			*names = append(*names, name)
		}
		return i
	}
	for _, l := range layers {
		reads, makes = append(reads, at(&p.Values, l.Input)), append(makes, at(&p.Grads, l.Output))
	}
	return p, reads, makes
}

// fits checks that rows of what a layer reads and makes are of its size.
func fits(l *quant.LayerInfo, h, g []float32, rows int) error {
	in, out := l.In, l.Out
	if c := l.Conv; c != nil {
		in, out = c.Channels, l.Out*c.Positions()
		for _, n := range c.Input {
			in *= n
		}
	}
	if len(h) != rows*in || len(g) != rows*out {
		return fmt.Errorf("layer %q reads %d and makes %d numbers for each row; by its weights it would %d and %d", l.Node, len(h)/rows, len(g)/rows, in, out)
	}
	return nil
}

// positions is how often a row meets each weight.
func positions(l *quant.LayerInfo) int {
	if l.Conv == nil {
		return 1
	}
	return l.Conv.Positions()
}

// convGradient fills d, Out x In, with the gradient by the weights of a convolution for
// one row: h is what it reads and g the gradient by what it makes. It is the sum over
// the positions of the outer products of g there and the patch there.
func convGradient(d []float64, l *quant.LayerInfo, h, g []float32) {
	clear(d)
	n, outs := l.Conv.Positions(), l.Out/l.Conv.Group
	patch := make([]float64, l.In)
	for group := range l.Conv.Group {
		for p := range n {
			l.Conv.Patch(patch, h, group, p)
			for o := group * outs; o < (group+1)*outs; o++ {
				floats.AddScaled(d[o*l.In:(o+1)*l.In], float64(g[o*n+p]), patch)
			}
		}
	}
}
