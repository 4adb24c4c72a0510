package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"cfq/task"
)

// model is a classifier with its data. Paths are absolute, but for a model that an earlier case trains.
type model struct {
	name, path, task, train, test string
	trainRows, testRows           []string // flags that select rows
	small                         []string // flags that bound the work of quantize
	sample                        string   // refused people who are evaluated
	first                         []testCase
	methods                       []string
}

// testCase is a command and the files that it writes; commands run in the folder of their side.
type testCase struct {
	name  string
	args  []string
	files []string
}

func trained() []string {
	return []string{"cfq-qat", "lsq", "pact", "mixed-qat", "prune-qat", "kd-qat", "cfq-qat-paper"}
}

func untrained() []string {
	return []string{"cf-ptq", "ptq", "mixed-ptq", "cf-ptq-calib", "cf-ptq-paper"}
}

func models(root, shared string) ([]model, error) {
	loans := filepath.Join(root, "testdata", "loans")
	tasks := filepath.Join(root, "reproduce", "testdata", "tasks")
	list := []model{{
		name: "loans", path: filepath.Join(loans, "model.onnx"), task: filepath.Join(loans, "task.yaml"),
		train: filepath.Join(loans, "train.csv"), test: filepath.Join(loans, "test.csv"), sample: "0",
		methods: append(untrained(), trained()...),
	}}
	data := filepath.Join(shared, "data")
	if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
		fmt.Println("only the loans: there is no", data)
		return list, nil
	}
	for _, m := range []struct{ name, train, test string }{
		{"adult", "adult.data.gz", "adult.test.gz"},
		{"german", "german.data", "german.data"},
		{"compas", "compas-scores-two-years.csv.gz", "compas-scores-two-years.csv.gz"},
		{"bank", "bank-full.csv.gz", "bank-full.csv.gz"},
		{"default", "UCI_Credit_Card.csv.gz", "UCI_Credit_Card.csv.gz"},
	} {
		folder := filepath.Join(shared, "models", m.name)
		x := model{
			name: m.name, path: filepath.Join(folder, "mlp2-s0.onnx"), task: filepath.Join(tasks, m.name+".yaml"),
			train: filepath.Join(data, m.name, m.train), test: filepath.Join(data, m.name, m.test), sample: "100",
			methods: append(untrained(), "cfq-qat"),
		}
		if split := filepath.Join(folder, "split.json"); m.train == m.test {
			x.trainRows, x.testRows = []string{"--rows", "!" + split}, []string{"--rows", split}
		}
		list = append(list, x)
	}
	digits, err := digits(tasks, data)
	return append(list, digits), err
}

// digits is a CNN that each side trains itself.
func digits(tasks, data string) (model, error) {
	list, err := json.Marshal(task.AllRows(1200))
	if err != nil {
		return model{}, err
	}
	file := filepath.Join(os.TempDir(), "guard-rows-"+strconv.Itoa(os.Getpid())+".json")
	m := model{
		name: "digits", path: "digits.onnx", task: filepath.Join(tasks, "mnist.yaml"),
		train: filepath.Join(data, "mnist", "train-images-idx3-ubyte.gz"),
		test:  filepath.Join(data, "mnist", "t10k-images-idx3-ubyte.gz"),
		small: []string{"--set", "calibrate.teacher-sample=60"}, sample: "20", methods: []string{"cf-ptq", "ptq"},
		trainRows: []string{"--rows", file}, testRows: []string{"--rows", file},
	}
	args := append([]string{
		"train", "-d", m.train, "-t", m.task, "--arch", "cnn:28x28/4x3,8x3", "--train-steps", "60", "-o", m.path,
	}, m.trainRows...)
	m.first = []testCase{{"digits train", args, []string{m.path}}}
	return m, os.WriteFile(file, list, 0o600)
}

// cases are what is run on a model: its quantization by each method at 3 and 4 bits, and what judges the files.
func (m model) cases() []testCase {
	list := m.first
	people := append([]string{"-d", m.test, "-t", m.task, "--sample", m.sample}, m.testRows...)
	compared := []string{"compare", m.path}
	for _, method := range m.methods {
		for _, budget := range []string{"3", "4"} {
			name := m.name + "-" + method + "-" + budget
			args := append([]string{
				"quantize", m.path, "-d", m.train, "-t", m.task, "--method", method, "--budget", budget, "--force",
				"--allow-larger", "-o", name + ".onnx", "--save-plan", name + ".plan",
			}, m.trainRows...)
			if method != "ptq" { // which does not look at recourse
				args = append(args, m.small...)
			}
			if method == "pact" {
				args = append(args, "--set", "write.compute=integer")
			}
			if slices.Contains(trained(), method) {
				args = append(args, "--set", "train.steps=64")
			}
			list = append(list, testCase{name, args, []string{name + ".onnx", name + ".plan"}})
			if method == "cf-ptq" || method == "ptq" {
				compared = append(compared, name+"="+name+".onnx")
			}
			if method == "cf-ptq" {
				list = append(list,
					testCase{name + " eval", append([]string{"eval", m.path, name + ".onnx", "--json"}, people...), nil},
					testCase{name + " gate", append([]string{
						"gate", m.path, name + ".onnx", "--json", "--max-vd", "0.02", "--looks-file", "none",
						"--unverified-encoding",
						"--check", "|crg.median|<=0.05",
					}, people...), nil})
			}
		}
	}
	promises := m.name + "-promises.csv"
	return append(list,
		testCase{m.name + " compare", append(append(compared, "--json"), people...), nil},
		testCase{
			m.name + " recourse",
			append([]string{"recourse", m.path, "-d", m.test, "-t", m.task, "-o", promises}, m.promiseRows()...),
			[]string{promises},
		})
}

// promiseRows selects the people to whom promises are made: all, but for images, which take seconds each.
func (m model) promiseRows() []string {
	if m.name == "digits" {
		return append([]string{"--restarts", "1"}, m.testRows...)
	}
	return m.testRows
}
