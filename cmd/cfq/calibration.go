package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/task"
)

// calibrationFlags are the flags of what a model is calibrated on.
type calibrationFlags struct {
	peopleFlags

	limit   int // of the rows
	teacher recourse.TeacherOptions
}

func (f *calibrationFlags) addTeacher(fs *pflag.FlagSet) {
	fs.IntVar(&f.limit, "calibration-rows", 4096,
		"largest number of `rows` to calibrate on, plus refused people where they are few; 0 takes all")
	cli.Within(fs, "calibration-rows", &f.limit, 0, math.MaxInt, "0, for all, or more")
	addTeacherSteps(fs, &f.teacher)
	fs.Float64Var(&f.teacher.Noise, "teacher-noise", 0,
		"Gaussian noise of this `sigma`, in model inputs, on every teacher action, which stays feasible")
	cli.Within(fs, "teacher-noise", &f.teacher.Noise, 0, cli.Finite, "0, for none, or more")
	fs.IntVar(&f.teacher.Sample, "teacher-sample", 0,
		"teacher recourse for this many refused `people`, drawn at random; 0 = all")
	cli.Within(fs, "teacher-sample", &f.teacher.Sample, 0, math.MaxInt, "0, for all, or more")
	fs.Uint64Var(&f.teacher.Seed, "teacher-seed", 1, "seed of noise and sample")
	more(fs, "calibration-rows", "teacher-steps", "teacher-noise", "teacher-sample", "teacher-seed")
}

func addTeacherSteps(fs *pflag.FlagSet, o *recourse.TeacherOptions) {
	fs.IntVarP(&o.Steps, "teacher-steps", "K", 3, "gradient `steps` of the teacher recourse")
	cli.Within(fs, "teacher-steps", &o.Steps, 1, math.MaxInt, "1 or more")
}

// fill sets the options that the flags are about. The teacher's seed counts only where something is drawn,
// so that another one is no other run.
func (f *calibrationFlags) fill(e *env, o *ptq.Options) {
	o.Teacher, o.Workers, o.Progress, o.Rows = f.teacher, e.workers, e.progress(), f.limit
	if f.teacher.Noise == 0 && f.teacher.Sample == 0 {
		o.Teacher.Seed = 0
	}
	if f.limit == 0 {
		o.Rows = -1 // all of them
	}
}

// maxRead is the largest number of rows kept in memory: of more rows, a sample of this size is drawn.
const maxRead = 100000

// reading says which people are read. With promises these are all, for the promises are to any of them.
func (f *calibrationFlags) reading(seed uint64) task.ReadOptions {
	o := task.ReadOptions{Seed: seed}
	if f.promises == "" && f.limit > 0 {
		o.Most = max(maxRead, f.limit)
	}
	return o
}

// recipe says which files, and which people of them, a quantized model is made from.
func (f *calibrationFlags) recipe(model string, people *task.People, seed uint64) (map[string]string, error) {
	r, err := madeFrom(map[string]string{
		"model": model, "data": f.data, "task": f.task, "promises": f.promises, "overrides": f.overrides,
	})
	if err != nil {
		return nil, err
	}
	r["rows"] = f.rows
	if people.Undrawn > 0 {
		r["drawn"] = fmt.Sprintf("%d of %d rows, seed %d", people.N, people.N+people.Undrawn, seed)
	}
	return r, nil
}

// open reads the inputs, and sets the options of all that the flags say.
func (f *calibrationFlags) open(ctx context.Context, e *env, model string, read task.ReadOptions, o *ptq.Options) (
	*opened, error,
) {
	in, err := f.peopleFlags.open(ctx, e, []string{model}, read)
	if err != nil {
		return nil, err
	}
	f.fill(e, o)
	o.Overrides = in.allowed.list
	o.Promises, err = in.judged(ctx, e, model)
	return in, err
}
