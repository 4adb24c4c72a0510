package eval

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"cfq/internal/message"
	"cfq/recourse"
	"cfq/task"
)

// Scenario is the evaluation under other conditions than those of the data and the task.
type Scenario struct {
	Name   string  `json:"name"`   // Stress.Spec; of a preset, that of each of its parts
	About  string  `json:"about"`  // what was done, in one sentence
	Result *Result `json:"result"` // every metric; nothing about files and time, no groups or scenarios of its own
}

type stressRun struct {
	f, g recourse.Model
	*Batch
	o    Options
	base *Result
	all  []*Record // of base, by person
}

const noNoise = "people with noise in their codes would be judged as decoded images, and not as they are"

// Possible is the part of Check that needs no people.
func (s *Stress) Possible(t *task.Task, issued bool) error {
	if t.Latent != nil && s.kind == noiseStress {
		return fmt.Errorf("%s: %s", s.Spec, noNoise)
	}
	if issued && s.kind != mixStress && s.kind != outcomeStress {
		return fmt.Errorf("%s: recourse is computed anew under these conditions, and the promises are given: leave "+
			"out one of the two", s.Spec)
	}
	return nil
}

// Check returns the error that [Result.Stress] would return because people have not what s needs: for
// those who want it before the work is done.
func (s *Stress) Check(t *task.Task, b *Batch) error {
	if s.kind == mixStress || s.kind == outcomeStress {
		if _, _, err := s.divide(b.People); err != nil {
			return fmt.Errorf("%s: %w", s.Spec, err)
		}
	}
	return s.Possible(t, b.Promises != nil)
}

// Stress evaluates under each of the conditions in list, and adds the scenarios to r, which is the result for the same
// models, people and options. Presets become several scenarios; what occurs twice is evaluated once. What is left out
// of a preset is a warning of r. Scenarios depend on the inputs and the seed only.
func (r *Result) Stress(ctx context.Context, f, g recourse.Model, b *Batch, list []Stress, o Options) error {
	if n := r.Records.Len(); n != b.People.N {
		return fmt.Errorf("eval: the result has records of %d people, and there are %d", n, b.People.N)
	}
	var errs []error
	for i := range list {
		errs = append(errs, list[i].Check(b.Set.Task(), b))
	}
	if err := errors.Join(errs...); err != nil || len(list) == 0 {
		return err
	}
	t := &stressRun{f: f, g: g, Batch: b, o: o, base: r}
	for x, err := range r.Records.All() {
		if err != nil {
			return err
		}
		t.all = append(t.all, x)
	}
	for _, s := range list {
		specs, notes := t.parts(&s)
		for _, note := range notes {
			if !slices.Contains(r.Warnings, note) {
				r.Warnings = append(r.Warnings, note)
			}
		}
		for _, spec := range specs {
			if slices.ContainsFunc(r.Scenarios, func(o Scenario) bool { return o.Name == spec }) {
				continue
			}
			p, err := ParseStress(spec)
			if err != nil {
				return err
			}
			one, err := t.run(ctx, p)
			if err != nil {
				return fmt.Errorf("%s: %w", spec, err)
			}
			r.Scenarios = append(r.Scenarios, one)
		}
	}
	return nil
}

func (t *stressRun) run(ctx context.Context, s Stress) (one Scenario, err error) {
	one.Name = s.Spec
	changed := *t.Batch
	switch s.kind {
	case noiseStress:
		one.About = fmt.Sprintf("the numbers that people can change have noise of %g standard deviations", s.size)
		noisy := *t.People
		noisy.X = t.Set.Jitter(t.People.X, s.size, t.o.Seed^0x6e015e)
		changed.People = &noisy
	case limitStress:
		if changed.Set, err = t.Set.Tighten(s.features, s.scale); err != nil {
			return one, err
		}
		one.About = "an action changes at most " + message.Count(changed.Set.Budget(), "feature")
		if s.scale != 1 {
			one.About += fmt.Sprintf(", each at most %g times as far as the task lets it go", s.scale)
		}
		if changed.Set == t.Set {
			one.About = "the task's own constraints: " + one.About
			plain := *t.base
			plain.Footprint, plain.Timing, plain.Groups, plain.Scenarios = nil, nil, nil, nil
			plain.Warnings = slices.Clone(plain.Warnings)
			one.Result = &plain
			return one, nil
		}
	case mixStress, outcomeStress:
		in, out, err := s.divide(t.People)
		if err != nil {
			return one, err
		}
		name := "the unfavourable outcome"
		if s.kind == mixStress {
			name = s.feature + "=" + s.value
		}
		if one.Result, one.About, err = t.draw(in, out, s.share, name); err != nil {
			return one, err
		}
		if n := t.People.N - len(in) - len(out); n > 0 {
			one.About += fmt.Sprintf(" (%d have no known outcome and are left out)", n)
		}
		return one, nil
	}
	o := t.o
	if o.Progress != nil {
		o.Progress = func(e Event) {
			e.Stage = s.Spec + ": " + e.Stage
			t.o.Progress(e)
		}
	}
	one.Result, err = Compare(ctx, t.f, t.g, &changed, o)
	return one, err
}

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
}

