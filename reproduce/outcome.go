package reproduce

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/eval/report"
)

// Outcome is what a command measured.
type Outcome interface {
	// of is the value of a metric in a part; NaN when it is not known.
	of(metric, part string) float64
}

// read sets what a step measured, if it was made.
func (s *step) read() error {
	if s.err != nil {
		return nil // which make has told
	}
	f, err := os.Open(s.file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	if filepath.Base(s.file) == actionsFile {
		var a actions
		if err := json.NewDecoder(f).Decode(&a); err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
		s.outcome = &a
		return nil
	}
	d, err := report.ReadJSON(f)
	if err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	s.outcome = (*evaluated)(d.Result)
	return nil
}

// evaluated is what cfq eval reports.
type evaluated eval.Result

func (e *evaluated) of(metric, name string) float64 {
	if worst, ok := strings.CutPrefix(metric, Worst); ok {
		return slices.Max(e.groups(worst, name))
	}
	if spread, ok := strings.CutPrefix(metric, Spread); ok {
		all := e.groups(spread, name)
		return slices.Max(all) - slices.Min(all)
	}
	if group, share, ok := strings.Cut(name, Weighted); ok {
		return e.weighted(metric, group, share)
	}
	m, ok := eval.MetricBy(metric)
	r := part((*eval.Result)(e), name)
	if r == nil || !ok {
		return math.NaN()
	}
	at := 0
	if m.PerMargin() {
		at = slices.Index(r.Settings.Margins, Margin)
	}
	return float64(m.Of(r, at).Value)
}

// weighted is the mean over people that a metric is, if a group, "sex Female", were another share of all people: each
// counts with the weight w_g of eq. group_reweight_shift. NaN without such a group.
func (e *evaluated) weighted(metric, group, share string) float64 {
	shifted, err := strconv.ParseFloat(share, 64)
	m, ok := eval.MetricBy(metric)
	in := part((*eval.Result)(e), group)
	if err != nil || !ok || in == nil {
		return math.NaN()
	}
	original := float64(in.Population.Read) / float64(e.Population.Read)
	var sum, weights float64
	for _, by := range e.Groups {
		for _, g := range by.Groups {
			if !strings.HasPrefix(group, by.By+" ") {
				continue
			}
			w := (1 - shifted) / (1 - original)
			if by.By+" "+g.Name == group {
				w = shifted / original
			}
			at := 0
			if m.PerMargin() {
				at = slices.Index(g.Result.Settings.Margins, Margin)
			}
			if v := m.Of(g.Result, at); v.N > 0 {
				sum, weights = sum+w*float64(v.N)*float64(v.Value), weights+w*float64(v.N)
			}
		}
	}
	return sum / weights
}

// groups are the values of a metric in groups that an attribute tells apart; NaN without any.
func (e *evaluated) groups(metric, by string) []float64 {
	var all []float64
	for _, grouping := range e.Groups {
		for _, g := range grouping.Groups {
			if grouping.By == by && !g.Small {
				all = append(all, (*evaluated)(g.Result).of(metric, ""))
			}
		}
	}
	if all == nil {
		return []float64{math.NaN()}
	}
	return all
}

// part is the result of a group or a condition of r; r when the name is "", nil when there is no such part.
func part(r *eval.Result, name string) *eval.Result {
	if name == "" {
		return r
	}
	for _, by := range r.Groups {
		for _, g := range by.Groups {
			if by.By+" "+g.Name == name {
				return g.Result
			}
		}
	}
	for _, s := range r.Scenarios {
		if s.Name == name {
			return s.Result
		}
	}
	return nil
}

// actions is what cfq recourse reports.
type actions struct {
	Success    eval.Rate
	Cost       struct{ Mean eval.Float }
	Proved     int
	Gap        *report.Gap
	Robustness struct {
		Rows []struct {
			Solver    string
			Quantized eval.Float
			HeldOut   eval.Float `json:"held_out"`
			CostRatio eval.Float `json:"cost_ratio"`
			Seconds   float64
		}
	}
}

func (a *actions) of(metric, solver string) float64 {
	switch metric {
	case Success:
		return float64(a.Success.Value)
	case Cost:
		return float64(a.Cost.Mean)
	case People:
		return float64(a.Success.Den)
	case Proved:
		return float64(a.Proved) / float64(a.Success.Den)
	}
	if g := a.Gap; g != nil {
		switch metric {
		case GapMean:
			return float64(g.Mean)
		case GapLargest:
			return float64(g.Largest)
		case GapMissed:
			return float64(g.Missed)
		}
	}
	for _, r := range a.Robustness.Rows {
		if r.Solver == solver {
			switch metric {
			case SuccessHere:
				return float64(r.Quantized)
			case SuccessAway:
				return float64(r.HeldOut)
			case CostRatio:
				return float64(r.CostRatio)
			case Time:
				return r.Seconds
			}
		}
	}
	return math.NaN()
}
