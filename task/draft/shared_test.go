package draft

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cfq/internal/must"
	"cfq/internal/realdata"
	"cfq/task"
)

// A draft by the declared encoding of a public data set encodes every row as the task file that was made by hand.
// Package task holds the outputs of the models against the recorded ones by that file, so they are those of the draft,
// too.
func TestDraftsForPublicData(t *testing.T) {
	dir := realdata.Dir(t)
	for _, c := range []struct {
		name, train, test, label, favourable string
		columns                              []string
	}{
		{
			"adult", "adult/adult.data.gz", "adult/adult.test.gz", "income", ">50K",
			strings.Fields("age workclass fnlwgt education education-num marital-status occupation relationship race sex " +
				"capital-gain capital-loss hours-per-week native-country income"),
		},
		{
			"german", "german/german.data", "german/german.data", "class", "1",
			strings.Fields("status duration history purpose amount savings employment installment-rate personal-status-sex " +
				"debtors residence property age other-plans housing existing-credits job liable telephone foreign-worker class"),
		},
		{
			"compas", "compas/compas-scores-two-years.csv.gz", "compas/compas-scores-two-years.csv.gz", "two_year_recid", "0",
			nil,
		},
		{"bank", "bank/bank-full.csv.gz", "bank/bank-full.csv.gz", "y", "yes", nil},
		{
			"default", "default/UCI_Credit_Card.csv.gz", "default/UCI_Credit_Card.csv.gz", "default.payment.next.month",
			"0", nil,
		},
	} {
		if (c.name == "bank" || c.name == "default") && os.Getenv("CFQ_LONG") != "1" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := must.Get(ReadEncoding(filepath.Join(dir, "models", c.name, "encoding.json")))(t)
			from := Source{filepath.Join(dir, "data", c.train), c.columns, task.ReadOptions{}}
			table := must.Get(readTable(t.Context(), from))(t)
			p := draft(t, table, Options{Label: c.label, Favourable: c.favourable, Encoding: e})
			codes := map[string]string{"adult": "99999 in capital-gain (0.5 %", "bank": "-1 in pdays (81.7 %"}[c.name]
			switch n := len(p.Questions); {
			case (n > 0) != (codes != ""), n > 1, n == 1 && !strings.Contains(p.Questions[0].Text, "known\": "+codes):
				t.Errorf("questions: %+v", p.Questions)
			}
			byHand := must.Get(task.Load(filepath.Join("..", "..", "reproduce", "testdata", "tasks", c.name+".yaml")))(t)
			drafted := *p.Task // the encoding does not tell who counts, and adult.test has what adult.data has not
			drafted.Data.Comment, drafted.Data.LabelSuffix = byHand.Data.Comment, byHand.Data.LabelSuffix
			drafted.Data.Filter = byHand.Data.Filter
			read := func(tk *task.Task) *task.People {
				return must.Get(task.Read(t.Context(), filepath.Join(dir, "data", c.test), tk, task.ReadOptions{}))(t)
			}
			have, want := read(&drafted), read(byHand)
			if !slices.Equal(have.X, want.X) || !slices.Equal(have.Labels, want.Labels) || !slices.Equal(have.Lines,
				want.Lines) {
				t.Errorf("the draft encodes %d people otherwise than the task file its %d", have.N, want.N)
			}
			must.Same(t, byHand.Target.Index, p.Task.Target.Index)
		})
	}
}
