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

// DataSet is a public data set: its files, as published, also gzipped.
type DataSet struct {
	Name, Title string
	Train, Test string   // files; Test is "" when test rows are drawn from the one file
	Beside      []string // files with the labels of these
	Coder       string   // flags of the training of encoder and decoder; "" for tables
	Rows        int      // test rows that are drawn
	Source      string   // where the files come from
}

//go:embed testdata/data.json
var dataJSON []byte

// taskFiles are the task files of the data sets.
//
//go:embed testdata/tasks/*.yaml
var taskFiles embed.FS

// DataSets are those of the paper, with as many test rows as it has (table app_dataset_stats).
func DataSets() (all []DataSet) {
	embedded(dataJSON, &all)
	return all
}

func dataSet(name string) *DataSet {
	all := DataSets()
	if i := slices.IndexFunc(all, func(d DataSet) bool { return d.Name == name }); i >= 0 {
		return &all[i]
	}
	return &DataSet{Name: name, Title: name}
}

func (d *DataSet) file(folder, name string) (string, bool) {
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

func (d *DataSet) missing(folder string) (lines []string) {
	for _, name := range append([]string{d.Train, d.Test}, d.Beside...) {
		if _, ok := d.file(folder, name); name != "" && !ok {
			lines = append(lines, fmt.Sprintf("%s, from %s", filepath.Join(folder, d.Name, name), d.Source))
		}
	}
	return lines
}

// inCodes is the form of a task in which people move among the codes of images.
const inCodes = "latent"

func taskOf(data, form string) ([]byte, error) {
	text, err := taskFiles.ReadFile("testdata/tasks/" + data + ".yaml")
	switch {
	case err != nil || form == "":
		return text, err
	case form == inCodes:
		return fmt.Appendf(text, "latent: {encoder: %s, decoder: %s, size: 16, bounds: [-4, 4]}\n", encoderFile,
			decoderFile), nil
	}
	before, after, ok := strings.Cut(string(text), "cost: {norm: ")
	_, after, _ = strings.Cut(after, ",")
	if !ok {
		return nil, fmt.Errorf("the task of %s states no norm of the cost", data)
	}
	return fmt.Appendf(nil, "%scost: {norm: %s,%s", before, form, after), nil
}

// drawSeed is that of test rows, the same for the networks of all seeds, so that these compare on the same people.
const drawSeed = 1

func draw(ctx context.Context, path, taskFile, among string, n int) ([]byte, error) {
	t, err := task.Load(taskFile)
	if err != nil {
		return nil, err
	}
	var o task.ReadOptions
	if among != "" {
		text, err := os.ReadFile(among)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &o.Only); err != nil {
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
