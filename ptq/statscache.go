package ptq

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"cfq/calib"
	"cfq/internal/cache"
	"cfq/onnxio/codec"
)

// worthKeepingStats is the number of products, rows x squares of the layers' inputs,
// from which on statistics are kept; below it, some 20 ms, nobody would notice.
// Reading them back takes less than a tenth of the time (BenchmarkStatsCache: 85 ms
// instead of 1000, with gradients 1700, for Adult's training rows on a busy machine,
// most of them the hash of the rows, in 0.15 and 0.28 MB).
const worthKeepingStats = 1 << 25

// statistics is calib.Collect of the job's calibration set, through the cache.
func (q *job) statistics(ctx context.Context) ([]calib.Stats, error) {
	return q.statisticsFrom(ctx, worthKeepingStats)
}

// statisticsFrom is statistics, kept from so much work on.
func (q *job) statisticsFrom(ctx context.Context, least float64) ([]calib.Stats, error) {
	collect := func() ([]calib.Stats, error) {
		return calib.Collect(ctx, q.full, q.wide, q.cal, q.input, q.collects())
	}
	work := 0.0
	for _, l := range q.wide {
		work += float64(q.cal.Rows()) * float64(l.In) * float64(l.In)
	}
	if q.o.Cache == "" || work < least {
		return collect()
	}
	key, err := q.statsKey()
	if err != nil {
		return nil, err
	}
	c := cache.Dir{Path: q.o.Cache, Limit: cacheBytes}
	if kept, ok := c.Get(key); ok {
		if s, err := calib.UnpackStats(kept); err == nil && len(s) == len(q.wide) {
			q.tell("statistics of the layers from the cache", len(s), len(s))
			return s, nil
		}
	}
	s, err := collect()
	if err == nil {
		c.Put(key, calib.PackStats(s))
	}
	return s, err
}

// statsKey names everything that the statistics depend on: the program, the
// library and how it is run, the model, its target, the layers, the input's grid, the
// rows and their weights, and what is wanted of them.
func (q *job) statsKey() (cache.Key, error) {
	h := sha256.New()
	by, err := computedBy(q.o.Engine)
	if err != nil {
		return cache.Key{}, err
	}
	model, err := codec.Marshal(q.canonical)
	if err != nil {
		return cache.Key{}, err
	}
	input, err := json.Marshal(q.input)
	if err != nil {
		return cache.Key{}, fmt.Errorf("the input's grid: %w", err)
	}
	fmt.Fprintf(h, "statistics %s %+v %d %d %d %d %q\n", by,
		q.collects(), q.full.Target(), len(model), len(q.cal.X), len(q.cal.Weights), input)
	for _, l := range q.wide {
		fmt.Fprintf(h, "%q %q %q %d %d\n", l.Node, l.Input, l.Output, l.In, l.Out)
	}
	h.Write(model)
	writeFloats(h, q.cal.X)
	for _, w := range q.cal.Weights {
		fmt.Fprintf(h, "%x ", w) // exact
	}
	return cache.Key(h.Sum(nil)), nil
}
