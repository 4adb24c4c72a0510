package eval

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"cfq/internal/message"
)

// Stress is other conditions to evaluate under, or several of them, as ParseStress reads them.
type Stress struct {
	Spec string // as it is written
	kind stressKind

	size           float64 // of noise, in standard deviations
	feature, value string  // of mix
	share          float64 // of mix and outcome
	features       int     // of limits: the sparsity budget; 0 = the task's
	scale          float64 // of limits: of how far features may go
}

type stressKind int

const (
	noiseStress stressKind = iota + 1
	mixStress
	outcomeStress
	limitStress
	shiftStresses
	tightnessStresses
)

// StressForm is one way to write a Stress, and what it means.
type StressForm struct {
	Form string // "noise:S"
	Doc  string // one or two sentences
	read func(spec, rest string) (Stress, error)
}

// word returns what the form starts with, up to the colon.
func (f *StressForm) word() string {
	word, _, _ := strings.Cut(f.Form, ":")
	return word
}

// StressForms returns the table of all forms: help, documentation and ParseStress come from it.
func StressForms() []StressForm {
	return []StressForm{
		{
			"noise:S", "Feature noise. Every number that people can change moves by S of its standard deviations times a normal draw, back into its bounds and onto its steps; " +
				"what links drag along follows, the rest stays. Recourse is computed anew for the people as they are then.",
			readNoise,
		},
		{
			"mix:FEATURE=VALUE:SHARE", "Other groups. The people of the group become SHARE of all, by drawing the largest part of the data that is composed so. No recourse is computed anew.",
			readMix,
		},
		{
			"outcome:SHARE", "Other outcomes. The people whose known outcome is the unfavourable one become SHARE of those with a known outcome, by the same drawing.",
			readOutcome,
		},
		{
			"sparsity:K", "Other constraints. An action may change no more than K features. Recourse is computed anew under both models.",
			readLimits,
		},
		{
			"bounds:G", "Other constraints. Every number, and every value in an order, may go G times as far from the person's own value, upwards and downwards. Joined with the other one: sparsity:2,bounds:0.5.",
			readLimits,
		},
		{
			"shifts", fmt.Sprintf("The three shifts of the people, moderate: noise:%g; for each declared attribute a mix in which its smallest group (of %d promises or more) counts twice, half of the others being left out; "+
				"and an outcome in which the people with the unfavourable one count twice.", presetNoise, fewPeople),
			readPreset(shiftStresses),
		},
		{
			"tightness", "The three regimes of constraints: restrictive (half the features, bounds:0.5), moderate (the task's own, bounds:1) and permissive (twice the features, bounds:1.5).",
			readPreset(tightnessStresses),
		},
	}
}

// ParseStress reads one of the forms of StressForms.
func ParseStress(spec string) (Stress, error) {
	spec = strings.TrimSpace(spec)
	word, rest, _ := strings.Cut(spec, ":")
	var forms, known []string
	for _, f := range StressForms() {
		if f.word() == word {
			s, err := f.read(spec, rest)
			if err != nil {
				return Stress{}, fmt.Errorf("eval: %q: %w", spec, err)
			}
			s.Spec = spec
			return s, nil
		}
		forms, known = append(forms, f.Form), append(known, f.word())
	}
	if message.Nearest(word, known) != "" {
		forms = known
	}
	return Stress{}, fmt.Errorf("eval: %q is no condition to evaluate under%s", spec, message.DidYouMean(word, forms))
}

func readNoise(_, rest string) (Stress, error) {
	v, ok := number(rest)
	if !ok || v <= 0 {
		return Stress{}, fmt.Errorf("the size of the noise is a number above 0, in standard deviations: noise:%g", presetNoise)
	}
	return Stress{kind: noiseStress, size: v}, nil
}

func readMix(_, rest string) (Stress, error) {
	at := strings.LastIndexByte(rest, ':')
	group, share := rest, ""
	if at >= 0 {
		group, share = rest[:at], rest[at+1:]
	}
	feature, value, named := strings.Cut(group, "=")
	if !named || feature == "" || value == "" {
		return Stress{}, fmt.Errorf("a group is a feature and a value, before its share: mix:sex=Female:0.5")
	}
	v, ok := number(share)
	if !ok || v < 0 || v > 1 {
		return Stress{}, fmt.Errorf("the share of %s among all people is a number from 0 to 1, behind a colon: mix:%s:0.5", group, group)
	}
	return Stress{kind: mixStress, feature: strings.TrimSpace(feature), value: strings.TrimSpace(value), share: v}, nil
}

func readOutcome(_, rest string) (Stress, error) {
	v, ok := number(rest)
	if !ok || v < 0 || v > 1 {
		return Stress{}, fmt.Errorf("the share of people with the unfavourable outcome is a number from 0 to 1: outcome:0.8")
	}
	return Stress{kind: outcomeStress, share: v}, nil
}

func readLimits(spec, _ string) (Stress, error) {
	s := Stress{kind: limitStress, scale: 1}
	given := map[string]bool{}
	for part := range strings.SplitSeq(spec, ",") {
		word, rest, _ := strings.Cut(strings.TrimSpace(part), ":")
		if given[word] {
			return s, fmt.Errorf("%s stands there twice", word)
		}
		given[word] = true
		switch word {
		case "sparsity":
			k, err := strconv.Atoi(strings.TrimSpace(rest))
			if err != nil || k < 1 {
				return s, fmt.Errorf("the number of features is a whole number of 1 or more: sparsity:2")
			}
			s.features = k
		case "bounds":
			g, ok := number(rest)
			if !ok || g <= 0 {
				return s, fmt.Errorf("the factor on how far features may go is a number above 0: bounds:0.5")
			}
			s.scale = g
		default:
			return s, fmt.Errorf("%q does not belong there: only sparsity:K and bounds:G are joined by a comma", part)
		}
	}
	return s, nil
}

func readPreset(kind stressKind) func(spec, rest string) (Stress, error) {
	return func(spec, _ string) (Stress, error) {
		if word, _, more := strings.Cut(spec, ":"); more {
			return Stress{}, fmt.Errorf("%s takes no number", word)
		}
		return Stress{kind: kind}, nil
	}
}

// number reads a finite number.
func number(s string) (float64, bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}
