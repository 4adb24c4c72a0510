package task

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"cfq/internal/lists"
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

type conditionParser struct {
	features     []Feature
	names        []string // that may stand without quotes, longest first
	digits, word *regexp.Regexp
	rest         string // of the condition, not yet read
	depth        int
}

func newConditionParser(t *Task) *conditionParser {
	names := lists.Filter(featureNames(t.Features), func(name string) bool {
		first, _ := utf8.DecodeRuneInString(name)
		_, number := Number(name)
		return !number && isLetter(first)
	})
	slices.SortStableFunc(names, func(a, b string) int { return len(b) - len(a) })
	return &conditionParser{
		features: t.Features, names: names,
		digits: regexp.MustCompile(`^([0-9]+\.?|\.)[0-9]*([eE][-+]?[0-9]+)?`),
		word:   regexp.MustCompile(`^[\p{L}\p{Nd}_.-]*`),
	}
}

// conditionError is what the methods of a conditionParser panic with; parse returns it.
type conditionError struct{ error }

func (p *conditionParser) parse(text string) (read []Inequality, err error) {
	if len(text) > maxCondition {
		return nil, fmt.Errorf("it is longer than %d characters", maxCondition)
	}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case conditionError:
			read, err = nil, v.error
		default:
			panic(v)
		}
	}()
	p.rest, p.depth = text, 0
	read = p.condition(text)
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

func (p *conditionParser) fail(format string, args ...any) {
	panic(conditionError{fmt.Errorf(format, args...)})
}

func (p *conditionParser) condition(text string) []Inequality {
	if p.skip() == "" {
		p.fail("it is empty")
	}
	if f := p.name(); f >= 0 && !p.features[f].Encoding.hasNumber() {
		return p.category(&p.features[f])
	}
	p.rest = text // a name may begin an expression
	sum := p.expression()
	op := p.operator()
	switch {
	case op != "":
	case p.longest("in") != "":
		p.fail("in is for categories; compare numbers with <=, <, >=, > or =")
	default:
		p.fail("a comparison (<=, <, >=, >, =) is missing before %s", p.next())
	}
	floats.Sub(sum, p.expression())
	p.end()
	switch op {
	case "<=", "<":
		return []Inequality{p.inequality(sum, 1, op == "<")}
	case ">=", ">":
		return []Inequality{p.inequality(sum, -1, op == ">")}
	case "!=":
		p.fail(`"!=" is for categories; numbers other than one are two ranges, and an action set needs one: write < or >`)
	}
	return []Inequality{p.inequality(sum, 1, false), p.inequality(sum, -1, false)}
}

// A linear expression has a coefficient for each feature, and then a constant.

func (p *conditionParser) inequality(sum []float64, sign float64, strict bool) Inequality {
	q := Inequality{Bound: 0 - sign*sum[len(p.features)], Strict: strict}
	for i := range p.features {
		if sum[i] != 0 {
			q.Terms = append(q.Terms, Term{Feature: p.features[i].Name, Coef: sign * sum[i]})
		}
	}
	return q
}

func constant(a []float64) (float64, bool) {
	last := len(a) - 1
	return a[last], !slices.ContainsFunc(a[:last], func(v float64) bool { return v != 0 })
}

func (p *conditionParser) expression() []float64 {
	sum := p.product()
	for {
		switch p.take("+", "-") {
		case "+":
			floats.Add(sum, p.product())
		case "-":
			floats.Sub(sum, p.product())
		default:
			return sum
		}
	}
}

func (p *conditionParser) product() []float64 {
	whole := p.skip()
	a := p.factor()
	for {
		start := p.skip()
		op := p.take("*", "/")
		if op == "" {
			return a
		}
		b := p.factor()
		left, number := constant(a)
		right, divisor := constant(b)
		switch {
		case op == "/" && !divisor:
			p.fail("%s divides by a feature; only numbers may stand behind /", p.since(start))
		case op == "/" && right == 0:
			p.fail("%s divides by 0", p.since(start))
		case op == "/":
			floats.Scale(1/right, a)
		case divisor:
			floats.Scale(right, a)
		case number:
			floats.Scale(left, b)
			a = b
		default:
			p.fail("%s multiplies two features; one side of * must be a number", p.since(whole))
		}
	}
}

func (p *conditionParser) since(start string) string {
	return message.Quote(strings.TrimSpace(strings.TrimSuffix(start, p.rest)))
}

func (p *conditionParser) factor() []float64 {
	if p.depth++; p.depth > maxNesting {
		p.fail("it is nested too deep")
	}
	defer func() { p.depth-- }()
	a := make([]float64, len(p.features)+1)
	switch p.take("+", "-", "(") {
	case "+":
		return p.factor()
	case "-":
		floats.Sub(a, p.factor())
		return a
	case "(":
		a = p.expression()
		if p.take(")") == "" {
			p.fail("a closing parenthesis is missing before %s", p.next())
		}
		return a
	}
	switch i := p.name(); {
	case i < 0:
		a[len(p.features)] = p.number()
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
	after, _ := utf8.DecodeRuneInString(p.rest[len(digits):])
	if v, ok := Number(digits); ok && !isLetter(after) {
		p.rest = p.rest[len(digits):]
		return v
	}
	word := p.word.FindString(p.rest)
	switch first, _ := utf8.DecodeRuneInString(word); {
	case word == "":
		p.fail("a feature or a number is missing before %s", p.next())
	case unicode.IsDigit(first) || first == '.':
		p.fail("%s is not a number; write it as 1200.5, and a product as 2 * income", message.Quote(word))
	default:
		p.noFeature(word)
	}
	return 0
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
	}
	v := p.value(f, values, "")
	p.end()
	at := slices.Index(values, v)
	asked := map[string][]string{
		"=": {v}, "!=": {v}, "<=": values[:at+1], "<": values[:at], ">=": values[at:], ">": values[at+1:],
	}[op]
	switch {
	case op != "=" && op != "!=" && !c.isOrdered():
		p.fail("the values of %s have no order, so %s means nothing; set ordered: true on a one-hot feature whose values "+
			"do, or use =, != or in", message.Quote(f.Name), op)
	case len(asked) == 0:
		p.fail("no value of %s is %s %s", message.Quote(f.Name), op, message.Quote(v))
	}
	return holds(f, asked, op != "!=")
}

