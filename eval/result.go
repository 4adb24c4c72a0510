package eval

import "errors"

// Issued counts the promises of Options.Promises.
type Issued struct {
	Promises  int `json:"promises"`  // to people who are evaluated
	Unsampled int `json:"unsampled"` // to people who are not in the sample
	// Unjudgeable are those of all promises that belong to nobody, see Options.Unmatched.
	Unjudgeable Tally `json:"unjudgeable"`
	Invalid     Tally `json:"invalid"`    // of Promises: f refuses the point, so they are promises at no margin
	Infeasible  Tally `json:"infeasible"` // of Promises: the task does not allow the action; they count in VD all the same
}

// Result is what Compare measured: everything in it is a function of Records, Settings and the DataFile,
// except what the caller adds: Footprint, Timing, Batches, Groups and Scenarios.
type Result struct {
	Settings   Settings   `json:"settings"`
	Population Population `json:"population"`
	Decisions  Decisions  `json:"decisions"`
	Scores     Scores     `json:"scores"`
	Margins    []AtMargin `json:"margins"` // ascending required margin
	First      First      `json:"pgd_first"`
	Tau01      Tau        `json:"tau01"`
	RTau01     Tau        `json:"rtau01"`
	Issued     *Issued    `json:"issued,omitempty"`    // counts of Options.Promises; nil when the solver made f's promises
	Footprint  *Footprint `json:"footprint,omitempty"` // nil unless the caller measured the files
	// nil unless the caller took the time: all else is the same on every run
	Timing    *Timing    `json:"timing,omitempty"`
	Batches   *Batches   `json:"batches,omitempty"`   // of Rerun; nil unless the caller ran it
	Groups    []Grouping `json:"groups,omitempty"`    // the same metrics by groups of people, see Groups
	Scenarios []Scenario `json:"scenarios,omitempty"` // the same metrics under other conditions, see Stress
	// the same metrics with other rules of who counts, see Result.Alternatives
	Others   []Alternative `json:"others,omitempty"`
	Warnings []string      `json:"warnings"` // why a number may not mean what it seems to; never nil
	Records  *Records      `json:"-"`        // what it was made of; nil when that was not kept
}

// Close frees the records of r and of its scenarios, which may be in temporary files. The numbers stay.
func (r *Result) Close() error {
	if r == nil {
		return nil
	}
	err := r.Records.Close()
	r.Records = nil
	for i := range r.Scenarios {
		err = errors.Join(err, r.Scenarios[i].Result.Close())
	}
	return err
}

// Settings are the options that a Result was made with, defaults filled in.
type Settings struct {
	Margins    []float64 `json:"margins"`
	Sample     int       `json:"sample"` // 0 = everyone refused
	Seed       uint64    `json:"seed"`
	Confidence float64   `json:"confidence"`
	Epsilon    float64   `json:"epsilon"`                   // of CRG, DirSim and ActOverlap
	SupportTau float64   `json:"support_tau"`               // of ActOverlap, in model-input units
	Issued     bool      `json:"issued_promises,omitempty"` // f's promises are Options.Promises
	// g's own recourse was not computed, so nothing mirrored is known
	OneSided bool    `json:"one_sided,omitempty"`
	Radius   float64 `json:"radius,omitempty"` // of Certified and Perturbed, in model-input units
	Solver   Solver  `json:"solver"`
}

// Solver is what the solver was asked for; 0 stands for its default.
type Solver struct {
	Steps    int    `json:"steps"`
	Restarts int    `json:"restarts"`
	Rounds   int    `json:"rounds"`
	Beam     int    `json:"beam"`
	Seed     uint64 `json:"seed"`
}

// DataFile counts rows of the file that people were read from. The zero value stands for: no more than the people.
type DataFile struct {
	Rows       int `json:"rows"`                         // data rows of the file
	Unreadable int `json:"unreadable"`                   // rows that could not be read
	LeftOut    int `json:"left_out"`                     // rows left out by the task's filter or by the choice of rows
	Filtered   int `json:"filtered,omitempty"`           // of them, by the filter
	Unmatched  int `json:"unmatched_promises,omitempty"` // issued promises that belong to none of the people
}

// Population says who was looked at and who was evaluated.
type Population struct {
	DataFile
	Read       int `json:"read"`        // people
	People     int `json:"people"`      // Read, or by how many IDs they go
	Labelled   int `json:"labelled"`    // people with a known outcome
	Favoured   int `json:"favoured"`    // people f approves: nothing to promise
	Refused    int `json:"refused"`     // people f refuses: the evaluated population
	Evaluated  int `json:"evaluated"`   // Refused and those with a promise of Options.Promises, or a sample of them
	BothRefuse int `json:"both_refuse"` // evaluated people that g refuses too: they can get a promise of g

	UnreadableRows Tally `json:"unreadable_rows"` // of the rows that were not left out
	UnlabelledRows Tally `json:"unlabelled_rows"` // of Read; of none when no outcome is known
}

