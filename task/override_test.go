package task

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"cfq/internal/must"
)

func loadOverrides(t *testing.T, task *Task, table string) ([]Override, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "o.csv")
	must.Do(t, os.WriteFile(path, []byte(table), 0o600))
	return task.Overrides(path)
}

func TestOverrides(t *testing.T) {
	task := parse(t, full)
	got := must.Get(loadOverrides(t, task,
		"\xef\xbb\xbffeature,row, actionable,direction,min,max,step,max_increase,max_decrease,max_change,weight\n"+
			"housing,7,false,,,,,,,,\n"+
			"income,7,,increase,500,,100,10,20,30,2.5\n"+
			"education,0, ,any,,,,2,,,\n"+
			"status,3,true,,,,,,,,\n"+
			"income,3,false,,,50%,,,,,\n"))(t)
	at := func(i int) Action { return task.Features[i].Action }
	education, status, income3, income7, housing := at(5), at(11), at(1), at(1), at(4)
	education.Direction, education.MaxIncrease = "any", 2
	status.Actionable = true
	income3.Actionable, income3.Mutable, income3.Bounds = false, false, [2]float64{at(1).Bounds[0], 25000}
	income7.Direction, income7.Bounds[0], income7.Step = "increase", 500, 100
	income7.MaxIncrease, income7.MaxDecrease, income7.MaxChange, income7.Weight = 10, 20, 30, 2.5
	housing.Actionable, housing.Mutable = false, false
	want := []Override{{0, 5, education}, {3, 1, income3}, {3, 11, status}, {7, 1, income7}, {7, 4, housing}}
	must.Same(t, want, got)
	if math.IsInf(task.Features[1].MaxIncrease, 1) != true || !task.Features[4].Actionable {
		t.Error("the task itself has changed")
	}
	must.Same(t, 0, len(must.Get(loadOverrides(t, task, "row,feature,weight\n"))(t)))
}

func TestMistakesInOverrides(t *testing.T) {
	task := parse(t, full)
	directories := regexp.MustCompile(`(?m)^/\S*/`)
	for table, want := range map[string]string{
		"": "the file is empty; overrides need a header with row, feature and " +
			"the columns that differ",
		"row,feature,weigth\n":                `o.csv:1:3: there is no column "weigth"; did you mean "weight"?`,
		"row,feature,row\n":                   `o.csv:1:3: the column "row" occurs twice`,
		"row,weight\n":                        `o.csv:1:1: the column "feature" is missing`,
		"row,feature\n1,income,3\n":           "line 2: 3 fields where 2 are expected",
		"row,feature,weight\n1,incom,3\n":     `o.csv:2:3: there is no feature "incom"; did you mean "income"?`,
		"row,feature,weight\n1.5,income,3\n":  `o.csv:2:1: this must be a whole number, 0 or more`,
		"row,feature,weight\n-1,income,3\n":   `o.csv:2:1: this must be a whole number, 0 or more`,
		"row,feature,weight\n,income,3\n":     `o.csv:2:1: the field "row" is empty`,
		"row,feature,weight\n1,income,0\n":    `o.csv:2:10: this must be above 0, not 0`,
		"row,feature,weight\n1,income,much\n": `o.csv:2:10: this must be a finite number, not "much"`,
		"row,feature,step\n1,income,0\n":      `o.csv:2:10: this must be above 0, not 0`,
		"row,feature,step\n1,housing,1\n": `o.csv:2:11: feature "housing": "step" means nothing for ` +
			`kind onehot; remove it`,
		"row,feature,min\n1,housing,1\n": `o.csv:2:11: feature "housing": "bounds" means nothing for ` +
			`kind onehot; remove it`,
		"row,feature,direction\n1,housing,increase\n": `o.csv:2:11: feature "housing": a direction needs values ` +
			`that stand in an order`,
		"row,feature,direction\n1,income,up\n": `o.csv:2:10: "up" is not known here; one of: any, increase, ` +
			`decrease`,
		"row,feature,max_change\n1,income,-1\n": `o.csv:2:10: this must be 0 or more, not -1`,
		"row,feature,min\n1,debt,9001\n":        `o.csv:2:8: no value lies between 9001 and 9000`,
		"row,feature,min,max\n1,debt,3,2\n":     `no value lies between 3 and 2`,
		"row,feature,min\n1,degree years,1%\n": `o.csv:2:16: feature "degree years": the percentile "1%" ` +
			`needs the feature's quantiles`,
		"row,feature,actionable\n1,income,maybe\n": `o.csv:2:10: this must be true or false, not "maybe"`,
		"row,feature,actionable\n1,age,true\n":     `o.csv:2:7: "age" changes by a link, and cannot be actionable, too`,
		"row,feature,weight\n1,income,3\n\n1,income,2\n": `o.csv:4:1: row 1 and feature "income" are given on line 2, ` +
			`too; keep one`,
		"row,feature,weight\n1,income,0\n2,debt,no\n": "this must be above 0, not 0\no.csv:3:8: this must be a finite " +
			"number, not \"no\"",
	} {
		got, err := loadOverrides(t, task, table)
		if err == nil {
			t.Errorf("%q: %v, want %s", table, got, want)
			continue
		}
		must.Has(must.In(t, table), directories.ReplaceAllString(err.Error(), ""), want)
	}
	bare := parse(t, "version: 1\nfeatures: [{name: a, kind: numeric, actionable: false}]\ncost: {weights: inverse_mad}\n")
	_, err := loadOverrides(t, bare, "row,feature,actionable\n0,a,true\n")
	must.Fail(t, err, `the weights of the cost need the mad of "a" when it is actionable`)
	_, err = task.Overrides(filepath.Join(t.TempDir(), "none.csv"))
	must.Fail(t, err, "overrides: data file: open")
}
