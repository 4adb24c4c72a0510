package eval

import (
	"cmp"
	_ "embed" // the warnings
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"cfq/eval/metrics"
	"cfq/internal/extsort"
	"cfq/internal/message"
)

// Summarize computes every metric of a Result from records, which hold one Step for each of the margins if they are
// evaluated. It depends on its arguments alone, and not on the order of the records: they may be some of those of
// Judge, or those of several machines. It fails when they were not made with the settings. The groups
// are told apart by `by`, nil for none. Others who look at the records do so meanwhile. Close frees the records when
// they are not wanted any more.
func Summarize(records *Records, s Settings, file DataFile, by *GroupBy, others ...Visitor) (*Result, error) {
	points := bottomK[judgedPoint]{most: batchPoints, once: true}
	judged, copies := &judgedSample{seed: s.Seed, facts: points, ends: points}, newCopies(records)
	defer copies.rows.Close() //nolint:errcheck // nothing in it is wanted any more
	r, err := metricsOf(records, s, file, by, append(others, judged.visit, copies.visit)...)
	if err != nil {
		return nil, err
	}
	records.judged = judged
	records.copies, err = copies.count()
	return r, err
}

func metricsOf(records *Records, s Settings, file DataFile, by *GroupBy, others ...Visitor) (*Result, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	if m := len(records.layout.Margins); m != len(s.Margins) && records.Len() > 0 {
		return nil, fmt.Errorf("eval: records of %d required margins, and %d in the settings", m, len(s.Margins))
	}
	l := newLists(records.limits)
	defer l.spilled.Close() //nolint:errcheck // nothing in it is wanted any more
	groups, err := newGroupSums(records, &s, by)
	if err != nil {
		return nil, err
	}
	defer groups.lists.spilled.Close() //nolint:errcheck // likewise
	y := newResultAccumulator(&s, l)
	own := func(_ []*Record, persons [][]*Record) error {
		for _, of := range persons {
			y.add(of)
		}
		return nil
	}
	if err := records.Visit(append([]Visitor{own, groups.visit}, others...)...); err != nil {
		return nil, err
	}
	if y.notDrawn < y.drawn {
		return nil, ErrSamples
	}
	r := y.result(file)
	r.Records = records
	for i := range groups.all {
		r.Groups = append(r.Groups, groups.all[i].grouping(s.Margins, groups.min))
	}
	return r, cmp.Or(l.err, groups.lists.err)
}

// ErrSamples reports records that were sampled part by part: those of a small part would count too much.
var ErrSamples = errors.New("eval: the records are of several samples of the people")

// Check reports settings without margins or a confidence.
func (s *Settings) Check() error {
	switch {
	case len(s.Margins) == 0:
		return errors.New("no required margins in the settings")
	case !(s.Confidence > 0 && s.Confidence < 1):
		return fmt.Errorf("invalid confidence %v: want more than 0 and less than 1", s.Confidence)
	}
	return nil
}

