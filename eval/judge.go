package eval

import (
	"context"
	"fmt"

	"cfq/internal/lists"
	"cfq/onnxio/classifier"
	"cfq/recourse"
)

const quantizedModel = "the quantized model"

// judge asks g about the points of s, and the model of s about the points of g, which it solves first for the same
// people unless Options.OneSided. proofs is nil for none. It returns one record for each person, in their order.
func (s *solution) judge(ctx context.Context, g recourse.Model, proofs *transfers, o Options) (_ []Record, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("eval: %w", err)
		}
	}()
	if d := s.model.Dim(); d != g.Dim() {
		return nil, fmt.Errorf("the original takes %d inputs, the quantized model %d", d, g.Dim())
	}
	q := &solution{name: quantizedModel, model: g, people: s.people, rows: s.rows, set: s.set, x: s.x, o: o}
	if _, gradless := g.(classifier.Along); gradless { // gradients of another model lead past narrow places
		q.original = s
	}
	if err := q.decide(ctx); err != nil {
		return nil, err
	}
	if !o.OneSided && len(q.rows) > 0 {
		if err := q.solve(ctx); err != nil {
			return nil, err
		}
	}
	full, err := s.marginsUnder(ctx, q)
	if err != nil {
		return nil, err
	}
	quant, err := q.marginsUnder(ctx, s)
	if err != nil {
		return nil, err
	}
	records := s.decisions(q)
	for k, row := range s.rows {
		r := &records[row]
		r.First, r.Steps = none(recourse.NoneFound), make([]Step, len(s.o.Margins))
		if s.first != nil {
			r.First = full(s.first[k])
		}
		if s.issued != nil && s.issued[k].Exists() {
			p := full(s.issued[k])
			r.Issued = &p
		}
		for i := range r.Steps {
			step := &r.Steps[i]
			*step = Step{
				Full: full(s.steps[i][k]), Quant: none(recourse.NoneFound),
				DirSim: undefined(), Overlap: undefined(), Pixels: s.steps[i][k].pixels,
			}
			if q.steps == nil {
				continue
			}
			own := q.steps[i][k]
			if own.Status == recourse.NoneFound && step.Full.Exists() && step.Full.Violation == "" {
				kept := &point{Promise: step.Full, delta: s.steps[i][k].delta}
				if kept.Own, kept.Other = kept.Other, kept.Own; kept.reaches(o.Margins[i]) { // it is recourse under both
					own = kept
				}
			}
			step.Quant = quant(own)
			if step.Full.Exists() && step.Quant.Exists() {
				a, b := s.steps[i][k].delta, own.delta
				step.DirSim, step.Overlap = Float(dirSim(a, b)), Float(actOverlap(a, b))
			}
		}
	}
	for i := range s.o.Margins {
		if err := o.measurePerturbations(ctx, records, s, i); err != nil {
			return nil, err
		}
	}
	return records, o.measureTransfers(ctx, records, s, proofs)
}

func (s *solution) decisions(q *solution) []Record {
	records := make([]Record, s.people.N)
	for i := range records {
		r := &records[i]
		*r = Record{
			Person: i, Row: s.people.Row(i), Line: s.people.Line(i), Label: -1,
			Full: Float(s.margins[i]), Quant: Float(q.margins[i]), RowData: RowData{X: s.inputs(i)},
		}
		for k := range s.people.Subgroups {
			r.Groups = append(r.Groups, s.people.Subgroups[k].Of(i))
		}
		if s.people.IDs != nil {
			r.ID = s.people.IDs[i]
		}
		if s.people.Content != nil {
			r.Hash, r.Others = s.people.Content[i], s.people.Others[i]
		}
		if s.people.Labels != nil {
			r.Label = s.people.Labels[i]
		}
		if s.promises != nil && s.promises[i].Status == recourse.Found {
			r.Issued = &Promise{Status: recourse.Found, Cost: Float(s.promises[i].Cost), Own: undefined(), Other: undefined()}
		}
	}
	for _, row := range s.rows {
		records[row].Evaluated = true
	}
	return records
}

// marginsUnder runs the other model at all points of s, in the batches in which s found them: another batch
// size may round otherwise. It returns the promises of points, judged.
func (s *solution) marginsUnder(ctx context.Context, other *solution) (func(p *point) Promise, error) {
	all := map[*point]Float{}
	for _, found := range s.found {
		x := lists.Join(found, func(p *point) []float32 { return p.Point })
		m, err := margins(ctx, other.model, x, len(found))
		if err != nil {
			return nil, fmt.Errorf("recourse points of %s under %s: %w", s.name, other.name, err)
		}
		for i, p := range found {
			if all[p] = Float(m[i]); !all[p].Defined() {
				where := "a recourse point of " + s.name
				return nil, &UndefinedError{Model: other.name, Where: where, Margin: all[p]}
			}
		}
	}
	return func(p *point) Promise {
		out := p.Promise
		if margin, ok := all[p]; ok {
			out.Other = margin
		}
		return out
	}, nil
}
