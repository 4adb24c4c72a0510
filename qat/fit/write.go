package fit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"

	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/qat"
	"cfq/quant"
)

func (f *fit) write(ctx context.Context) (err error) {
	if f.coder != nil {
		return f.writeCoder(ctx)
	}
	member := 0
	if f.o.members > 1 {
		if member, err = f.representative(ctx); err != nil {
			return err
		}
	}
	g := f.member(f.best, member)
	if f.result.Model, err = f.marshal(g); err != nil {
		return err
	}
	m, err := f.classifier(ctx, g)
	if err != nil {
		return fmt.Errorf("the trained model: %w", err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	f.result.Train, f.result.Validation, err = f.decisionsOf(ctx, m, f.own.N)
	return err
}

func (f *fit) marshal(g *graph.Model) ([]byte, error) {
	f.result.Recipe = map[string]string{
		"arch": f.result.Arch, "objective": string(f.result.Objective), "steps": fmt.Sprint(f.result.Steps),
		"seed": fmt.Sprint(f.o.Train.Seed),
	}
	if len(f.o.Attributes) > 0 {
		f.result.Recipe["attributes"] = strings.Join(f.o.Attributes, ",")
	}
	maps.Copy(f.result.Recipe, f.o.Recipe)
	text, err := json.Marshal(f.result.Recipe)
	if err != nil {
		return nil, err
	}
	g.SetMeta(RecipeKey, string(text))
	return codec.Marshal(g)
}

func (f *fit) member(layers []qat.Trained, k int) *graph.Model {
	g := f.o.Arch.network(f.layers, f.own.Dim, 1, f.o.Train.Seed)
	inits := g.Graph.InitMap()
	at := k * len(f.net.Layers) / f.o.members
	for _, n := range g.Graph.Nodes {
		if quant.IsLayer(n) {
			w, b := inits[n.Inputs[1]], inits[n.Inputs[2]]
			*w = *graph.FromFloats(w.Name, layers[at].W, w.Dims...)
			*b = *graph.FromFloats(b.Name, layers[at].Bias, b.Dims...)
			at++
		}
	}
	return g
}

func (f *fit) classifier(ctx context.Context, g *graph.Model) (*classifier.Model, error) {
	m, err := onnxio.FromGraph(ctx, g, f.o.Engine)
	if err != nil {
		return nil, err
	}
	return classifier.New(m, classifier.Options{Target: &f.task.Target.Index, Workers: f.o.Workers})
}

// representative is the member whose margins are nearest to those of the ensemble, at the people and at the ensemble's
// recourse points.
func (f *fit) representative(ctx context.Context) (best int, err error) {
	all := f.with(f.best)
	defer func() { err = errors.Join(err, all.Close()) }()
	x, err := f.recourse(ctx, all, qat.Rounds)
	if err != nil {
		return 0, err
	}
	x = append(x, f.own.X...)
	mean, err := all.Margins(ctx, x)
	if err != nil {
		return 0, err
	}
	least := math.Inf(1)
	for k := range f.o.members {
		m, err := f.classifier(ctx, f.member(f.best, k))
		if err != nil {
			return 0, err
		}
		margins, err := m.Margins(ctx, x)
		if err = errors.Join(err, m.Close()); err != nil {
			return 0, err
		}
		var squares float64
		for i, v := range margins {
			squares += float64(v-mean[i]) * float64(v-mean[i])
		}
		if squares < least {
			best, least = k, squares
		}
	}
	return best, nil
}
