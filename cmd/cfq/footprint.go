package main

import (
	"context"
	"os"

	"cfq/eval"
	"cfq/eval/footprint"
	"cfq/onnxio/codec"
)

// weigh adds to r what the i-th model takes and, if that is asked for, how fast it is.
func (d *field) weigh(ctx context.Context, r *eval.Result, i int, latency bool) (err error) {
	var bytes [2]int64
	for k, path := range []string{d.paths[0], d.paths[i]} {
		for _, file := range append(codec.ExternalFiles(path), path) {
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			bytes[k] += info.Size()
		}
	}
	if r.Footprint, err = footprint.Measure(d.files[0], d.files[i], bytes[0], bytes[1]); err != nil {
		d.e.msg.Note("bits and bit operations are not known: %v", err)
		r.Footprint = &eval.Footprint{Full: eval.Weight{Bytes: bytes[0]}, Quant: eval.Weight{Bytes: bytes[1]}}
	}
	if !latency {
		return ctx.Err()
	}
	d.e.progress()(eval.Event{Stage: "taking the time"})
	r.Timing, err = footprint.Time(ctx, d.files[0], d.files[i], d.people.X, footprint.TimeOptions{Engine: d.e.engine(), Confidence: d.f.confidence})
	return runError(err)
}
