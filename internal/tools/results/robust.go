package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"cfq/onnxio"
	"cfq/onnxio/ort"
	"cfq/ptq"
)

// robustDeployments is how many deployments the robust solver knows, and how many
// are held out.
const robustDeployments = 8

// robust writes the tables of robust recourse on Adult.
func robust(ctx context.Context, w io.Writer, o settings) error {
	d := datasets()[0]
	in, err := read(ctx, o, d)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n### %s\n", d.title)
	for _, name := range []ptq.MethodName{ptq.PTQ, ptq.CFPTQ} {
		log.Printf("%s, %s", d.title, name)
		r, err := robustness(ctx, d.model(o, "mlp2-s0.onnx"), in, name, o)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", d.title, name, err)
		}
		method, err := ptq.FindMethod(name)
		if err != nil {
			return err
		}
		writeRobust(w, method, r)
	}
	return nil
}

func robustness(
	ctx context.Context, path string, in data, method ptq.MethodName, o settings,
) (_ *ptq.Robustness, err error) {
	m, err := onnxio.Load(ctx, path, ort.Options{})
	if err != nil {
		return nil, err
	}
	f, err := ptq.OpenFleet(ctx, m, in.task, in.train, ptq.Options{
		Method: method, Compute: ptq.ComputeInteger, Workers: o.workers,
	}, 2*robustDeployments, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Robustness(ctx, in.set, in.test, ptq.RobustOptions{
		Seen: robustDeployments, Margins: []float64{0, 0.1, 0.25}, Sample: o.sample, Seed: 1, Workers: o.workers,
	})
}

func writeRobust(w io.Writer, m ptq.Method, r *ptq.Robustness) {
	fmt.Fprintf(w, "\n%s at 4 bits, %s scales; %d people; deployments held out differ from the quantized model by "+
		"%.3f logits (rms).\n\n", m.Name, m.Defaults.Scales, r.People, r.Drift)
	fmt.Fprintln(w, "| margin | solved on | original | quantized | held out | all held out | cost | time |")
	fmt.Fprintln(w, "|---:|---|---:|---:|---:|---:|---:|---:|")
	var base float64
	for _, row := range r.Rows {
		if row.Solver == r.Rows[0].Solver {
			base = row.Seconds
		}
		fmt.Fprintf(w, "| %g | %s | %.3f | %.3f | %.3f | %.3f | %.3f (x%.3f) | x%.1f |\n", row.Margin, row.Solver,
			row.Original, row.Quantized, row.HeldOut, row.HeldOutAll, row.Cost, row.CostRatio, row.Seconds/base)
	}
}
