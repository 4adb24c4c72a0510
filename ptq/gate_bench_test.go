package ptq

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"cfq/eval"
	"cfq/internal/must"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/ptq/taskmodel"
	"cfq/recourse"
	"cfq/recourse/constraint"
	"cfq/recourse/promise"
	"cfq/task"
)

// BenchmarkGate100k measures what `cfq gate --promises` does with 100,000 promises to as many
// people, step by step: reading the data and the promises, judging them by the original, asking a
// quantized model. The people and their promises are those of Adult's training rows (else the
// loans'), repeated.
func BenchmarkGate100k(b *testing.B) {
	ctx := b.Context()
	name, m, t, people := adult(b, "adult.data.gz")
	full := must.Get(taskmodel.Open(loaded(b, m), t, runtime.GOMAXPROCS(0)))(b)
	defer full.Close()
	set := must.Get(constraint.Compile(t))(b)
	plain := *t // the data are a table with a header, without labels
	plain.Data = task.Data{Delimiter: ',', Missing: t.Data.Missing}
	data, promises := crowd(b, full, set, t, people, 100000)
	var steps [5]time.Duration
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			at := time.Now()
			lap := func(i int) {
				steps[i] += time.Since(at)
				at = time.Now()
			}
			people := must.Get(task.Read(ctx, data, &plain, task.ReadOptions{Hash: true}))(b)
			lap(0)
			f := must.Get(promise.Read(ctx, promises, t, people))(b)
			lap(1)
			verdicts := must.Get(promise.Judge(ctx, full, set, f))(b)
			lap(2)
			actions, _ := f.Actions(verdicts)
			lap(3)
			r := must.Get(eval.Compare(ctx, full, full, &eval.Batch{People: people, Set: set, Promises: actions}, eval.Options{
				OneSided: true,
				Margins:  []float64{0, 0.1},
			}))(b)
			must.Same(b, 100000, r.Issued.Promises)
			lap(4)
		}
		for i, what := range []string{"read-s", "promises-s", "judge-s", "actions-s", "compare-s"} {
			b.ReportMetric(steps[i].Seconds()/float64(b.N), what)
			steps[i] = 0
		}
		b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "seconds")
		b.ReportMetric(peakMB(), "peak-MB")
	})
}

func crowd(b *testing.B, m recourse.Model, set *constraint.Set, t *task.Task, people *task.People, n int) (data,
	promises string,
) {
	margins := must.Get(m.Margins(b.Context(), people.X))(b)
	var refused []int
	for i, v := range margins {
		if v <= 0 && len(refused) < 2000 {
			refused = append(refused, i)
		}
	}
	people = people.Subset(refused)
	actions := must.Get(recourse.Solve(b.Context(), m, set, people.X, recourse.SolveOptions{
		Margin: 0.1, Restarts: -1,
		Rounds: -1,
	}))(b)
	var as, are bytes.Buffer // what people become, and what they are
	become := must.Get(promise.NewWriter(&as, t))(b)
	stay := must.Get(promise.NewWriter(&are, t))(b)
	for row := 0; row < n; {
		for i, a := range actions {
			x := people.X[i*people.Dim : (i+1)*people.Dim]
			if a.Status != recourse.Found || row == n {
				continue
			}
			l := promise.Line{Row: row, Line: row + 2, Before: float64(margins[refused[i]]), X: x, Action: a}
			must.Do(b, become.Write(l))
			l.Action = recourse.Action{Status: recourse.NoneFound}
			must.Do(b, stay.Write(l))
			row++
		}
	}
	dir := b.TempDir()
	for _, f := range []struct {
		path *string
		name string
		w    *promise.Writer
		text *bytes.Buffer
	}{{&promises, "promises.csv", become, &as}, {&data, "data.csv", stay, &are}} {
		must.Do(b, f.w.Flush())
		*f.path = filepath.Join(dir, f.name)
		must.Do(b, os.WriteFile(*f.path, f.text.Bytes(), 0o600))
	}
	return data, promises
}

// BenchmarkEval measures eval.Compare of a quantized model on all of Adult's test rows (else the
// loans') at three margins with a noise floor, and how many times the original's own recourse at
// these margins that takes.
func BenchmarkEval(b *testing.B) {
	ctx := b.Context()
	name, m, t, people := adult(b, "adult.data.gz")
	q := must.Get(Quantize(ctx, loaded(b, m), t, people, mustRecipe(CFPTQ, "allocate.budget=4"), Run{}))(b)
	g := must.Get(codec.Read(q.Model, ""))(b)
	_, _, _, people = adult(b, "adult.test.gz")
	set := must.Get(constraint.Compile(t))(b)
	var models [2]recourse.Model
	for i, m := range []*graph.Model{m, g} {
		c := must.Get(taskmodel.Open(loaded(b, m), t, runtime.GOMAXPROCS(0)))(b)
		defer c.Close()
		models[i] = c
	}
	b.Run(name, func(b *testing.B) {
		o := eval.Options{Margins: []float64{0, 0.1, 0.25}, Noise: 500}
		var alone, all time.Duration
		for b.Loop() {
			start := time.Now()
			must.Get(eval.Solve(ctx, models[0], &eval.Batch{People: people, Set: set}, o))(b)
			alone += time.Since(start)
			start = time.Now()
			must.Get(eval.Compare(ctx, models[0], models[1], &eval.Batch{People: people, Set: set}, o))(b)
			all += time.Since(start)
		}
		b.ReportMetric(all.Seconds()/float64(b.N), "eval-s")
		b.ReportMetric(all.Seconds()/alone.Seconds(), "times-original")
		b.ReportMetric(peakMB(), "peak-MB")
	})
}
