package main

import (
	"cmp"
	"context"
	"path/filepath"

	"cfq/recourse/constraint"
	"cfq/task"
)

// dataset says where a data set's files are.
type dataset struct {
	name, title       string
	train, test, rows string // rows: the test rows of a single file
	networks          int    // at most
	task              string // file; else the example's
}

func datasets() []dataset {
	split := func(name, title, file string, networks int) dataset {
		return dataset{name: name, title: title, train: file, test: file, rows: "split.json", networks: networks}
	}
	return []dataset{
		{name: "adult", title: "Adult", train: "adult.data.gz", test: "adult.test.gz", networks: 5},
		split("german", "German", "german.data", 5),
		split("compas", "COMPAS", "compas-scores-two-years.csv.gz", 5),
		split("bank", "Bank", "bank-full.csv.gz", 1),
		split("default", "Default", "UCI_Credit_Card.csv.gz", 1),
	}
}

// model is the path of one of the data set's models.
func (d dataset) model(o settings, file string) string {
	return filepath.Join(o.shared, "models", d.name, file)
}

// data are a data set's task and rows.
type data struct {
	task        *task.Task
	set         *constraint.Set
	train, test *task.People
}

// read reads the task and the rows of a data set.
func read(ctx context.Context, o settings, d dataset) (in data, err error) {
	file := cmp.Or(d.task, filepath.Join("examples", "tasks", d.name+".yaml"))
	if in.task, err = task.Load(file); err != nil {
		return in, err
	}
	if in.set, err = constraint.Compile(in.task); err != nil {
		return in, err
	}
	var inTrain, inTest task.ReadOptions
	if d.rows != "" {
		rows, err := task.LoadRows(d.model(o, d.rows))
		if err != nil {
			return in, err
		}
		inTrain.Except, inTest.Only = rows, rows
	}
	folder := filepath.Join(o.shared, "data", d.name)
	if in.train, err = task.Read(ctx, filepath.Join(folder, d.train), in.task, inTrain); err != nil {
		return in, err
	}
	in.test, err = task.Read(ctx, filepath.Join(folder, d.test), in.task, inTest)
	return in, err
}
