package certify

import (
	"context"
	"errors"
	"fmt"

	"cfq/onnxio/classifier"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
)

// Certifier bounds how a quantized model differs from the full-precision one. It is safe for concurrent use.
type Certifier struct {
	full, quant side
	target      int
	unknown     error // why nothing can be proved
}

// side is one of the two models.
type side struct {
	m      *graph.Model
	c      *classifier.Model
	o      ort.Options
	values map[string]*graph.Tensor // of one row of zeros
	p      *program                 // nil where the graph holds what certificates do not know
}

// Open prepares certificates for the class called target of the two models, as ONNX Runtime runs them with the
// engine's options. Operators that certificates do not know are no error here: see Check.
func Open(ctx context.Context, full, quantized *graph.Model, target int, o ort.Options) (*Certifier, error) {
	k := &Certifier{full: side{m: full, o: o}, quant: side{m: quantized, o: o}, target: target}
	var unknown []error
	for i, s := range []*side{&k.full, &k.quant} {
		name := [...]string{"the original", "the quantized model"}[i]
		var err error
		if s.c, err = classifier.Open(ctx, s.m, o, classifier.Options{Target: &target}); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), k.Close())
		}
		if s.values, err = probed(ctx, s.m, s.c, o); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), k.Close())
		}
		if s.p, err = compile(ctx, s.m, s.c, o, s.values); err != nil {
			unknown = append(unknown, fmt.Errorf("%s: %w", name, err))
		}
	}
	if a, b := k.full.c, k.quant.c; a.Dim() != b.Dim() || a.Classes() != b.Classes() {
		err := fmt.Errorf("the original has %d inputs and %d classes, the quantized model %d and %d", a.Dim(), a.Classes(), b.Dim(), b.Classes())
		return nil, errors.Join(err, k.Close())
	}
	if k.unknown = errors.Join(unknown...); k.unknown == nil {
		k.link()
	}
	return k, nil
}

// Check says why Prove cannot prove anything, naming the nodes; nil when it can.
func (k *Certifier) Check() error { return k.unknown }

// Close frees the models.
func (k *Certifier) Close() error {
	var errs []error
	for _, s := range []*side{&k.full, &k.quant} {
		if s.c != nil {
			errs = append(errs, s.c.Close())
		}
	}
	return errors.Join(errs...)
}

// link finds for each curve of the quantized model the same one, of the value of the same name, in the full model.
func (k *Certifier) link() {
	for name, d := range k.quant.p.twins {
		twin := k.full.p.twins[name]
		if twin == nil || len(twin.of) != len(d.of) {
			continue
		}
		same := true
		for i := range d.of {
			same = same && d.of[i] == twin.of[i]
		}
		if same {
			d.twin = twin
		}
	}
}
