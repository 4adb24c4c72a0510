package task

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
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
	return nil, errors.New(
		`"!=" is for categories; numbers other than one are two ranges, and an action set needs one: write < or >`,
	)
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
			err = fmt.Errorf("%s multiplies two features; one side of * must be a number",
				message.Quote(strings.TrimSpace(p.text[:p.pos])))
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

// isLetter says whether a name continues with r.
func isLetter(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// blank skips white space.
func (p *conditionParser) blank() {
	p.pos = len(p.text) - len(strings.TrimLeftFunc(p.text[p.pos:], unicode.IsSpace))
}

// peek returns the next character that is not blank, 0 at the end.
func (p *conditionParser) peek() byte {
	if p.blank(); p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// rest is what has not been read, for messages.
func (p *conditionParser) rest() string {
	if s := strings.TrimSpace(p.text[p.pos:]); s != "" {
		return message.Quote(s)
	}
	return "the end"
}

// end reports what is left over.
func (p *conditionParser) end() error {
	if p.peek() == 0 {
		return nil
	}
	return fmt.Errorf("%s is left over; a constraint is one comparison, write others as entries of their own", p.rest())
}

// name reads a feature's name, if one comes next: the longest that is known, or one in quotes.
func (p *conditionParser) name() (feature int, ok bool, err error) {
	s, quoted, err := p.quoted()
	if err != nil {
		return 0, false, err
	}
	if quoted {
		i, known := p.index[s]
		if !known {
			return 0, false, fmt.Errorf("there is no feature %s%s", message.Quote(s), message.DidYouMean(s, featureNames(p.features)))
		}
		return i, true, nil
	}
	if s, ok := p.longest(p.names, nameEnds); ok {
		return p.index[s], true, nil
	}
	return 0, false, nil
}

// longest reads the first of the words, longest first, that the text goes on with and that ends there.
func (p *conditionParser) longest(words []string, ends func(word, rest string) bool) (string, bool) {
	p.blank()
	for _, w := range words {
		if rest, ok := strings.CutPrefix(p.text[p.pos:], w); ok && w != "" && ends(w, rest) {
			p.pos += len(w)
			return w, true
		}
	}
	return "", false
}

// nameEnds says whether a name that rest follows ends there: "age" in "age-2", not in "ages" or "age.max".
func nameEnds(name, rest string) bool {
	last, _ := utf8.DecodeLastRuneInString(name)
	next, size := utf8.DecodeRuneInString(rest)
	if next == '.' {
		next, _ = utf8.DecodeRuneInString(rest[size:])
	}
	return !isLetter(last) || !isLetter(next)
}

// valueEnds says whether a value that rest follows ends there.
func valueEnds(_, rest string) bool {
	next, _ := utf8.DecodeRuneInString(rest)
	return rest == "" || unicode.IsSpace(next) || strings.ContainsRune(",}])", next)
}

// quoted reads a text in quotes of any kind, if one comes next. A quote in the text is one of another kind.
func (p *conditionParser) quoted() (string, bool, error) {
	q := p.peek()
	if q != '"' && q != '\'' && q != '`' {
		return "", false, nil
	}
	s, _, closed := strings.Cut(p.text[p.pos+1:], string(q))
	if !closed {
		return "", false, fmt.Errorf("the quote before %s is never closed", message.Quote(p.text[p.pos+1:]))
	}
	p.pos += len(s) + 2
	return s, true, nil
}

// unknown reports what stands where a number or a feature should.
func (p *conditionParser) unknown() error {
	p.blank()
	end := p.pos
	for end < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[end:])
		if !isLetter(r) && r != '-' && r != '.' {
			break
		}
		end += size
	}
	word := p.text[p.pos:end]
	switch first, _ := utf8.DecodeRuneInString(word); {
	case word == "":
		return fmt.Errorf("a feature or a number is missing before %s", p.rest())
	case unicode.IsDigit(first) || first == '.':
		return fmt.Errorf("%s is not a number; write it as 1200.5, and a product as 2 * income", message.Quote(word))
	}
	return fmt.Errorf("there is no feature %s%s", message.Quote(word), message.DidYouMean(word, featureNames(p.features)))
}

// comparison reads an operator; == is =.
func (p *conditionParser) comparison() (string, error) {
	p.blank()
	for _, op := range []string{"<=", ">=", "!=", "==", "<", ">", "="} {
		if strings.HasPrefix(p.text[p.pos:], op) {
			p.pos += len(op)
			if op == "==" {
				op = "="
			}
			return op, nil
		}
	}
	if _, in := p.longest([]string{"not", "in"}, nameEnds); in {
		return "", errors.New("in is for categories; compare numbers with <=, <, >=, > or =")
	}
	return "", fmt.Errorf("a comparison (<=, <, >=, >, =) is missing before %s", p.rest())
}

