// Package reproduce measures the tables of the paper on public data and compares with the paper's numbers.
//
// In: a folder with data sets as they are published. Out: results.csv, with a mean and a standard deviation over
// networks of several seeds for each measured value, and one page that shows them and the paper's claims. The
// invariant: every number comes from a report of cfq eval or cfq recourse. The command that made a file is recorded
// next to it, and a file is made again only when what it was made from has changed.
package reproduce

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/lists"
	"cfq/task"
)

// Margin is the required margin, in logits, at which everything is measured.
const Margin = eval.HeadlineMargin

// Table is a table of the paper: what is run for it, and what the paper reports.
type Table struct {
	Name    string // as the command calls it
	Labels  string // of the paper's tables; "" for one of this project's own
	Title   string
	Columns []string // heads of those that are measured for each row
	Paper   []string // heads of those that the paper reports
	Rows    []Row
	Claims  []Claim
	Note    string // what a reader must know who compares with the paper; a paragraph or nothing

	columns []Column
}

// Column is a number that is measured for each row.
type Column struct {
	Head   string
	Metric string // ID of metrics.All, at Margin, also with Worst or Spread before it; Seconds; or one of actions
	Format string // of fmt
}

// Row is one line of a table: a variant, measured on the networks of several seeds.
type Row struct {
	Variant
	Name string // of the method, as in Claim
	// Part is the part of the evaluation that counts: nothing for everybody, the name of a group, "sex Female", of a
	// condition, as --stress gives them, or a group and Weighted.
	Part string
	// Solver is the one whose actions count, of those of `cfq recourse --robust`.
	Solver string
	Paper  string // its numbers, separated by spaces, for the columns that the paper reports; "" = it has no such row
}

// Variant is how a model is trained, quantized and evaluated: flags of the commands, separated by spaces.
type Variant struct {
	Data     string // name of a data set
	Form     string // of the task: another norm of the cost, or inCodes; "" = as it is
	Train    string
	Quantize string
	Eval     string
	Recourse string // instead of Quantize and Eval: actions of the network are looked for
	Rows     int    // of that many test rows, at most; 0 = as of all tables
}

// Number is what the paper reports: a mean, and the standard deviation over seeds, NaN where it has none.
type Number struct{ Mean, SD eval.Float }

// Claim is a statement of the paper on two methods, which is checked wherever a table has both: on each data set and in
// each part, the networks of each seed paired.
type Claim struct {
	Says         string // about Lower and Upper; "" = that Lower breaks fewer promises
	Metric       string // "" = VD, at Margin
	Lower, Upper string // names of rows: the metric of Lower is below that of Upper
}

//go:embed testdata/tables.json
var tablesJSON []byte

// Tables are those of the paper that this package reproduces.
func Tables() []Table {
	var file struct {
		Columns []Column // of all tables
		Tables  []Table
	}
	embedded(tablesJSON, &file)
	for i := range file.Tables {
		t := &file.Tables[i]
		for _, head := range t.Columns {
			k := slices.IndexFunc(file.Columns, func(c Column) bool { return c.Head == head })
			t.columns = append(t.columns, file.Columns[k])
		}
		for k := range t.Claims {
			c := &t.Claims[k]
			c.Metric = cmp.Or(c.Metric, "vd")
			c.Says = cmp.Or(c.Says, fmt.Sprintf("%s breaks fewer promises than %s", c.Lower, c.Upper))
		}
	}
	return file.Tables
}

// embedded decodes a file of this package, which a test has read.
func embedded(text []byte, into any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		panic(err)
	}
}

func (t *Table) paper(r *Row) []Number {
	numbers, reported := make([]Number, len(t.Columns)), strings.Fields(r.Paper)
	for i, head := range t.Columns {
		numbers[i] = number("")
		if slices.Contains(t.Paper, head) && len(reported) > 0 {
			numbers[i], reported = number(reported[0]), reported[1:]
		}
	}
	return numbers
}

// number reads a mean, and a standard deviation after ±; NaN where there is none.
func number(text string) Number {
	mean, sd, _ := strings.Cut(text, "±")
	of := func(text string) eval.Float {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			x = math.NaN()
		}
		return eval.Float(x)
	}
	return Number{of(mean), of(sd)}
}

// Names lists the names of tables.
func Names(tables []Table) []string {
	return lists.Map(tables, func(t Table) string { return t.Name })
}

func place(data, part string) string {
	name := dataSet(data).Title
	if part != "" {
		name += ", " + part
	}
	return name
}

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