func holds(f *Feature, values []string, one bool) []Inequality {
	q, sign := Inequality{}, 1.0
	if one { // -sum <= -1
		q.Bound, sign = -1, -1
	}
	q.Terms = lists.Map(values, func(v string) Term { return Term{Feature: f.Name, Value: v, Coef: sign} })
	return []Inequality{q}
}

func (p *conditionParser) set(f *Feature, values []string) (list []string) {
	if p.take("{") == "" {
		p.fail("the values behind in stand in braces, as %s in {%s}, not %s", message.Legible(f.Name),
			message.List(values, 2), p.next())
	}
	for more := true; more; more = p.take(",") != "" {
		v := p.value(f, values, ",}")
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

// value reads a value in quotes, or up to one of the ends, or to the end.
func (p *conditionParser) value(f *Feature, values []string, ends string) string {
	s, quoted := p.quoted()
	if !quoted {
		end := len(p.rest)
		if at := strings.IndexAny(p.rest, ends); at >= 0 {
			end = at
		}
		s, p.rest = strings.TrimSpace(p.rest[:end]), p.rest[end:]
	}
	i := Find(values, s)
	switch b, binary := f.Encoding.(*Binary); {
	case i >= 0:
	case binary && b.Zero == "":
		p.fail("%s is known by its value %s only; write %s != %s for the others", message.Quote(f.Name),
			message.Quote(b.One), message.Legible(f.Name), message.Legible(b.One))
	default:
		p.fail("%s is no value of %s%s", message.Quote(s), message.Quote(f.Name), message.DidYouMean(s, values))
	}
	return values[i]
}

// contradiction names constraints that no person can fulfil together within the bounds of what actions change: as few
// of them as contradict each other. It is nil when there are none. Rules with If hold for some people only, and are
// left out. Shares of categories count as possible, so not every contradiction is found.
func contradiction(t *Task) error {
	rules := lists.Filter(t.Rules, func(r Rule) bool { return r.If == nil && r.Of == nil })
	if len(rules) == 0 || !t.contradictory(rules) {
		return nil
	}
	for i := len(rules) - 1; i >= 0; i-- {
		if fewer := slices.Delete(slices.Clone(rules), i, i+1); len(fewer) > 0 && t.contradictory(fewer) {
			rules = fewer
		}
	}
	if len(rules) == 1 {
		return fmt.Errorf("no value within the bounds fulfils the constraint %q", rules[0].Text)
	}
	texts := lists.Map(rules, func(r Rule) string { return strconv.Quote(r.Text) })
	return fmt.Errorf("the constraints %s contradict each other: no values within the bounds fulfil them together",
		strings.Join(texts, " and "))
}

// contradictory reports whether no values fulfil the rules. A linear program looks for the least amount, in units of
// each row's largest coefficient, by which all of them have to give way.
func (t *Task) contradictory(rules []Rule) bool {
	const give, strict = 1e-7, 1e-6
	at := map[Term]int{} // columns of a number and of the values of a category
	var rows []map[int]float64
	var bounds []float64
	add := func(row map[int]float64, bound float64, isStrict bool) {
		size := 0.0
		for _, v := range row {
			size = max(size, math.Abs(v))
		}
		if size == 0 {
			return
		}
		for j := range row {
			row[j] /= size
		}
		if bound /= size; isStrict {
			bound -= strict * max(1, math.Abs(bound))
		}
		rows, bounds = append(rows, row), append(bounds, bound)
	}
	column := func(q Term) int {
		q.Coef = 0
		if _, known := at[q]; !known {
			at[q] = len(at) + 1 // column 0 is the amount
			if q.Value != "" {
				add(map[int]float64{at[q]: -1}, 0, false)
			}
		}
		return at[q]
	}
	for _, r := range rules {
		for _, q := range r.Then {
			row := map[int]float64{}
			for _, term := range q.Terms {
				row[column(term)] += term.Coef
			}
			add(row, q.Bound, q.Strict)
		}
	}
	for i := range t.Features {
		f, one := &t.Features[i], map[int]float64{}
		for q, j := range at {
			if q.Feature == f.Name && q.Value != "" {
				one[j] = 1 // at most one of its values holds
			}
		}
		add(one, 1, false)
		j, known := at[Term{Feature: f.Name}]
		if !known || !f.Actionable || f.Number() == nil {
			continue
		}
		if !math.IsInf(f.Bounds[1], 0) {
			add(map[int]float64{j: 1}, f.Bounds[1], false)
		}
		if !math.IsInf(f.Bounds[0], 0) {
			add(map[int]float64{j: -1}, -f.Bounds[0], false)
		}
	}
	limits, cost := mat.NewDense(len(rows), len(at)+1, nil), make([]float64, len(at)+1)
	cost[0] = 1
	for i, row := range rows {
		limits.Set(i, 0, -max(1, math.Abs(bounds[i])))
		for j, v := range row {
			limits.Set(i, j, v)
		}
	}
	c, a, b := lp.Convert(cost, limits, bounds, nil, nil)
	least, _, err := lp.Simplex(c, a, b, 1e-10, nil)
	return err == nil && least > give
}
