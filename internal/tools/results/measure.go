package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"cfq/eval"
	"cfq/onnxio"
	"cfq/onnxio/classifier"
	"cfq/onnxio/ort"
	"cfq/ptq"
	"cfq/recourse"
)

// variant is a row of the tables.
type variant struct {
	label string
	o     ptq.Options
}

// measured is a quantized file and how it differs from the original. The margins are eval's own: 0, 0.1, 0.25, 0.5.
type measured struct {
	*ptq.Result
	eval    *eval.Result
	seconds float64 // of the processor, that quantizing took; where several run at once, of all of them
}

// row collects one variant's measurements, one for each network.
type row struct {
	label  string
	values []measured
}

// mean is the mean over the networks.
func (r *row) mean(f func(m measured) eval.Float) float64 {
	var all []float64
	for _, m := range r.values {
		all = append(all, float64(f(m)))
	}
	return stat.Mean(all, nil)
}

// networks are models to measure: a name, and the model, by number.
type networks struct {
	n  int
	of func(ctx context.Context, in data, k int) (string, *onnxio.Model, error)
}

// shared are the first networks of a data set.
func (d dataset) shared(o settings, n int) networks {
	return networks{n, func(ctx context.Context, _ data, k int) (string, *onnxio.Model, error) {
		path := d.model(o, fmt.Sprintf("mlp2-s%d.onnx", k))
		m, err := onnxio.Load(ctx, path, ort.Options{})
		return path, m, err
	}}
}

// measure runs variants on networks of a data set.
func measure(ctx context.Context, o settings, d dataset, nets networks, vs []variant) (_ []*row, err error) {
	in, err := read(ctx, o, d)
	if err != nil {
		return nil, err
	}
	cache, err := os.MkdirTemp("", "cfq-results-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	rows := make([]*row, len(vs))
	for i := range vs {
		vs[i].o.Workers, vs[i].o.Cache = 1, cache
		vs[i].o.Compute = cmp.Or(vs[i].o.Compute, ptq.ComputeInteger) // unless the label says otherwise
		rows[i] = &row{vs[i].label, make([]measured, nets.n)}
	}
	for k := range nets.n {
		name, model, err := nets.of(ctx, in, k)
		if err == nil {
			err = network(ctx, o, name, model, in, vs, func(i int, m measured) { rows[i].values[k] = m })
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return rows, nil
}

// solve finds the recourse of the original.
func solve(ctx context.Context, o settings, full *classifier.Model, in data) (*eval.Solution, error) {
	return eval.Solve(ctx, full, in.set, in.test, eval.Options{Sample: o.sample, Seed: 1, Workers: o.workers})
}

// network measures the variants of one network, some at once.
func network(
	ctx context.Context, o settings, name string, model *onnxio.Model, in data, vs []variant,
	keep func(i int, m measured),
) (err error) {
	full, err := ptq.OpenFor(model, in.task, o.workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, full.Close()) }()
	original, err := solve(ctx, o, full, in)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.workers)
	for i, v := range vs {
		g.Go(func() error {
			m, err := quantized(ctx, model, in, original, v.o)
			if err != nil {
				return fmt.Errorf("%s: %w", v.label, err)
			}
			log.Printf("%s: %s", name, v.label)
			keep(i, m)
			return nil
		})
	}
	return g.Wait()
}

// quantized quantizes a network and compares the file with the original.
func quantized(
	ctx context.Context, model *onnxio.Model, in data, original *eval.Solution, o ptq.Options,
) (m measured, err error) {
	begun := processorSeconds()
	if m.Result, err = ptq.Quantize(ctx, model, in.task, in.train, o); err != nil {
		return m, err
	}
	m.seconds = processorSeconds() - begun
	for _, warning := range m.Warnings {
		log.Print("warning: ", warning)
	}
	if err := m.Verified.Err(); err != nil {
		return m, err
	}
	m.eval, err = compared(ctx, m.Model, in, original, nil)
	return m, err
}

// compared compares the bytes of a model with the original, along whose gradients the recourse of a model without any
// is searched.
func compared(ctx context.Context, onnx []byte, in data, original *eval.Solution, full *classifier.Model) (
	_ *eval.Result, err error,
) {
	written, err := onnxio.LoadBytes(ctx, onnx, ort.Options{})
	if err != nil {
		return nil, err
	}
	c, err := ptq.OpenFor(written, in.task, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var g recourse.Model = c
	if full != nil && c.Differentiable() != nil {
		g = classifier.Along{Model: c, Of: full}
	}
	return original.Compare(ctx, g, eval.Options{Workers: 1})
}
