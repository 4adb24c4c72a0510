package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cfq/internal/message"
)

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
			return 0, false, fmt.Errorf("there is no feature %s%s", message.Quote(s), didYouMean(s, featureNames(p.features)))
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
	return fmt.Errorf("there is no feature %s%s", message.Quote(word), didYouMean(word, featureNames(p.features)))
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
		return nil, fmt.Errorf("not goes with in, as %s not in {%s}, and not with %s", message.Legible(f.Name), message.List(values, 2), p.rest())
	}
	op, err := p.comparison()
	if err != nil {
		return nil, fmt.Errorf("%s is a category: compare it with =, != or in {...}, not with %s", message.Quote(f.Name), p.rest())
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
		return nil, fmt.Errorf("the values of %s have no order, so %s means nothing; set ordered: true on a one-hot feature whose values do, or use =, != or in",
			message.Quote(f.Name), op)
	}
	at := slices.Index(values, v)
	between := map[string][2]int{"<=": {0, at + 1}, "<": {0, at}, ">=": {at, len(values)}, ">": {at + 1, len(values)}}[op]
	values = values[between[0]:between[1]]
	if len(values) == 0 {
		return nil, fmt.Errorf("no value of %s is %s %s", message.Quote(f.Name), op, message.Quote(v))
	}
	return holds(f, values, true), nil
}

// conditionValues are the values that a condition can name, in order.
func (f *Feature) conditionValues() []string {
	switch {
	case f.Kind != Binary:
		return f.placeNames()
	case f.Zero == "":
		return []string{f.One}
	}
	return []string{f.Zero, f.One}
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
		return nil, fmt.Errorf("the values behind in stand in braces, as %s in {%s}, not %s", message.Legible(f.Name), message.List(values, 2), p.rest())
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
		return "", fmt.Errorf("%s is known by its value %s only; write %s != %s for the others", message.Quote(f.Name), message.Quote(f.One), message.Legible(f.Name), message.Legible(f.One))
	}
	return "", fmt.Errorf("%s is no value of %s%s", message.Quote(s), message.Quote(f.Name), didYouMean(s, values))
}
