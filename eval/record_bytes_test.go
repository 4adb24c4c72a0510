package eval

import (
	"cmp"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse"
	"cfq/task"
)

// anyRecord is a record of every kind that an evaluation makes.
func anyRecord(rt *rapid.T, dim, margins, attributes int) Record {
	r := rapid.Make[Record]().Draw(rt, "record")
	r.Person, r.Groups = 0, rapid.SliceOfN(rapid.String(), attributes, attributes).Draw(rt, "groups")
	inputs := rapid.SliceOfN(rapid.OneOf(rapid.Just[float32](0), rapid.Float32()), dim, dim)
	r.X = inputs.Draw(rt, "inputs")
	r.Steps = rapid.SliceOfN(rapid.Make[Step](), margins, margins).Draw(rt, "steps")
	odd := rapid.SampledFrom([]Float{undefined(), Float(math.Inf(1)), Float(math.Copysign(0, -1)), 5e-324})
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Full.Point, s.Quant.Cost, s.Overlap = inputs.Draw(rt, "point"), odd.Draw(rt, "cost"), odd.Draw(rt, "overlap")
		s.Pixels = Float(math.Abs(float64(s.Pixels))) // none is 0
	}
	if r.First.Point = nil; !r.Evaluated {
		r.First, r.Steps = Promise{}, nil
	}
	if r.Issued != nil {
		r.Issued.Status = recourse.Found
	}
	return r
}

func sameBits() gocmp.Options {
	return gocmp.Options{
		cmpopts.EquateEmpty(),
		gocmp.Comparer(func(a, b Float) bool { return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) }),
		gocmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	}
}

func TestRecordsKeepRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		memory := rapid.SampledFrom([]int{0, 300, 1 << 20}).Draw(rt, "bytes in memory")
		attributes := rapid.IntRange(0, 2).Draw(rt, "attributes")
		r := newRecords([]float64{0, 0.1}, make([]task.Subgroup, attributes), limits{bytes: memory, records: 4})
		var want []Record
		for i := range rapid.IntRange(0, 5).Draw(rt, "records") {
			x := anyRecord(rt, rapid.IntRange(0, 6).Draw(rt, "dim"), 2, attributes)
			for k := range x.Steps {
				x.Steps[k].Perturbed = nil
			}
			x.Row, x.Person = i, i
			must.Do(rt, r.Add(&x))
			want = append(want, x)
		}
		for range 2 {
			must.Same(rt, want, all(t, r), sameBits())
		}
		// Each is one of one person's, and all visitors see all.
		seen := map[int]bool{}
		ids := map[string]bool{}
		var visited []Record
		err := r.Visit(func(some []*Record, persons [][]*Record) error {
			for _, x := range some {
				visited = append(visited, *x)
			}
			for _, of := range persons {
				if ids[of[0].ID] && of[0].ID != "" {
					rt.Errorf("%q is two people", of[0].ID)
				}
				ids[of[0].ID] = true
				for _, x := range of {
					if x.ID != of[0].ID || x.ID == "" && len(of) > 1 {
						rt.Errorf("one person: %q and %q", of[0].ID, x.ID)
					}
					seen[x.Row] = true
				}
			}
			return nil
		})
		must.Do(rt, err)
		slices.SortFunc(visited, func(a, b Record) int { return cmp.Compare(a.Row, b.Row) })
		must.Same(rt, want, visited, sameBits(), cmpopts.IgnoreFields(Record{}, "Person"))
		must.Same(rt, len(seen), len(want))
		must.Do(rt, r.Close())
	})
}
