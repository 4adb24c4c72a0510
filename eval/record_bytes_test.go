package eval

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cfq/internal/must"
	"cfq/recourse"
)

type drawn struct {
	*rapid.T
	dim, margins, attributes int
}

func (d drawn) float() Float {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, math.MaxFloat64, 5e-324}
	return Float(rapid.OneOf(rapid.SampledFrom(odd), rapid.Float64()).Draw(d.T, "number"))
}

func (d drawn) inputs() []float32 {
	if d.dim == 0 {
		return nil
	}
	return rapid.SliceOfN(rapid.OneOf(rapid.Just[float32](0), rapid.Float32()), d.dim, d.dim).Draw(d.T, "inputs")
}

func (d drawn) flag() bool { return rapid.Bool().Draw(d.T, "flag") }

func (d drawn) promise(points bool) Promise {
	p := Promise{
		Status: rapid.SampledFrom(recourse.Statuses()).Draw(d.T, "status"), Cost: d.float(), Own: d.float(), Other: d.float(),
		Violation: rapid.SampledFrom([]string{"", "c is immutable", "ä\x00\n"}).Draw(d.T, "violation"),
	}
	if points && d.flag() {
		p.Point = d.inputs()
	}
	return p
}

func (d drawn) step() Step {
	s := Step{Full: d.promise(true), Quant: d.promise(true), DirSim: d.float(), Overlap: d.float()}
	if d.flag() { // one that says nothing at all is none
		s.Proof = &Proof{Lower: d.float(), Apart: Float(math.Inf(1))}
	}
	if d.flag() {
		for range Perturbations() {
			s.Perturbed = append(s.Perturbed, d.float())
		}
	}
	return s
}

func (d drawn) record() Record {
	text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", "b"}), rapid.String())
	r := Record{
		Row: rapid.Int().Draw(d.T, "row"), Line: rapid.Int().Draw(d.T, "line"), ID: text.Draw(d.T, "ID"),
		Label: rapid.Int8Range(-1, 1).Draw(d.T, "label"), Full: d.float(), Quant: d.float(), Evaluated: d.flag(),
		Hash: rapid.Uint64().Draw(d.T, "hash"), Calibrated: d.flag(), X: d.inputs(), Groups: make([]string, d.attributes),
	}
	for range rapid.IntRange(0, 3).Draw(d.T, "others") {
		r.Others = append(r.Others, rapid.Uint64().Draw(d.T, "other"))
	}
	for i := range r.Groups {
		r.Groups[i] = text.Draw(d.T, "group")
	}
	if d.flag() {
		p := d.promise(true)
		p.Status = recourse.Found
		r.Issued = &p
	}
	if r.Evaluated {
		r.First = d.promise(false)
		for range d.margins {
			r.Steps = append(r.Steps, d.step())
		}
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
		cmp.Comparer(func(a, b Float) bool { return math.Float64bits(float64(a)) == math.Float64bits(float64(b)) }),
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	}
}

func TestRecordBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := drawn{
			rt, rapid.IntRange(0, 6).Draw(rt, "dim"), rapid.IntRange(1, 3).Draw(rt, "margins"),
			rapid.IntRange(0, 2).Draw(rt, "attributes"),
		}
		from := layoutOf(d.margins, d.attributes)
		for range 3 {
			want := d.record()
			b := from.encode(nil, &want)
			if diff := cmp.Diff(&want, must.Get(from.decode(b))(rt), sameBits()); diff != "" {
				rt.Fatal(diff)
			}
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
		d := drawn{rt, 3, 2, 0}
		memory := rapid.SampledFrom([]int{0, 300, 1 << 20}).Draw(rt, "bytes in memory")
		r := newRecords([]float64{0, 0.1}, nil, limits{bytes: memory, records: 4})
		var want []Record
		for i := range rapid.IntRange(0, 20).Draw(rt, "records") {
			x := d.record()
			must.Do(rt, r.Add(&x))
			x.Person = i
			want = append(want, x)
		}
		for range 2 {
			if diff := cmp.Diff(want, all(t, r), sameBits()); diff != "" {
				rt.Fatal(diff)
			}
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
		if diff := cmp.Diff(unordered(r, want), unordered(r, visited), sameBits()); diff != "" {
			rt.Fatal(diff)
		}
		rows := map[int]bool{}
		for i := range want {
			rows[want[i].Row] = true
		}
		if len(rows) != len(seen) {
			rt.Errorf("people have %d rows of %d", len(seen), len(rows))
		}
		must.Do(rt, r.Close())
	})
}

// FuzzDecode: damaged bytes are an error; what is a record stays one.
func FuzzDecode(f *testing.F) {
	p := Promise{Status: recourse.Found, Cost: 1, Own: 0.1, Other: -0.1, Violation: "no", Point: []float32{1, 2, 0}}
	for _, r := range []Record{
		{Label: -1, Groups: []string{"x"}, X: []float32{1, 0, 0}},
		{
			ID: "a", Row: 7, Line: 9, Full: -1, Quant: 1, Evaluated: true, Issued: &p, First: none(recourse.NoneFound),
			Groups: []string{"x"}, Hash: 5, Others: []uint64{1, 2}, Calibrated: true, X: []float32{1, 0, 0},
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
