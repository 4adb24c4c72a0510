package main

import (
	"context"
	"math"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/onnxio"
	"cfq/onnxio/codec"
	"cfq/ptq"
	"cfq/recourse"
	"cfq/task"
)

// calibrationFlags are the flags of what a model is calibrated on.
type calibrationFlags struct {
	data, task, rows string
	from, overrides  string
	limit            int // of the rows
	teacher          recourse.TeacherOptions
	noCache          bool
}

// addFiles adds the flags that come first.
func (f *calibrationFlags) addFiles(fs *pflag.FlagSet) {
	fs.StringVarP(&f.data, "data", "d", "", "the calibration rows: a CSV (also gzipped) or Parquet `file`")
	fs.StringVarP(&f.task, "task", "t", "", "the task `file`")
}

// addPromises adds the flags of recourse that is not the teacher's.
func (f *calibrationFlags) addPromises(fs *pflag.FlagSet) {
	fs.StringVar(&f.from, "promises", "", fromHelp)
	fs.StringVar(&f.overrides, "overrides", "", overridesHelp)
}

func (f *calibrationFlags) addTeacher(fs *pflag.FlagSet) {
	fs.IntVar(&f.limit, "calibration-rows", 4096,
		"largest number of `rows` to calibrate on, plus refused people where they are few; 0 takes all")
	cli.Within(fs, "calibration-rows", &f.limit, 0, math.MaxInt, "0, for all, or more")
	fs.IntVarP(&f.teacher.Steps, "teacher-steps", "K", 3, "gradient `steps` of the teacher recourse")
	cli.Within(fs, "teacher-steps", &f.teacher.Steps, 1, math.MaxInt, "1 or more")
	fs.Float64Var(&f.teacher.Noise, "teacher-noise", 0,
		"Gaussian noise of this `sigma`, in model inputs, on every teacher action, which stays feasible")
	cli.Within(fs, "teacher-noise", &f.teacher.Noise, 0, cli.Finite, "0, for none, or more")
	fs.IntVar(&f.teacher.Sample, "teacher-sample", 0,
		"teacher recourse for this many refused `people`, drawn at random; 0 = all")
	cli.Within(fs, "teacher-sample", &f.teacher.Sample, 0, math.MaxInt, "0, for all, or more")
	fs.Uint64Var(&f.teacher.Seed, "teacher-seed", 1, "seed of noise and sample")
	fs.BoolVar(&f.noCache, "no-cache", false,
		"compute teacher recourse anew instead of reading it back from an earlier run")
}

// inputs are the files that the flags and MODEL name.
func (f *calibrationFlags) inputs(model string) []string {
	return append(codec.ExternalFiles(model), model, f.data, f.task, f.rows, f.from, f.overrides)
}

// fill sets the options that the flags are about. The teacher's seed counts only where something is drawn,
// so that another one is no other run. Where the system has no place for a cache there is none.
func (f *calibrationFlags) fill(e *env, o *ptq.Options) {
	o.Teacher, o.Workers, o.Progress, o.Rows = f.teacher, e.workers, e.progress(), f.limit
	if f.teacher.Noise == 0 && f.teacher.Sample == 0 {
		o.Teacher.Seed = 0
	}
	if f.limit == 0 {
		o.Rows = -1 // all of them
	}
	if !f.noCache {
		if dir, err := ptq.TeacherCache(); err == nil {
			o.Cache = dir
		}
	}
}

// open reads the task, the model and the people, and sets the options of all that the flags say.
func (f *calibrationFlags) open(ctx context.Context, e *env, model string, read task.ReadOptions, o *ptq.Options) (
	t *task.Task, m *onnxio.Model, people *task.People, err error,
) {
	if t, err = readTask(f.task); err != nil {
		return nil, nil, nil, err
	}
	set, err := actionSet(f.task, f.overrides, t)
	if err != nil {
		return nil, nil, nil, err
	}
	if m, err = loadModel(ctx, e, model); err != nil {
		return nil, nil, nil, err
	}
	people, given, err := promised(ctx, e, f.data, f.rows, f.from, t, read)
	if err != nil {
		return nil, nil, nil, err
	}
	who := set.of(people)
	set.warn(e)
	f.fill(e, o)
	o.Overrides = set.list
	o.Promises, err = judgedBy(ctx, e, model, m, t, who, given)
	return t, m, people, err
}
