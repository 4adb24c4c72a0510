package reproduce

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cfq/task"
)

// taskFiles are the task files of the data sets.
//
//go:embed testdata/tasks/*.yaml
var taskFiles embed.FS

// DataSet is a public data set: its files, as published, also gzipped.
type DataSet struct {
	Name, Title string
	Train, Test string   // files; Test is "" when test rows are drawn from the one file
	Beside      []string // files with the labels of these
	Coder       []string // flags of the training of encoder and decoder; nil for tables
	Rows        int      // test rows that are drawn
	Source      string   // where the files come from
}

// DataSets are those of the paper, with as many test rows as it has (table app_dataset_stats).
func DataSets() []DataSet {
	return []DataSet{
		{
			Name: "adult", Title: "Adult", Train: "adult.data", Test: "adult.test",
			Source: "https://archive.ics.uci.edu/dataset/2",
		},
		{
			Name: "german", Title: "German", Train: "german.data", Rows: 300,
			Source: "https://archive.ics.uci.edu/dataset/144",
		},
		{
			Name: "compas", Title: "COMPAS", Train: "compas-scores-two-years.csv", Rows: 2000,
			Source: "https://github.com/propublica/compas-analysis",
		},
		{Name: "bank", Title: "Bank", Train: "bank-full.csv", Rows: 9043, Source: "https://archive.ics.uci.edu/dataset/222"},
		{
			Name: "default", Title: "Default", Train: "UCI_Credit_Card.csv", Rows: 6000,
			Source: "https://archive.ics.uci.edu/dataset/350",
		},
		images("mnist", "MNIST", "https://storage.googleapis.com/cvdf-datasets/mnist"),
		images("fashion-mnist", "Fashion-MNIST", "https://github.com/zalandoresearch/fashion-mnist"),
	}
}

// images are those of a data set in four IDX files.
func images(name, title, source string) DataSet {
	return DataSet{
		Name: name, Title: title, Train: "train-images-idx3-ubyte", Test: "t10k-images-idx3-ubyte", Source: source,
		Beside: []string{"train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"},
		Coder:  []string{"--arch", "autoencoder:256,64,16", "--epochs", "30", "--learning-rate", "0.003"},
	}
}

// ofTables are the data sets that are tables.
func ofTables() []DataSet {
	return slices.DeleteFunc(DataSets(), func(d DataSet) bool { return d.Coder != nil })
}

func dataSet(name string) DataSet {
	all := DataSets()
	return all[slices.IndexFunc(all, func(d DataSet) bool { return d.Name == name })]
}

// file is the path of a file of the data set in folder/NAME or in the folder itself.
func (d DataSet) file(folder, name string) (string, bool) {
	for _, dir := range []string{filepath.Join(folder, d.Name), folder} {
		for _, suffix := range []string{"", ".gz"} {
			path := filepath.Join(dir, name) + suffix
			if _, err := os.Stat(path); err == nil {
				return path, true
			}
		}
	}
	return "", false
}

// missing says which files of the data sets are not in the folder, one line each.
func missing(folder string, of []DataSet) []string {
	var lines []string
	for _, d := range of {
		for _, name := range append([]string{d.Train, d.Test}, d.Beside...) {
			if _, ok := d.file(folder, name); name != "" && !ok {
				lines = append(lines, fmt.Sprintf("%s, from %s", filepath.Join(folder, d.Name, name), d.Source))
			}
		}
	}
	return lines
}

// inCodes is the form of a task in which people move among the codes of images.
const inCodes = "latent"

// Files of an encoder and a decoder, and what names both to the command that makes them.
const (
	coderFile   = "coder.onnx"
	encoderFile = "coder.encoder.onnx"
	decoderFile = "coder.decoder.onnx"
)

// taskOf is the task of a data set as it is, or in another form: in codes, or with another norm of the cost.
func taskOf(data, form string) ([]byte, error) {
	text, err := taskFiles.ReadFile("testdata/tasks/" + data + ".yaml")
	switch {
	case err != nil || form == "":
		return text, err
	case form == inCodes:
		return fmt.Appendf(text, "latent: {encoder: %s, decoder: %s, size: 16, bounds: [-4, 4]}\n", encoderFile,
			decoderFile), nil
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if _, rest, ok := strings.Cut(line, "cost: {norm: "); ok {
			_, rest, _ = strings.Cut(rest, ",")
			lines[i] = fmt.Sprintf("cost: {norm: %s,%s", form, rest)
			return []byte(strings.Join(lines, "\n")), nil
		}
	}
	return nil, fmt.Errorf("the task of %s states no norm of the cost", data)
}

// drawSeed is that of test rows, the same for the networks of all seeds, so that these compare on the same people.
const drawSeed = 1

// draw returns n of the rows of a file, or of those that are given, as a file of rows; all when there are fewer.
func draw(ctx context.Context, path, taskFile string, of []byte, n int) ([]byte, error) {
	t, err := task.Load(taskFile)
	if err != nil {
		return nil, err
	}
	var o task.ReadOptions
	if of != nil {
		if err := json.Unmarshal(of, &o.Only); err != nil {
			return nil, err
		}
	}
	people, err := task.Read(ctx, path, t, o)
	if err != nil {
		return nil, err
	}
	rows := slices.Clone(people.Rows)
	rand.New(rand.NewPCG(drawSeed, 0)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	rows = rows[:min(n, len(rows))]
	slices.Sort(rows)
	return json.Marshal(rows)
}
