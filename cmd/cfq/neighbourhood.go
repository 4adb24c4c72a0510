package main

import (
	"context"
	"strings"

	"cfq/eval"
	"cfq/eval/certify"
)

// ballSamples is how many points of the ball around each recourse point are looked at.
const ballSamples = 64

// neighbourhood knows what holds around recourse points.
type neighbourhood struct {
	d        *field
	k        *certify.Certifier // nil when it was not needed yet
	warnings []string
}

// around adds certificates and logit perturbation to what is evaluated, if it is asked for.
func (d *field) around(ctx context.Context, certify bool, o *eval.Options) (*neighbourhood, error) {
	n := &neighbourhood{d: d}
	if !certify {
		return n, nil
	}
	if err := n.open(ctx); err != nil {
		return nil, runError(err)
	}
	o.Radius = d.f.certify
	o.Perturb = n.k.Perturb(o.Radius, ballSamples, o.Seed)
	if err := n.k.Check(); err != nil {
		n.warnings = append(n.warnings, "nothing can be proved: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		return n, nil
	}
	o.Prove = n.k.Prove
	return n, nil
}

func (n *neighbourhood) open(ctx context.Context) (err error) {
	if n.k == nil {
		n.k, err = certify.Open(ctx, n.d.files[0], n.d.files[1], n.d.task.Target.Index, n.d.e.engine())
	}
	return err
}

// Close frees what was opened.
func (n *neighbourhood) Close() error {
	if n.k == nil {
		return nil
	}
	return n.k.Close()
}
