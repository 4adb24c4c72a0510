package eval

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"

	"cfq/internal/ordered"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/proof"
)

// Transfer is what is certain of all changes of a person that cost up to Settings.Factor times the cheapest one with
// which a model approves them by a required margin.
type Transfer struct {
	// Upper is at least the margin of every such change that the other model refuses; infinite when nothing is known.
	Upper Float `json:"upper"`
	// Refuted is the person after such a change that reaches the required margin and that the other model refuses, as
	// both compute it; nil without one.
	Refuted []float32 `json:"-"`
}

// Proved says that the other model approves every such change that reaches the required margin.
func (x *Transfer) Proved(required float64) bool {
	t := Float(float32(required)) // as the comparisons of margins have it
	return x.Upper < t || t == 0 && x.Upper <= 0
}

// Of the search: how far the cheapest change may be, as a part of it, below what the factor multiplies; how close
// bounds come to what is reached; how many nodes it looks at for one question.
const (
	leastGap        = 0.01
	transferTight   = 0.002
	transferNodes   = 3000
	transferWorkers = 2 // people who wait for each worker
)

// transfers proves what changes keep between two models.
type transfers struct {
	models [2]recourse.Model
	apart  [2]*proof.Pair // of what each accepts and the other one refuses
	alone  [2]*proof.Pair // of each model
}

// newTransfers prepares proofs; why says what makes them impossible.
func newTransfers(ctx context.Context, f, g recourse.Model) (t *transfers, why string, err error) {
	t = &transfers{models: [2]recourse.Model{f, g}}
	var networks [2]*proof.Network
	for i, m := range t.models {
		if networks[i], why, err = recourse.NetworkOf(ctx, m); err != nil || why != "" {
			return nil, [...]string{"the original", quantizedModel}[i] + " " + why, err
		}
	}
	for i := range networks {
		if t.apart[i], err = proof.NewPair(networks[i], networks[1-i]); err != nil {
			return nil, err.Error(), nil
		}
		t.alone[i] = t.apart[i].Alone()
	}
	return t, "", nil
}

// measureTransfers adds what is proved to the records of the people of s.
func (o *Options) measureTransfers(ctx context.Context, records []Record, s *solution, proofs *transfers) error {
	if proofs == nil {
		return nil
	}
	const stage = "transfer certificates"
	done, workers := 0, cmp.Or(o.Solver.Workers, runtime.GOMAXPROCS(0))
	o.Progress(Event{Stage: stage, Total: len(s.rows)})
	queue := ordered.New[any](transferWorkers*workers, workers)
	var err error
	for k, row := range s.rows {
		p := &transferred{transfers: proofs, Options: o, set: s.set.Person(k), of: &records[row]}
		err = queue.Go(func() (any, error) { return nil, p.prove(ctx, s.o.Margins) }, func(any) error {
			done++
			o.Progress(Event{Stage: stage, Done: done, Total: len(s.rows)})
			return nil
		})
		if err != nil {
			break
		}
	}
	if waited := queue.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		return fmt.Errorf("%s: %w", stage, err)
	}
	return nil
}

// transferred is a person about whom something is proved.
type transferred struct {
	*transfers
	*Options

	set *constraint.Set
	of  *Record
}

func (p *transferred) prove(ctx context.Context, margins []float64) (err error) {
	for i, t := range margins {
		step := &p.of.Steps[i]
		if !approves(p.of.Full) {
			if step.Transfer, err = p.between(ctx, 0, &step.Full, t); err != nil {
				return err
			}
		}
		if p.of.reverse() && !p.OneSided {
			if step.Back, err = p.between(ctx, 1, &step.Quant, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// between is what is certain of the changes with which the model of a side approves by the margin t; nil when there are
// none.
func (p *transferred) between(ctx context.Context, side int, known *Promise, t float64) (*Transfer, error) {
	x, out := p.of.X, &Transfer{Upper: Float(math.Inf(1))}
	switch {
	case known.Status == recourse.NoneExists:
		return nil, nil
	case p.set.Separable() != "": // of a person with rules of their own
		return out, nil
	}
	cost := math.Inf(1)
	if known.Exists() && known.Violation == "" && known.reaches(t) {
		cost = float64(known.Cost)
	}
	goal := proof.Goal{Margin: t, Aim: recourse.Aim(t), Cost: cost, Gap: leastGap, Nodes: transferNodes}
	least, err := p.alone[side].Cheapest(ctx, p.set, x, goal, func(point []float32) (bool, error) {
		own, err := margins(ctx, p.models[side], point, 1)
		if err != nil {
			return false, err
		}
		return (&Promise{Own: Float(own[0])}).reaches(t), nil
	})
	switch {
	case err != nil:
		return nil, err
	case math.IsInf(least.Cost, 1) && least.Proved:
		return nil, nil
	case math.IsInf(least.Cost, 1):
		return out, nil
	}
	d, err := p.apart[side].Transfer(ctx, p.set, x, p.Factor*least.Cost, transferTight, transferNodes)
	if err != nil {
		return nil, err
	}
	// A change that is dearer than the factor allows says nothing, so the cheapest one must be known.
	if out.Upper = Float(d.Upper); d.Refuted != nil && least.Proved && !out.Proved(t) {
		at, err := p.promise(ctx, side, d.Refuted)
		if err != nil {
			return nil, err
		}
		if at.reaches(t) && at.Broken() {
			out.Refuted = d.Refuted
		}
	}
	return out, nil
}

// promise is what both models, that of the side first, say of a person.
func (p *transferred) promise(ctx context.Context, side int, point []float32) (*Promise, error) {
	own, err := margins(ctx, p.models[side], point, 1)
	if err != nil {
		return nil, err
	}
	other, err := margins(ctx, p.models[1-side], point, 1)
	if err != nil {
		return nil, err
	}
	return &Promise{Status: recourse.Found, Own: Float(own[0]), Other: Float(other[0])}, nil
}
