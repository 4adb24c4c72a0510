package task

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
	"cfq/internal/message"
)

// Category is the encoding of a feature that has one of some values: a *Binary, *OneHot or *Thermometer.
type Category interface {
	Encoding

	// Names are the raw texts of its values: for thresholds 10 and 20, "<10", "10" and "20".
	Names() []string

	// PlaceOf returns which of its values a raw field is.
	PlaceOf(raw string) (int, error)

	// Made are the model's inputs for each value, nil when they are the feature's own.
	Made() [][]float64

	coding() *Coding
	place(x []float32) int // of inputs that check accepts; -1 when missing
	isOrdered() bool
}

// Coding is what is known of the values of a category.
type Coding struct {
	// Inputs are the model's inputs for each value, nil when they are the feature's own.
	Inputs [][]float64
	// Shares in the training rows. OneHot: of each value. Binary: one number, that of One. Thermometer: for each input, of
	// those whose input is 1, descending. nil when not given.
	Shares []float64

	looked [][]float64 // Inputs where the model looks them up, see Task.Require
}

func (c *Coding) coding() *Coding { return c }

// Made is Inputs, or those of a model that looks Inputs up.
func (c *Coding) Made() [][]float64 {
	if c.looked != nil {
		return c.looked
	}
	return c.Inputs
}

func lookUp(c Category, codes []string) {
	inputs, places := c.Made(), len(c.Names())
	if inputs == nil && c.width() == 1 && places == 2 {
		inputs = namedInputs("index", places)
	}
	rows := namedInputs("onehot", len(codes))
	var looked [][]float64
	for _, of := range inputs {
		at := Find(codes, Decimal(of[0]))
		if at < 0 || len(of) > 1 {
			return
		}
		looked = append(looked, rows[at])
	}
	c.coding().looked = looked
}

const fillIn = "; where a program fills it in before the model, impute names what"

func missingValue() error { return errors.New("the value is missing" + fillIn) }

func (c *Coding) encodeMissing() error { return missingValue() }

func (c *Coding) notKnown(string) bool { return false }

func (c *Coding) hasNumber() bool { return false }

func (c *Coding) isMade() bool { return c.Made() != nil }

func (c *Coding) sigma(j int, unknown float64) float64 {
	p := unknown
	if j < len(c.Shares) {
		p = c.Shares[j]
	}
	return math.Sqrt(max(p*(1-p), 0))
}

func known(raw string, values []string) (int, error) {
	i := Find(values, raw)
	if i < 0 {
		return 0, fmt.Errorf("%s is not a known value%s", message.Quote(raw), message.DidYouMean(raw, values))
	}
	return i, nil
}

// between says that a raw value is a number between two thresholds, which has no name; "" when it has.
func between(c Category, raw string, place int) string {
	if _, steps := c.(*Thermometer); !steps || sameValue(raw, c.Names()[place]) {
		return ""
	}
	return "one of: " + message.List(c.Names(), 20)
}

func notNumber() error { return errors.New("it is no number; compare it with a value") }

// countOnes returns how many of the inputs are 1, or more than there are when one is neither 0 nor 1.
func countOnes[T float32 | float64](x []T) (ones int) {
	for _, v := range x {
		switch v {
		case 1:
			ones++
		case 0:
		default:
			return len(x) + 1
		}
	}
	return ones
}

func (c *Coding) keys(d *fileDecoder) []key {
	list := config.ListOf(config.AnyOf(config.Type("number"), config.ListOf(config.Type("number"))))
	word := func() schema { return schema{"enum": inputWords()} }
	inputs := value{Form: config.AnyOf(word, list), Out: func() any { return c.Inputs }}
	return []key{
		{Name: "shares", Value: config.Several(&c.Shares, d.Share)},
		{Name: "inputs", Value: inputs, Omit: c.Inputs == nil},
	}
}

func (e featureEntry) checkCoding(c Category) {
	own, n := c.coding(), e.At["inputs"]
	if n == nil || c.width() == 0 {
		return
	}
	places := len(c.Names())
	if _, list := n.(*ast.SequenceNode); !list {
		word, ok := e.d.ReadText(n)
		if ok && !slices.Contains(inputWords(), word) {
			e.d.Errorf(n, "inputs is index, drop_first, onehot or a list with the inputs of each value, not %q%s", word,
				config.DidYouMean(word, inputWords()))
		} else if ok {
			own.Inputs = namedInputs(word, places)
		}
		return
	}
	var all [][]float64
	config.Several(&all, func(of *[]float64) value { return config.Several(of, e.d.Number) }).Read(n)
	switch {
	case len(all) != places:
		e.d.Errorf(n, "feature %q: inputs of %d values, and it has %d", e.Name, len(all), places)
	case slices.ContainsFunc(all, func(row []float64) bool { return len(row) == 0 || len(row) != len(all[0]) }):
		e.d.Errorf(n, "feature %q: every value has as many inputs as the others, one or more", e.Name)
	case places > 1 && len(slices.CompactFunc(slices.Clone(all), slices.Equal)) == 1:
		e.d.Errorf(n, "feature %q: all its values have the same inputs, so the model cannot tell them apart; give each its "+
			"own, or remove the feature", e.Name)
	default:
		own.Inputs = all
	}
}

func (e featureEntry) checkDistinct(values []string) {
	for i, v := range values {
		if slices.Contains(values[:i], v) {
			e.errorf("values", "the value %q is listed twice", v)
		}
		if v == "" {
			e.errorf("values", "a value is empty; an empty field is a missing value and encoded as all zeros")
		}
	}
}

func inputWords() []string { return []string{"index", "drop_first", "onehot"} }

// written are Inputs as a person writes them: as a word where there is one for them.
func (c *Coding) written() any {
	for _, word := range inputWords() {
		if slices.EqualFunc(namedInputs(word, len(c.Inputs)), c.Inputs, slices.Equal) {
			return word
		}
	}
	return c.Inputs
}

func namedInputs(word string, places int) [][]float64 {
	all := make([][]float64, places)
	for i := range all {
		switch word {
		case "index":
			all[i] = []float64{float64(i)}
		case "drop_first":
			all[i] = make([]float64, max(places-1, 1))
			if i > 0 {
				all[i][i-1] = 1
			}
		default:
			all[i] = make([]float64, places)
			all[i][i] = 1
		}
	}
	return all
}
