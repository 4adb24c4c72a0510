package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/internal/message"
)

func explainCommand() command {
	return command{
		name:     "explain",
		args:     "[METRIC]",
		summary:  "define a metric, or list all metrics",
		about:    "Metrics have the names that checks and reports use; docs/metrics.md has them all.",
		examples: []string{"cfq explain", "cfq explain vd", "cfq explain crg.median"},
		setup: func(*pflag.FlagSet) runFunc {
			return func(_ context.Context, e *env, args []string) error { return explain(e, args) }
		},
	}
}

// explained is a metric as --json shows it.
type explained struct {
	ID         string `json:"id"`
	Key        string `json:"key"`
	Name       string `json:"name"`
	Symbol     string `json:"symbol,omitempty"`
	Unit       string `json:"unit"`
	Better     string `json:"better"`
	PerMargin  bool   `json:"per_margin"`
	Definition string `json:"definition"`
	Source     string `json:"source"`
}

// notation is what definitions take for granted.
const notation = "f is the original model, g the quantized one; m_f and m_g are their logit margins for the " +
	"favourable outcome, and a person is " +
	"approved when the margin is above 0. u_f is the recourse point of f, the cheapest feasible change that reaches the " +
	"required margin t, and u_g that of g."

func explain(e *env, args []string) error {
	if len(args) == 0 {
		return listMetrics(e)
	}
	if err := arguments("explain", args, "METRIC"); err != nil {
		return err
	}
	m, ok := metricNamed(args[0])
	if !ok {
		var ids []string
		for _, m := range eval.Metrics() {
			ids = append(ids, m.ID())
		}
		return cli.Usagef("`cfq explain` lists the metrics", "unknown metric %q%s", args[0],
			message.DidYouMean(strings.ToLower(args[0]), ids))
	}
	if e.json {
		return writeJSON(e.stdout, explainedOf(&m))
	}
	title := m.ID() + ": " + m.Name
	if m.Symbol != "" {
		title += " (" + m.Symbol + ")"
	}
	fmt.Fprintf(e.stdout, "%s\n\n", title)
	message.Paragraph(e.stdout, "", "", m.Definition)
	better := string(m.Better)
	fmt.Fprintf(e.stdout, "\nunit    %s\nbetter  %s\nin JSON %s\n", m.Unit, better, m.Key)
	message.Paragraph(e.stdout, "source  ", "        ", m.Source)
	fmt.Fprintln(e.stdout)
	message.Paragraph(e.stdout, "", "", notation)
	return nil
}

// metricNamed finds a metric by its ID or by the symbol that tables have for it, in any case.
func metricNamed(word string) (eval.Metric, bool) {
	if m, ok := eval.MetricBy(word); ok {
		return m, true
	}
	for _, m := range eval.Metrics() {
		if strings.EqualFold(word, m.ID()) || strings.EqualFold(word, m.Symbol) ||
			strings.EqualFold(word, strings.TrimSuffix(m.Symbol, "(t)")) {
			return m, true
		}
	}
	return eval.Metric{}, false
}

func explainedOf(m *eval.Metric) explained {
	return explained{m.ID(), m.Key, m.Name, m.Symbol, m.Unit, string(m.Better), m.PerMargin(), m.Definition, m.Source}
}

func listMetrics(e *env) error {
	metrics := eval.Metrics()
	if e.json {
		list := make([]explained, len(metrics))
		for i := range metrics {
			list[i] = explainedOf(&metrics[i])
		}
		return writeJSON(e.stdout, list)
	}
	g := message.NewLines()
	g.Add("metric", "unit", "better", "what")
	for i := range metrics {
		m := &metrics[i]
		g.Add(m.ID(), m.Unit, string(m.Better), m.Name)
	}
	g.Write(e.stdout, "")
	_, err := io.WriteString(e.stdout, "\ncfq explain METRIC says more\n")
	return err
}
