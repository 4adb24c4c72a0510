package gate

import (
	"fmt"
	"strings"
	"time"
)

const dateLayout = "2006-01-02"

// Waiver lets a check not pass until the end of a day.
type Waiver struct {
	Check  string    // a check's name; with By, "name [group]" waives one group
	Until  time.Time // the last day, UTC
	Reason string
	Owner  string
}

// WaiverState is a waiver as reports show it.
type WaiverState struct {
	Check  string `json:"check"`
	Until  string `json:"until"` // the last day, as 2026-12-31
	Reason string `json:"reason"`
	Owner  string `json:"owner,omitempty"`
	State  string `json:"state"` // "in force", "not needed", "expired" or "matches no finding"
}

// names reports whether the waiver names the check, or one of its groups.
func (w *Waiver) names(c *Check) bool {
	if w.Check == c.name() {
		return true
	}
	group, ok := strings.CutPrefix(w.Check, c.name()+" [")
	return ok && c.By != "" && strings.HasSuffix(group, "]")
}

// covers reports whether the waiver names the finding's check or group, expired or not.
func (w *Waiver) covers(f *Finding) bool {
	return w.Check == f.Check || f.Group != "" && w.Check == f.Check+" ["+f.Group+"]"
}

// expired reports whether the last day has ended.
func (w *Waiver) expired(now time.Time) bool {
	y, m, d := w.Until.UTC().Date()
	return !now.Before(time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC))
}

func (w *Waiver) last() string { return w.Until.UTC().Format(dateLayout) }

// String returns the reason, the owner and the last day.
func (w *Waiver) String() string {
	if w.Owner != "" {
		return fmt.Sprintf("%s (%s, until %s)", w.Reason, w.Owner, w.last())
	}
	return fmt.Sprintf("%s (until %s)", w.Reason, w.last())
}