func (y *resultAccumulator) result(file DataFile) *Result {
	s := *y.s
	r := &Result{Settings: s, Population: y.people, Margins: make([]AtMargin, len(s.Margins))}
	p := &r.Population
	p.DataFile = file
	p.Rows, p.Refused = max(p.Rows, p.Read), p.Read-p.Favoured
	p.UnreadableRows = NewTally(p.Unreadable, p.Unreadable+y.rows.all)
	p.UnlabelledRows = NewTally(y.rows.all-y.rows.labelled, y.rows.all)
	r.Values, _ = y.once.values(s.Confidence)
	for i := range r.Margins {
		m := &r.Margins[i]
		m.Margin = s.Margins[i]
		m.Values, m.Steps = y.margins[i].values(s.Confidence)
	}
	r.Tau01, r.RTau01 = y.tau01(ofFull), y.tau01(ofQuant)
	if s.Issued {
		n := y.issued
		n.Unjudgeable = NewTally(file.Unmatched, file.Unmatched+n.Unsampled+n.Promises)
		n.Invalid, n.Infeasible = NewTally(n.Invalid.Num, n.Promises), NewTally(n.Infeasible.Num, n.Promises)
		n.Approved, n.Needless = NewTally(n.Approved.Num, n.Approved.Den), NewTally(n.Needless.Num, n.Promises)
		r.Issued = &n
	}
	r.Warnings = y.warnings(r)
	return r
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// minPeople is how many people, or promises, a statistic needs: of fewer it is doubtful.
const minPeople = 30

// MuchUnreadable is the share of unreadable rows above which an evaluation has a warning, and a gate no verdict.
const MuchUnreadable = 0.01

// shortfall is how far, in logits, a recourse point's margin may lie below the required one before it is worth a
// warning: more than the rounding that another batch size brings.
const shortfall = 1e-3

// rounding is by how much, in logits, the margins of equal inputs may differ in two batches.
const rounding = 1e-5

//go:embed warnings.txt
var warningTexts string

//nolint:gochecknoglobals // constant
var warningTemplates = sync.OnceValue(func() *message.Templates {
	return message.NewTemplates(warningTexts, template.FuncMap{
		"few":            func(n int) bool { return n < minPeople },
		"above":          func(k, n int, share float64) bool { return float64(k) > share*float64(n) },
		"muchUnreadable": func() float64 { return MuchUnreadable },
		"shortfall":      func() float64 { return shortfall },
	})
})

func (y *resultAccumulator) warnings(r *Result) []string {
	type tau struct {
		Name string
		Tau
	}
	return warningTemplates().Lines("warnings", struct {
		*Result
		Doubts *doubtful
		Taus   []tau
	}{r, &y.doubts, []tau{{metrics.Must("tau01").Symbol, r.Tau01}, {metrics.Must("rtau01").Symbol, r.RTau01}}})
}

// resultAccumulator adds up what a Result says of some of the people: counts, exact sums, and lists for order
// statistics. So a Result does not depend on the order of the people, and memory does not grow with their number.
type resultAccumulator struct {
	s     *Settings
	lists *numberLists

	once     accumulators     // of the metrics that have no margin
	margins  []accumulators   // of the others, by required margin
	promises [2][]promiseSums // of f and of g, by tauMargins
	people   Population
	rows     struct{ all, labelled int } // of the data: several promises may be about one
	issued   Issued
	doubts   doubtful
	// The largest priority of those in a sample, and the smallest of the others who could be in it: in one sample of all
	// people, the first is not above the second.
	drawn, notDrawn uint64
}

// The models, as they stand in resultAccumulator.promises.
const (
	ofFull = iota
	ofQuant
)

type doubtful struct {
	Evaluated, Free int    // people
	Violation       string // of a promise that was issued
	Full, Quant     solverDoubts
}

type solverDoubts struct {
	Name         string // of the model
	Short, Unfit int    // points
	Violation    string
}

func newResultAccumulator(s *Settings, l *numberLists) *resultAccumulator {
	y := &resultAccumulator{s: s, lists: l, once: newAccumulators(false, l), notDrawn: math.MaxUint64}
	y.doubts.Full.Name, y.doubts.Quant.Name = "the original", quantizedModel
	for range s.Margins {
		y.margins = append(y.margins, newAccumulators(true, l))
	}
	for model := range y.promises {
		margins, issued := s.tauMargins(model == ofQuant)
		for range margins {
			y.promises[model] = append(y.promises[model], promiseSums{issued: issued, held: l.list(), broken: l.list()})
		}
	}
	return y
}

func (y *resultAccumulator) add(of []*Record) {
	y.count(of)
	p := &personRecords{of, y.s}
	y.once.add(p, -1)
	for at := range y.s.Margins {
		y.margins[at].add(p, at)
	}
	for model := range y.promises {
		for at := range y.promises[model] {
			if p := worstPromise(of, at, y.s, model == ofQuant); p != nil {
				y.promises[model][at].add(p, y.s.Margins[at])
			}
		}
	}
}

func worstPromise(of []*Record, at int, s *Settings, quant bool) (p *Promise) {
	for _, r := range of {
		if at < len(r.Steps) {
			if q := r.promise(at, s, quant); q != nil && (p == nil || q.Other < p.Other) {
				p = q
			}
		}
	}
	return p
}

func (y *resultAccumulator) count(of []*Record) {
	p := &y.people
	p.Read += len(of)
	p.People++
	rows := map[[2]uint64]bool{} // with promises
	var evaluated, free bool
	for _, r := range of {
		p.Labelled += count(r.Label >= 0)
		p.Favoured += count(approves(r.Full))
		p.Evaluated += count(r.Evaluated)
		p.BothRefuse += count(r.reverse())
		row := [2]uint64{uint64(r.Row), r.Hash}
		if r.Issued == nil || !rows[row] { // or it is listed once more, for another promise
			if r.Issued != nil {
				rows[row] = true
			}
			y.rows.all++
			y.rows.labelled += count(r.Label >= 0)
		}
		evaluated = evaluated || r.Evaluated
		free = free || r.Evaluated && approves(r.Quant)
		switch {
		case y.s.Sample == 0:
		case r.Evaluated:
			y.drawn = max(y.drawn, priority(y.s.Seed, r.X))
		case r.eligible():
			y.notDrawn = min(y.notDrawn, priority(y.s.Seed, r.X))
		}
		y.countIssued(r)
		if r.Evaluated {
			y.doubts.Full.check(&r.First, nil, 0)
			var before Step
			for i, t := range y.s.Margins {
				y.doubts.Full.check(&r.Steps[i].Full, &before.Full, t)
				y.doubts.Quant.check(&r.Steps[i].Quant, &before.Quant, t)
				before = r.Steps[i]
			}
		}
	}
	y.doubts.Evaluated += count(evaluated)
	y.doubts.Free += count(free)
}

func (y *resultAccumulator) countIssued(r *Record) {
	n := &y.issued
	switch {
	case r.Issued == nil:
	case !r.Evaluated:
		n.Unsampled++
	default:
		n.Promises++
		n.Invalid.Num += count(!approves(r.Issued.Own))
		n.Infeasible.Num += count(r.Issued.Violation != "")
		if approves(r.Full) && approves(r.Issued.Own) {
			n.Approved.Den++
			n.Approved.Num += count(r.Issued.Broken())
			n.Needless.Num += count(r.Issued.Own <= r.Full+rounding)
		}
		y.doubts.Violation = first(y.doubts.Violation, r.Issued.Violation)
	}
}

// first is the one of two texts that stands first in a list, of those that are not empty.
func first(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// check looks at a point for a margin. One that is good for several margins is checked at the smallest.
func (d *solverDoubts) check(p, before *Promise, margin float64) {
	if p.Exists() && !p.same(before) {
		d.Short += count(float64(p.Own) < margin-shortfall)
		d.Unfit += count(p.Violation != "")
		d.Violation = first(d.Violation, p.Violation)
	}
}

// CalibrationGroup tells people apart who are equal to a calibration row, who come first, and others.
const CalibrationGroup = "calibration"

// maxCopies is the share of rows equal to an earlier one up to which they are taken for different people.
const maxCopies = 0.01

// RowID starts the ID of a row of people without IDs, for a row that stands there several times: for several promises.
// It does not say that equal rows are different people.
const RowID = "#row:"

// HasID says whether the ID is one that the data has.
func (r *Record) HasID() bool { return r.ID != "" && !strings.HasPrefix(r.ID, RowID) }

// Alternatives are the same evaluation with other rules of who counts as a person, and About says why there is a doubt.
// Where rules differ, a verdict rests on the stricter one. Rows that are equal, see [task.ReadOptions], may be copies,
// or people who do not differ: when they are more than 1 % of the rows, or of those evaluated, and nobody has an ID,
// distinct rows count once. Rows equal to one that g was calibrated on are left out. Both together are an alternative,
// too. The argument says how people are told apart in them; nil for no groups.
func (r *Result) Alternatives(by *GroupBy) (all []Scenario, err error) {
	known, copies := r.Records.Calibrated(), r.Records.copies
	add := func(name, about string, distinct, others bool) {
		v, failed := r.variant(by, distinct, others)
		all, err = append(all, Scenario{name, about, v}), errors.Join(err, failed)
	}
	equal := func(n int) string { return message.Count(n, "row") + message.Plural(n, " is", " are") + " equal to" }
	if copies > 0 {
		add("distinct rows", equal(copies)+" another (numbers of rows aside): copies, or people who do not differ",
			true, false)
	}
	if known > 0 {
		about := equal(known) + " a row that the quantized model was calibrated on"
		add("without calibration rows", about, false, true)
		if copies > 0 {
			add("distinct rows without calibration rows", about, true, true)
		}
	}
	return all, err
}

// copies finds rows that are equal to others.
type copies struct {
	rows         *extsort.Rows // of each record its hash, that of its ID, and 0 if it is evaluated
	n, evaluated int
	distinct     bool // IDs say who is who, or hashes are not known
}

func newCopies(of *Records) *copies {
	return &copies{rows: extsort.NewRows(shards(of.n), 3, of.limits.bytes)}
}

func (c *copies) visit(some []*Record, _ [][]*Record) error {
	for _, x := range some {
		if c.distinct = c.distinct || x.HasID() || x.Hash == 0; c.distinct {
			return nil
		}
		person := uint64(c.n) // a row of its own
		if x.ID != "" {
			person = textHash(x.ID)
		}
		c.n, c.evaluated = c.n+1, c.evaluated+count(x.Evaluated)
		if err := c.rows.Add(x.Hash, person, uint64(count(!x.Evaluated))); err != nil {
			return err
		}
	}
	return nil
}

// count counts the rows that are equal to an earlier one; 0 when they are few, or IDs say who is who.
func (c *copies) count() (int, error) {
	if c.distinct {
		return 0, nil
	}
	distinct := func(rows [][]uint64, by int) [][]uint64 {
		return slices.CompactFunc(slices.Clone(rows), func(a, b []uint64) bool { return slices.Equal(a[:by], b[:by]) })
	}
	var all, ofThese int
	for rows, err := range c.rows.Sorted() {
		if err != nil {
			return 0, fmt.Errorf("eval: %w", err)
		}
		rows = distinct(rows, 2)
		all += len(rows) - len(distinct(rows, 1))
		rows = slices.DeleteFunc(rows, func(r []uint64) bool { return r[2] == 1 })
		ofThese += len(rows) - len(distinct(rows, 1))
	}
	if float64(all) > maxCopies*float64(c.n) || float64(ofThese) > maxCopies*float64(c.evaluated) {
		return all, nil
	}
	return 0, nil
}

// variant is r of some of the records, or with another rule of who is one person.
func (r *Result) variant(by *GroupBy, distinct, others bool) (*Result, error) {
	view := *r.Records // which is closed with them
	view.parted = nil
	if distinct {
		view.key = func(x *Record) string { return strconv.FormatUint(x.Hash, 16) }
		view.shared = true
	}
	if others {
		view.keep = func(x *Record) bool { return !x.Calibrated }
	}
	v, err := metricsOf(&view, r.Settings, DataFile{}, by)
	if err != nil {
		return nil, err
	}
	v.Footprint, v.Timing, v.Batches = r.Footprint, r.Timing, r.Batches
	v.CopyNoise(r)
	return v, nil
}