// category reads what follows the name of a category.
func (p *conditionParser) category(f *Feature) ([]Inequality, error) {
	values := f.conditionValues()
	_, not := p.longest([]string{"not"}, nameEnds)
	switch list, err := p.set(f, values); {
	case err != nil:
		return nil, err
	case list != nil:
		return holds(f, list, !not), nil
	case not:
		return nil, fmt.Errorf(
			"not goes with in, as %s not in {%s}, and not with %s",
			message.Legible(f.Name),
			message.List(values, 2),
			p.rest(),
		)
	}
	op, err := p.comparison()
	if err != nil {
		return nil, fmt.Errorf(
			"%s is a category: compare it with =, != or in {...}, not with %s",
			message.Quote(f.Name),
			p.rest(),
		)
	}
	v, err := p.value(f, values)
	if err == nil {
		err = p.end()
	}
	switch {
	case err != nil:
		return nil, err
	case op == "=" || op == "!=":
		return holds(f, []string{v}, op == "="), nil
	case f.Kind != Thermometer && !f.Ordered:
		return nil, fmt.Errorf(
			"the values of %s have no order, so %s means nothing; set ordered: true on a one-hot feature whose values "+
				"do, or use =, != or in",
			message.Quote(f.Name),
			op,
		)
	}
	at := slices.Index(values, v)
	between := map[string][2]int{"<=": {0, at + 1}, "<": {0, at}, ">=": {at, len(values)}, ">": {at + 1, len(values)}}[op]
	values = values[between[0]:between[1]]
	if len(values) == 0 {
		return nil, fmt.Errorf("no value of %s is %s %s", message.Quote(f.Name), op, message.Quote(v))
	}
	return holds(f, values, true), nil
}

// holds says that the feature has one of the values, or none of them.
func holds(f *Feature, values []string, one bool) []Inequality {
	q, sign := Inequality{}, 1.0
	if one {
		q.Bound, sign = -1, -1
	}
	for _, v := range values {
		q.Terms = append(q.Terms, Term{Feature: f.Name, Value: v, Coef: sign})
	}
	return []Inequality{q}
}

// set reads "in {...}", if it comes next; the values come in their order.
func (p *conditionParser) set(f *Feature, values []string) ([]string, error) {
	if _, in := p.longest([]string{"in"}, nameEnds); !in {
		return nil, nil
	}
	closing := map[byte]byte{'{': '}', '[': ']', '(': ')'}[p.peek()]
	if closing == 0 {
		return nil, fmt.Errorf(
			"the values behind in stand in braces, as %s in {%s}, not %s",
			message.Legible(f.Name),
			message.List(values, 2),
			p.rest(),
		)
	}
	p.pos++
	var list []string
	for {
		v, err := p.value(f, values)
		if err != nil {
			return nil, err
		}
		if slices.Contains(list, v) {
			return nil, fmt.Errorf("the value %s stands in the braces twice", message.Quote(v))
		}
		list = append(list, v)
		switch c := p.peek(); c {
		case ',':
			p.pos++
		case closing:
			p.pos++
			slices.SortFunc(list, func(a, b string) int { return slices.Index(values, a) - slices.Index(values, b) })
			return list, p.end()
		default:
			return nil, fmt.Errorf("a comma or %q is missing before %s", closing, p.rest())
		}
	}
}

// value reads one of the feature's values, as the task file writes it.
func (p *conditionParser) value(f *Feature, values []string) (string, error) {
	s, quoted, err := p.quoted()
	if err != nil {
		return "", err
	}
	if !quoted {
		sorted := slices.Clone(values)
		longestFirst(sorted)
		if v, ok := p.longest(sorted, valueEnds); ok {
			return v, nil
		}
		end := strings.IndexAny(p.text[p.pos:], ",}])")
		if end < 0 {
			end = len(p.text) - p.pos
		}
		s = strings.TrimSpace(p.text[p.pos : p.pos+end])
		p.pos += end
	}
	if i := find(values, s); i >= 0 {
		return values[i], nil
	}
	if f.Kind == Binary && f.Zero == "" {
		return "", fmt.Errorf(
			"%s is known by its value %s only; write %s != %s for the others",
			message.Quote(f.Name),
			message.Quote(f.One),
			message.Legible(f.Name),
			message.Legible(f.One),
		)
	}
	return "", fmt.Errorf("%s is no value of %s%s", message.Quote(s), message.Quote(f.Name), message.DidYouMean(s, values))
}
