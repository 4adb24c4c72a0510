package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cfq/eval"
	"cfq/internal/cli"
	"cfq/internal/must"
	"cfq/onnxio/ort/orttest"
	"cfq/ptq"
)

// TestSweepStopped checks that a sweep that was stopped and called again ends with the files of one run, that another
// sweep does not go on with its points, and that its models have as many bytes as those of quantize.
func TestSweepStopped(t *testing.T) {
	orttest.Need(t)
	dir, inputs := t.TempDir(), []string{loans("model.onnx"), "-d", loans("train.csv"), "-t", loans("task.yaml")}
	run := func(ctx context.Context, out, workers string, more ...string) (stderr string, err error) {
		_, stderr, err = call(ctx, slices.Concat([]string{"sweep"}, inputs, []string{
			"-o", out, "--test", loans("test.csv"), "--methods", "mixed-ptq,ptq", "--budgets", "2,4,5", "--sample", "3",
			"--workers", workers,
		}, more)...)
		return stderr, err
	}
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	if stderr, err := run(t.Context(), one, "2"); err != nil {
		t.Fatal(err, stderr)
	}
	log := filepath.Join(two, sweepPoints)
	lines := func() int {
		have, _ := os.ReadFile(log) // there is none at first
		return bytes.Count(have, []byte{'\n'})
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for lines() < 3 { // the inputs and two points
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	stderr, err := run(ctx, two, "1")
	if n := lines(); cli.Code(err) != cli.Interrupted || n < 3 || n > 6 || !strings.Contains(stderr,
		"the same command goes on from there") {
		t.Fatalf("%d lines, code %d (%v), %s", n, cli.Code(err), err, stderr)
	}
	if exists(filepath.Join(two, sweepSVG)) {
		t.Error("a sweep that was stopped drew curves")
	}
	if _, err := run(t.Context(), two, "1", "--sample", "11", "--seed", "2"); cli.Code(err) != cli.Unusable ||
		!strings.HasSuffix(err.Error(), "a sweep with other inputs: options") {
		t.Errorf("another sweep: %v", err)
	}
	if stderr, err := run(t.Context(), two, "2"); err != nil || !strings.Contains(stderr, "finished before") {
		t.Fatal(err, stderr)
	}
	for _, name := range []string{sweepPoints, sweepTable, sweepSVG} {
		a, errA := os.ReadFile(filepath.Join(one, name))
		b, errB := os.ReadFile(filepath.Join(two, name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: another than of one run (%v, %v)", name, errA, errB)
		}
	}
	model := filepath.Join(dir, "q.onnx")
	_, stderr, err = call(t.Context(), slices.Concat([]string{"quantize"}, inputs,
		[]string{"-o", model, "--method", "ptq", "--budget", "5"})...)
	if err != nil {
		t.Fatal(err, stderr)
	}
	file, points := must.Get(os.Stat(model))(t), must.Get(os.ReadFile(filepath.Join(one, sweepPoints)))(t)
	if want := fmt.Sprintf(`"bytes":%d,`, file.Size()); !bytes.Contains(points, []byte(want)) {
		t.Errorf("no point has %s as the file of quantize:\n%.400s", want, points)
	}
	for _, text := range []string{"method,budget\n", "PK", ""} {
		must.Do(t, os.WriteFile(log, []byte(text), 0o600))
		must.Fail(must.In(t, text), must.Err(run(t.Context(), two, "1")), "not the log of a sweep")
	}
}

func TestSweepTable(t *testing.T) {
	at := eval.AtMargin{Margin: 0.1, Values: eval.Values{
		"vd":                eval.Rate{Num: 662, Den: 1000, Value: 0.662, Lo: 0.613, Hi: 0.708}.AsValue(),
		"rvd":               eval.Rate{Num: 9, Den: 9, Value: 1, Lo: 0.901, Hi: 1}.AsValue(),
		"crg.ratio_of_sums": eval.Estimate{Value: -1}.AsValue(), "margin_error.rms": eval.Estimate{Value: 0.012345}.AsValue(),
	}}
	measured := &eval.Result{Settings: eval.Settings{Margins: []float64{0.1}}, Margins: []eval.AtMargin{at}}
	measured.Values = eval.Values{
		"disagreement": eval.Rate{Value: 0.001}.AsValue(), "accuracy_full": eval.Rate{}.AsValue(),
		"accuracy_quant": eval.Rate{}.AsValue(),
	}
	r := &ptq.SweepResult{FloatBytes: 123_456_789, Points: []ptq.SweepPoint{
		{
			Method: "cf-ptq-paper", Budget: 2,
			Unfit: "a budget of 2 bits per weight (cost: bops): budget too small: the least is 2.65",
		},
		{Method: "cf-ptq-calib", Budget: 2.25, Bits: 2.25, Bytes: 98_765_432, Measured: measured, Problems: []string{"x"}},
		{Method: "cf-ptq-calib", Budget: 3, Same: 2.25, Measured: measured},
	}}
	var b bytes.Buffer
	newTextView(&b).page("sweep", newSweepView(r, "bits"))
	for line := range strings.Lines(b.String()) {
		if n := len(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		"cf-ptq-paper       2  does not fit: the least is 2.65\n", "cf-ptq-calib       3  as at 2.25\n",
		"cf-ptq-calib   2.25!  2.25  98765432  66.2  61.3..70.8  100  90.1..100  -100  0.0123  0.0000   99.9\n",
	} {
		must.Has(t, b.String(), want)
	}
}
