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

	"cfq/internal/lists"
	"cfq/internal/message"
	"cfq/recourse"
	"cfq/task"
)

// Scenario is the evaluation under other conditions than those of the data and the task, or with another rule of who
// counts as a person.
type Scenario struct {
	Name   string  `json:"name"`   // Stress.Spec, of a preset that of each of its parts; or the rule
	About  string  `json:"about"`  // what was done, in one sentence
	Result *Result `json:"result"` // every metric; nothing about files and time, no groups or scenarios of its own
}

// Stress is other conditions to evaluate under, or several of them, as ParseStress reads them.
type Stress struct {
	Spec string // as it is written

	kind     string  // its first word
	noise    float64 // in standard deviations
	features int     // the sparsity budget, 0 for the task's
	scale    float64 // of how far features may go
	group    string  // who is drawn to a share of all: FEATURE=VALUE, or the unfavourable outcome
	share    float64
}

// divides says that others of the same people are drawn; else recourse is solved again for other people or constraints.
func (s *Stress) divides() bool { return s.kind == "mix" || s.kind == "outcome" }

type stressRun struct {
	f, g recourse.Model
	*Batch
	o    Options
	base *Result
	all  []*Record // of base, by person
}

const noNoise = "people with noise in their codes would be judged as decoded images, and not as they are"

// Check returns the error that [Result.Stress] would return because people have not what s needs, or promises were
// issued to them. Without people, nil, it looks at the rest.
func (s *Stress) Check(t *task.Task, people *task.People, issued bool) error {
	if s.divides() && people != nil {
		if _, _, err := s.divide(people); err != nil {
			return fmt.Errorf("%s: %w", s.Spec, err)
		}
	}
	if t.Latent != nil && s.noise > 0 {
		return fmt.Errorf("%s: %s", s.Spec, noNoise)
	}
	if issued && !s.divides() {
		return fmt.Errorf("%s: recourse is computed anew under these conditions, and the promises are given: leave "+
			"out one of the two", s.Spec)
	}
	return nil
}

// Stress evaluates under each of the conditions in list, and adds the scenarios to r, which is the result for the same
// models, people and options. Presets become several scenarios; what occurs twice is evaluated once. What is left out
// of a preset is a warning of r. Scenarios depend on the inputs and the seed only.
func (r *Result) Stress(ctx context.Context, f, g recourse.Model, b *Batch, list []Stress, o Options) error {
	if n := r.Records.Len(); n != b.People.N {
		return fmt.Errorf("eval: the result has records of %d people, and there are %d", n, b.People.N)
	}
	errs := lists.Map(list, func(s Stress) error { return s.Check(b.Set.Task(), b.People, b.Promises != nil) })
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
		specs, notes := []string{s.Spec}, []string(nil)
		switch s.kind {
		case "shifts":
			specs, notes = t.shifts()
		case "tightness":
			// Half and twice the task's own budget: the 2, 4 and 8 features of the paper, when the task has its 4.
			budget := t.Set.Budget()
			specs = []string{
				fmt.Sprintf("sparsity:%d,bounds:0.5", max(1, budget/2)), "bounds:1",
				fmt.Sprintf("sparsity:%d,bounds:1.5", 2*budget),
			}
		}
		for _, note := range notes {
			if !slices.Contains(r.Warnings, note) {
				r.Warnings = append(r.Warnings, note)
			}
		}
		for _, spec := range specs {
			if slices.ContainsFunc(r.Scenarios, func(o Scenario) bool { return o.Name == spec }) {
				continue
			}
			one := Scenario{Name: spec}
			p, err := ParseStress(spec)
			if err == nil {
				one.Result, one.About, err = t.run(ctx, &p)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", spec, err)
			}
			r.Scenarios = append(r.Scenarios, one)
		}
	}
	return nil
}

