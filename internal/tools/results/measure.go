package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"cfq/eval"
	"cfq/onnxio/classifier"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/onnxio/ort"
	"cfq/ptq"
	"cfq/recourse/constraint"
	"cfq/task"
)

// measure runs variants on the first networks of a data set.
func measure(ctx context.Context, o settings, d dataset, networks int, vs []variant) (_ []*row, err error) {
	b := bench{workers: o.workers, sample: o.sample}
	if b.task, err = task.Load(filepath.Join("examples", "tasks", d.name+".yaml")); err != nil {
		return nil, err
	}
	if b.train, b.test, err = read(ctx, o.shared, d, b.task); err != nil {
		return nil, err
	}
	if b.set, err = constraint.Compile(b.task); err != nil {
		return nil, err
	}
	if b.cache, err = os.MkdirTemp("", "cfq-results-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.cache)) }()
	rows := make([]*row, len(vs))
	for i, v := range vs {
		rows[i] = &row{label: v.label, values: make([]metrics, networks)}
	}
	for k := range networks {
		path := filepath.Join(o.shared, "models", d.name, fmt.Sprintf("mlp2-s%d.onnx", k))
		b.name = fmt.Sprintf("%s, network %d of %d", d.title, k+1, networks)
		if err := b.network(ctx, path, vs, func(i int, m metrics) { rows[i].values[k] = m }); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return rows, nil
}

// bench is what the variants of one network have in common.
type bench struct {
	name            string
	model           *graph.Model
	task            *task.Task
	train, test     *task.People
	full            *classifier.Model
	set             *constraint.Set
	original        *eval.Solution
	cache           string // of teacher actions and statistics
	workers, sample int
	done, total     int

	mu       sync.Mutex
	compared map[[sha256.Size]byte]*comparison // by the graph
}

// comparison is made once, however many variants give the same graph.
type comparison struct {
	once   sync.Once
	result *eval.Result
	err    error
}

func (b *bench) tell(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(os.Stderr, "results: "+b.name+": "+format+"\n", args...)
}

// network measures the variants of one network, some at once.
func (b *bench) network(ctx context.Context, path string, vs []variant, keep func(i int, m metrics)) (err error) {
	if b.model, err = codec.ReadFile(path); err != nil {
		return err
	}
	if b.full, err = ptq.OpenFor(ctx, b.model, b.task, ort.Options{}, b.workers); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.full.Close()) }()
	start := time.Now()
	o := eval.Options{Sample: b.sample, Seed: 1, Workers: b.workers}
	if b.original, err = eval.Solve(ctx, b.full, b.set, b.test, o); err != nil {
		return err
	}
	b.tell("recourse of the original (%.1f s)", time.Since(start).Seconds())
	b.compared = map[[sha256.Size]byte]*comparison{}
	b.done, b.total = 0, len(vs)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(b.workers)
	for _, group := range alike(vs) {
		g.Go(func() error { return b.budgets(ctx, vs, group, keep) })
	}
	return g.Wait()
}

// alike groups variants that differ in the budget alone.
func alike(vs []variant) [][]int {
	var groups [][]int
	at := map[string]int{}
	for i, v := range vs {
		v.o.Budget = 0
		key := fmt.Sprintf("%+v", v.o)
		k, ok := at[key]
		if !ok {
			k = len(groups)
			at[key], groups = k, append(groups, nil)
		}
		groups[k] = append(groups[k], i)
	}
	return groups
}

// budgets calibrates once and measures the variants of a group.
func (b *bench) budgets(ctx context.Context, vs []variant, group []int, keep func(i int, m metrics)) (err error) {
	o := vs[group[0]].o
	o.Workers, o.Cache = 1, b.cache
	c, err := ptq.Calibrate(ctx, b.model, b.task, b.train, o)
	if err != nil {
		return fmt.Errorf("%s: %w", vs[group[0]].label, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, i := range group {
		start := time.Now()
		m, err := b.one(ctx, c, vs[i].o.Budget)
		if err != nil {
			return fmt.Errorf("%s: %w", vs[i].label, err)
		}
		keep(i, m)
		b.mu.Lock()
		b.done++
		n := b.done
		b.mu.Unlock()
		b.tell("%d of %d: %s (%.1f s)", n, b.total, vs[i].label, time.Since(start).Seconds())
	}
	return nil
}

// one quantizes the network at a budget and measures the file.
func (b *bench) one(ctx context.Context, c *ptq.Calibration, budget float64) (metrics, error) {
	q, err := c.Quantize(ctx, budget)
	if err != nil {
		return metrics{}, err
	}
	if err := q.Verified.Err(); err != nil {
		return metrics{}, err
	}
	for _, warning := range q.Warnings {
		b.tell("%s, %g: warning: %s", q.Method, budget, warning)
	}
	written, err := codec.Read(q.Model, "")
	if err != nil {
		return metrics{}, err
	}
	written.Metadata = nil // names the options
	plain, err := codec.Marshal(written)
	if err != nil {
		return metrics{}, err
	}
	key := sha256.Sum256(plain)
	b.mu.Lock()
	k := b.compared[key]
	if k == nil {
		k = &comparison{}
		b.compared[key] = k
	}
	b.mu.Unlock()
	if k.once.Do(func() { k.result, k.err = b.compare(ctx, written) }); k.err != nil {
		return metrics{}, k.err
	}
	return metricsOf(q, k.result), nil
}

// compare holds a quantized model against the original.
func (b *bench) compare(ctx context.Context, m *graph.Model) (r *eval.Result, err error) {
	quantized, err := ptq.OpenFor(ctx, m, b.task, ort.Options{}, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, quantized.Close()) }()
	return b.original.Compare(ctx, quantized, eval.Options{Workers: 1})
}
