package task

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cfq/internal/message"
)

// A condition compares two linear expressions over raw numbers, or a category with its values:
//
//	condition  = expression ( "<=" | "<" | ">=" | ">" | "=" | "==" ) expression
//	           | category ( "=" | "==" | "!=" ) value | category "in" "{" value { "," value } "}"
//	           | category ( "<=" | "<" | ">=" | ">" ) value, for ordered values
//	expression = product { ( "+" | "-" ) product }
//	product    = factor { ( "*" | "/" ) factor }, with numbers on all sides but one, and on the right of "/"
//	factor     = number | feature | "(" expression ")" | ( "-" | "+" ) factor
//
// Names and values stand as they are, or in quotes of any kind. Of names, the longest that fits is meant; a value ends
// where the condition does, and in braces at a comma.

// Limits on what a condition can be.
const (
	maxCondition = 10_000 // characters
	maxNesting   = 100    // parentheses and signs
)

type grammar struct {
	features []Feature
	names    []string // that may stand without quotes, longest first
	digits   *regexp.Regexp
}

func newGrammar(t *Task) *grammar {
	g := &grammar{features: t.Features, digits: regexp.MustCompile(`^([0-9]+\.?|\.)[0-9]*([eE][-+]?[0-9]+)?`)}
	for i := range t.Features {
		name := t.Features[i].Name
		first, _ := utf8.DecodeRuneInString(name)
		if _, number := Number(name); !number && isLetter(first) {
			g.names = append(g.names, name)
		}
	}
	slices.SortStableFunc(g.names, func(a, b string) int { return len(b) - len(a) })
	return g
}

func (g *grammar) parse(text string) ([]Inequality, error) {
	if len(text) > maxCondition {
		return nil, fmt.Errorf("it is longer than %d characters", maxCondition)
	}
	p := &conditionParser{grammar: g, rest: text}
	read := p.condition(text)
	if p.err != nil {
		return nil, p.err
	}
	for i := range read {
		q := &read[i]
		q.Text = text
		if len(q.Terms) == 0 {
			return nil, errors.New("it says nothing about any feature")
		}
		size := math.Abs(q.Bound)
		for _, t := range q.Terms {
			size += math.Abs(t.Coef)
		}
		if math.IsInf(size, 0) || math.IsNaN(size) {
			return nil, errors.New("a number in it is too large")
		}
	}
	return read, nil
}

type conditionParser struct {
	*grammar
	rest  string // not yet read
	depth int
	err   error // the first mistake
}

func (p *conditionParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	p.rest = ""
}

type linearForm []float64

func (a linearForm) plus(b linearForm, k float64) linearForm {
	sum := slices.Clone(a)
	for i, v := range b {
		sum[i] += k * v
	}
	return sum
}

func (a linearForm) times(k float64) linearForm { return make(linearForm, len(a)).plus(a, k) }

func (a linearForm) constant() (float64, bool) {
	last := len(a) - 1
	return a[last], !slices.ContainsFunc(a[:last], func(v float64) bool { return v != 0 })
}

func (p *conditionParser) inequality(a linearForm, strict bool) Inequality {
	q := Inequality{Bound: 0 - a[len(p.features)], Strict: strict}
	for i := range p.features {
		if a[i] != 0 {
			q.Terms = append(q.Terms, Term{Feature: p.features[i].Name, Coef: a[i]})
		}
	}
	return q
}

func (p *conditionParser) condition(text string) []Inequality {
	if p.skip() == "" {
		p.fail("it is empty")
		return nil
	}
	if f := p.name(); f >= 0 && !p.features[f].Encoding.hasNumber() {
		return p.category(&p.features[f])
	}
	if p.err != nil {
		return nil
	}
	p.rest = text // a name may begin an expression
	left := p.expression()
	op := p.operator()
	switch {
	case op != "":
	case p.longest("in") != "":
		p.fail("in is for categories; compare numbers with <=, <, >=, > or =")
	default:
		p.fail("a comparison (<=, <, >=, >, =) is missing before %s", p.next())
	}
	up := left.plus(p.expression(), -1)
	p.end()
	down := up.times(-1)
	switch op {
	case "<=", "<":
		return []Inequality{p.inequality(up, op == "<")}
	case ">=", ">":
		return []Inequality{p.inequality(down, op == ">")}
	case "!=":
		p.fail(`"!=" is for categories; numbers other than one are two ranges, and an action set needs one: write < or >`)
	}
	return []Inequality{p.inequality(up, false), p.inequality(down, false)}
}