func (t *stressRun) run(ctx context.Context, s *Stress) (_ *Result, about string, err error) {
	if s.divides() {
		return t.draw(s)
	}
	b := *t.Batch
	if about, err = s.change(&b, t.o.Seed); err != nil {
		return nil, "", err
	}
	if b.People == t.People && b.Set == t.Set {
		plain := *t.base
		plain.Added = Added{}
		plain.Warnings = slices.Clone(plain.Warnings)
		return &plain, "the task's own constraints: " + about, nil
	}
	o := t.o
	if o.Progress != nil {
		o.Progress = func(e Event) {
			e.Stage = s.Spec + ": " + e.Stage
			t.o.Progress(e)
		}
	}
	r, err := Compare(ctx, t.f, t.g, &b, o)
	return r, about, err
}

//go:embed stress.txt
var stressForms string

// StressForms returns the table of all forms, as noise:S, and what each means, for help and documentation.
func StressForms() (all [][]string) {
	for line := range strings.Lines(stressForms) {
		all = append(all, strings.Split(strings.TrimSpace(line), "\t"))
	}
	return all
}

// ParseStress reads one of the forms of StressForms.
func ParseStress(spec string) (s Stress, err error) {
	s = Stress{Spec: strings.TrimSpace(spec), scale: 1}
	kind, rest, more := strings.Cut(s.Spec, ":")
	s.kind, rest = kind, strings.TrimSpace(rest)
	switch kind {
	case "noise":
		s.noise, err = number(rest, aboveZero, math.MaxFloat64,
			"the size of the noise is a number above 0, in standard deviations: noise:%g", presetNoise)
	case "mix": // the others are also those without a value
		group, given := rest, ""
		if at := strings.LastIndexByte(rest, ':'); at >= 0 {
			group, given = rest[:at], rest[at+1:]
		}
		feature, value, _ := strings.Cut(group, "=")
		if feature == "" || value == "" {
			err = errors.New("a group is a feature and a value, before its share: mix:sex=Female:0.5")
			break
		}
		s.group = strings.TrimSpace(feature) + "=" + strings.TrimSpace(value)
		s.share, err = number(strings.TrimSpace(given), 0, 1,
			"the share of %s among all people is a number from 0 to 1, behind a colon: mix:%s:0.5", group, group)
	case "outcome":
		s.group = "the unfavourable outcome"
		s.share, err = number(rest, 0, 1,
			"the share of people with the unfavourable outcome is a number from 0 to 1: outcome:0.8")
	case "sparsity", "bounds":
		err = s.parseLimits()
	case "shifts", "tightness":
		if more {
			err = fmt.Errorf("%s takes no number", kind)
		}
	default:
		var forms, known []string
		for _, f := range StressForms() {
			word, _, _ := strings.Cut(f[0], ":")
			forms, known = append(forms, f[0]), append(known, word)
		}
		if message.Nearest(kind, known) != "" {
			forms = known
		}
		return s, fmt.Errorf("%q is no condition to evaluate under%s", s.Spec, message.DidYouMean(kind, forms))
	}
	if err != nil {
		return Stress{}, fmt.Errorf("%q: %w", s.Spec, err)
	}
	return s, nil
}

// number reads one from least to most; otherwise the error has the text.
func number(text string, least, most float64, format string, a ...any) (float64, error) {
	v, ok := task.Number(text)
	if !ok || v < least || v > most {
		return 0, fmt.Errorf(format, a...)
	}
	return v, nil
}

const aboveZero = math.SmallestNonzeroFloat64

const presetNoise = 0.25

func (s *Stress) parseLimits() (err error) {
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
			if s.scale, err = number(rest, aboveZero, math.MaxFloat64,
				"the factor on how far features may go is a number above 0: bounds:0.5"); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%q does not belong there: only sparsity:K and bounds:G are joined by a comma", part)
		}
	}
	return nil
}

