package qdq

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cfq/internal/lists"
	"cfq/onnxio/graph"
	"cfq/onnxio/pass"
)

// container is a way to store signed codes of at most its number of bits: as a tensor of
// integers of that width, or as bit planes.
type container struct {
	bits   int
	planes bool
}

// stores says in which container the rows of each width stand. Rows of several widths may share one.
type stores map[int]container

func (s stores) planes() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(s)), func(c container) bool { return c.planes })
}

type rowGroup struct {
	container
	rows []int
}

func packed(l *plannedLayer, g rowGroup) *graph.Tensor {
	in := l.enc.In
	codes := l.enc.Codes
	if len(g.rows) < l.enc.Out {
		codes = lists.RowsAt(codes, in, g.rows)
	}
	if g.planes { // uint8 [bits, bytes of a plane, 1]
		m := (len(codes) + 7) / 8
		raw := make([]byte, g.bits*m)
		for i, q := range codes {
			for b := range g.bits {
				raw[b*m+i/8] |= byte(q) >> b & 1 << (i % 8)
			}
		}
		return &graph.Tensor{Name: "w", DType: graph.Uint8, Dims: []int64{int64(g.bits), int64(m), 1}, Raw: raw}
	}
	t := &graph.Tensor{Name: "w", Dims: []int64{int64(len(g.rows)), int64(in)}}
	t.DType = map[int]graph.DType{2: graph.Int2, 4: graph.Int4, 8: graph.Int8}[g.bits]
	t.Raw = make([]byte, t.DType.RawSize(len(codes)))
	mask := byte(1<<g.bits - 1)
	for i, q := range codes {
		t.Raw[i*g.bits/8] |= (byte(q) & mask) << (i * g.bits % 8)
	}
	return t
}

// The function that unpacks bit planes, shared by all layers of a model.
const (
	functionDomain = pass.FunctionDomain
	functionName   = "Unpack"
)

// unpackFunction is the model-local function that turns bit planes into int8 codes. Inputs: the planes p, uint8 [bits,
// m, 1], bit k of byte j of a plane belonging to element 8j+k; the worth v of each plane, float [bits, 1]; the shape n
// of the result, int64 [2]. The runtime folds a call with constant inputs at load.
func unpackFunction(opset int64) *graph.Function {
	f := &graph.Function{
		Name: functionName, Domain: functionDomain,
		Inputs: []string{"p", "v", "n"}, Outputs: []string{"w"},
		Opsets: []graph.Opset{{Version: opset}},
	}
	op := func(name, out string, in []string, attrs ...graph.Attr) {
		f.Nodes = append(f.Nodes, &graph.Node{Op: name, Inputs: in, Outputs: []string{out}, Attrs: attrs})
	}
	bytes := func(out string, v ...byte) {
		t := &graph.Tensor{DType: graph.Uint8, Dims: []int64{int64(len(v))}, Raw: v}
		op("Constant", out, nil, graph.TensorAttr("value", t))
	}
	ints := func(out string, v ...int64) { op("Constant", out, nil, graph.IntsAttr("value_ints", v...)) }
	bytes("a", 0, 1, 2, 3, 4, 5, 6, 7)
	bytes("b", 1)
	ints("c", 0, -1)
	ints("d", 0)
	op("BitShift", "e", []string{"p", "a"}, graph.StringAttr("direction", "RIGHT"))
	op("BitwiseAnd", "f", []string{"e", "b"})
	op("Reshape", "g", []string{"f", "c"})
	op("Cast", "h", []string{"g"}, graph.IntAttr("to", int64(graph.Float)))
	op("Gemm", "i", []string{"h", "v"}, graph.IntAttr("transA", 1))
	op("Cast", "j", []string{"i"}, graph.IntAttr("to", int64(graph.Int8)))
	op("ReduceProd", "k", []string{"n"})
	op("Slice", "l", []string{"j", "d", "k"})
	op("Reshape", "w", []string{"l", "n"})
	return f
}

func (l *plannedLayer) widths() []int {
	widths := map[int]bool{}
	for _, f := range l.enc.Formats {
		widths[f.Bits] = true
	}
	return slices.Sorted(maps.Keys(widths))
}

// groupBytes is more than it can save to store rows of one width with those of another
// and not by themselves: a tensor, what unpacks it, a Concat and a Gather.
const groupBytes = 600

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
