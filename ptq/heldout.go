package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"cfq/calib"
	"cfq/eval"
	"cfq/onnxio/classifier"
	"cfq/qat"
	"cfq/qat/cohort"
	"cfq/sensitivity"
	"cfq/task"
)

// heldPoints is how many recourse points the margin error of a written model is measured at, at most; with fewer than
// minPoints of people held out, those of people who were calibrated on are taken.
const heldPoints = 1000

// HeldOut is the margin error of the written model at recourse points of people that it was not calibrated on.
type HeldOut struct {
	Points   int     `json:"points"`
	Seen     bool    `json:"calibrated_on,omitempty"` // too few people are left: these were calibrated on
	RMS      float64 `json:"rms"`                     // root mean square, in logits
	Required float64 `json:"required_margin"`         // of the task; eval.HeadlineMargin where that is 0
	// Cause is what most of the error comes from where it is more than half of Required: a layer, which alone makes
	// the error CauseRMS, or, with InputGrid, the grid of the input, whose first reader the layer is.
	Cause     string  `json:"cause,omitempty"`
	CauseRMS  float64 `json:"cause_rms,omitempty"`
	InputGrid bool    `json:"input_grid,omitempty"`
}

// Doubtful reports whether the error is more than half of the required margin, and Exceeds whether it is more than it.
func (h *HeldOut) Doubtful() bool { return h != nil && h.RMS > h.Required/2 }

// Exceeds reports whether the error is more than the required margin.
func (h *HeldOut) Exceeds() bool { return h != nil && h.RMS > h.Required }

// String says what the error is, where it comes from and what helps.
func (h *HeldOut) String() string {
	of, limit := "people held out", ""
	if h.Seen {
		of = "people who were calibrated on"
	}
	if !h.Exceeds() {
		limit = "half of "
	}
	s := fmt.Sprintf("margin error %.3g logits (rms) at %d recourse points of %s, more than %sthe margin of %g that "+
		"recourse must have", h.RMS, h.Points, of, limit, h.Required)
	switch {
	case h.InputGrid:
		s += fmt.Sprintf("; the 8-bit grid of the input alone makes %.2g: try --set write.input=%s", h.CauseRMS, inputFloat)
	case h.Cause != "":
		s += fmt.Sprintf("; layer %q alone makes %.2g: try a larger --budget, or --keep-float %[1]q", h.Cause, h.CauseRMS)
	}
	return s
}

// heldOut returns recourse points of people who are not calibrated on, or of others where few are left, which seen
// tells.
func (c *calibration) heldOut(ctx context.Context) (points []float32, seen bool, err error) {
	var rest []int
	if c.net.recipe.Train == nil { // training sees everybody
		rest = slices.DeleteFunc(task.AllRows(c.sample.all.N), func(i int) bool {
			_, ok := slices.BinarySearch(c.sample.rows, i)
			return ok
		})
	}
	if points, err = c.recourseOf(ctx, rest); err != nil || len(points) >= minPoints*c.net.full.Dim() {
		return points, false, err
	}
	if points, err = c.recourseOf(ctx, c.sample.rows); err == nil && c.sample.promises != nil {
		points, _ = c.net.thin(slices.Concat(cohort.Points(c.sample.promises)...), nil, heldPoints)
	}
	return points, true, err
}

// recourseOf returns points on the ways of some of the people to their teacher recourse, heldPoints at most: where they
// reach the required margin. The teacher goes on beyond it, where an error breaks no promise.
func (c *calibration) recourseOf(ctx context.Context, at []int) ([]float32, error) {
	refused := slices.DeleteFunc(slices.Clone(at), func(i int) bool { return !(c.sample.margins[i] <= 0) })
	if len(refused) == 0 || c.sample.promises != nil {
		return nil, nil
	}
	some := c.sample.all.Subset(subset(refused, qat.Spread(len(refused), heldPoints)))
	set, err := personal(c.net.set, c.net.run.Overrides, some)
	if err != nil {
		return nil, err
	}
	u, err := calib.Counterfactual(ctx, c.net.full, set, some.X, c.net.teacher())
	if err != nil {
		return nil, err
	}
	ways := c.net.ways(u, set)
	return ways.Ends(ctx, c.net.full.Margins, float32(c.net.required()))
}

func (p *network) required() float64 { return cmp.Or(p.task.Target.Margin, eval.HeadlineMargin) }

// judge measures the margin error of a written model.
func (c *calibration) judge(ctx context.Context, r *Result) error {
	held, seen, err := c.heldOut(ctx)
	if err != nil || len(held) == 0 {
		return err
	}
	h := &HeldOut{Points: len(held) / c.net.full.Dim(), Seen: seen, Required: c.net.required()}
	r.HeldOut = h
	want, err := c.net.full.Margins(ctx, held)
	if err != nil {
		return err
	}
	errorOf := func(g *classifier.Model, err error) (float64, error) {
		if err != nil {
			return 0, err
		}
		got, err := g.Margins(ctx, held)
		return math.Sqrt(sensitivity.MarginError(got, want)), errors.Join(err, g.Close())
	}
	h.RMS, err = errorOf(openFile(ctx, r.Model, c.net.task, c.net.full.Engine(), c.net.run.Workers))
	if err != nil || !h.Doubtful() {
		return err
	}
	for _, l := range r.Plan.Layers {
		rms, err := errorOf(c.openPlain(l))
		if err != nil {
			return err
		}
		if rms > h.CauseRMS {
			h.Cause, h.CauseRMS = l.Node, rms
		}
	}
	if c.input != nil {
		rms, err := c.gridError(ctx, c.input, held)
		if err != nil {
			return err
		}
		if rms > h.CauseRMS/2 {
			h.InputGrid, h.CauseRMS = true, rms
		}
	}
	return nil
}
