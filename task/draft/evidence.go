package draft

import (
	"fmt"

	"cfq/internal/message"
	"cfq/internal/statistics"
)

// Evidence is what there is about whether a task encodes people as a model was trained.
type Evidence struct {
	Model  string        // what its file shows; "": nothing
	Scores *Verification // of an earlier check too; nil: none
	Other  string        // what a record is about that is of no use here; "": there is none

	Stated                float64 // accuracy that the model's owner states; 0: none
	Rows, Right, Frequent int     // with known outcome; of them decided as labelled, and with the more frequent outcome
}

// The states of an encoding.
const (
	Verified     = "verified"
	Unverified   = "unverified"
	Contradicted = "contradicted"
)

// minAccuracyRows is how many rows an accuracy needs to verify an encoding.
const minAccuracyRows = 200

// accuracy compares the accuracy that the task states with that on the data; "" without one. Nobody is told the latter:
// a number that was copied from here would verify nothing.
func (e *Evidence) accuracy() string {
	if e.Stated == 0 || e.Rows == 0 {
		return ""
	}
	lo := statistics.ClopperPearsonLower(e.Right, e.Rows, 0.975)
	hi := statistics.ClopperPearsonUpper(e.Right, e.Rows, 0.975)
	switch often := float64(e.Frequent) / float64(e.Rows); {
	case e.Stated < lo || e.Stated > hi:
		return Contradicted
	case e.Rows < minAccuracyRows || lo <= often && often <= hi:
		return Unverified
	}
	return Verified
}

// State says whether the encoding is verified, and why. Scores say more than an accuracy.
func (e *Evidence) State() (state, why string) {
	const stated = "the accuracy that the task file states is "
	v, rows := e.Scores, message.Count(e.Rows, "row")
	switch accuracy := e.accuracy(); {
	case v != nil && v.Differ > 0:
		return Contradicted, fmt.Sprintf("%d of %d rows have another score than their owner's", v.Differ, v.Rows)
	case v != nil && v.Verified() && v.Accuracy == 0:
		why = fmt.Sprintf("the model gives the scores of all %d rows (largest difference %.1g)", v.Rows, v.Largest)
		if len(v.Unseen) > 0 {
			why += fmt.Sprintf(", which say nothing of %s", message.List(v.Unseen, 6))
		}
		return Verified, why
	case e.Model != "":
		return Verified, e.Model
	case accuracy == Contradicted:
		return Contradicted, stated + "not the model's on " + rows
	case accuracy == Verified || v != nil && v.Accuracy > 0:
		return Verified, "the model's accuracy is the one that the task file states"
	case v != nil:
		return Unverified, fmt.Sprintf("%d of %d rows with scores tell something: want %d or more", v.Telling, v.Rows,
			MinScores)
	case e.Other != "":
		return Unverified, e.Other
	case accuracy == Unverified:
		return Unverified, fmt.Sprintf("%snot told from chance on %s: want %d or more", stated, rows, minAccuracyRows)
	}
	return Unverified, "no scores of the model's owner have been compared"
}
