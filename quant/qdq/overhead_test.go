package qdq_test

import (
	"math/rand/v2"
	"testing"

	"cfq/internal/must"
	"cfq/quant"
	"cfq/quant/qdq"
)

// What sets of widths are said to need is what the file of rows in them has, to a few bytes of lengths and names; where
// containers do not pay, the writer finds less.
func TestOverheads(t *testing.T) {
	t.Parallel()
	const tolerance = 8
	right := 0
	rng := rand.New(rand.NewPCG(3, 1))
	m := net(1, 152, 40, 60, 2)
	for _, integers := range []bool{false, true} {
		p := planFor(t, m, 4, true)
		var groups [][]string
		for i := range p.Layers {
			if groups = append(groups, []string{p.Layers[i].Node}); !integers {
				p.Layers[i].Act = nil
			}
		}
		o := qdq.Options{Size: size(t)}
		sets, base, unpack, err := qdq.Overheads(m, p, groups, o.Size)
		must.Do(t, err)
		must.Same(t, 10, len(sets[2])) // of two rows
		for trial := range 12 {
			want, planes := base, false
			for g := range p.Layers {
				l := &p.Layers[g]
				set := sets[g][rng.IntN(len(sets[g]))]
				for trial > 3 && set.Planes || g > 0 && len(set.Formats) > 1 {
					set = sets[g][rng.IntN(len(sets[g]))]
				}
				want += set.Bytes
				planes = planes || set.Planes
				out, in := len(l.Scales), []int{152, 40, 60}[g]
				l.Bits, l.RowBits = 0, make([]int, out)
				for r, f := range rng.Perm(out) {
					l.RowBits[r] = quant.Formats()[set.Formats[f%len(set.Formats)]].Bits
					want += l.RowBits[r] * in / 8
				}
			}
			if planes {
				want += unpack
			}
			q := write(t, m, p, o)
			switch got := len(marshal(t, q)); {
			case got > want-tolerance && got <= want+tolerance:
				right++
			case got > want:
				t.Errorf("integers %v: %d bytes, %d were to be expected", integers, got, want)
			}
		}
	}
	if right < 14 {
		t.Errorf("%d of 24 are right", right)
	}
}