// change makes other people or constraints of a batch, and says what it did.
func (s *Stress) change(b *Batch, seed uint64) (about string, err error) {
	if s.noise > 0 {
		noisy := *b.People
		noisy.X = b.Set.Jitter(noisy.X, s.noise, seed^0x6e015e)
		b.People = &noisy
		return fmt.Sprintf("the numbers that people can change have noise of %g standard deviations", s.noise), nil
	}
	if b.Set, err = b.Set.Tighten(s.features, s.scale); err != nil {
		return "", err
	}
	about = "an action changes at most " + message.Count(b.Set.Budget(), "feature")
	if s.scale != 1 {
		about += fmt.Sprintf(", each at most %g times as far as the task lets it go", s.scale)
	}
	return about, nil
}

// divide returns the positions of the people of the group, and those of the others: of both some are drawn.
func (s *Stress) divide(people *task.People) (in, out []int, err error) {
	if s.kind == "outcome" {
		in = lists.Where(len(people.Labels), func(i int) bool { return people.Labels[i] == 0 })
		out = lists.Where(len(people.Labels), func(i int) bool { return people.Labels[i] == 1 })
		if len(in)+len(out) == 0 {
			err = errors.New("no outcome is known")
		}
		return in, out, err
	}
	feature, value, _ := strings.Cut(s.group, "=")
	for _, g := range people.Subgroups { // the name, too, may hold the sign between the two
		if v, ok := strings.CutPrefix(s.group, g.Feature+"="); ok && slices.Contains(g.Values, v) {
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
	in = lists.Where(len(g.Codes), func(i int) bool { return int(g.Codes[i]) == code })
	out = lists.Where(len(g.Codes), func(i int) bool { return int(g.Codes[i]) != code })
	if len(in) == 0 && s.share > 0 {
		err = fmt.Errorf("no person in the data has %s", s.group)
	}
	return in, out, err
}

func (t *stressRun) shifts() (specs, notes []string) {
	if t.Set.Task().Latent == nil {
		specs = []string{fmt.Sprintf("noise:%g", presetNoise)}
	} else {
		notes = []string{"shifts: noise is left out: " + noNoise}
	}
	for i := range t.People.Subgroups {
		if mix := t.smallest(&t.People.Subgroups[i]); mix != "" {
			specs = append(specs, mix)
		} else {
			notes = append(notes, fmt.Sprintf("shifts: no group of %s has %d promises or more and people outside it: its mix "+
				"is left out", t.People.Subgroups[i].Feature, minPeople))
		}
	}
	in, out, err := (&Stress{kind: "outcome"}).divide(t.People)
	if err != nil {
		return specs, append(notes, fmt.Sprintf("shifts: %v: that shift is left out", err))
	}
	return append(specs, fmt.Sprintf("outcome:%g", doubled(len(in), len(out)))), notes
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

// draw summarises the largest part of the people in which those who are in are their share. Who is drawn depends on the
// seed; more of the same are always a superset.
func (t *stressRun) draw(s *Stress) (*Result, string, error) {
	in, out, err := s.divide(t.People)
	if err != nil {
		return nil, "", err
	}
	a, b := composition(len(in), len(out), s.share)
	rng := rand.New(rand.NewPCG(t.o.Seed, 0xd7a3))
	drawn := func(from []int, n int) []int {
		from = slices.Clone(from)
		rng.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		return from[:n]
	}
	rows := append(drawn(in, a), drawn(out, b)...)
	slices.Sort(rows)
	records := NewRecords(t.base.Settings.Margins, nil)
	for _, row := range rows {
		if err := records.Add(t.all[row]); err != nil {
			return nil, "", err
		}
	}
	all := len(in) + len(out)
	about := fmt.Sprintf("people with %s are %s in place of %s: %d of %d are drawn", s.group, percent(a, a+b),
		percent(len(in), all), a+b, all)
	if n := t.People.N - all; n > 0 {
		about += fmt.Sprintf(" (%d have no known outcome and are left out)", n)
	}
	r, err := Summarize(records, t.base.Settings, DataFile{}, nil)
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
