package gate

import (
	"fmt"
	"strings"
	"time"

	"cfq/internal/message"
)

const dateLayout = "2006-01-02"

// about says that the waiver names the check, or one of its groups.
func (w *Waiver) about(c *Check) bool {
	if w.Check == c.name() {
		return true
	}
	group, ok := strings.CutPrefix(w.Check, c.name()+" [")
	return ok && c.By != "" && strings.HasSuffix(group, "]")
}

// covers says that the waiver is about the finding, whatever the day.
func (w *Waiver) covers(f *Finding) bool {
	return w.Check == f.Check || f.Group != "" && w.Check == f.Check+" ["+f.Group+"]"
}

// over says that the last day has ended.
func (w *Waiver) over(now time.Time) bool {
	y, m, d := w.Until.UTC().Date()
	return !now.Before(time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC))
}

func (w *Waiver) last() string { return w.Until.UTC().Format(dateLayout) }

// String says who waives and why.
func (w *Waiver) String() string {
	if w.Owner != "" {
		return fmt.Sprintf("%s (%s, until %s)", w.Reason, w.Owner, w.last())
	}
	return fmt.Sprintf("%s (until %s)", w.Reason, w.last())
}

// waive marks the findings that are waived and notes the waivers that do nothing.
func (r *Report) waive(waivers []Waiver, now time.Time) {
	for i := range waivers {
		w := &waivers[i]
		found, needed := false, false
		for j := range r.Findings {
			f := &r.Findings[j]
			if !w.covers(f) {
				continue
			}
			found = true
			if f.Verdict == Pass {
				continue
			}
			needed = true
			if f.Waived == "" && !w.over(now) {
				f.Waived = w.String()
			}
		}
		switch {
		case !found:
			r.note("the waiver of %s is about nothing that was found: is there such a group?", message.Quote(w.Check))
		case w.over(now):
			r.note("the waiver of %s expired on %s: %s", message.Quote(w.Check), w.last(), w)
		case !needed:
			r.note("the waiver of %s is no longer needed: it passes", message.Quote(w.Check))
		}
	}
}

func (r *Report) note(format string, a ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, a...)) }
