package task

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
	"cfq/internal/message"
)

// conditionList is the texts of conditions with their places.
type conditionList struct {
	texts []string
	at    []ast.Node
}

// ruleTexts are the parts of a rule that is a mapping.
type ruleTexts struct {
	when, then conditionList
	of         ast.Node
}

func (d *decoder) ruleKeys(r *Rule, p *ruleTexts) []key {
	return []key{
		{Name: "if", Value: d.conditions(&p.when), Fallback: "see `then`", Doc: "condition, or list of them, that all hold after the action for the rule to say something"},
		{Name: "then", Value: d.conditions(&p.then), Fallback: "see `if`", Doc: "condition, or list of them, that must all hold then"},
		{Name: "at_most", Value: d.count(&r.AtMost).With("minimum", 1), Fallback: "see `of`", Doc: "number of the features `of` that one action may change"},
		{Name: "of", Value: value{Read: func(n ast.Node) { p.of = n }, Form: config.ListOf(scalarForm)}, Fallback: "see `at_most`", Doc: "features of which an action changes some only"},
	}
}

// conditions reads a text or a list of texts.
func (d *decoder) conditions(l *conditionList) value {
	return value{Read: func(n ast.Node) {
		nodes := []ast.Node{n}
		if seq, ok := n.(*ast.SequenceNode); ok {
			nodes = seq.Values
		}
		for _, v := range nodes {
			if s, ok := d.Text(v); ok {
				l.texts, l.at = append(l.texts, strings.TrimSpace(s)), append(l.at, v)
			}
		}
	}, Form: oneOrMore(func() schema { return schema{"type": "string"} })}
}

// conditionsForm is the list of constraints.
func conditionsForm() schema {
	rule := func(needed ...string) func() schema {
		return func() schema {
			d := newDecoder("")
			s := config.Object(d.ruleKeys(&Rule{}, &ruleTexts{}))
			for name := range s["properties"].(schema) {
				if name != needed[0] && name != needed[1] {
					delete(s["properties"].(schema), name)
				}
			}
			s["required"] = needed
			return s
		}
	}
	return config.ListOf(anyOf(func() schema { return schema{"type": "string"} }, rule("if", "then"), rule("at_most", "of")))()
}

// rules reads and checks the constraints, once the features are known.
func (d *decoder) rules(n ast.Node, t *Task) {
	if n == nil {
		return
	}
	seen := map[string]bool{}
	g := newGrammar(t)
	d.List(n, "constraints", func(_ int, n ast.Node) {
		before := len(d.Errs)
		r := d.rule(n, t, g)
		switch {
		case len(d.Errs) > before:
			return
		case seen[r.Text]:
			d.errorf(n, "the constraint %q is given twice; keep one", r.Text)
		}
		seen[r.Text] = true
		t.Rules = append(t.Rules, r)
	})
}

func (d *decoder) rule(n ast.Node, t *Task, g *grammar) Rule {
	if _, ok := n.(*ast.MappingNode); !ok {
		var l conditionList
		d.conditions(&l).Read(n)
		if _, list := n.(*ast.SequenceNode); list {
			d.errorf(n, "each constraint is an entry of its own, not a list of them")
			return Rule{}
		}
		return Rule{Text: strings.Join(l.texts, ""), Then: d.inequalities(l, g)}
	}
	before := len(d.Errs)
	var r Rule
	var p ruleTexts
	m := d.mapping(n, "a constraint", d.ruleKeys(&r, &p))
	implies, subset := m.Has("if") || m.Has("then"), m.Has("at_most") || m.Has("of")
	switch {
	case len(d.Errs) > before:
	case implies && subset:
		d.errorf(m.Node, "a constraint is if and then, or at_most and of, not both")
	case implies && m.Has("if") && m.Has("then"):
		r.If, r.Then = d.inequalities(p.when, g), d.inequalities(p.then, g)
		r.Text = fmt.Sprintf("if %s then %s", strings.Join(p.when.texts, " and "), strings.Join(p.then.texts, " and "))
		if len(r.If) == 0 && len(p.when.texts) == 0 || len(r.Then) == 0 && len(p.then.texts) == 0 {
			d.errorf(m.Node, "if and then need a condition each")
		}
	case implies:
		d.errorf(m.Node, "if and then belong together; what always holds is a text of its own")
	case m.Has("at_most") && m.Has("of"):
		d.subset(&r, m, &p, t)
	case subset:
		d.errorf(m.Node, "at_most and of belong together")
	default:
		d.errorf(m.Node, "a constraint is a text such as \"debt <= 0.5 * income\", {if: ..., then: ...} or {at_most: 2, of: [...]}")
	}
	return r
}

// subset reads the features of which an action changes some only.
func (d *decoder) subset(r *Rule, m mapping, p *ruleTexts, t *Task) {
	if _, ok := p.of.(*ast.SequenceNode); !ok {
		d.errorf(p.of, "of must be a list of features, not %s", d.describe(p.of))
		return
	}
	before := len(d.Errs)
	for _, i := range slices.Sorted(maps.Keys(d.featureList(p.of, t))) {
		r.Of = append(r.Of, t.Features[i].Name)
	}
	if len(d.Errs) > before {
		return
	}
	switch {
	case r.AtMost == 0:
		d.errorf(m.Place("at_most"), "at_most must be 1 or more; actionable: false forbids any change of a feature")
	case r.AtMost >= len(r.Of):
		d.errorf(m.Place("at_most"), "at_most %d of %d features is no limit", r.AtMost, len(r.Of))
	}
	r.Text = fmt.Sprintf("at most %d of %s", r.AtMost, strings.Join(r.Of, ", "))
}

// inequalities reads conditions; mistakes are noted where their text stands.
func (d *decoder) inequalities(l conditionList, g *grammar) []Inequality {
	var all []Inequality
	seen := map[string]bool{}
	for i, text := range l.texts {
		if seen[text] {
			d.errorf(l.at[i], "the condition %q is given twice; keep one", text)
			continue
		}
		seen[text] = true
		read, err := g.parse(text)
		if err != nil {
			d.errorf(l.at[i], "constraint %s: %s", message.Quote(text), clause(err.Error()))
			continue
		}
		all = append(all, read...)
	}
	return all
}
