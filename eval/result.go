package eval

import (
	"encoding/json"
	"errors"
	"slices"
)

// Issued counts the promises of Options.Promises.
type Issued struct {
	Promises  int `json:"promises"`  // to people who are evaluated
	Unsampled int `json:"unsampled"` // to people who are not in the sample
	// Unjudgeable are those of all promises that belong to nobody, see Options.Unmatched.
	Unjudgeable Tally `json:"unjudgeable"`
	Invalid     Tally `json:"invalid"`    // of Promises: f refuses the point, so they are promises at no margin
	Infeasible  Tally `json:"infeasible"` // of Promises: the task does not allow the action; they count in VD all the same
	Approved    Tally `json:"approved"`   // of those to people whom f approves as they are, at no margin: g breaks them
	Needless    Tally `json:"needless"`   // of Promises: f approves the person as they are by as much
}

// Result is what Compare measured: everything in it is a function of Records, Settings and the DataFile, but what the
// caller adds.
type Result struct {
	Settings   Settings   `json:"settings"`
	Population Population `json:"population"`
	Values     `json:"-"` // of the metrics that have no margin, which JSON has under their keys
	Margins    []AtMargin `json:"margins"` // ascending required margin
	Tau01      Tau        `json:"tau01"`
	RTau01     Tau        `json:"rtau01"`
	Issued     *Issued    `json:"issued,omitempty"` // counts of Options.Promises; nil when the solver made f's promises
	Added
	Warnings []string `json:"warnings"` // why a number may not mean what it seems to; never nil
	Records  *Records `json:"-"`        // what it was made of; nil when that was not kept
}

// Added is what the caller adds to a Result: measures of the models' files, and the metrics of some of the people or
// under other rules.
type Added struct {
	Footprint *Footprint `json:"footprint,omitempty"` // nil unless the caller measured the files
	// nil unless the caller took the time: all else is the same on every run
	Timing    *Timing    `json:"timing,omitempty"`
	Batches   *Batches   `json:"batches,omitempty"`   // of Rerun; nil unless the caller ran it
	Groups    []Grouping `json:"groups,omitempty"`    // the same metrics by groups of people, see Groups
	Scenarios []Scenario `json:"scenarios,omitempty"` // the same metrics under other conditions, see Stress
	// the same metrics with other rules of who counts, see Result.Alternatives
	SensitivityToCopies []Scenario `json:"others,omitempty"`
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

type resultFields Result

// MarshalJSON writes every value under the key of its metric.
func (r *Result) MarshalJSON() ([]byte, error) { return r.Values.addTo((*resultFields)(r)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Result) UnmarshalJSON(data []byte) (err error) {
	if err := json.Unmarshal(data, (*resultFields)(r)); err != nil {
		return err
	}
	r.Values, err = readValues(data, false)
	return err
}

// AtMargin holds the values of the metrics that depend on the required margin.
type AtMargin struct {
	Margin float64 `json:"margin"`
	Values `json:"-"`
	// Steps are the distribution functions of the margins of f and of g at the recourse points of f, ascending, of no
	// more margins than a page can show.
	Steps [2][]spreadStep `json:"-"`
}

type marginFields AtMargin

// MarshalJSON writes every value under the key of its metric.
func (a AtMargin) MarshalJSON() ([]byte, error) { return a.Values.addTo(marginFields(a)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (a *AtMargin) UnmarshalJSON(data []byte) (err error) {
	if err := json.Unmarshal(data, (*marginFields)(a)); err != nil {
		return err
	}
	a.Values, err = readValues(data, true)
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
	Radius   float64 `json:"radius,omitempty"` // of the logit perturbation, in model-input units
	// of transfer certificates: changes cost up to so many times the cheapest one
	Factor  float64 `json:"transfer_factor,omitempty"`
	NoProof string  `json:"no_proof,omitempty"` // why there are none, though they were asked for
	Solver  Solver  `json:"solver"`
}

// Solver is what the solver was asked for; 0 stands for its default.
type Solver struct {
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
	UnlabelledRows Tally `json:"unlabelled_rows"` // of Read
	// UnlikeRows have an input beyond the calibration rows; of none when these are not known. The caller adds it.
	UnlikeRows Tally `json:"unlike_rows"`
	// Encoding is whether people are known to be encoded as the model was trained, see draft.Evidence; "" when nobody
	// asked. The caller adds it.
	Encoding string `json:"encoding,omitempty"`
}

// spreadStep is a margin, and how many people have it or less.
type spreadStep struct {
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

// Footprint is the size of a quantized model, and of the full-precision one.
type Footprint struct {
	Full  Weight `json:"full"`
	Quant Weight `json:"quant"`
	// Saturating counts layers of the quantized model that multiply integers with 8-bit weights beyond 64: x64 processors
	// without VNNI cut their sums off, and compute other numbers than the rest.
	Saturating int `json:"saturating_layers,omitempty"`
}

// Weight is the size of a model file and of the work of one decision; 0 is a number that is not known.
type Weight struct {
	Bytes int64 `json:"bytes"` // of the file, external data included
	// StoredBits are the stored bits per weight, with all that the weights need; 32 in float.
	StoredBits float64 `json:"stored_bits_per_weight"`
	// bit operations of one row: multiplications times bits of weight times bits of activation
	BOPs float64 `json:"bops"`
}

// Timing is how fast ONNX Runtime runs the two models on this machine.
type Timing struct {
	Threads int  `json:"threads"`
	One     Pace `json:"batch_1"`   // one row at a time
	Many    Pace `json:"batch_256"` // 256 rows at a time
}

// Pace is the median time of one run, in seconds, over many runs of the two models in turn.
type Pace struct {
	Full       Estimate `json:"full"`
	Quant      Estimate `json:"quant"`
	Throughput Estimate `json:"throughput"` // rows per second of the quantized model in such runs
}

// Set sums up the times of runs of that many rows.
func (p *Pace) Set(rows int, full, quant []float64, confidence float64) {
	median := func(times []float64) Estimate { return rank(slices.Clone(times)).quantile(0.5, confidence).Estimate }
	p.Full, p.Quant = median(full), median(quant)
	n := Float(rows)
	p.Throughput = Estimate{Value: n / p.Quant.Value, N: p.Quant.N, Lo: n / p.Quant.Hi, Hi: n / max(0, p.Quant.Lo)}
}
