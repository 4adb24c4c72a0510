package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"cfq/internal/config"
	"cfq/task"
)

const dateLayout = "2006-01-02"

// Looks are the evaluations of one quantized model that it did not pass. Whoever looks again until the gate passes has
// more chances than one: the looks share the error that the gate's confidence leaves.
type Looks struct {
	Schema string `json:"schema"`
	Model  string `json:"model"` // SHA-256 of the quantized model
	Looks  []Look `json:"looks"`
	Passed []Look `json:"passed,omitempty"` // evaluations that it passed: they spend no error
}

const looksSchema = "cfq.looks/1"

// Look is one of them.
type Look struct {
	Evidence string  `json:"evidence"` // what identifies the people and how they were evaluated
	Verdict  Verdict `json:"verdict"`
	Error    float64 `json:"error"` // that it spent: the probability with which it could have passed wrongly
	// day of the verdict, as 2026-12-31: a report has none, so that the same command gives the same report
	Date string `json:"date,omitempty"`
}

// ReadLooks reads a file that [Looks.Encode] made. A file that is not there has no looks at the model, nor has one of
// another model.
func ReadLooks(path, model string) (*Looks, error) {
	l := &Looks{}
	err := config.ReadRecord(path, looksSchema, l)
	if errors.Is(err, fs.ErrNotExist) || err == nil && l.Model != model {
		return &Looks{Model: model}, nil
	}
	return l, err
}

// Encode is the content of a file.
func (l *Looks) Encode() []byte {
	l.Schema = looksSchema
	return config.EncodeRecord(l)
}

// Merge adds the looks of another record on the same model, each evidence once.
func (l *Looks) Merge(o *Looks) {
	for _, x := range o.Looks {
		if l.Seen(x.Evidence) == nil {
			l.Looks = append(l.Looks, x)
		}
	}
}

// Seen returns the look at the same evidence, nil when there is none.
func (l *Looks) Seen(evidence string) *Look {
	if i := slices.IndexFunc(l.Looks, func(x Look) bool { return x.Evidence == evidence }); i >= 0 {
		return &l.Looks[i]
	}
	return nil
}

// OpenLooks is a number of looks that is not planned. Each spends spentShare of the error that those before it left:
// all together spend less than the whole (Bonferroni), there is always another one, and the first needs few people more
// than an only one (159 for 149 at a limit of 2 %; half of the error would need 183).
const OpenLooks = -1

const spentShare = 0.8

// next is the confidence of a look after this one.
func (g *Gate) next() float64 {
	if g.Looks == OpenLooks {
		return 1 - (1-g.Confidence)*(1-spentShare)
	}
	return g.Confidence
}

// Plan returns the gate with the confidence that a look at the evidence has. It is an error when earlier looks have
// spent the error that the gate's confidence leaves.
func (l *Looks) Plan(g *Gate, evidence string) (*Gate, error) {
	x, d, again, open := *g, g.withDefaults(), l.Seen(evidence), g.Looks == OpenLooks
	own := 1 - d.Confidence
	total := own * float64(max(d.Looks, 1))
	left := total
	for _, look := range l.Looks {
		left -= look.Error
	}
	if open {
		own = spentShare * left
	}
	switch {
	case again != nil && open:
		x.Confidence = 1 - again.Error
	case again == nil && (left < total*1e-9 || own > left+total*1e-9):
		return g, fmt.Errorf("this would be look %d at the model: confidence %s leaves an error of %s, of which earlier "+
			"looks spent %s", len(l.Looks)+1, percent(1-total), percent(total), percent(total-left))
	case open:
		x.Confidence = task.Rounded(1-own, 12)
	}
	return &x, nil
}

// Drop removes a look at the evidence that has no verdict.
func (l *Looks) Drop(evidence string) {
	l.Looks = slices.DeleteFunc(l.Looks, func(x Look) bool { return x.Evidence == evidence && x.Verdict == Running })
}

// Add records a verdict. One that passes is recorded once for the same evidence.
func (l *Looks) Add(g *Gate, evidence string, verdict Verdict, now time.Time) {
	d := g.withDefaults()
	look := Look{Evidence: evidence, Verdict: verdict, Date: now.UTC().Format(dateLayout)}
	switch {
	case verdict != Pass:
		look.Error = task.Rounded(1-d.Confidence, 12)
		l.Looks = append(l.Looks, look)
	case (&Looks{Looks: l.Passed}).Seen(evidence) == nil:
		l.Passed = append(l.Passed, look)
	}
}

// Looked says that a check of the gate's own did not pass. Damaged data alone say nothing of the model, so that the
// same people may be looked at again once they are mended.
func (r *Report) Looked(g *Gate) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		own := slices.ContainsFunc(g.Checks, func(c Check) bool { return f.Check == c.name() })
		return f.Metric == "outputs" || own && f.Verdict != Pass
	})
}
