package autodiff_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cfq/onnxio/graph"
	"cfq/onnxio/ort/orttest"
)

func draws() int {
	if os.Getenv("CFQ_LONG") == "1" {
		return 60
	}
	return 1
}

// TestRandom holds operators whose rules depend on shapes against central differences, first and second order, for
// shapes, attributes and values that nobody thought of, the same on every run.
func TestRandom(t *testing.T) {
	rt := orttest.Need(t)
	for op, generate := range generators() {
		seed := fnv.New32a()
		seed.Write([]byte(op))
		all := rapid.Custom(generate)
		for i := range draws() {
			s := all.Example(int(seed.Sum32()>>1) + i)
			t.Run(fmt.Sprint(op, " ", i), func(t *testing.T) {
				defer func() {
					if t.Failed() {
						t.Log(s.name(), attributes(&graph.Node{Attrs: s.attrs}))
					}
				}()
				checkSample(t, rt, s, 2)
			})
		}
	}
}

func batched(t *rapid.T, dims []int64) string {
	s := text(dims)
	if len(dims) > 0 && rapid.Bool().Draw(t, "batch") {
		_, rest, _ := strings.Cut(s, " ")
		s = strings.TrimSpace("N " + rest)
	}
	return s
}

func small(t *rapid.T, name string, lo, hi int64) int64 {
	return rapid.Int64Range(lo, hi).Draw(t, name)
}

func oneOf[T any](t *rapid.T, name string, of ...T) T { return rapid.SampledFrom(of).Draw(t, name) }

func generators() map[string]func(*rapid.T) sample {
	all := map[string]func(*rapid.T) sample{}
	for _, some := range []map[string]func(*rapid.T) sample{
		elementwiseGenerators(), shapeGenerators(), placeGenerators(), imageGenerators(), normGenerators(),
		productGenerators(),
	} {
		maps.Copy(all, some)
	}
	return all
}

func elementwiseGenerators() map[string]func(*rapid.T) sample {
	all := map[string]func(*rapid.T) sample{}
	for _, op := range []string{"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean"} {
		all[op] = func(t *rapid.T) sample {
			full := sizes(t, 0, 4)
			a, b := broadcastable(t, full), broadcastable(t, full)
			s := sample{op: op, in: []operand{in(text(a)).within(0.5, 2), in(text(b)).within(0.52, 2)}}
			if slices.Contains([]string{"Max", "Min", "Sum", "Mean"}, op) && rapid.Bool().Draw(t, "third") {
				s.in = append(s.in, in(text(broadcastable(t, full))).within(0.51, 2))
			}
			return s
		}
	}
	all["Where"] = func(t *rapid.T) sample {
		full := sizes(t, 0, 3)
		of := broadcastable(t, full)
		bits := make([]byte, graph.FromInts("", nil, of...).Len())
		for i := range bits {
			bits[i] = byte(small(t, "bit", 0, 1))
		}
		return sample{op: "Where", in: []operand{
			mask(bits, of...), in(text(broadcastable(t, full))), in(text(broadcastable(t, full))),
		}}
	}
	return all
}
