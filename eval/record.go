package eval

import (
	"cmp"
	"slices"

	"cfq/recourse"
)

// Record is everything that was measured about one person. All metrics are sums over records, so a slice of them (one
// subgroup, one bootstrap draw) has metrics of its own: see Summarize.
type Record struct {
	Person int `json:"-"`    // number of the record, see [Records.All]; position in the People that Compare was given
	Row    int `json:"row"`  // of the data, as task.ReadOptions counts: from 0
	Line   int `json:"line"` // line of the data file, 0 when not known, as in Parquet files
	// ID is that of the person, "" when every record is a person of its own: those with the same one count once.
	ID        string `json:"id,omitempty"`
	Label     int8   `json:"label"` // 1 favourable, 0 not, -1 not known
	Full      Float  `json:"full"`  // margin of f at the factual point
	Quant     Float  `json:"quant"` // margin of g at the factual point
	Evaluated bool   `json:"evaluated"`
	// Issued is the promise that the person was issued, also when it reaches no required margin; nil without
	// Options.Promises. Its margins are known when the person is evaluated.
	Issued *Promise `json:"issued,omitempty"`
	// one per required margin, in the order of Settings.Margins; nil unless Evaluated
	Steps   []Step  `json:"steps,omitempty"`
	First   Promise `json:"pgd_first"` // f's first valid PGD iterate; meaningful only when Evaluated
	RowData `json:"-"`
}

// RowData is what the data say about a person.
type RowData struct {
	// Hash is equal for rows that are, see [task.Equality]; 0 when it is not known. Of a record that is added it may be
	// that of what the task reads, with Others for the other columns.
	Hash       uint64
	Others     []uint64
	Calibrated bool      // the row is equal to one that g was calibrated on
	X          []float32 // model inputs as they are
	Groups     []string  // value of each attribute that tells groups apart, "" without one
}

// Step is one person's recourse under both models at one required margin.
type Step struct {
	Full    Promise `json:"full"`        // f's recourse; Other is g's margin there
	Quant   Promise `json:"quant"`       // g's recourse; Other is f's margin there
	DirSim  Float   `json:"dir_sim"`     // cosine of the two actions; undefined unless both were found
	Overlap Float   `json:"act_overlap"` // Jaccard overlap of the changed inputs; undefined unless both were found
	// Pixels is how far f's recourse point is from the person in the model's inputs, where recourse is found in a latent
	// space; else 0.
	Pixels Float `json:"pixel_distance,omitempty"`
	// What is known of the neighbourhood of f's recourse point; nil unless it was asked for.
	Proof     *Proof  `json:"proof,omitempty"`
	Perturbed []Float `json:"perturbation,omitempty"` // logit perturbation by each of Perturbations
}

func (s *Step) promise(quant bool) *Promise {
	if quant {
		return &s.Quant
	}
	return &s.Full
}

// free says that g gives the person the required margin as they are, at no cost.
func (s *Step) free() bool { return s.Quant.Status == recourse.AlreadyFavourable }

// common says that both models have a price for the person, which CRG compares.
func (s *Step) common() bool { return s.Full.Exists() && (s.Quant.Exists() || s.free()) }

func (s *Step) bothExist() bool { return s.Full.Exists() && s.Quant.Exists() }

// Promise is a recourse that one model gives to one person. Cost is in the task's cost units and both margins are logit
// margins at the recourse point x+delta; they are undefined unless Status is recourse.Found, except that a person who
// has the required margin already has cost 0.
type Promise struct {
	Status recourse.Status `json:"status"`
	Cost   Float           `json:"cost"`
	Own    Float           `json:"own"`   // margin under the model that gives the promise
	Other  Float           `json:"other"` // margin under the other model
	// Violation is why the task does not allow the action; "" when it does.
	Violation string `json:"violation,omitempty"`
	// Point is the recourse point in model inputs, nil unless the promise exists.
	Point []float32 `json:"-"`
}

func none(why recourse.Status) Promise {
	return Promise{Status: why, Cost: undefined(), Own: undefined(), Other: undefined()}
}

// Exists reports whether there is an action that the person was told to take.
func (p *Promise) Exists() bool { return p != nil && p.Status == recourse.Found }

// Broken reports whether the other model refuses the person who took the action.
func (p *Promise) Broken() bool { return p.Exists() && !approves(p.Other) }

// approves is the tie rule: a margin of exactly zero is a refusal.
func approves(margin Float) bool { return margin > 0 }

func (r *Record) eligible() bool { return !approves(r.Full) || r.Issued.Exists() }

// reverse reports whether the record counts for the mirrored metrics: both must refuse
// the person, or there is nothing that g would tell them to change.
func (r *Record) reverse() bool { return r.Evaluated && !approves(r.Full) && !approves(r.Quant) }

// mirrored says that g was asked what it can promise to the person.
func (r *Record) mirrored(s *Settings) bool { return r.reverse() && !s.OneSided }

// reaches says whether the model that gives the promise approves by the required margin. The comparison is
// the solver's.
func (p *Promise) reaches(t float64) bool { return approves(p.Own) && float32(p.Own) >= float32(t) }

func (p *Promise) same(o *Promise) bool { return o.Exists() && p.Own == o.Own && p.Cost == o.Cost }

func (p *Promise) compare(o *Promise) int {
	return cmp.Or(cmp.Compare(p.Status, o.Status), cmp.Compare(p.Cost, o.Cost), cmp.Compare(p.Own, o.Own),
		cmp.Compare(p.Other, o.Other))
}

func (r *Record) promise(at int, s *Settings, quant bool) *Promise {
	p := r.Steps[at].promise(quant)
	if !r.Evaluated || !p.Exists() || quant && !r.mirrored(s) {
		return nil
	}
	return p
}

// compare orders records by what they say; those that are equal can stand for each other.
func (r *Record) compare(o *Record) int {
	c := cmp.Or(cmp.Compare(r.Full, o.Full), cmp.Compare(r.Quant, o.Quant), cmp.Compare(len(r.Steps), len(o.Steps)))
	for i := 0; c == 0 && i < len(r.Steps); i++ {
		s, t := &r.Steps[i], &o.Steps[i]
		c = cmp.Or(s.Full.compare(&t.Full), s.Quant.compare(&t.Quant), cmp.Compare(s.DirSim, t.DirSim),
			cmp.Compare(s.Overlap, t.Overlap))
	}
	return cmp.Or(c, cmp.Compare(r.Label, o.Label), slices.Compare(r.X, o.X))
}

func (r *Record) correct(margin Float) bool { return approves(margin) == (r.Label == 1) }
