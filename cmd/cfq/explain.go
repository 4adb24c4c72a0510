package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"cfq/eval/metrics"
	"cfq/internal/cli"
	"cfq/internal/message"
	"cfq/onnxio/autodiff"
	"cfq/onnxio/lower"
	"cfq/onnxio/pass"
	"cfq/onnxio/refuse"
	"cfq/quant"
)

func explainCommand() command {
	return command{
		name:    "explain",
		actions: explainable,
		setup: func(*pflag.FlagSet) runFunc {
			return func(_ context.Context, e *env, args []string) error { return explain(e, args) }
		},
	}
}

type topic struct {
	name  string
	alias []string // other names
	cells []string // of the list of its kind, behind the name
	doc   any      // as --json shows it
	write func(w io.Writer)
}

type topicKind struct {
	name, what string
	head       []string // of the list of its topics
	topics     []topic
}

func topicKinds() []topicKind {
	return []topicKind{
		{"metrics", "definitions of what is measured", []string{"metric", "unit", "better", "what"}, metricTopics()},
		{
			"operators", "whether a model may have an operator: its gradient, its weights",
			[]string{"operator", "gradient", "quantized"},
			operatorTopics(),
		},
	}
}

func explainable() (names []string) {
	for _, k := range topicKinds() {
		names = append(names, k.name)
		for i := range k.topics {
			names = append(names, k.topics[i].name)
		}
	}
	return names
}

func explain(e *env, args []string) error {
	if len(args) == 0 {
		return listKinds(e)
	}
	if err := arguments("explain", args, "NAME"); err != nil {
		return err
	}
	for _, k := range topicKinds() {
		if strings.EqualFold(k.name, args[0]) {
			return k.list(e)
		}
		for i := range k.topics {
			t := &k.topics[i]
			same := func(name string) bool { return strings.EqualFold(name, args[0]) }
			if !same(t.name) && !slices.ContainsFunc(t.alias, same) {
				continue
			}
			return e.show(t.doc, t.write)
		}
	}
	text := ""
	if near := message.Nearest(args[0], explainable()); near != "" {
		text = fmt.Sprintf("; did you mean %q?", near)
	}
	return cli.Usagef("`cfq explain` lists what it explains", "nothing is called %q%s", args[0], text)
}

func listKinds(e *env) error {
	type kind struct {
		Name  string `json:"name"`
		What  string `json:"what"`
		Count int    `json:"count"`
	}
	var list []kind
	g := message.NewLines()
	g.Add("kind", "number", "what")
	for _, k := range topicKinds() {
		list = append(list, kind{k.name, k.what, len(k.topics)})
		g.Add(k.name, fmt.Sprint(len(k.topics)), k.what)
	}
	return e.show(list, func(w io.Writer) {
		g.Write(w, "")
		fmt.Fprint(w, "\ncfq explain KIND lists them; cfq explain NAME says more of one\n")
	})
}

func (k *topicKind) list(e *env) error {
	docs := make([]any, len(k.topics))
	g := message.NewLines()
	g.Add(k.head...)
	for i, t := range k.topics {
		docs[i] = t.doc
		g.Add(append([]string{t.name}, t.cells...)...)
	}
	return e.show(docs, func(w io.Writer) {
		g.Write(w, "")
		fmt.Fprint(w, "\ncfq explain NAME says more\n")
	})
}

type operatorDoc struct {
	Name      string `json:"name"`
	Gradient  string `json:"gradient"`
	Quantized string `json:"quantized"`
	Refused   string `json:"refused,omitempty"` // why
	Instead   string `json:"instead,omitempty"`
}

func operatorTopics() []topic {
	known := map[string]bool{}
	var list []topic
	add := func(x *operatorDoc, short string) {
		if known[x.Name] {
			return
		}
		known[x.Name] = true
		quantized := "no"
		if x.Quantized = quant.Quantized(x.Name); x.Quantized != "" {
			quantized = "yes"
		}
		list = append(list, topic{name: x.Name, cells: []string{short, quantized}, doc: x, write: x.write})
	}
	for _, name := range refuse.Operators() {
		x := &operatorDoc{Name: name}
		x.Refused, x.Instead = refuse.Operator(name)
		add(x, "refused")
	}
	for _, op := range autodiff.Operators() {
		text := fmt.Sprintf("from operator set %d: %s", op.Since, op.Doc)
		if op.Kind != autodiff.Differentiable {
			text = op.Kind.String() + ", " + text
		}
		add(&operatorDoc{Name: op.Name, Gradient: text}, op.Kind.String())
	}
	for _, name := range append(lower.Operators(), pass.Fused()...) {
		add(&operatorDoc{Name: name, Gradient: "written out in standard operators when the model is opened"}, "expanded")
	}
	for _, name := range autodiff.Remedies() {
		why, instead := autodiff.Remedy(name)
		add(&operatorDoc{Name: name, Refused: "between the inputs and the decision: " + why, Instead: instead}, "refused")
	}
	slices.SortFunc(list, func(a, b topic) int {
		return strings.Compare(strings.ToLower(a.name), strings.ToLower(b.name))
	})
	return list
}

func (x *operatorDoc) write(w io.Writer) {
	fmt.Fprintf(w, "%s: an operator of ONNX models\n\n", x.Name)
	line := func(name, text string) {
		if text != "" {
			message.Paragraph(w, fmt.Sprintf("%-11s", name), "           ", text)
		}
	}
	line("gradient", cmp.Or(x.Gradient, "none"))
	line("quantized", cmp.Or(x.Quantized, "no"))
	line("refused", x.Refused)
	line("instead", x.Instead)
	if x.Gradient != "" {
		fmt.Fprintln(w)
		message.Paragraph(w, "", "", "x, a, b are inputs, y the output, g the gradient of y. `cfq inspect MODEL` says "+
			"whether a model as a whole can be quantized.")
	}
}

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

const notation = "f is the original model, g the quantized one; m_f and m_g are their logit margins for the " +
	"favourable outcome, and a person is " +
	"approved when the margin is above 0. u_f is the recourse point of f, the cheapest feasible change that reaches the " +
	"required margin t, and u_g that of g."

func metricTopics() []topic {
	var list []topic
	for _, m := range metrics.All() {
		doc := explained{
			m.ID, m.Key(), m.Name, m.Symbol, m.Unit, string(m.Better), m.PerMargin(), m.Definition, m.Source,
		}
		t := topic{name: doc.ID, cells: []string{doc.Unit, doc.Better, doc.Name}, doc: doc, write: doc.text}
		if m.Symbol != "" {
			t.alias = slices.Compact([]string{m.Symbol, strings.TrimSuffix(m.Symbol, "(t)")})
		}
		list = append(list, t)
	}
	return list
}

func (m explained) text(w io.Writer) {
	title := m.ID + ": " + m.Name
	if m.Symbol != "" {
		title += " (" + m.Symbol + ")"
	}
	fmt.Fprintf(w, "%s\n\n", title)
	message.Paragraph(w, "", "", m.Definition)
	fmt.Fprintf(w, "\nunit    %s\nbetter  %s\nin JSON %s\n", m.Unit, m.Better, m.Key)
	message.Paragraph(w, "source  ", "        ", m.Source)
	fmt.Fprintln(w)
	message.Paragraph(w, "", "", notation)
}
