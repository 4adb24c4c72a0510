package classifier

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"cfq/onnxio"
	"cfq/onnxio/graph"
)

// servedFile is the file of a model whose graph is a copy of it in float32. The copy gives gradients; margins are those
// of the file, which serves.
type servedFile struct {
	*onnxio.Model // without a step in front of it

	mu    sync.Mutex
	apart float64 // the largest difference of margins that was seen; -1 without any
}

// Rounding says what judges, where that is not the graph, and how far margins of people were apart; "" where it is, or
// nobody was judged.
func (c *Model) Rounding() string {
	if c.file == nil {
		return ""
	}
	c.file.mu.Lock()
	defer c.file.mu.Unlock()
	if c.file.apart < 0 {
		return ""
	}
	return fmt.Sprintf("the file computes in %s and judges as it is: its margins differ by up to %.2g from those of its "+
		"float32 copy, which gives gradients", strings.Join(c.FileTypes(), " and "), c.file.apart)
}

// byFile gives logits, or margins, among what the graph gave for one batch the margins of the file.
func (c *Model) byFile(ctx context.Context, x []float32, wants []want, out [][]float32) error {
	named := func(name string) int { return slices.IndexFunc(wants, func(w want) bool { return w.name == name }) }
	margins, logits, limits := named(marginName), named(c.logits), named(c.Limit())
	if c.file == nil || margins < 0 && logits < 0 {
		return nil
	}
	in, rows, run := [][]float32{x}, len(x)/c.Dim(), max(len(x)/c.Dim(), c.Fixed())
	if c.FileInput() != c.Input().Name {
		s, err := c.session("front", c.inFront)
		if err != nil {
			return err
		}
		in[0] = nil
		if err := c.runBatch(ctx, s, x, []want{{name: c.FileInput(), size: c.file.Dim()}}, in); err != nil {
			return err
		}
	}
	s, err := c.session("file", func() (*graph.Model, error) { return c.file.File(), nil })
	if err != nil {
		return err
	}
	in[0] = append(slices.Clip(in[0]), make([]float32, (run-rows)*c.file.Dim())...)
	p, label, err := c.file.FileDecisions(ctx, s, in[0])
	if err != nil || len(p) < run {
		return err
	}
	apart, n := 0.0, len(p)/run
	for r := range rows {
		var before, after float32
		if logits >= 0 {
			z := out[logits][r*c.classes : (r+1)*c.classes]
			before = margin(z, c.target)
			after = c.marginOf(p[r*n:(r+1)*n], label, before)
			setMargin(z, c.target, after)
		} else {
			before = out[margins][r]
			if after = c.marginOf(p[r*n:(r+1)*n], label, before); limits >= 0 {
				after = min(after, out[limits][r])
			}
			out[margins][r] = after
		}
		if d := math.Abs(float64(after - before)); d > apart {
			apart = d
		}
	}
	c.file.mu.Lock()
	defer c.file.mu.Unlock()
	c.file.apart = max(c.file.apart, apart)
	return nil
}

func (c *Model) inFront() (*graph.Model, error) {
	m := c.Graph().Clone()
	m.Graph.Outputs = []graph.Value{{Name: c.FileInput()}}
	return m, nil
}

// marginOf is the margin by a row of the file's own output, of which the copy's is copied. Where probabilities are near
// 0 or 1, or this is a label, it tells only whether the margin is above 0. Of several columns the first of the largest
// decides; it does so narrowly where it is not more than half, by which it may be read alone.
func (c *Model) marginOf(p []float64, label bool, copied float32) float32 {
	odds, cut, t := c.Decision().Meaning == onnxio.Probabilities, c.o.Threshold, c.target
	a, b := p[0]*float64(2*t-1), 0.0 // of the target and the largest other class
	switch {
	case label:
	case len(p) > 1:
		a, b = p[t], slices.Max(slices.Concat(p[:t], p[t+1:]))
	case odds:
		a += float64(1 - t)
		b = 1 - a
	}
	m, approved := float64(copied), a-b > cut
	switch {
	case label:
		approved = int(p[0]) == t
	case odds:
		if cut == 0 {
			cut = 0.5
		}
		if min(a, b) > 0.125 {
			m = math.Log(a/b) - math.Log(cut/(1-cut))
		}
		if approved = a > cut; len(p) == 2 && !approved {
			m = min(m, 0)
		}
	default:
		m = a - b - cut
	}
	if !label && len(p) > 1 && c.o.Threshold == 0 {
		approved = slices.Index(p, slices.Max(p)) == t
	}
	switch {
	case m > 0 && !approved:
		return 0
	case m <= 0 && approved:
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
