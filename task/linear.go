package task

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"cfq/internal/message"
)

// A condition compares two linear expressions over raw numbers, or a category with its values:
//
//	condition  = expression ( "<=" | "<" | ">=" | ">" | "=" | "==" ) expression
//	           | category ( "=" | "==" | "!=" ) value | category [ "not" ] "in" "{" value { "," value } "}"
//	           | category ( "<=" | "<" | ">=" | ">" ) value, for ordered values
//	expression = product { ( "+" | "-" ) product }
//	product    = factor { ( "*" | "/" ) factor }, with numbers on all sides but one, and on the right of "/"
//	factor     = number | feature | "(" expression ")" | ( "-" | "+" ) factor
//
// Names and values stand as they are, the longest known one first, or in quotes of any kind.

// Limits on what a condition can be.
const (
	maxCondition = 10_000 // characters
	maxNesting   = 100    // parentheses and signs
)

// grammar knows the features that conditions speak of.
type grammar struct {
	features []Feature
	index    map[string]int
	names    []string // that may stand without quotes, longest first
}

func newGrammar(t *Task) *grammar {
	g := &grammar{features: t.Features, index: map[string]int{}}
	for i := range t.Features {
		name := t.Features[i].Name
		g.index[name] = i
		first, _ := utf8.DecodeRuneInString(name)
		if _, number := Number(name); !number && isLetter(first) {
			g.names = append(g.names, name)
		}
	}
	longestFirst(g.names)
	return g
}

func longestFirst(names []string) {
	slices.SortStableFunc(names, func(a, b string) int { return len(b) - len(a) })
}

// parse returns the inequalities that the condition stands for, all of which hold when it does: two for an equation.
func (g *grammar) parse(text string) ([]Inequality, error) {
	if len(text) > maxCondition {
		return nil, fmt.Errorf("it is longer than %d characters", maxCondition)
	}
	p := &conditionParser{grammar: g, text: text}
	read, err := p.condition()
	if err != nil {
		return nil, err
	}
	for i := range read {
		q := &read[i]
		q.Text = text
		if len(q.Terms) == 0 {
			return nil, errors.New("it says nothing about any feature")
		}
		for _, t := range q.Terms {
			if math.IsInf(t.Coef, 0) || math.IsNaN(t.Coef) {
				return nil, errors.New("a number in it is too large")
			}
		}
		if math.IsInf(q.Bound, 0) || math.IsNaN(q.Bound) {
			return nil, errors.New("a number in it is too large")
		}
	}
	return read, nil
}

// conditionParser reads one condition.
type conditionParser struct {
	*grammar
	text  string
	pos   int
	depth int
}

// linear is a constant and a coefficient for each feature, by index.
type linear struct {
	coef map[int]float64
	c    float64
}

func constant(v float64) linear { return linear{c: v} }

// plus returns a + k*b.
func (a linear) plus(b linear, k float64) linear {
	sum := linear{coef: map[int]float64{}, c: a.c + k*b.c}
	for i, v := range a.coef {
		sum.coef[i] += v
	}
	for i, v := range b.coef {
		sum.coef[i] += k * v
	}
	return sum
}

// inequality returns a <= 0 with the terms in the order of the features.
func (p *conditionParser) inequality(a linear, strict bool) Inequality {
	q := Inequality{Bound: 0 - a.c, Strict: strict}
	for i := range p.features {
		if v := a.coef[i]; v != 0 {
			q.Terms = append(q.Terms, Term{Feature: p.features[i].Name, Coef: v})
		}
	}
	return q
}

