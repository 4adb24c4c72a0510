package eval

import (
	"fmt"

	"cfq/task"
)

// presetNoise is the size of the noise of the shifts.
const presetNoise = 0.25

// parts returns the conditions that s stands for, and what a preset has to leave out.
func (t *trial) parts(s Stress) (parts []Stress, notes []string) {
	add := func(p Stress) { parts = append(parts, p) }
	switch s.kind {
	default:
		add(s)
	case tightnessStresses:
		// Half and twice the task's own budget: the 2, 4 and 8 features of the paper, when the task has its 4.
		for _, regime := range []struct {
			features int
			scale    float64
		}{{max(1, t.set.Budget()/2), 0.5}, {0, 1}, {2 * t.set.Budget(), 1.5}} {
			spec := fmt.Sprintf("bounds:%g", regime.scale)
			if regime.features > 0 {
				spec = fmt.Sprintf("sparsity:%d,", regime.features) + spec
			}
			add(Stress{Spec: spec, kind: limitStress, features: regime.features, scale: regime.scale})
		}
	case shiftStresses:
		add(Stress{Spec: fmt.Sprintf("noise:%g", presetNoise), kind: noiseStress, size: presetNoise})
		for i := range t.people.Subgroups {
			if p, ok := t.smallest(&t.people.Subgroups[i]); ok {
				add(p)
			} else {
				notes = append(notes, fmt.Sprintf("%s: %s has no group with %d promises or more beside others: its mix is left out",
					s.Spec, t.people.Subgroups[i].Feature, fewPeople))
			}
		}
		unfavourable, favourable, err := withOutcome(t.people)
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s: %v: that shift is left out", s.Spec, err))
			break
		}
		share := doubled(len(unfavourable), len(favourable))
		add(Stress{Spec: fmt.Sprintf("outcome:%g", share), kind: outcomeStress, share: share})
	}
	return parts, notes
}

// smallest is the mix in which the smallest group of an attribute, of those with enough promises, counts twice.
func (t *trial) smallest(s *task.Subgroup) (Stress, bool) {
	people, promises := make([]int, len(s.Values)), make([]int, len(s.Values))
	at := t.base.Headline()
	for i := range t.base.Records {
		r := &t.base.Records[i]
		if code := s.Codes[r.Row]; code >= 0 {
			people[code]++
			promises[code] += count(r.Evaluated && r.Steps[at].Full.Made())
		}
	}
	best := -1
	for code, n := range people {
		if promises[code] >= fewPeople && n < t.people.N && (best < 0 || n < people[best]) {
			best = code
		}
	}
	if best < 0 {
		return Stress{}, false
	}
	share := doubled(people[best], t.people.N-people[best])
	return Stress{Spec: fmt.Sprintf("mix:%s=%s:%g", s.Feature, s.Values[best], share), kind: mixStress, feature: s.Feature, value: s.Values[best], share: share}, true
}
