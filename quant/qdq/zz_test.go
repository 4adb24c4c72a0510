package qdq_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"cfq/graph"
	"cfq/onnxio"
	"cfq/quant"
	"cfq/quant/qdq"
)

func zzAdult(b failer, budget int) (*graph.Model, *quant.Plan) {
	m, err := onnxio.ReadFile("/work/shared/models/adult/mlp2-s0.onnx")
	if err != nil {
		b.Fatal(err)
	}
	if err := onnxio.Upgrade(m, 21); err != nil {
		b.Fatal(err)
	}
	c, err := quant.Canonical(m)
	if err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/tmp/w/adult%d.json", budget))
	if err != nil {
		b.Fatal(err)
	}
	f, err := quant.UnmarshalPlan(text)
	if err != nil {
		b.Fatal(err)
	}
	infos, err := quant.FindLayers(c)
	if err != nil {
		b.Fatal(err)
	}
	p, err := f.Plan(infos, c.Graph.DataInputs()[0].Name)
	if err != nil {
		b.Fatal(err)
	}
	return c, p
}

func BenchmarkZZSize(b *testing.B) {
	for _, budget := range []int{3, 4} {
		m, p := zzAdult(b, budget)
		b.Run(fmt.Sprint(budget), func(b *testing.B) {
			s := size(b)
			for b.Loop() {
				if _, err := qdq.Write(m, p, qdq.Options{Size: s}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint(budget, "old"), func(b *testing.B) {
			s := size(b)
			for b.Loop() {
				if _, err := qdq.Write(m, p, qdq.Options{Size: s, Runtime: "1.22"}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprint(budget, "plain"), func(b *testing.B) {
			for b.Loop() {
				if _, err := qdq.Write(m, p, qdq.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestZZCorpus(t *testing.T) {
	f, err := os.Create(os.Getenv("ZZOUT"))
	if err != nil {
		t.Skip()
	}
	defer f.Close()
	s := size(t)
	put := func(name string, m *graph.Model, p *quant.Plan) {
		for _, rt := range []string{"1.20", "1.23", "1.24"} {
			for k, size := range []func(*graph.Model) int{nil, s, preferPlanes, preferConcats} {
				b := marshal(t, write(t, m, p, qdq.Options{Size: size, Runtime: rt}))
				fmt.Fprintf(f, "%s %s %d %d %x\n", name, rt, k, len(b), sha256.Sum256(b))
			}
		}
	}
	for _, budget := range []int{3, 4} {
		m, p := zzAdult(t, budget)
		put(fmt.Sprint("adult", budget), m, p)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 150 {
		depth := 1 + rng.IntN(4)
		ws := []int{1 + rng.IntN(120)}
		for range depth {
			ws = append(ws, 1+rng.IntN(90))
		}
		m := net(uint64(i), ws...)
		p := planFor(t, m, 8, true)
		for k := range p.Layers {
			l := &p.Layers[k]
			switch rng.IntN(6) {
			case 0:
				l.Bits = []int{2, 3, 4, 8}[rng.IntN(4)]
			case 1:
				l.Float = rng.IntN(2) == 0
				l.Act = nil
			default:
				n := 1 + rng.IntN(4)
				some := rng.Perm(4)[:n]
				l.Bits = 0
				for range l.Scales {
					l.RowBits = append(l.RowBits, []int{2, 3, 4, 8}[some[rng.IntN(n)]])
				}
			}
			if rng.IntN(2) == 0 {
				for o := range l.Scales {
					l.Scales[o], _ = quant.Half(l.Scales[o] + 0.001)
				}
			}
		}
		put(fmt.Sprint("net", i, ws), m, p)
	}
}
