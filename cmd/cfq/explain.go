package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"cfq/eval/metrics"
	"cfq/internal/cli"
	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/lower"
	"cfq/onnxio/pass"
	"cfq/onnxio/refuse"
	"cfq/quant"
)

type topic struct {
	name  string
	alias []string // other names
	doc   any      // as --json shows it, and what the template writes
	text  string   // the name of the template
}

type topicKind struct {
	Name   string `json:"name"` // also that of the template of its list
	What   string `json:"what"`
	Count  int    `json:"count"`
	topics []topic
}

func topicKinds() []topicKind {
	m, o := metricTopics(), operatorTopics()
	return []topicKind{
		{"metrics", "definitions of what is measured", len(m), m},
		{"operators", "whether a model may have an operator: its gradient, its weights", len(o), o},
	}
}

func explainable() (names []string) {
	for _, k := range topicKinds() {
		names = append(names, k.Name)
		for i := range k.topics {
			names = append(names, k.topics[i].name)
		}
	}
	return names
}

func explain(_ context.Context, e *env, args []string) error {
	kinds := topicKinds()
	if len(args) == 0 {
		return e.page("kinds", kinds)
	}
	if err := arguments("explain", args, "NAME"); err != nil {
		return err
	}
	same := func(name string) bool { return strings.EqualFold(name, args[0]) }
	for _, k := range kinds {
		if same(k.Name) {
			return e.page(k.Name, lists.Map(k.topics, func(t topic) any { return t.doc }))
		}
		for i := range k.topics {
			if t := &k.topics[i]; same(t.name) || slices.ContainsFunc(t.alias, same) {
				return e.page(t.text, t.doc)
			}
		}
	}
	return cli.Usagef("`cfq explain` lists what it explains", "nothing is called %q%s", args[0],
		message.Likely(args[0], explainable()))
}

type operatorDoc struct {
	Name      string `json:"name"`
	Gradient  string `json:"gradient"`
	Quantized string `json:"quantized"`
	Refused   string `json:"refused,omitempty"` // why
	Instead   string `json:"instead,omitempty"`
	Kind      string `json:"-"` // in the list
}

func operatorTopics() (list []topic) {
	known := map[string]bool{}
	add := func(x operatorDoc) {
		if !known[x.Name] {
			known[x.Name], x.Quantized = true, quant.Quantized(x.Name)
			list = append(list, topic{name: x.Name, doc: x, text: "operator"})
		}
	}
	for _, name := range refuse.Operators() {
		why, instead := refuse.Operator(name)
		add(operatorDoc{Name: name, Refused: why, Instead: instead, Kind: "refused"})
	}
	for _, op := range autodiff.Operators() {
		text := fmt.Sprintf("from operator set %d: %s", op.Since, op.Doc)
		if op.Kind != autodiff.Differentiable {
			text = op.Kind.String() + ", " + text
		}
		add(operatorDoc{Name: op.Name, Gradient: text, Kind: op.Kind.String()})
	}
	for _, name := range append(lower.Operators(), pass.Fused()...) {
		const text = "written out in standard operators when the model is opened"
		add(operatorDoc{Name: name, Gradient: text, Kind: "expanded"})
	}
	for _, name := range autodiff.Remedies() {
		why, instead := autodiff.Remedy(name)
		why = "between the inputs and the decision: " + why
		add(operatorDoc{Name: name, Refused: why, Instead: instead, Kind: "refused"})
	}
	slices.SortFunc(list, func(a, b topic) int {
		return strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name))
	})
	return list
}

type metricDoc struct {
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

func metricTopics() (list []topic) {
	for _, m := range metrics.All() {
		t := topic{name: m.ID, text: "metric", doc: metricDoc{
			m.ID, m.Key(), m.Name, m.Symbol, m.Unit, string(m.Better), m.PerMargin(), m.Definition, m.Source,
		}}
		if t.alias = []string{strings.TrimSuffix(m.ID, path.Ext(m.ID))}; m.Symbol != "" {
			t.alias = append(t.alias, m.Symbol, strings.TrimSuffix(m.Symbol, "(t)"))
		}
		list = append(list, t)
	}
	return list
}
