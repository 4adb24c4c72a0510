package sensitivity

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"cfq/internal/must"
	"cfq/onnxio/graph"
	"cfq/quant"
)

// Each row against the network in which that row alone is changed: a change that makes a unit fire counts, and one of
// a unit that never fires counts a little, more where it is larger.
func TestRows(t *testing.T) {
	t.Parallel()
	m := network()
	m.Graph.Nodes[1].Op = "Relu"
	for i, b := range []float32{2, -15, -13, 1} { // the second and the third unit never fire
		m = nudged(m, "b1", i, b)
	}
	c, layers := open(t, m), layersOf(t, m)
	rng := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, 1000*3)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	ctx := context.Background()
	ref := must.Get(c.Margins(ctx, x))(t)
	by := [][]float32{{0.3, 0.1, 6, 0.2}, {0.01, 0.02, 7, 0.02}} // how far two formats move the weight by the first input
	got := must.Get(Rows(ctx, c, layers[:1], x, func(int) (changes []Change, _ error) {
		for f := range by {
			w := slices.Clone(layers[0].W)
			for o := range layers[0].Out {
				w[o*layers[0].In] += by[f][o]
			}
			changes = append(changes, Change{W: w, B: slices.Clone(layers[0].B)})
		}
		return changes, nil
	}))(t)
	for o := range layers[0].Out {
		for f := range by {
			q := open(t, nudged(m, "w1", o*layers[0].In, by[f][o]))
			margins := must.Get(q.Margins(ctx, x))(t)
			want, e := MarginError(margins, ref), got[0][o][f]
			if fires := o != 1; fires != (want > 0) {
				t.Fatalf("unit %d, format %d moves the margin by %v", o, f, want)
			}
			if !(e > want && e < 1.05*want+0.001) {
				t.Errorf("unit %d, format %d: error %v, measured %v", o, f, e, want)
			}
		}
	}
	if dead := got[0][1]; !(dead[0] > 4*dead[1]) {
		t.Errorf("errors of a unit that never fires: %v", dead)
	}
}

// A row whose unit the margin does not depend on at all has an error, too, unless it does not change.
func TestRowsBehindNothing(t *testing.T) {
	t.Parallel()
	m := network()
	for k, init := range m.Graph.Inits {
		if init.Name == "w2" {
			m.Graph.Inits[k] = graph.FromFloats("w2", []float32{0, 1, 0, 1, 0, -1, 2, 1}, 2, 4)
		}
	}
	layers := layersOf(t, m)
	got := must.Get(Rows(context.Background(), open(t, m), layers[:1], []float32{1, 2, 3, -1, 0, 1},
		func(int) ([]Change, error) {
			w := slices.Clone(layers[0].W)
			w[0]++
			return []Change{{W: w, B: slices.Clone(layers[0].B)}}, nil
		}))(t)
	if e := got[0]; e[0][0] <= 0 || e[1][0] != 0 {
		t.Errorf("errors %v: the first row changes, the others do not", e)
	}
}

func layersOf(t *testing.T, m *graph.Model) []quant.LayerInfo {
	t.Helper()
	return must.Get(quant.FindLayers(m))(t)
}
