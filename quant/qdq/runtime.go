package qdq

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cfq/onnxio/graph"
)

// Runtime is what a release of ONNX Runtime can read of a quantized model.
type Runtime struct {
	Version string // such as "1.24"
	// Opset and IR are the newest operator set and the newest IR version that it reads.
	Opset, IR int64
	// Int4 and Int2 say whether it folds a Cast from the 4-bit and 2-bit integers to int8 when it loads a model. Where it
	// does not, codes of these widths stand in bit planes or wider integers.
	Int4, Int2 bool
}

// DefaultRuntime is the release that models are written for unless another is asked for.
const DefaultRuntime = "1.24"

// Runtimes returns the table of releases that models can be written for, oldest first. A release reads what was written
// for an older one. 1.20 is the first one: it has the opset in which quantizers are what they are today. The opsets are
// those of the ONNX release that each contains (1.16, 1.17, 1.17, 1.18, and
// 1.20 or later); INT4 has a Cast from 1.23 on, INT2 is known from 1.24 on.
func Runtimes() []Runtime {
	out := []Runtime{
		{"1.20", 21, 10, false, false},
		{"1.21", 22, 10, false, false},
		{"1.22", 22, 10, false, false},
		{"1.23", 23, 11, true, false},
	}
	for minor := 24; minor <= 30; minor++ {
		out = append(out, Runtime{fmt.Sprintf("1.%d", minor), int2Opset, int2IR, true, true})
	}
	return out
}

// RuntimeOf returns the release called version ("1.24", or "1.24.3" with the
// patch release, which changes nothing); "" is DefaultRuntime.
func RuntimeOf(version string) (Runtime, error) {
	version = cmp.Or(version, DefaultRuntime)
	var known []string
	for _, r := range Runtimes() {
		patch, ok := strings.CutPrefix(version+".0", r.Version+".")
		if ok && patch[0] != '.' && strings.Trim(patch, ".0123456789") == "" {
			return r, nil
		}
		known = append(known, r.Version)
	}
	return Runtime{}, fmt.Errorf("unknown release %q of ONNX Runtime: want one of %s", version, strings.Join(known, ", "))
}

// Check reports a model whose operator set r does not read.
func (r Runtime) Check(m *graph.Model) error {
	if v := m.Opset(""); v > r.Opset {
		return fmt.Errorf("the model has opset %d, and ONNX Runtime %s reads up to %d: "+
			"write for a newer release, or export the model with a lower opset", v, r.Version, r.Opset)
	}
	return nil
}

func (r Runtime) exact(bits int) container {
	return container{bits, bits == 3 || bits == 2 && !r.Int2 || bits == 4 && !r.Int4}
}

func (r Runtime) plain(bits int) container {
	switch {
	case bits == 2 && r.Int2:
		return container{bits: 2}
	case bits <= 4 && r.Int4:
		return container{bits: 4}
	}
	return container{bits: 8}
}

// options lists the ways to store the rows of l that may be the smallest: each width in the container of its own, in a
// plain one that holds it, or in that of a wider one of the layer.
func (r Runtime) options(l *plannedLayer) []stores {
	widths := l.widths()
	out := []stores{{}}
	for i, bits := range widths {
		candidates := []container{r.plain(bits)}
		for _, wider := range widths[i:] {
			for _, c := range []container{r.exact(wider), r.plain(wider)} {
				if !slices.Contains(candidates, c) {
					candidates = append(candidates, c)
				}
			}
		}
		var next []stores
		for _, s := range out {
			for _, c := range candidates {
				with := maps.Clone(s)
				if with[bits] = c; !r.wasteful(with, l) {
					next = append(next, with)
				}
			}
		}
		out = next
	}
	return out
}

// wasteful reports that s cannot be the smallest: rows of a width of l take too many
// more bytes in s than by themselves.
func (r Runtime) wasteful(s stores, l *plannedLayer) bool {
	unpacks := s.planes()
	extra := map[int]int{} // bits, by width
	for _, f := range l.enc.Formats {
		if c, ok := s[f.Bits]; ok {
			own := r.plain(f.Bits)
			if e := r.exact(f.Bits); unpacks && e.planes {
				own = e // the function is there
			}
			extra[f.Bits] += l.enc.In * (c.bits - own.bits)
		}
	}
	return len(extra) > 0 && slices.Max(slices.Collect(maps.Values(extra)))/8 > groupBytes+4*l.enc.Out
}
