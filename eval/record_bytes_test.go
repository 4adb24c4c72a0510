package eval

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse"
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

func layoutOf(margins, attributes int) *layout {
	at, names := make([]float64, margins), make([]string, attributes)
	for i := range at {
		at[i] = float64(i) / 10
	}
	for i := range names {
		names[i] = fmt.Sprint("attribute ", i)
	}
	return newLayout(at, names)
}

func sameBits() cmp.Options {
	return cmp.Options{
		cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b Float) bool { return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) }),
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	}
}

func TestRecordBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dim, margins := rapid.IntRange(0, 6).Draw(rt, "dim"), rapid.IntRange(1, 3).Draw(rt, "margins")
		attributes := rapid.IntRange(0, 2).Draw(rt, "attributes")
		from := layoutOf(margins, attributes)
		for range 3 {
			want := anyRecord(rt, dim, margins, attributes)
			b := from.encode(nil, &want)
			must.Same(rt, &want, must.Get(from.decode(b))(rt), sameBits())
			cut := rapid.IntRange(0, len(b)-1).Draw(rt, "cut")
			if _, err := from.decode(b[:cut]); !errors.Is(err, errDamaged) {
				rt.Fatalf("%d of %d bytes: %v", cut, len(b), err)
			}
			if _, err := from.decode(append(b, 0)); !errors.Is(err, errDamaged) {
				rt.Fatalf("a byte more: %v", err)
			}
			for range rapid.IntRange(1, 3).Draw(rt, "damaged bytes") {
				b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
			}
			if _, err := from.decode(b); err != nil && !errors.Is(err, errDamaged) {
				rt.Fatal(err)
			}
		}
	})
}

func unordered(of *Records, list []Record) []Record {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Record) int {
		return bytes.Compare(of.layout.encode(nil, &a), of.layout.encode(nil, &b))
	})
	for i := range list {
		list[i].Person = 0
	}
	return list
}

func TestRecordsKeepRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		memory := rapid.SampledFrom([]int{0, 300, 1 << 20}).Draw(rt, "bytes in memory")
		r := newRecords([]float64{0, 0.1}, nil, limits{bytes: memory, records: 4})
		var want []Record
		for i := range rapid.IntRange(0, 9).Draw(rt, "records") {
			x := anyRecord(rt, 3, 2, 0)
			for k := range x.Steps {
				x.Steps[k].Perturbed = nil
			}
			must.Do(rt, r.Add(&x))
			x.Person = i
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
		must.Same(rt, unordered(r, want), unordered(r, visited), sameBits())
		rows := map[int]bool{}
		for i := range want {
			rows[want[i].Row] = true
		}
		must.Same(rt, len(seen), len(rows))
		must.Do(rt, r.Close())
	})
}

// FuzzDecode: damaged bytes are an error; what is a record stays one.
func FuzzDecode(f *testing.F) {
	p := Promise{Status: recourse.Found, Cost: 1, Own: 0.1, Other: -0.1, Violation: "no", Point: []float32{1, 2, 0}}
	for _, r := range []Record{
		{Label: -1, RowData: RowData{Groups: []string{"x"}, X: []float32{1, 0, 0}}},
		{
			ID: "a", Row: 7, Line: 9, Full: -1, Quant: 1, Evaluated: true, Issued: &p, First: none(recourse.NoneFound),
			RowData: RowData{
				Groups: []string{"x"}, Hash: 5, Others: []uint64{1, 2}, Calibrated: true, X: []float32{1, 0, 0},
			},
			Steps: []Step{{Full: p, Quant: p, Proof: &Proof{1, 2}, Perturbed: []Float{1, 2, 3}}},
		},
	} {
		f.Add(uint8(len(r.Steps)), uint8(1), layoutOf(len(r.Steps), 1).encode(nil, &r))
	}
	f.Fuzz(func(t *testing.T, margins, attributes uint8, b []byte) {
		l := layoutOf(int(margins%4), int(attributes%3))
		once, err := l.decode(b)
		if err != nil {
			if !errors.Is(err, errDamaged) {
				t.Error(err)
			}
			return
		}
		first := l.encode(nil, once)
		twice := must.Get(l.decode(first))(t)
		if second := l.encode(nil, twice); !bytes.Equal(first, second) {
			t.Errorf("%x was read as %x, and that as %x", b, first, second)
		}
	})
}