func (p *conditionParser) expression() linearForm {
	sum := p.product()
	for {
		switch p.take("+", "-") {
		case "+":
			sum = sum.plus(p.product(), 1)
		case "-":
			sum = sum.plus(p.product(), -1)
		default:
			return sum
		}
	}
}

func (p *conditionParser) product() linearForm {
	whole := p.skip()
	a := p.factor()
	for {
		start := p.skip()
		op := p.take("*", "/")
		if op == "" {
			return a
		}
		b := p.factor()
		left, number := a.constant()
		right, divisor := b.constant()
		switch {
		case p.err != nil:
		case op == "/" && !divisor:
			p.fail("%s divides by a feature; only numbers may stand behind /", p.since(start))
		case op == "/" && right == 0:
			p.fail("%s divides by 0", p.since(start))
		case op == "/":
			a = a.times(1 / right)
		case divisor:
			a = a.times(right)
		case number:
			a = b.times(left)
		default:
			p.fail("%s multiplies two features; one side of * must be a number", p.since(whole))
		}
	}
}

func (p *conditionParser) since(start string) string {
	return message.Quote(strings.TrimSpace(strings.TrimSuffix(start, p.rest)))
}

func (p *conditionParser) factor() linearForm {
	if p.depth++; p.depth > maxNesting {
		p.fail("it is nested too deep")
	}
	defer func() { p.depth-- }()
	switch p.take("+", "-", "(") {
	case "+":
		return p.factor()
	case "-":
		return p.factor().times(-1)
	case "(":
		a := p.expression()
		if p.take(")") == "" {
			p.fail("a closing parenthesis is missing before %s", p.next())
		}
		return a
	}
	last := len(p.features)
	a := make(linearForm, last+1)
	switch i := p.name(); {
	case i < 0:
		a[last] = p.number()
	case p.features[i].Encoding.hasNumber():
		a[i] = 1
	default:
		p.fail("%s is %s and no number; compare it alone, from the left, with =, != or in",
			message.Quote(p.features[i].Name), p.features[i].Encoding.Kind())
	}
	return a
}

func (p *conditionParser) number() float64 {
	digits := p.digits.FindString(p.rest)
	rest := p.rest[len(digits):]
	v, ok := Number(digits)
	if after, _ := utf8.DecodeRuneInString(rest); !ok || isLetter(after) {
		p.unknown()
		return 0
	}
	p.rest = rest
	return v
}

func isLetter(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func (p *conditionParser) skip() string {
	p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace)
	return p.rest
}

// take reads the first of the texts that comes next; "" when none does.
func (p *conditionParser) take(texts ...string) string {
	p.skip()
	for _, t := range texts {
		if rest, ok := strings.CutPrefix(p.rest, t); ok {
			p.rest = rest
			return t
		}
	}
	return ""
}

func (p *conditionParser) operator() string {
	return strings.Replace(p.take("<=", ">=", "!=", "==", "<", ">", "="), "==", "=", 1)
}

func (p *conditionParser) next() string {
	if s := strings.TrimSpace(p.rest); s != "" {
		return message.Quote(s)
	}
	return "the end"
}

func (p *conditionParser) end() {
	if p.skip() != "" {
		p.fail("%s is left over; a constraint is one comparison, write others as entries of their own", p.next())
	}
}

func (p *conditionParser) name() int {
	name, quoted := p.quoted()
	if !quoted {
		if name = p.longest(p.names...); name == "" {
			return -1
		}
	}
	i := slices.IndexFunc(p.features, func(f Feature) bool { return f.Name == name })
	if i < 0 {
		p.noFeature(name)
	}
	return i
}

func (p *conditionParser) noFeature(name string) {
	p.fail("there is no feature %s%s", message.Quote(name), message.DidYouMean(name, featureNames(p.features)))
}

// longest reads the first of the words, longest first, that comes next and ends there; "" when none does.
func (p *conditionParser) longest(words ...string) string {
	p.skip()
	for _, w := range words {
		if rest, ok := strings.CutPrefix(p.rest, w); ok && w != "" && nameEnds(w, rest) {
			p.rest = rest
			return w
		}
	}
	return ""
}

