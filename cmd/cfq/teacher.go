package main

import (
	"math"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/ptq"
	"cfq/recourse"
)

// teacherFlags are the flags of teacher recourse.
type teacherFlags struct {
	steps   int
	noise   float64
	sample  int
	seed    uint64
	noCache bool
}

func (f *teacherFlags) add(fs *pflag.FlagSet) {
	fs.IntVarP(&f.steps, "teacher-steps", "K", 3, "gradient `steps` of the teacher recourse")
	fs.Float64Var(&f.noise, "teacher-noise", 0,
		"Gaussian noise of this `sigma`, in model inputs, on every teacher action, which stays feasible")
	fs.IntVar(&f.sample, "teacher-sample", 0, "teacher recourse for this many refused `people`, drawn at random; 0 = all")
	fs.Uint64Var(&f.seed, "teacher-seed", 1, "seed of noise and sample")
	fs.BoolVar(&f.noCache, "no-cache", false,
		"compute teacher recourse anew instead of reading it back from an earlier run")
}

func (f *teacherFlags) check() error {
	switch {
	case f.steps < 1:
		return cli.Usagef("", "invalid value %d for --teacher-steps: want 1 or more", f.steps)
	case !(f.noise >= 0) || math.IsInf(f.noise, 1):
		return cli.Usagef("", "invalid value %v for --teacher-noise: want 0, for none, or more", f.noise)
	case f.sample < 0:
		return cli.Usagef("", "invalid value %d for --teacher-sample: want 0, for all, or more", f.sample)
	}
	return nil
}

// options returns the settings. The seed counts only where something is drawn, so that another one
// is no other run.
func (f *teacherFlags) options() recourse.TeacherOptions {
	o := recourse.TeacherOptions{Steps: f.steps, Noise: f.noise, Sample: f.sample}
	if f.noise > 0 || f.sample > 0 {
		o.Seed = f.seed
	}
	return o
}

// cache returns the folder of earlier teacher actions, "" for none: also where the system has no place for it.
func (f *teacherFlags) cache() string {
	if f.noCache {
		return ""
	}
	dir, err := ptq.TeacherCache()
	if err != nil {
		return ""
	}
	return dir
}
