package gate

import (
	"math/rand/v2"
	"strings"
	"testing"

	"cfq/internal/must"
)

// chase follows the number of people that a gate names until it passes, fails or has no look left, and says whether it
// passes. In every look, fresh asks for new people instead of more.
func chase(g *Gate, rng *rand.Rand, looks int, fresh bool) bool {
	k, n := 0, 0
	for need := 149; looks > 0; looks-- {
		if fresh {
			k, n = 0, 0
		}
		k, n = k+binomial(rng, max(need-n, 1), 0.02), max(need, n+1)
		switch f := Judge(g, broken(k, n), nil).Findings[0]; {
		case f.Verdict == Pass:
			return true
		case f.Verdict == Fail || f.Need > 20000:
			return false
		case f.Need == 0:
			need = 2 * n
		default:
			need = f.Need
		}
	}
	return false
}

func TestLooksKeepTheLevel(t *testing.T) {
	t.Parallel()
	n, most := draws()
	n /= 4
	most = 0.05 + 2*(most-0.05)
	for _, fresh := range []bool{false, true} {
		for _, looks := range []int{2, 3, 10} {
			rng := rand.New(rand.NewPCG(uint64(looks), 5))
			var planned, unplanned float64
			for range n {
				if chase(&Gate{Looks: looks, Checks: maxVD(0.02)}, rng, looks, fresh) {
					planned++
				}
				if chase(&Gate{Checks: maxVD(0.02)}, rng, looks, fresh) {
					unplanned++
				}
			}
			planned, unplanned = planned/float64(n), unplanned/float64(n)
			t.Logf("%d looks, new people %v: planned %.4f, not planned %.4f", looks, fresh, planned, unplanned)
			if planned > most || looks == 10 && unplanned < 0.06 {
				t.Errorf("%d looks, new people %v: planned %.4f, not planned %.4f", looks, fresh, planned, unplanned)
			}
		}
	}
}

func TestLooks(t *testing.T) {
	once, thrice := &Gate{Checks: maxVD(0.02)}, &Gate{Looks: 3, Checks: maxVD(0.02)}
	l := &Looks{Model: "m"}
	if err := l.Check(once); err != nil || l.Seen("a") != nil {
		t.Error("nobody has looked yet", err)
	}
	for _, evidence := range []string{"a", "b", "c"} {
		must.Do(must.In(t, evidence), l.Check(thrice))
		l.Add(thrice, evidence, Inconclusive, noon)
		must.Fail(t, l.Check(once), "")
	}
	must.Fail(t, l.Check(thrice), "look 4 at the model, and 3 looks are planned: confidence 95 %")
	data := must.Get(l.Encode())(t)
	again := must.Get(parseLooks(data, "m"))(t)
	if again.Seen("b") == nil || again.Seen("b").Verdict != Inconclusive || again.Check(thrice) == nil {
		t.Errorf("%+v", again)
	}
	if other := must.Get(parseLooks(data, "n"))(t); len(other.Looks) != 0 || other.Model != "n" {
		t.Errorf("another model: %+v", other)
	}
	_, err := parseLooks([]byte("{"), "m")
	must.Fail(t, err, "invalid record")
	_, err = parseLooks([]byte(`{"model": "m"}`), "m")
	must.Fail(t, err, "another file")
	// A look that passes spends nothing, and has its date once.
	passed := &Looks{Model: "m"}
	for range 2 {
		passed.Add(once, "a", Pass, noon)
	}
	if err := passed.Check(once); err != nil || len(passed.Looks) != 0 || len(passed.Passed) != 1 ||
		passed.Seen("a") != nil || passed.Passed[0].Error != 0 || passed.Passed[0].Date != noon.Format(dateLayout) {
		t.Errorf("%+v: %v", passed, err)
	}
	// Damaged data say nothing of the model.
	damaged := &Report{Findings: []Finding{
		{Check: "vd<=0.02", Verdict: Pass}, {Check: "unreadable_rows<=0.01", Verdict: Inconclusive},
	}}
	if damaged.Looked(once) {
		t.Error("a look was spent on damaged data")
	}
	if damaged.Findings[0].Verdict = Fail; !damaged.Looked(once) {
		t.Error("a failure is no look")
	}
	// Two looks at 97.5 %: as many people as that needs.
	f := Judge(&Gate{Looks: 2, Checks: maxVD(0.02)}, broken(0, 149), nil)
	if f.Verdict != Inconclusive || f.Findings[0].Need != 183 || f.Confidence != 0.975 ||
		!strings.Contains(strings.Join(f.Notes, ""), "2 looks are planned: each has confidence 97.5 %") {
		t.Errorf("%+v", f)
	}
	must.Same(t, 0.95, (&Gate{Looks: 2, Checks: []Check{{Metric: "crg.median", Max: ptr(0.1)}}}).Needs(false).Confidence)
	notes := strings.Join(Judge(once, broken(0, 20), nil).Notes, "\n")
	must.Has(t, notes, "--looks 2 plans a second")
}