//go:embed stress.txt
var stressForms string

// StressForms returns the table of all forms, for help and documentation.
func StressForms() (all []StressForm) {
	for line := range strings.Lines(stressForms) {
		form, doc, _ := strings.Cut(strings.TrimSpace(line), "\t")
		all = append(all, StressForm{form, doc})
	}
	return all
}

// ParseStress reads one of the forms of StressForms.
func ParseStress(spec string) (Stress, error) {
	s := Stress{Spec: strings.TrimSpace(spec)}
	word, rest, more := strings.Cut(s.Spec, ":")
	rest = strings.TrimSpace(rest)
	var err error
	switch word {
	case "noise":
		s.kind = noiseStress
		s.size, err = number(rest, func(v float64) bool { return v > 0 },
			"the size of the noise is a number above 0, in standard deviations: noise:%g", presetNoise)
	case "mix":
		err = s.readMix(rest)
	case "outcome":
		s.kind = outcomeStress
		s.share, err = number(rest, isShare,
			"the share of people with the unfavourable outcome is a number from 0 to 1: outcome:0.8")
	case "sparsity", "bounds":
		err = s.readLimits()
	case "shifts", "tightness":
		if s.kind = shiftStresses; word == "tightness" {
			s.kind = tightnessStresses
		}
		if more {
			err = fmt.Errorf("%s takes no number", word)
		}
	default:
		var forms, known []string
		for _, f := range StressForms() {
			word, _, _ := strings.Cut(f.Form, ":")
			forms, known = append(forms, f.Form), append(known, word)
		}
		if message.Nearest(word, known) != "" {
			forms = known
		}
		return s, fmt.Errorf("%q is no condition to evaluate under%s", s.Spec, message.DidYouMean(word, forms))
	}
	if err != nil {
		return Stress{}, fmt.Errorf("%q: %w", s.Spec, err)
	}
	return s, nil
}

// number reads one that fits; otherwise the error has the text.
func number(text string, fits func(v float64) bool, format string, a ...any) (float64, error) {
	v, ok := task.Number(text)
	if !ok || !fits(v) {
		return 0, fmt.Errorf(format, a...)
	}
	return v, nil
}

func isShare(v float64) bool { return v >= 0 && v <= 1 }

func (s *Stress) readMix(rest string) (err error) {
	group, share := rest, ""
	if at := strings.LastIndexByte(rest, ':'); at >= 0 {
		group, share = rest[:at], rest[at+1:]
	}
	feature, value, _ := strings.Cut(group, "=")
	if feature == "" || value == "" {
		return errors.New("a group is a feature and a value, before its share: mix:sex=Female:0.5")
	}
	s.kind, s.feature, s.value = mixStress, strings.TrimSpace(feature), strings.TrimSpace(value)
	s.share, err = number(strings.TrimSpace(share), isShare,
		"the share of %s among all people is a number from 0 to 1, behind a colon: mix:%s:0.5", group, group)
	return err
}

func (s *Stress) readLimits() (err error) {
	s.kind, s.scale = limitStress, 1
	given := map[string]bool{}
	for part := range strings.SplitSeq(s.Spec, ",") {
		word, rest, _ := strings.Cut(strings.TrimSpace(part), ":")
		rest = strings.TrimSpace(rest)
		if given[word] {
			return fmt.Errorf("%s stands there twice", word)
		}
		given[word] = true
		switch word {
		case "sparsity":
			if s.features, err = strconv.Atoi(rest); err != nil || s.features < 1 {
				return errors.New("the number of features is a whole number of 1 or more: sparsity:2")
			}
		case "bounds":
			if s.scale, err = number(rest, func(v float64) bool { return v > 0 },
				"the factor on how far features may go is a number above 0: bounds:0.5"); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%q does not belong there: only sparsity:K and bounds:G are joined by a comma", part)
		}
	}
	return nil
}

const presetNoise = 0.25

func (t *stressRun) parts(s *Stress) (specs, notes []string) {
	switch s.kind {
	case tightnessStresses:
		// Half and twice the task's own budget: the 2, 4 and 8 features of the paper, when the task has its 4.
		budget := t.Set.Budget()
		return []string{
			fmt.Sprintf("sparsity:%d,bounds:0.5", max(1, budget/2)), "bounds:1", fmt.Sprintf("sparsity:%d,bounds:1.5", 2*budget),
		}, nil
	case shiftStresses:
		if t.Set.Task().Latent == nil {
			specs = []string{fmt.Sprintf("noise:%g", presetNoise)}
		} else {
			notes = []string{s.Spec + ": noise is left out: " + noNoise}
		}
		for i := range t.People.Subgroups {
			if mix := t.smallest(&t.People.Subgroups[i]); mix != "" {
				specs = append(specs, mix)
			} else {
				notes = append(notes, fmt.Sprintf("%s: no group of %s has %d promises or more and people outside it: its mix is "+
					"left out", s.Spec, t.People.Subgroups[i].Feature, minPeople))
			}
		}
		unfavourable, favourable, err := withOutcome(t.People)
		if err != nil {
			return specs, append(notes, fmt.Sprintf("%s: %v: that shift is left out", s.Spec, err))
		}
		return append(specs, fmt.Sprintf("outcome:%g", doubled(len(unfavourable), len(favourable)))), notes
	}
	return []string{s.Spec}, nil
}

