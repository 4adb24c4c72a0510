package ptq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cfq/internal/message"
	"cfq/onnxio"
	"cfq/onnxio/graph"
	"cfq/onnxio/refuse"
	"cfq/qat"
	"cfq/quant"
	"cfq/quant/qdq"
	"cfq/recourse/constraint"
	"cfq/task"
)

type network struct {
	*canonicalModel
	recipe   Recipe
	run      Run
	task     *task.Task
	set      *constraint.Set
	layers   []quant.LayerInfo // to quantize
	integer  []bool            // of each of these: on integers, if what it reads can be
	first    []int             // of each of these: the first with the same weights, see uses
	warnings []string          // why layers stay in float

	checkpoint qat.Checkpoint // of a training at the recipe's budget; nil without one
}

func prepare(ctx context.Context, m *onnxio.Model, t *task.Task, r Recipe, run Run) (*network, error) {
	err := errors.Join(r.Check(), r.checkRun(&run))
	if err != nil {
		return nil, err
	}
	run.tell("read the model", 0, 0)
	p := &network{recipe: r, run: run, task: t}
	if p.set, err = constraint.Compile(t); err != nil {
		return nil, err
	}
	if p.canonicalModel, err = open(m, t, r.Write, r.Round.CrossLayerEqualization, run.Workers); err != nil {
		return nil, err
	}
	if p.layers, p.warnings, err = p.selectLayers(r.Allocate.KeepFloat); err != nil {
		return nil, errors.Join(err, p.full.Close())
	}
	p.integer = qdq.Integers(p.layers)
	for i := range p.layers {
		if compute := r.Write.Compute; compute != computeAuto {
			p.integer[i] = compute == computeInteger && !p.layers[i].Table
		}
	}
	p.first = p.uses()
	return p, nil
}

// selectLayers returns the layers to quantize and a warning for each that cannot be; those that the patterns keep in
// float are marked as fixed.
func (m *canonicalModel) selectLayers(keep []string) (layers []quant.LayerInfo, warnings []string,
	err error,
) {
	kept, err := keptInFloat(m.found, keep)
	if err != nil {
		return nil, nil, err
	}
	for i := range m.found {
		switch l := &m.found[i]; {
		case l.Fixed == quant.NotFinite: // nor are the scores
			return nil, nil, fmt.Errorf("layer %q has weights that are no finite numbers: export the model after a training "+
				"that did not diverge", l.Node)
		case l.Fixed != "":
			warnings = append(warnings, fmt.Sprintf("layer %q stays in float: %s", l.Node, l.Fixed))
		case kept[l.Node] != "":
			l.Fixed = kept[l.Node] // as was asked for: nothing to warn of
		default:
			layers = append(layers, *l)
		}
	}
	switch {
	case len(layers) > 0:
		return layers, warnings, nil
	case len(kept) > 0:
		err = errors.New("nothing is left to quantize: every layer is to stay in float")
	case len(warnings) > 0:
		err = fmt.Errorf("the model has no layer that can be quantized: %s", strings.Join(warnings, "; "))
	case isQuantized(m.canonical):
		err = errors.New("the model is quantized already: quantize the float model that it was made from")
	default:
		err = refuse.Layerless(len(m.canonical.Graph.Nodes))
	}
	return nil, nil, err
}

// keptInFloat returns, by the names of their nodes, the layers that patterns leave in float, and why. A pattern is a
// name or one of path.Match, in which * stands for anything but a slash. What is not a pattern, or matches no layer, is
// an error: it would silently quantize what was to be kept.
func keptInFloat(layers []quant.LayerInfo, patterns []string) (map[string]string, error) {
	const listed = 20
	var errs []error
	kept := map[string]string{}
	for _, p := range patterns {
		var names []string
		matches := false
		_, bad := path.Match(p, "") // which looks at all of the pattern
		for _, l := range layers {
			names = append(names, l.Node)
			if ok, _ := path.Match(p, l.Node); l.Node == p || ok {
				matches = true
				kept[l.Node] = cmp.Or(kept[l.Node], fmt.Sprintf("%q keeps it", p))
			}
		}
		switch {
		case matches:
		case bad != nil:
			errs = append(errs, fmt.Errorf("keep in float %q is no pattern: a [ is never closed, or a \\ ends it", p))
		default:
			errs = append(errs, fmt.Errorf("keep in float %q matches no layer (* stands for anything but a slash); the layers "+
				"are %s", p, message.List(names, listed)))
		}
	}
	return kept, errors.Join(errs...)
}

func isQuantized(m *graph.Model) bool {
	return slices.ContainsFunc(m.Metadata, func(e graph.Meta) bool { return e.Key == RecipeKey }) ||
		slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool { return n.Op == "DequantizeLinear" })
}