func (p *conditionParser) condition() ([]Inequality, error) {
	if p.blank(); p.pos == len(p.text) {
		return nil, errors.New("it is empty")
	}
	start := p.pos
	if i, ok, err := p.name(); err != nil {
		return nil, err
	} else if ok && !p.features[i].hasNumber() {
		return p.category(&p.features[i])
	}
	p.pos = start
	left, err := p.expression()
	if err != nil {
		return nil, err
	}
	op, err := p.comparison()
	if err != nil {
		return nil, err
	}
	right, err := p.expression()
	if err != nil {
		return nil, err
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	up, down := left.plus(right, -1), right.plus(left, -1)
	switch op {
	case "<=", "<":
		return []Inequality{p.inequality(up, op == "<")}, nil
	case ">=", ">":
		return []Inequality{p.inequality(down, op == ">")}, nil
	case "=":
		return []Inequality{p.inequality(up, false), p.inequality(down, false)}, nil
	}
	return nil, errors.New(`"!=" is for categories; numbers other than one are two ranges, and an action set needs one: write < or >`)
}

// hasNumber says whether the feature stands for a number in expressions. A thermometer with thresholds does: for the one it has reached.
func (f *Feature) hasNumber() bool {
	return f.Kind.IsNumber() || f.Kind == Thermometer && f.Values == nil
}

func (p *conditionParser) expression() (linear, error) {
	sum, err := p.product()
	for err == nil {
		var k float64
		switch p.peek() {
		case '+':
			k = 1
		case '-':
			k = -1
		default:
			return sum, nil
		}
		p.pos++
		var next linear
		if next, err = p.product(); err == nil {
			sum = sum.plus(next, k)
		}
	}
	return linear{}, err
}

func (p *conditionParser) product() (linear, error) {
	a, err := p.factor()
	for err == nil {
		op := p.peek()
		if op != '*' && op != '/' {
			return a, nil
		}
		start := p.pos
		p.pos++
		var b linear
		if b, err = p.factor(); err != nil {
			break
		}
		switch {
		case op == '/' && len(b.coef) > 0:
			err = fmt.Errorf("%s divides by a feature; only numbers may stand behind /", message.Quote(p.text[start:p.pos]))
		case op == '/' && b.c == 0:
			err = fmt.Errorf("%s divides by 0", message.Quote(p.text[start:p.pos]))
		case op == '/':
			a = linear{}.plus(a, 1/b.c)
		case len(a.coef) > 0 && len(b.coef) > 0:
			err = fmt.Errorf("%s multiplies two features; one side of * must be a number", message.Quote(strings.TrimSpace(p.text[:p.pos])))
		case len(b.coef) > 0:
			a = linear{}.plus(b, a.c)
		default:
			a = linear{}.plus(a, b.c)
		}
	}
	return linear{}, err
}

func (p *conditionParser) factor() (linear, error) {
	if p.depth++; p.depth > maxNesting {
		return linear{}, errors.New("it is nested too deep")
	}
	defer func() { p.depth-- }()
	switch p.peek() {
	case '+', '-':
		sign := 1.0
		if p.text[p.pos] == '-' {
			sign = -1
		}
		p.pos++
		a, err := p.factor()
		return linear{}.plus(a, sign), err
	case '(':
		p.pos++
		a, err := p.expression()
		if err == nil && p.peek() != ')' {
			err = fmt.Errorf("a closing parenthesis is missing before %s", p.rest())
		}
		p.pos++
		return a, err
	}
	i, ok, err := p.name()
	switch {
	case err != nil:
		return linear{}, err
	case ok && p.features[i].hasNumber():
		return linear{coef: map[int]float64{i: 1}}, nil
	case ok:
		return linear{}, fmt.Errorf("%s is %s and no number; compare it alone, from the left, with =, != or in",
			message.Quote(p.features[i].Name), p.features[i].Kind)
	}
	return p.number()
}

// number reads digits with a point and an exponent.
func (p *conditionParser) number() (linear, error) {
	start := p.pos
	digits := func() {
		for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
			p.pos++
		}
	}
	digits()
	if p.pos < len(p.text) && p.text[p.pos] == '.' {
		p.pos++
		digits()
	}
	if rest := p.text[p.pos:]; p.pos > start && rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		sign := 1
		if len(rest) > 1 && (rest[1] == '-' || rest[1] == '+') {
			sign = 2
		}
		if len(rest) > sign && rest[sign] >= '0' && rest[sign] <= '9' {
			p.pos += sign
			digits()
		}
	}
	v, ok := Number(p.text[start:p.pos])
	if after, _ := utf8.DecodeRuneInString(p.text[p.pos:]); ok && !isLetter(after) {
		return constant(v), nil
	}
	p.pos = start
	return linear{}, p.unknown()
}