func (t *stressRun) smallest(s *task.Subgroup) string {
	people, promises := make([]int, len(s.Values)), make([]int, len(s.Values))
	at := t.base.Headline()
	for i, r := range t.all {
		if code := s.Codes[i]; code >= 0 {
			people[code]++
			promises[code] += count(r.Evaluated && r.Steps[at].Full.Exists())
		}
	}
	best := -1
	for code, n := range people {
		if promises[code] >= minPeople && n < t.People.N && (best < 0 || n < people[best]) {
			best = code
		}
	}
	if best < 0 {
		return ""
	}
	return fmt.Sprintf("mix:%s=%s:%g", s.Feature, s.Values[best], doubled(people[best], t.People.N-people[best]))
}

// divide returns the positions of the people who become a share of all, and of the others: by their known outcome, or
// those in the group of a mix and all others, also those without a value.
func (s *Stress) divide(people *task.People) (in, out []int, err error) {
	if s.kind == outcomeStress {
		return withOutcome(people)
	}
	feature, value := s.feature, s.value
	for _, g := range people.Subgroups { // the name, too, may hold the sign between the two
		if v, ok := strings.CutPrefix(s.feature+"="+s.value, g.Feature+"="); ok && slices.Contains(g.Values, v) {
			feature, value = g.Feature, v
		}
	}
	at := subgroup(people.Subgroups, feature)
	if at < 0 {
		return nil, nil, unknownGroups(people.Subgroups, feature)
	}
	g := &people.Subgroups[at]
	code := slices.Index(g.Values, value)
	if code < 0 {
		return nil, nil, fmt.Errorf("%q is no value of %s%s", value, feature, message.DidYouMean(value, g.Values))
	}
	for i, c := range g.Codes {
		if int(c) == code {
			in = append(in, i)
		} else {
			out = append(out, i)
		}
	}
	if len(in) == 0 && s.share > 0 {
		return nil, nil, fmt.Errorf("no person in the data has %s=%s", s.feature, s.value)
	}
	return in, out, nil
}

func withOutcome(people *task.People) (unfavourable, favourable []int, err error) {
	for i, l := range people.Labels {
		switch l {
		case 0:
			unfavourable = append(unfavourable, i)
		case 1:
			favourable = append(favourable, i)
		}
	}
	if len(unfavourable)+len(favourable) == 0 {
		return nil, nil, errors.New("no outcome is known")
	}
	return unfavourable, favourable, nil
}

// composition returns how many of a and how many of b people to take so that the first are a share of all, to
// the nearest person, and no more could be taken.
func composition(a, b int, share float64) (fromA, fromB int) {
	for n := a + b; n > 0; n-- {
		fromA = int(math.Round(share * float64(n)))
		if fromA <= a && n-fromA <= b {
			return fromA, n - fromA
		}
	}
	return 0, 0
}

// draw summarises the largest part of the people in which those at positions in are a share and the others are
// out. Who is drawn depends on the seed; more of the same are always a superset.
func (t *stressRun) draw(in, out []int, share float64, name string) (*Result, string, error) {
	a, b := composition(len(in), len(out), share)
	rng := rand.New(rand.NewPCG(t.o.Seed, 0xd7a3))
	var rows []int
	for _, side := range []struct {
		from []int
		take int
	}{{in, a}, {out, b}} {
		all := slices.Clone(side.from)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		rows = append(rows, all[:side.take]...)
	}
	slices.Sort(rows)
	records := NewRecords(t.base.Settings.Margins, nil)
	for _, row := range rows {
		if err := records.Add(t.all[row]); err != nil {
			return nil, "", err
		}
	}
	all := len(in) + len(out)
	about := fmt.Sprintf("people with %s are %s in place of %s: %d of %d are drawn", name, percent(a, a+b),
		percent(len(in), all), a+b, all)
	r, err := Summarize(records, t.base.Settings, DataFile{})
	return r, about, err
}

func percent(k, n int) string {
	if n == 0 {
		return "0 %"
	}
	return strconv.FormatFloat(100*float64(k)/float64(n), 'g', 3, 64) + " %"
}

func doubled(a, b int) float64 {
	share := 2 * float64(a) / float64(2*a+b)
	return math.Round(share*1e4) / 1e4
}