func nameEnds(name, rest string) bool {
	last, _ := utf8.DecodeLastRuneInString(name)
	next, size := utf8.DecodeRuneInString(rest)
	if next == '.' {
		next, _ = utf8.DecodeRuneInString(rest[size:])
	}
	return !isLetter(last) || !isLetter(next)
}

func (p *conditionParser) quoted() (string, bool) {
	q := p.take(`"`, "'", "`")
	if q == "" {
		return "", false
	}
	s, rest, closed := strings.Cut(p.rest, q)
	if !closed {
		p.fail("the quote before %s is never closed", message.Quote(p.rest))
	}
	p.rest = rest
	return s, true
}

func (p *conditionParser) unknown() {
	word := p.rest
	if end := strings.IndexFunc(word, func(r rune) bool { return !isLetter(r) && r != '-' && r != '.' }); end >= 0 {
		word = word[:end]
	}
	switch first, _ := utf8.DecodeRuneInString(word); {
	case word == "":
		p.fail("a feature or a number is missing before %s", p.next())
	case unicode.IsDigit(first) || first == '.':
		p.fail("%s is not a number; write it as 1200.5, and a product as 2 * income", message.Quote(word))
	default:
		p.noFeature(word)
	}
}

func (p *conditionParser) category(f *Feature) []Inequality {
	c := f.Category()
	values := c.Names()
	if b, ok := c.(*Binary); ok && b.Zero == "" {
		values = []string{b.One}
	}
	if p.longest("in") != "" {
		return holds(f, p.set(f, values), true)
	}
	op := p.operator()
	if op == "" {
		p.fail("%s is a category: compare it with =, != or in {...}, not with %s", message.Quote(f.Name), p.next())
		return nil
	}
	v := p.value(f, values, false)
	p.end()
	at := slices.Index(values, v)
	switch {
	case p.err != nil:
		return nil
	case op == "=" || op == "!=":
		return holds(f, []string{v}, op == "=")
	case !c.isOrdered():
		p.fail("the values of %s have no order, so %s means nothing; set ordered: true on a one-hot feature whose values "+
			"do, or use =, != or in", message.Quote(f.Name), op)
	case op == "<=":
		values = values[:at+1]
	case op == "<":
		values = values[:at]
	case op == ">=":
		values = values[at:]
	default:
		values = values[at+1:]
	}
	if len(values) == 0 {
		p.fail("no value of %s is %s %s", message.Quote(f.Name), op, message.Quote(v))
	}
	return holds(f, values, true)
}

func holds(f *Feature, values []string, one bool) []Inequality {
	q, sign := Inequality{}, 1.0
	if one { // -sum <= -1
		q.Bound, sign = -1, -1
	}
	for _, v := range values {
		q.Terms = append(q.Terms, Term{Feature: f.Name, Value: v, Coef: sign})
	}
	return []Inequality{q}
}

func (p *conditionParser) set(f *Feature, values []string) []string {
	if p.take("{") == "" {
		p.fail("the values behind in stand in braces, as %s in {%s}, not %s", message.Legible(f.Name),
			message.List(values, 2), p.next())
	}
	var list []string
	for more := true; more && p.err == nil; more = p.take(",") != "" {
		v := p.value(f, values, true)
		if slices.Contains(list, v) {
			p.fail("the value %s stands in the braces twice", message.Quote(v))
		}
		list = append(list, v)
	}
	if p.take("}") == "" {
		p.fail("a comma or '}' is missing before %s", p.next())
	}
	p.end()
	slices.SortFunc(list, func(a, b string) int { return slices.Index(values, a) - slices.Index(values, b) })
	return list
}

func (p *conditionParser) value(f *Feature, values []string, braces bool) string {
	s, quoted := p.quoted()
	if !quoted {
		end := len(p.rest)
		if braces {
			end = strings.IndexAny(p.rest+",", ",}")
		}
		s, p.rest = strings.TrimSpace(p.rest[:end]), p.rest[end:]
	}
	b, binary := f.Encoding.(*Binary)
	switch i := Find(values, s); {
	case i >= 0:
		return values[i]
	case binary && b.Zero == "":
		p.fail("%s is known by its value %s only; write %s != %s for the others", message.Quote(f.Name),
			message.Quote(b.One), message.Legible(f.Name), message.Legible(b.One))
	default:
		p.fail("%s is no value of %s%s", message.Quote(s), message.Quote(f.Name), message.DidYouMean(s, values))
	}
	return ""
}
