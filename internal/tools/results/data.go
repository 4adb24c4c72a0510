package main

import (
	"context"
	"path/filepath"

	"cfq/task"
)

// dataset says where a data set's files are.
type dataset struct {
	name, title       string
	train, test, rows string // rows: the test rows of a single file
}

// datasets are those with five networks each.
func datasets() []dataset {
	return []dataset{
		{name: "adult", title: "Adult", train: "adult.data.gz", test: "adult.test.gz"},
		{name: "german", title: "German", train: "german.data", test: "german.data", rows: "split.json"},
		{name: "compas", title: "COMPAS", train: "compas-scores-two-years.csv.gz", test: "compas-scores-two-years.csv.gz", rows: "split.json"},
	}
}

// single are those with one network.
func single() []dataset {
	return []dataset{
		{name: "bank", title: "Bank", train: "bank-full.csv.gz", test: "bank-full.csv.gz", rows: "split.json"},
		{name: "default", title: "Default", train: "UCI_Credit_Card.csv.gz", test: "UCI_Credit_Card.csv.gz", rows: "split.json"},
	}
}

// read returns the training and the test rows of a data set.
func read(ctx context.Context, shared string, d dataset, t *task.Task) (train, test *task.People, err error) {
	var inTrain, inTest task.ReadOptions
	if d.rows != "" {
		rows, err := task.LoadRows(filepath.Join(shared, "models", d.name, d.rows))
		if err != nil {
			return nil, nil, err
		}
		inTrain.Except, inTest.Only = rows, rows
	}
	train, err = task.Read(ctx, filepath.Join(shared, "data", d.name, d.train), t, inTrain)
	if err != nil {
		return nil, nil, err
	}
	test, err = task.Read(ctx, filepath.Join(shared, "data", d.name, d.test), t, inTest)
	return train, test, err
}
