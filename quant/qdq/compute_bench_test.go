package qdq_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/onnxio/ort/orttest"
	"cfq/quant"
	"cfq/quant/qdq"
)

// BenchmarkCompute measures the rule of Integers: networks of 104 inputs like Adult's and three hidden layers of one
// width, weights of 4 bits, one thread. Metrics are times relative to the float model's, from one run in which all take
// turns: integer computes on integers throughout, float nowhere, auto by the rule; static is what
// onnxruntime.quantization writes, 8-bit weights and one input scale. bytes-of-integer is the file of auto relative to
// that of integer.
func BenchmarkCompute(b *testing.B) {
	eng := orttest.Need(b)
	eng.Threads = 1
	for _, width := range []int{32, 64, 128, 256, 512, 1024, 2048} {
		m := net(1, 104, width, width, width, 2)
		names := []string{"original", "integer", "float", "auto", "static"}
		models := []*graph.Model{m}
		for _, name := range names[1:] {
			models = append(models, write(b, m, computePlan(b, m, name), qdq.Options{Size: size(b)}))
		}
		bytes := float64(len(marshal(b, models[3]))) / float64(len(marshal(b, models[1])))
		for _, batch := range []int{1, 32, 256} {
			b.Run(fmt.Sprintf("width=%d/batch=%d", width, batch), func(b *testing.B) {
				var times []time.Duration
				for b.Loop() {
					times = interleaved(b, eng, models, rows(1, batch, 104))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(times[0].Microseconds()), "original-µs")
				for i, name := range names[1:] {
					b.ReportMetric(float64(times[i+1])/float64(times[0]), name)
				}
				b.ReportMetric(bytes, "bytes-of-integer")
			})
		}
	}
}

func computePlan(b *testing.B, m *graph.Model, name string) *quant.Plan {
	if name == "static" {
		return planFor(b, m, 8, false)
	}
	layers := must.Get(quant.FindLayers(m))(b)
	p, integer := planFor(b, m, 4, true), qdq.Integers(layers)
	for i := range p.Layers {
		switch on := name == "integer" || name == "auto" && integer[i]; {
		case on && i == 0:
			const scale = 1. / 255
			p.Input = &quant.Input{Scale: scale}
			for j := range 104 {
				if j < 6 { // standardised numbers, the others are one-hots
					p.Input.Columns = append(p.Input.Columns, column(j, -3, 5.5, 1, scale)...)
				} else {
					p.Input.Columns = append(p.Input.Columns, quant.InputColumn{Source: j, Hi: 1, Gain: 1})
				}
			}
			fallthrough
		case !on:
			p.Layers[i].Act = nil
		}
	}
	return p
}

func interleaved(b *testing.B, eng ort.Options, models []*graph.Model, x *graph.Tensor) (median []time.Duration) {
	sessions := make([]*ort.Session, len(models))
	for i, m := range models {
		var err error
		if sessions[i], err = ort.OpenBytes(marshal(b, m), eng); err != nil {
			b.Fatal(err)
		}
		defer sessions[i].Close() //nolint:errcheck // nothing is lost
	}
	times := make([][]time.Duration, len(models))
	const warmup, least = 3, 30
	for start, turn := time.Now(), 0; turn < least || time.Since(start) < time.Second; turn++ {
		for k := range models {
			i := (turn + k) % len(models)
			begun := time.Now()
			must.Get(sessions[i].Run(b.Context(), []*graph.Tensor{x}))(b)
			if turn >= warmup {
				times[i] = append(times[i], time.Since(begun))
			}
		}
	}
	for _, t := range times {
		slices.Sort(t)
		median = append(median, t[len(t)/2])
	}
	return median
}
