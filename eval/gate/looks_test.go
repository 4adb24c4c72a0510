package gate

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cfq/internal/must"
)

// chase follows the number of people that a gate names until it passes, fails or has no look left, and says whether it
// passes. In every look, fresh asks for new people instead of more. A gate that allows no other look is asked again.
func chase(g *Gate, rng *rand.Rand, looks int, fresh bool) bool {
	k, n, l := 0, 0, &Looks{}
	for need := 159; looks > 0; looks-- {
		if fresh {
			k, n = 0, 0
		}
		k, n = k+binomial(rng, max(need-n, 1), 0.02), max(need, n+1)
		evidence := fmt.Sprint(looks)
		look, _ := l.Plan(g, evidence)
		l.Add(look, evidence, Inconclusive, noon)
		switch f := Judge(look, broken(k, n), nil).Findings[0]; {
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
	n /= 9
	most = 0.05 + 3*(most-0.05)
	for _, fresh := range []bool{false, true} {
		for _, looks := range []int{2, 3, 10} {
			rng := rand.New(rand.NewPCG(uint64(looks), 5))
			var passed [3]float64
			for range n {
				for i, planned := range []int{looks, OpenLooks, 1} {
					if chase(&Gate{Looks: planned, Checks: maxVD(0.02)}, rng, looks, fresh) {
						passed[i] += 1 / float64(n)
					}
				}
			}
			t.Logf("%d looks, new people %v: planned, open and without a rule %.4f", looks, fresh, passed)
			if max(passed[0], passed[1]) > most || looks == 10 && passed[2] < 0.06 {
				t.Errorf("%d looks, new people %v: planned, open and without a rule %.4f", looks, fresh, passed)
			}
		}
	}
}

// An open number of looks: each spends four fifths of what is left, and those to come never are refused.
func TestOpenLooks(t *testing.T) {
	open, l := &Gate{Looks: OpenLooks, Checks: maxVD(0.02)}, &Looks{Model: "m"}
	var spent float64
	for i, want := range []float64{0.96, 0.992, 0.9984, 0.99968} {
		evidence := fmt.Sprint(i)
		g := must.Get(l.Plan(open, evidence))(t)
		must.Same(t, want, g.Confidence)
		l.Add(g, evidence, Running, noon)
		must.Same(t, want, must.Get(l.Plan(open, evidence))(t).Confidence)
		l.Drop(evidence) // its verdict comes
		l.Add(g, evidence, Inconclusive, noon)
		l.Drop(evidence)
		if spent += l.Looks[i].Error; len(l.Looks) != i+1 || spent >= 0.05 {
			t.Errorf("%+v", l)
		}
	}
	// What the first asks for is enough in the second, whatever was spent as planned.
	first := must.Get((&Looks{}).Plan(open, "a"))(t)
	r := Judge(first, broken(0, 149), nil)
	must.Has(t, strings.Join(r.Notes, "\n"), "confidence 96 %, and one at more or new people 99.2 %")
	l = &Looks{}
	l.Add(first, "a", r.Verdict, noon)
	second := must.Get(l.Plan(open, "b"))(t)
	must.Same(t, Pass, Judge(second, broken(0, r.Findings[0].Need), nil).Verdict)
	must.Same(t, Inconclusive, Judge(second, broken(0, r.Findings[0].Need-1), nil).Verdict)
	l = &Looks{}
	l.Add(&Gate{Looks: 1}, "a", Inconclusive, noon)
	_, err := l.Plan(open, "b")
	must.Fail(t, err, "an error of 5 %, of which earlier looks spent 5 %")
}

func TestLooks(t *testing.T) {
	once, thrice := &Gate{Checks: maxVD(0.02)}, &Gate{Looks: 3, Checks: maxVD(0.02)}
	l := &Looks{Model: "m"}
	next := func(l *Looks, g *Gate) error {
		_, err := l.Plan(g, "new")
		return err
	}
	if err := next(l, once); err != nil || l.Seen("a") != nil {
		t.Error("nobody has looked yet", err)
	}
	for _, evidence := range []string{"a", "b", "c"} {
		must.Do(must.In(t, evidence), next(l, thrice))
		l.Add(thrice, evidence, Inconclusive, noon)
		must.Fail(t, next(l, once), "")
	}
	must.Fail(t, next(l, thrice), "look 4 at the model: confidence 95 % leaves an error of 5 %, of which")
	path := filepath.Join(t.TempDir(), "m.looks")
	read := func(data []byte, model string) (*Looks, error) {
		must.Do(t, os.WriteFile(path, data, 0o600))
		return ReadLooks(path, model)
	}
	again := must.Get(read(l.Encode(), "m"))(t)
	if again.Seen("b") == nil || again.Seen("b").Verdict != Inconclusive || next(again, thrice) == nil {
		t.Errorf("%+v", again)
	}
	if other := must.Get(read(l.Encode(), "n"))(t); len(other.Looks) != 0 || other.Model != "n" {
		t.Errorf("another model: %+v", other)
	}
	must.Fail(t, must.Err(read([]byte("{"), "m")), "not whole")
	must.Fail(t, must.Err(read([]byte(`{"model": "m"}`), "m")), "another file")
	// A look that passes spends nothing, and has its date once.
	passed := &Looks{Model: "m"}
	for range 2 {
		passed.Add(once, "a", Pass, noon)
	}
	if err := next(passed, once); err != nil || len(passed.Looks) != 0 || len(passed.Passed) != 1 ||
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
