package classifier

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"cfq/onnxio"
	"cfq/onnxio/graph"
)

// Rounding says what judges, where that is not the graph but the file, of which the graph is a copy in float32 that
// gives gradients, and how far margins of people were apart; "" where it is the graph, or nobody was judged.
func (c *Model) Rounding() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil || c.apart < 0 {
		return ""
	}
	return fmt.Sprintf("the file works in %s and judges as it is: its margins differ by up to %.2g from those of its "+
		"float32 copy, which gives gradients", strings.Join(c.FileTypes(), " and "), c.apart)
}

// byFile gives logits, or margins, among what the graph gave for one batch the margins of the file.
func (c *Model) byFile(ctx context.Context, x []float32, wants []want, out [][]float32) error {
	named := func(name string) int { return slices.IndexFunc(wants, func(w want) bool { return w.name == name }) }
	at, size, target, limits := named(c.logits), c.classes, c.target, -1
	if at < 0 {
		at, size, target, limits = named(marginName), 1, 1, named(c.Limit())
	}
	if c.file == nil || at < 0 {
		return nil
	}
	in, err := c.Inputs(ctx, x)
	if err != nil {
		return err
	}
	s, err := c.session("file", func() (*graph.Model, error) { return c.file.File(), nil })
	if err != nil {
		return err
	}
	rows, run := len(x)/c.Dim(), max(len(x)/c.Dim(), c.Fixed())
	p, label, err := c.file.FileDecisions(ctx, s, append(slices.Clip(in), make([]float32, (run-rows)*c.file.Dim())...))
	if err != nil || p == nil {
		return err
	}
	apart, n := 0.0, len(p)/run
	for r := range rows {
		z := out[at][r*size : (r+1)*size]
		before := margin(z, target)
		after := c.marginOf(p[r*n:(r+1)*n], label, before)
		if limits >= 0 {
			after = min(after, out[limits][r])
		}
		setMargin(z, target, after)
		if d := math.Abs(float64(after - before)); d > apart {
			apart = d
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apart = max(c.apart, apart)
	return nil
}

// marginOf is the margin by a row of the file's own output, of which the copy's is copied. Where probabilities are near
// 0 or 1, or this is a label, it tells only whether the margin is above 0. Of several columns the first of the largest
// decides; it does so narrowly where it is not more than half, by which it may be read alone.
func (c *Model) marginOf(p []float64, label bool, copied float32) float32 {
	odds, cut, t := c.Decision().Meaning == onnxio.Probabilities, c.o.Threshold, c.target
	a, b := p[0]*float64(2*t-1), 0.0 // of the target and the largest other class
	if len(p) > 1 {
		a, b = p[t], slices.Max(slices.Concat(p[:t], p[t+1:]))
	} else if odds {
		a += float64(1 - t)
		b = 1 - a
	}
	m, approved := a-b-cut, a-b > cut
	switch {
	case label && cut != 0:
		return copied
	case label:
		m, approved = float64(copied), int(p[0]) == t
	case odds:
		if cut == 0 {
			cut = 0.5
		}
		if m = math.Log(a/b) - math.Log(cut/(1-cut)); !(min(a, b) > 0.125) {
			m = float64(copied)
		}
		if approved = a > cut; len(p) == 2 && !approved {
			m = min(m, 0)
		}
	}
	if len(p) > 1 && c.o.Threshold == 0 {
		approved = slices.Index(p, slices.Max(p)) == t
	}
	if m > 0 && !approved {
		return 0
	} else if m <= 0 && approved {
		return math.SmallestNonzeroFloat32
	}
	return float32(m)
}

// setMargin changes the target's logit.
func setMargin(z []float32, target int, m float32) {
	if len(z) == 1 {
		z[0] = m * float32(2*target-1)
		return
	}
	z[target] = float32(math.Inf(-1))
	other := slices.Max(z)
	if z[target] = other + m; m > 0 {
		z[target] = max(z[target], math.Nextafter32(other, float32(math.Inf(1))))
	}
}