// Decisions compares the two models on the people as they are.
type Decisions struct {
	AccuracyFull  Rate     `json:"accuracy_full"`
	AccuracyQuant Rate     `json:"accuracy_quant"`
	AccuracyDrop  Estimate `json:"accuracy_drop"` // AccuracyFull - AccuracyQuant
	// mean of f's accuracies on people with the favourable outcome and without; undefined when all have the same
	BalancedAccuracy Estimate `json:"balanced_accuracy"`
	FavourableFull   Rate     `json:"favourable_full"`
	FavourableQuant  Rate     `json:"favourable_quant"`
	Disagreement     Rate     `json:"disagreement"` // of everyone
	Lost             Rate     `json:"lost"`         // of those f approves, g refuses
	Gained           Rate     `json:"gained"`       // of those f refuses, g approves
	// of those known not to have the favourable outcome, approved; and of those known to have it, refused
	FPRFull  Rate `json:"fpr_full"`
	FPRQuant Rate `json:"fpr_quant"`
	FNRFull  Rate `json:"fnr_full"`
	FNRQuant Rate `json:"fnr_quant"`
}

// AtMargin holds what depends on the required margin.
type AtMargin struct {
	Margin       float64 `json:"margin"`
	FRR          Rate    `json:"frr"`
	RFRR         Rate    `json:"rfrr"`
	VD           Rate    `json:"vd"`
	VDMismatch   Rate    `json:"vd_mismatch"`
	RVD          Rate    `json:"rvd"`
	LostRecourse Rate    `json:"lost_recourse"`
	CRG          Gap     `json:"crg"`
	CRGBoth      Gap     `json:"crg_both"`
	// CRG of f against itself, solved with another seed; nil unless Options.Noise
	Noise         *Gap                       `json:"crg_noise,omitempty"`
	DirSim        Estimate                   `json:"dir_sim"`
	ActOverlap    Estimate                   `json:"act_overlap"`
	DirSimP05     Estimate                   `json:"dir_sim_p05"`
	ActOverlapP05 Estimate                   `json:"act_overlap_p05"`
	MarginError   MarginError                `json:"margin_error"`
	FullMargins   Spread                     `json:"margins_full"`             // of f at its recourse points
	QuantMargins  Spread                     `json:"margins_quant"`            // of g at the same points
	Pixels        *Estimate                  `json:"pixel_distance,omitempty"` // nil unless recourse is in a latent space
	PixelsP95     *Estimate                  `json:"pixel_distance_p95,omitempty"`
	Certified     *Proofs                    `json:"certified,omitempty"`    // nil unless Options.Prove
	Perturbed     map[Perturbation]Perturbed `json:"perturbation,omitempty"` // nil unless Options.Perturb
}

// First is the first-valid-iterate protocol (PGD-first).
type First struct {
	FRR Rate `json:"frr"`
	VD  Rate `json:"vd"`
}

// Gap is the Counterfactual Recourse Gap, signed and absolute: positive
// means that recourse costs more under g.
type Gap struct {
	Mean        Estimate `json:"mean"`          // mean of (cost_g-cost_f)/(cost_f+eps), the paper's
	RatioOfSums Estimate `json:"ratio_of_sums"` // (sum cost_g - sum cost_f) / sum cost_f
	Median      Estimate `json:"median"`        // median of the same ratios
	P95         Estimate `json:"p95"`           // their 95th percentile
	AbsMean     Estimate `json:"abs_mean"`      // mean of the ratios' absolute values
	AbsMedian   Estimate `json:"abs_median"`
	AbsP95      Estimate `json:"abs_p95"`
	N           int      `json:"n"` // common people
	// of them, those with cost 0 under g because g gives them the required margin as they are
	Free int `json:"free"`
}

// MarginError is the distribution of e = margin_g - margin_f over f's recourse points, in logits.
type MarginError struct {
	N    int      `json:"n"`
	Mean Estimate `json:"mean"`
	RMS  Estimate `json:"rms"`
	P95  Estimate `json:"p95"` // 95th percentile of |e|
	P99  Estimate `json:"p99"` // 99th percentile of |e|
	Max  Estimate `json:"max"` // of |e|
}

// Spread is the distribution of margins, in logits.
type Spread struct {
	N      int      `json:"n"`
	Min    Float    `json:"min"`
	P05    Estimate `json:"p05"` // 5th percentile
	Median Estimate `json:"median"`
	P95    Estimate `json:"p95"`
	Max    Float    `json:"max"`
	// Steps are the distribution function at no more margins than a page can show, ascending.
	Steps []SpreadStep `json:"-"`
}

// SpreadStep is a margin, and how many people have it or less.
type SpreadStep struct {
	Margin float64
	UpTo   int
}

// Headline returns the index of the margin that stands for the curve: 0.1, or
// else the smallest positive one, or else the last.
func (r *Result) Headline() int { return r.Settings.Headline() }

// Headline is that of a Result.
func (s *Settings) Headline() int {
	best := len(s.Margins) - 1
	for i := len(s.Margins) - 1; i >= 0; i-- {
		switch m := s.Margins[i]; {
		case m == HeadlineMargin:
			return i
		case m > 0:
			best = i
		}
	}
	return best
}
