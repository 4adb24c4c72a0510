package eval

import (
	"context"
	"errors"
	"math"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/classifier"
	"cfq/recourse"
)

type companion struct {
	add  func(x float32, rows int) float32
	node func(x float32) []string // why, none for rounding
}

func (c *companion) InBatch(_ context.Context, x []float32) ([]classifier.Placed, error) {
	out := make([]classifier.Placed, len(x))
	for i, v := range x {
		out[i] = classifier.Placed{Batch: x, At: i, Margin: v + c.add(v, len(x))}
	}
	return out, nil
}

func (c *companion) Diverging(_ context.Context, pairs [][2]classifier.Placed) ([]classifier.Divergence, error) {
	out := make([]classifier.Divergence, len(pairs))
	for i, p := range pairs {
		out[i].Nodes = c.node(p[0].Batch[p[0].At])
	}
	return out, nil
}

func TestRerunFindsFew(t *testing.T) {
	t.Parallel()
	quiet := &companion{func(float32, int) float32 { return 0 }, func(float32) []string { return nil }}
	kind := func(x float32) bool { return math.Round(float64(x)) == -3 } // a seventh of the people
	alone := func(rows int, by float32) float32 {
		if rows == 1 {
			return by
		}
		return 0
	}
	var records []Record
	for i := range 20000 {
		x := float32(-1-i%7) - float32(i)/1e5
		rec := Record{Row: i, RowData: RowData{X: []float32{x}}, Full: Float(x), Quant: Float(x), Evaluated: i < 100}
		if i < 100 {
			own := float32(0.1) + float32(i)/1000
			p := Promise{Status: recourse.Found, Own: Float(own), Other: Float(own), Point: []float32{own}}
			rec.Steps = []Step{{Full: p, Quant: none(recourse.NoneFound)}}
		}
		records = append(records, rec)
	}
	r := summarize(t, records, Settings{Margins: []float64{0.1}, Confidence: 0.95}, DataFile{})
	for name, c := range map[string]struct {
		g      *companion
		differ func(points int) bool
	}{
		"rounding alone": {
			&companion{func(_ float32, rows int) float32 { return alone(rows, 1) }, func(float32) []string { return nil }},
			func(n int) bool { return n == 0 },
		},
		"rounding hides the node": {
			&companion{
				func(x float32, rows int) float32 { return alone(rows, map[bool]float32{true: 0.1, false: 1}[kind(x)]) },
				func(x float32) []string { return map[bool][]string{true: {"Shape"}}[kind(x)] },
			},
			func(n int) bool { return n > 10 && n < 60 },
		},
		"at recourse points": {
			&companion{
				func(x float32, rows int) float32 { return alone(rows, -max(0, x)) },
				func(float32) []string { return []string{"Shape"} },
			},
			func(n int) bool { return n == 100 },
		},
	} {
		b := must.Get(Rerun(t.Context(), quiet, c.g, r))(must.In(t, name))
		if b.Points != batchPoints || !c.differ(b.Differ) || (b.Difference > 0) != (b.Differ > 0) {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

type lookup struct{ companion }

func (*lookup) InBatch(_ context.Context, x []float32) ([]classifier.Placed, error) {
	out := make([]classifier.Placed, len(x)/2)
	for i := range out {
		if x[2*i] == 1 && x[2*i+1] == 1 {
			return nil, errors.New("index 3 is out of bounds")
		}
		out[i] = classifier.Placed{Batch: x, At: i, Margin: x[2*i] - 2*x[2*i+1]}
	}
	return out, nil
}

func TestRerunOfCategories(t *testing.T) {
	t.Parallel()
	var records []Record
	for i := range 300 {
		x := []float32{float32(i % 2), float32(1 - i%2)}
		m := Float(x[0] - 2*x[1])
		records = append(records, Record{Row: i, RowData: RowData{X: x}, Full: m, Quant: m})
	}
	r := summarize(t, records, Settings{Margins: []float64{0.1}, Confidence: 0.95}, DataFile{})
	must.Same(t, 0, must.Get(Rerun(t.Context(), &lookup{}, &lookup{}, r))(t).Differ)
}
