package reproduce

import (
	_ "embed" // where actions have their metrics
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"cfq/eval"
	"cfq/eval/metrics"
	"cfq/eval/report"
	"cfq/internal/config"
)

// Seconds stands for a metric: of the processor, that quantizing took, or looking for actions.
const Seconds = "seconds"

// Before a metric: the largest value of the groups of people that Row.Part tells apart, and that less the smallest.
// Groups of few promises do not count.
const (
	Worst  = "worst "
	Spread = "spread "
)

// Weighted stands in a part between a group and the share of all people that it counts as.
const Weighted = " weighted to "

// outcome is what a command measured: the value of a metric in a part, NaN when it is not known.
type outcome func(metric, part string) float64

func readOutcome(command, path string) (outcome, error) {
	if command == "recourse" {
		a, err := config.Parsed("actions", path, func(text []byte) (a actions, err error) {
			err = json.Unmarshal(text, &a)
			return a, err
		})
		return a.of, err
	}
	d, err := config.Parsed("report", path, report.ReadJSON)
	if err != nil {
		return nil, err
	}
	return (*evaluated)(d.Result).of, nil
}

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
	if r := e.part(name); r != nil {
		return float64(valueOf(metric, r).Value)
	}
	return math.NaN()
}

func valueOf(metric string, r *eval.Result) eval.Value {
	m, _ := metrics.By(metric)
	at := 0
	if m.PerMargin() {
		at = slices.Index(r.Settings.Margins, Margin)
	}
	return r.Metric(&m, at)
}

// weighted is the mean over people that a metric is, if a group, "sex Female", were another share of all people: each
// counts with the weight w_g of eq. group_reweight_shift. NaN without such a group.
func (e *evaluated) weighted(metric, group, share string) float64 {
	shifted, err := strconv.ParseFloat(share, 64)
	in := e.part(group)
	if err != nil || in == nil {
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
			if v := valueOf(metric, g.Result); v.N > 0 {
				sum, weights = sum+w*float64(v.N)*float64(v.Value), weights+w*float64(v.N)
			}
		}
	}
	return sum / weights
}

func (e *evaluated) groups(metric, by string) []float64 {
	var all []float64
	for _, grouping := range e.Groups {
		for _, g := range grouping.Groups {
			if grouping.By == by && !g.Small {
				all = append(all, float64(valueOf(metric, g.Result).Value))
			}
		}
	}
	if all == nil {
		return []float64{math.NaN()}
	}
	return all
}

func (e *evaluated) part(name string) *eval.Result {
	if name == "" {
		return (*eval.Result)(e)
	}
	for _, by := range e.Groups {
		for _, g := range by.Groups {
			if by.By+" "+g.Name == name {
				return g.Result
			}
		}
	}
	for _, s := range e.Scenarios {
		if s.Name == name {
			return s.Result
		}
	}
	return nil
}

// actions are what cfq recourse prints.
type actions map[string]any

//go:embed testdata/actions.json
var actionsJSON []byte

// actionPaths are where the metrics of actions stand in that; those of robust actions, in the row of a solver.
func actionPaths() (all map[string]struct{ Path, About string }) {
	embedded(actionsJSON, &all)
	return all
}

func (a actions) of(metric, solver string) float64 {
	in := map[string]any(a)
	if strings.HasPrefix(metric, "robust.") {
		in = a.robust(solver)
	}
	path := strings.Split(actionPaths()[metric].Path, ".")
	for _, name := range path[:len(path)-1] {
		in, _ = in[name].(map[string]any)
	}
	x, ok := in[path[len(path)-1]].(float64)
	switch {
	case !ok:
		return math.NaN()
	case metric == "proved":
		return x / a.of("people", solver)
	}
	return x
}

func (a actions) robust(solver string) map[string]any {
	all, _ := a["robustness"].(map[string]any)
	rows, _ := all["rows"].([]any)
	for _, row := range rows {
		if r, ok := row.(map[string]any); ok && r["solver"] == solver {
			return r
		}
	}
	return nil
}

const confidence = 0.95

// What became of a claim in one place.
const (
	holds    = "holds"
	reversed = "reversed"
	unclear  = "not shown"
)

// judge tests the differences of a claim: a one-sided t test in both directions.
func (r *Result) judge() string {
	if r.Networks < 2 {
		return unclear
	}
	n, mean := float64(r.Networks), float64(r.Mean)
	reach := float64(r.SD) / math.Sqrt(n) * distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(confidence)
	switch {
	case mean < -reach:
		return holds
	case mean > reach:
		return reversed
	}
	return unclear
}

func (t *Table) verdicts(results []Result) []string {
	var bad, good []string
	for _, c := range t.Claims {
		places := map[string][]string{}
		for i := range results {
			if r := &results[i]; r.Method == c.Lower && r.Against == c.Upper && r.Metric == c.Metric {
				verdict := r.judge()
				places[verdict] = append(places[verdict], fmt.Sprintf("%s (%s)", place(r.Data, r.Part), r.cell("%+.3f")))
			}
		}
		var parts []string
		for _, verdict := range []string{reversed, unclear, holds} {
			if p := places[verdict]; p != nil {
				parts = append(parts, verdict+" on "+strings.Join(p, ", "))
			}
		}
		text := fmt.Sprintf("%s: %s.", c.Says, strings.Join(parts, "; "))
		switch {
		case len(parts) == 1 && places[holds] != nil:
			good = append(good, text)
		case len(parts) > 0:
			bad = append(bad, text)
		}
	}
	return append(bad, good...)
}
