package task

import (
	"cmp"
	"fmt"

	"cfq/internal/message"
)

// Binary is one input, 1 for the value One and 0 for any other.
type Binary struct {
	One, Zero string // Zero may be "": then every value but One and missing ones is the zero
	Coding
}

// Kind is binary.
func (b *Binary) Kind() string { return "binary" }

func (b *Binary) width() int { return 1 }

// Names are Zero and One.
func (b *Binary) Names() []string { return []string{cmp.Or(b.Zero, "not "+b.One), b.One} }

// PlaceOf is that of a [Category].
func (b *Binary) PlaceOf(raw string) (int, error) {
	switch {
	case sameValue(raw, b.One):
		return 1, nil
	case b.Zero == "" || sameValue(raw, b.Zero):
		return 0, nil
	}
	return 0, fmt.Errorf("%s is neither %q nor %q", message.Quote(raw), b.One, b.Zero)
}

func (b *Binary) place(x []float32) int { return int(x[0]) }

func (b *Binary) encode(raw string, dst []float32) error {
	i, err := b.PlaceOf(raw)
	dst[0] = float32(i)
	return err
}

func (b *Binary) check(x []float32) error {
	if countOnes(x) > 1 {
		return fmt.Errorf("a binary input is 0 or 1, not %v", x[0])
	}
	return nil
}

func (b *Binary) isOrdered() bool { return false }

func (b *Binary) inputName(name string, _ int) string { return name }

// Sigma follows from the share of One, or 1/2.
func (b *Binary) Sigma(j int) float64 { return b.sigma(j, 0.5) }

// Linear is the input, or 1 less the input.
func (b *Binary) Linear(value string) (coef []float64, constant float64, err error) {
	if value == "" {
		return nil, 0, notNumber()
	}
	if i, err := b.PlaceOf(value); err != nil || i == 1 {
		return []float64{1}, 0, err
	}
	return []float64{-1}, 1, nil
}

func (b *Binary) declare(d *fileDecoder, _ *Task) ([]key, func(featureEntry)) {
	keys := append(b.keys(d),
		key{Name: "one", Value: d.Text(&b.One), Keep: true}, key{Name: "zero", Value: d.Text(&b.Zero)})
	return keys, func(e featureEntry) {
		if !e.Has("one") {
			e.errorf("", "a binary feature needs the key \"one\", the value that becomes 1")
		}
		if e.Has("zero") && b.Zero == b.One {
			e.errorf("zero", "zero and one are the same value")
		}
		if b.Shares != nil && len(b.Shares) != 1 {
			e.errorf("shares", "a binary feature has one share, that of %q", b.One)
		}
		e.checkCoding(b)
	}
}
